"""What a task is called: each service declares its kinds once, and all others name the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from attrs import field, frozen

from cloudctl import context
from cloudctl.db import Connection


@frozen
class Action:
    """How the log of what users did to a resource calls a task, and the one event that it is."""

    name: str
    event: str


class Phase(StrEnum):
    """What becomes of a task that others hear of."""

    START = "start"
    END = "end"
    ERROR = "error"


@frozen
class Told:
    """That a task began, or has ended. `message`: why it failed."""

    by: Origin
    resource_id: str
    args: Mapping[str, Any]
    phase: Phase
    now: datetime
    message: str | None = None


@frozen
class Kind:
    """`name` and `resource` are in the rows of existing databases, so they never change."""

    name: str
    resource: str
    deadline: float | None = None  # seconds from submission
    action: Action | None = None  # None: users are not told of it
    # Called in the transactions that claim it first and that end it: what services tell to the outside. It is no part
    # of what a kind is.
    tell: Callable[[Connection, Told], None] | None = field(default=None, eq=False, repr=False)

    def __str__(self) -> str:
        return self.name


class Origin(Protocol):
    """In whose name a task runs. Whoever makes a request is one, and so is a Task: what it submits is its user's."""

    @property
    def user_id(self) -> str: ...

    @property
    def project_id(self) -> str: ...

    @property
    def request_id(self) -> str: ...


@frozen
class Unasked:
    """The origin of work that no user asked for, but an audit, say. `project_id`: whose resource it is."""

    project_id: str = ""
    user_id: str = ""

    _request_id: str | None = None  # None: that of the request or the task in which it was found, if any

    @property
    def request_id(self) -> str:
        return context.request_id.get() if self._request_id is None else self._request_id
