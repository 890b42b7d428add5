"""What a recovery is made of: named tasks in the configured order.

A task is a coroutine function `run(recovery)`. It is a workflow's step, and level-triggered like any: it ensures a
state, and may run again after a crash. It returns None when that is reached, `Wait` to be called again later, or
raises `Over` (nothing more is to be done) or `NotDone`. Plugins add others:

    # twisted/plugins/example.py
    from cloudctl.instance_ha.recovery import RecoveryTask
    page = RecoveryTask("page_operator", "PageOperatorTask", "example.paging:page")

    [instance_ha]
    host_tasks = ["page_operator", "disable_compute_service", …]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, cast

from attrs import define, frozen
from twisted import plugins
from twisted.plugin import IPlugin, getPlugins
from zope.interface import Attribute, Interface, implementer

from cloudctl.db import Connection
from cloudctl.errors import ConfigError
from cloudctl.instance_ha import notifications
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import FINISHED, IGNORED, Notification
from cloudctl.tasks import Context, Wait

PENDING, RUNNING, SUCCESS, FAILURE = "PENDING", "RUNNING", "SUCCESS", "FAILURE"
DETAILS = 100  # of one task, at most

Details = list[dict[str, Any]]


class Over(Exception):
    """Nothing more is to be done, and rightly so: the notification is finished, or ignored."""

    def __init__(self, message: str, *, ignored: bool = False) -> None:
        super().__init__(message)
        self.status = IGNORED if ignored else FINISHED


class NotDone(Exception):
    """It did not work. The same task is tried again later; `waits`: as often as it takes, until it expires."""

    def __init__(self, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.waits = waits


@define(eq=False)
class Recovery:
    """A task at work on one notification."""

    ctx: Context
    options: InstanceHaOptions
    notification: Notification
    title: str

    async def tell(self, message: str, progress: float) -> None:
        """How far the task has come (0 to 1), for readers of the notification."""
        await self.ctx.write(note, self.notification.id, self.title, RUNNING, message, progress, self.ctx.now)

    async def hold(self, why: str, poll: float) -> Wait:
        """Wait for something that this process cannot bring about. Visible to operators."""
        await self.ctx.write(self._hold, why, self.ctx.now)
        return Wait(poll)

    def _hold(self, conn: Connection, why: str, now: datetime) -> None:
        notifications.try_move(conn, self.notification.id, "hold", now, message=why)
        note(conn, self.notification.id, self.title, RUNNING, why, 0.0, now)

    async def elapsed(self) -> float:
        """Seconds since this task first called this in this try; kept across restarts."""
        now, tries = self.ctx.now.timestamp(), self.notification.tries
        known = self.ctx.memo.get(self.ctx.step, {})
        if known.get("tries") != tries:
            self.ctx.remember(since=now, tries=tries)
            return 0.0
        return now - float(known["since"])


Run = Callable[[Recovery], Awaitable[Wait | None]]


class IRecoveryTask(Interface):
    """A task that the configuration's lists may name."""

    name = Attribute("What the configuration calls it.")
    title = Attribute("What the details of a recovery call it.")

    def load() -> Run:
        """Import and return the function that does it."""


@implementer(IPlugin, IRecoveryTask)
@frozen
class RecoveryTask:
    """`target`: "module:function", imported only when the configuration names the task."""

    name: str
    title: str
    target: str

    def load(self) -> Run:
        module, _, function = self.target.partition(":")
        return cast(Run, getattr(import_module(module), function))


def chosen(
    names: Iterable[str], shipped: Mapping[str, RecoveryTask], option: str
) -> Sequence[tuple[RecoveryTask, Run]]:
    """The tasks of these names, in this order. Raises ConfigError with everything that is wrong."""
    names, found, problems = list(names), [], []
    known: dict[str, RecoveryTask] = {}
    # Searching everything that is installed takes longer than the rest of instance HA's start.
    if not shipped.keys() >= set(names):
        known |= {each.name: each for each in getPlugins(IRecoveryTask, plugins)}
    known |= shipped
    for name in names:
        if name not in known:
            problems.append(f"{option}: {name!r} is unknown; known tasks: {', '.join(sorted(known))}")
            continue
        try:
            found.append((known[name], known[name].load()))
        except Exception as error:  # a stranger's module may raise anything; the operator needs to see what
            problems.append(f"{option}: {name!r} cannot be imported: {type(error).__name__}: {error}")
    if len(set(names)) < len(names):
        problems.append(f"{option}: a task can be there once")
    if problems:
        raise ConfigError(problems)
    return found


def note(
    conn: Connection, notification_id: str, title: str, state: str, message: str, progress: float, now: datetime
) -> None:
    """Add to the details of a task, unless the last entry says the same."""
    details: Details = [dict(each) for each in notifications.get(conn, notification_id).details]
    found = next((each for each in details if each["name"] == title), None)
    if found is None:
        found = {"name": title, "state": state, "progress": progress, "progress_details": []}
        details.append(found)
    told = found["progress_details"]
    if not told or told[-1]["message"] != message:
        line = {"timestamp": now.isoformat(" ", "microseconds"), "message": message, "progress": str(float(progress))}
        told = [*told, line][-DETAILS:]
    found |= {"state": state, "progress": float(progress), "progress_details": told}
    notifications.tell(conn, notification_id, details, now)
