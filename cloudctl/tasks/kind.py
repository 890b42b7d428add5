"""What a task is called: each service declares its kinds once, and all others name the value."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from cloudctl import context


@frozen
class Action:
    """How the log of what users did to a resource calls a task, and the one event that it is."""

    name: str
    event: str


@frozen
class Kind:
    """`name` and `resource` are in the rows of existing databases, so they never change."""

    name: str
    resource: str
    deadline: float | None = None  # seconds from submission
    action: Action | None = None  # None: users are not told of it

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

    @property
    def request_id(self) -> str:
        """That of the request or the task in which it was found, if any."""
        return context.request_id.get()
