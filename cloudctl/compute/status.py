"""The status that users see: it follows from the last stable state and the work under way.

Reference: compute-states.md, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import ColumnElement, and_, false, or_

from cloudctl.compute.states import (
    ACTIVE,
    BUILDING,
    DELETED,
    ERROR,
    MIGRATING,
    PAUSED,
    REBOOTING,
    REBOOTING_HARD,
    REBUILDING,
    RESCUED,
    RESIZED,
    RESIZING,
    REVERTING,
    SHELVED,
    SHELVED_OFFLOADED,
    SOFT_DELETED,
    STOPPED,
    SUSPENDED,
    UPDATING_PASSWORD,
)
from cloudctl.compute.tables import Server


def _all(status: str, *task_states: str) -> dict[str, str]:
    return dict.fromkeys(task_states, status)


# vm_state → (status, task_state → status where it differs)
STATUS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    BUILDING: ("BUILD", {}),
    ACTIVE: (
        "ACTIVE",
        {
            **_all("REBOOT", *REBOOTING),
            **_all("HARD_REBOOT", *REBOOTING_HARD),
            **_all("PASSWORD", UPDATING_PASSWORD),
            **_all("REBUILD", *REBUILDING),
            **_all("MIGRATING", MIGRATING),
            **_all("RESIZE", *RESIZING),
        },
    ),
    STOPPED: ("SHUTOFF", {**_all("RESIZE", *RESIZING), **_all("REBUILD", *REBUILDING)}),
    RESIZED: ("VERIFY_RESIZE", _all("REVERT_RESIZE", REVERTING)),
    PAUSED: ("PAUSED", _all("MIGRATING", MIGRATING)),
    SUSPENDED: ("SUSPENDED", {}),
    RESCUED: ("RESCUE", {}),
    SHELVED: ("SHELVED", {}),
    SHELVED_OFFLOADED: ("SHELVED_OFFLOADED", {}),
    SOFT_DELETED: ("SOFT_DELETED", {}),
    ERROR: ("ERROR", _all("REBUILD", *REBUILDING)),
    DELETED: ("DELETED", {}),
}
STATUSES = frozenset(word for plain, by_task in STATUS.values() for word in (plain, *by_task.values())) | {"UNKNOWN"}
WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})


def status(vm_state: str, task_state: str | None) -> str:
    """The word that users poll."""
    known = STATUS.get(vm_state)
    if known is None:
        return "UNKNOWN"
    plain, by_task = known
    return by_task.get(task_state, plain) if task_state else plain


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
