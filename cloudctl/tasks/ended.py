"""Tasks that ended: how a service declares how long their rows are of use."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select

from cloudctl.db.ended import Ended, before
from cloudctl.tasks.tables import TaskRow


def tasks_of(what: str, *resources: str, where: ColumnElement[bool] | None = None) -> Ended:
    """Those of these types of resources, and moreover of those that meet `where`. Open and held ones have not ended.

    A task that waits for others, or is held after it has, still reads what became of them.
    """
    parent = TaskRow.table.alias()
    awaited = select(parent.c.id).where(parent.c.id == TaskRow.parent_id, parent.c.ended_at.is_(None)).exists()
    mine = TaskRow.resource_type.in_(resources), before(TaskRow.ended_at), ~awaited
    return Ended(what, TaskRow, mine if where is None else (*mine, where))
