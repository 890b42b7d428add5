"""Types of fields that several bodies have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import attrs
from attrs import frozen

from cloudctl.errors import Invalid, NotFound
from cloudctl.identity.effective import RoleName
from cloudctl.rest.body import MISSING, Length, Missing, Name, extra, given
from cloudctl.rest.call import Call

Id = Annotated[str, Length(1, 64)]
ProjectTitle = Annotated[str, Length(1, 64, blank=False)]
Description = Annotated[str, Length(0, 65_535)]


def distinct(values: list[Any]) -> list[Any]:
    """Raises ValueError."""
    if any(values.count(value) > 1 for value in values):
        raise ValueError("an item is repeated")
    return values


@frozen
class Immutable:
    """Options of projects, domains and roles."""

    immutable: bool | Missing | None = Missing.MISSING


@frozen
class DomainReference:
    id: Id | Missing = MISSING
    name: Name | Missing = MISSING


@frozen
class RoleReference:
    """A role to give to somebody else."""

    id: Id | Missing = MISSING
    name: Name | Missing = MISSING
    domain: DomainReference | Missing = MISSING
    others: dict[str, Any] = extra()


def role_name(body: RoleReference) -> RoleName:
    """Raises Invalid."""
    if body.id is not MISSING:
        return RoleName(id=body.id)
    if body.name is MISSING:
        raise Invalid("A role has 'id' or 'name'.")
    of = body.domain
    return RoleName(name=body.name, of_domain=of is not MISSING and bool(of.id or of.name))


def changes(body: Any) -> dict[str, Any]:
    """The fields that were sent; options as a plain object, and `extra` only if there is any."""
    found = given(body)
    if not found.get("extra"):
        found.pop("extra", None)
    options = found.get("options")
    if options is not None and attrs.has(type(options)):
        found["options"] = given(options)
    return found


def may_as_anybody(call: Call, rule: str | None = None) -> bool:
    """Whether the caller's roles alone allow it, whichever user it concerns. `rule`: by default the Operation's own."""
    name = rule or call.rule
    assert name is not None, "a public Operation has no rule"
    return call.may(name, user_id="")


@contextmanager
def unknown_as_foreign(call: Call) -> Iterator[None]:
    """A caller who may not see other domains' records does not learn that a record does not exist, either.

    Wraps the reading of the record that decides on the Operation's rule. Raises Forbidden in place of NotFound.
    """
    try:
        yield
    except NotFound:
        call.require(domain_id="")
        raise


def domain_of(call: Call, named: str | Missing | None) -> str:
    """The domain of a new record: the one named, else that of the caller's scope, else the default one."""
    return named or call.identity.domain_id or "default"
