"""Operations: what an API offers, declared beside the handler.

    class Keypairs:
        routes = Routes("Key pairs")

        @routes.get("/os-keypairs/<name>", policy="compute:keypairs:show")
        async def show(self, call: Call, name: str) -> dict: ...

A decorator only records; `rest.app.ApiApp` mounts the bound methods. From the same records come the routes, the version
gates, the body checks, the policy table, the API list of the docs, the fuzz test and the persona matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import Factory, evolve, field, frozen

from cloudctl.rest.body import Body
from cloudctl.rest.versions import ALWAYS, Span, Version, at

F = TypeVar("F", bound=Callable[..., Any])

Bodies = Mapping[Version, Body]
FIRST: Version = (0, 0)
NONE: frozenset[str] = frozenset()


def _bodies(body: Body | Bodies | None) -> Bodies | None:
    return {FIRST: body} if isinstance(body, Body) else body


def _statuses(status: int | Mapping[Version, int]) -> Mapping[Version, int]:
    return {FIRST: status} if isinstance(status, int) else status


def _parameters(query: Iterable[str] | Mapping[str, Span]) -> Mapping[str, Span]:
    return query if isinstance(query, Mapping) else dict.fromkeys(query, ALWAYS)


@frozen
class Operation:
    """One API call."""

    tag: str
    method: str
    path: str  # below the API's versioned root, in Klein's form: "/servers/<server_id>"
    handler: str  # name of the method
    policy: str | None  # name of a rule; None: public, no token is looked at
    body: Bodies | None = field(default=None, converter=_bodies)
    status: Mapping[Version, int] = field(default=200, converter=_statuses)
    action: str | None = None  # the body's single key, for paths that end in /action
    # The name in the query that makes a request this call and not another one of the same path, as in S3: `?acl`.
    subresource: str = ""
    since: Version | None = None
    until: Version | None = None  # inclusive
    # Names that the handler reads; at versions outside its span a name is treated as not sent.
    query: Mapping[str, Span] = field(default=(), converter=_parameters)
    # The rule for who may know of what the call is about: to others who do not pass `policy`, that does not exist.
    sight: str | None = None
    # The answer depends on the database, the caller and the request alone: see `rest.answers`.
    pure: bool = False
    raw: bool = False  # the handler reads the request's content itself
    # A caller without a valid token is let through as ANONYMOUS, and the handler decides: the data may be public.
    anonymous: bool = False
    # For uploads: the name of the method, with the handler's arguments, that decides whether one may come before a byte
    # of it is kept. It returns an Admitted, or raises what the handler would.
    admits: str = ""
    summary: str = ""
    span: Span = field(init=False, default=Factory(lambda self: Span(self.since, self.until), takes_self=True))
    # Parameters that some versions do not have.
    late: Mapping[str, Span] = field(
        init=False,
        default=Factory(
            lambda self: {name: span for name, span in self.query.items() if span != ALWAYS}, takes_self=True
        ),
    )

    @property
    def key(self) -> str:
        """Unique within an API: `POST /servers/<server_id>/action os-stop`."""
        path = f"{self.path}?{self.subresource}" if self.subresource else self.path
        return " ".join(filter(None, (self.method, path, self.action)))

    def is_meant(self, names: Collection[str]) -> bool:
        """Whether a query with these names may mean this call."""
        return not self.subresource or self.subresource in names

    def offered(self, version: Version) -> bool:
        return version in self.span

    def hidden(self, version: Version) -> frozenset[str]:
        """Parameters of the query that this version does not have."""
        return frozenset(name for name, span in self.late.items() if version not in span) if self.late else NONE

    def body_at(self, version: Version) -> Body | None:
        if self.body is None:
            return None
        try:
            return at(self.body, version)
        except KeyError:
            return None

    def status_at(self, version: Version) -> int:
        return at(self.status, version)


@frozen
class Bound:
    """An Operation and the method that answers it."""

    operation: Operation
    handler: Any
    admits: Any = None  # of an upload, before its body is kept


def meant(bound: Sequence[Bound], names: Iterable[str]) -> list[Bound]:
    """The calls of one path that a query with these names may mean, the most specific ones first."""
    named = set(names)
    return sorted((b for b in bound if b.operation.is_meant(named)), key=lambda b: not b.operation.subresource)


class Routes:
    """Collects the Operations of one resource class."""

    def __init__(self, tag: str, operations: Iterable[Operation] = ()) -> None:
        self.tag = tag
        self.operations = list(operations)

    def route(self, method: str, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        """Options: those of Operation."""
        operation = Operation(self.tag, method, path, "", policy, **options)

        def record(handler: F) -> F:
            summary = (handler.__doc__ or "").strip().partition("\n")[0]
            self.operations.append(evolve(operation, handler=handler.__name__, summary=summary))
            return handler

        return record

    def get(self, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        return self.route("GET", path, policy=policy, **options)

    def head(self, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        return self.route("HEAD", path, policy=policy, **options)

    def post(self, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        return self.route("POST", path, policy=policy, **options)

    def put(self, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        return self.route("PUT", path, policy=policy, **options)

    def patch(self, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        return self.route("PATCH", path, policy=policy, **options)

    def delete(self, path: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        return self.route("DELETE", path, policy=policy, **{"status": 204, **options})

    def action(self, path: str, key: str, *, policy: str | None, **options: Any) -> Callable[[F], F]:
        """A POST whose body has `key` as its only key; `body` describes what is below it."""
        return self.route("POST", path, policy=policy, action=key, **{"status": 202, **options})
