"""A displayed status as a condition on the rows that show it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, and_, false, or_

from cloudctl.compute.states import STATUS
from cloudctl.compute.tables import Server


def showing(statuses: Iterable[str]) -> ColumnElement[bool]:
    """Rows whose status is one of these words (in capitals). A word that no server can have matches none."""
    wanted = set(statuses)
    found = []
    for vm_state, (plain, by_task) in STATUS.items():
        here = Server.vm_state == vm_state
        if plain in wanted:
            others = [task for task, word in by_task.items() if word not in wanted]
            if others:
                here = and_(here, or_(Server.task_state.is_(None), Server.task_state.not_in(others)))
            found.append(here)
        elif tasks := [task for task, word in by_task.items() if word in wanted]:
            found.append(and_(here, Server.task_state.in_(tasks)))
    return or_(*found) if found else false()
