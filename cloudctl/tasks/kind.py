"""What tasks are called: each service declares its kinds once, and all other code refers to the value."""

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
    """The name of a task in the log of what users did to a resource, and the one event in it."""

    name: str
    event: str


class Phase(StrEnum):
    """The phases of a task that others are told of."""

    START = "start"
    END = "end"
    ERROR = "error"


@frozen
class Told:
    """The news that a task has begun or ended. `message`: why it failed."""

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
    action: Action | None = None  # None: users do not see it
    # Called in the transactions that first claim it and that end it: what services tell to the outside. It is not part
    # of a kind's identity.
    tell: Callable[[Connection, Told], None] | None = field(default=None, eq=False, repr=False)
    # Once one is requested, earlier work on the resource matters no more: see `Context.is_void`.
    voids: bool = field(default=False, eq=False, repr=False)

    def __str__(self) -> str:
        return self.name


class Origin(Protocol):
    """In whose name a task runs. A Caller is one, and so is a Task: what it submits runs in its user's name."""

    @property
    def user_id(self) -> str: ...

    @property
    def project_id(self) -> str: ...

    @property
    def request_id(self) -> str: ...


@frozen
class Unasked:
    """The origin of work that no user requested: an audit's, for example. `project_id`: whose resource it is."""

    project_id: str = ""
    user_id: str = ""

    _request_id: str = ""  # "": that of the request or the task in which it was found

    @property
    def request_id(self) -> str:
        """A new one outside of any: it is what users find the work by, in the log of a server's actions."""
        return self._request_id or context.request_id.get() or context.new_request_id()
