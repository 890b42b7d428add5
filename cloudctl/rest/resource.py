"""Resources as data: what an attribute is in bodies, filters, sort keys and views, declared once.

    ATTRIBUTES = (
        Attribute("id", Network.id, filter=any_of, sort=True),
        Attribute("name", Network.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("router:external", Network.external, Flag, post=False, put=True),
        Attribute("subnets", view=ids_of_subnets),
    )

From these come the body classes (`body`), what lists accept (`filters`, `sort_keys`) and what is shown (`views`);
`declared` makes Operations of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import cache, lru_cache, partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast

import attrs
from attrs import NOTHING, frozen
from sqlalchemy import Column, ColumnElement, func
from zope.interface import Interface

from cloudctl.db import Connection
from cloudctl.rest.body import MISSING, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.versions import ALWAYS, Span

P = ParamSpec("P")
T = TypeVar("T")

Json = dict[str, Any]
View = Callable[[Connection, Call, Sequence[Any]], Iterable[Any]]
"""The values of an attribute for records, in their order. MISSING: that record is shown without the attribute."""
Read = Callable[[Connection, Sequence[str]], Any]
"""What stands elsewhere of the records with these ids."""


@frozen
class Beside:
    """A view of what is in other tables: `show(what was read, record)` is the value.

    If several attributes of a resource have the same `read`, it is called once.
    """

    read: Read
    show: Callable[[Any, Any], Any]


class Mark(Enum):
    REQUIRED = "required"  # a create body without it is refused
    REFUSED = "refused"  # a body with it is refused
    COLUMN = "column"  # what the column holds
    READ = "read"  # as its view reads it


REQUIRED: Final = Mark.REQUIRED
REFUSED: Final = Mark.REFUSED
COLUMN: Final = Mark.COLUMN
READ: Final = Mark.READ


@frozen(eq=False)
class Attribute:
    """One attribute of a resource.

    `type` is what bodies hold. `post`: what a create body without it means (MISSING: nothing), or REQUIRED, or REFUSED.
    `put`: whether an update body may have it; or the type that it has there. `filter` makes the filter of the column.
    `sort`: whether it is a sort key (NULL first), or what to sort by. `view` None: it is not shown. `rule`: which
    callers are shown it, and may filter by it (unless `finds` decides that). `span`: the microversions that have it.
    """

    name: str  # in JSON
    column: Column[Any] | None = None
    type: Any = None
    post: Any = REFUSED
    put: Any = False
    filter: Callable[[Column[Any]], Any] | None = None  # a filter as the API's lists take them
    sort: bool | ColumnElement[Any] = False
    view: View | Beside | Literal[Mark.COLUMN] | None = COLUMN
    rule: str | None = None
    finds: str | None = None
    named: str = ""
    span: Span = ALWAYS
    needs: type[Interface] | None = None  # what a driver must be capable of; otherwise there is no such attribute
    at_first: Any = READ  # shown of a record made just now, unless its body asked for more: nothing is read then

    @property
    def field(self) -> str:
        """Its name in Python: the column's, unless it is `named`."""
        return self.named or (self.name if self.column is None else self.column.key)


Attributes = Sequence[Attribute]


def offered(fn: Callable[P, T] | None) -> Callable[P, T]:
    """The function of an Operation; if the declaration leaves it out, the Operation is not routed."""
    if fn is None:
        raise NotImplementedError("an Operation without its function was called")
    return fn


# -- bodies


# Far more than there are. Making a class compiles code, and each class stays: `structure` remembers it.
@lru_cache(maxsize=1024)
def body(name: str, attributes: tuple[Attribute, ...], *, update: bool = False, extra: bool = False) -> type:
    """The class of bodies that create or update a resource; it also names the attributes that they may not have.

    `extra`: a body may have any others, too.
    """
    fields = {
        each.field: attrs.field(type=type_, default=default, metadata=_metadata(each))
        for each in attributes
        for type_, default in (_of_update(each) if update else _of_create(each))
    }
    if extra:
        fields["extra"] = attrs.field(type=dict[str, Any], factory=dict, metadata={"extra": True})
    made: type = attrs.make_class(name.title().replace(" ", "").replace("_", ""), fields, frozen=True, kw_only=True)
    # A body that has one of these has a problem of its own kind.
    refused = frozenset(each.name for each in attributes if each.field not in fields)
    cast(Any, made).__refused__ = "unchangeable" if update else "ungiven", refused
    return made


def _metadata(attribute: Attribute) -> dict[str, Any]:
    spans = {} if attribute.span == ALWAYS else {"spans": (attribute.span,)}
    return {"wire": attribute.name, **spans}


def _of_create(attribute: Attribute) -> Iterable[tuple[Any, Any]]:
    if attribute.post is REQUIRED:
        yield attribute.type, NOTHING
    elif attribute.post is MISSING:
        yield attribute.type | Missing, MISSING
    elif attribute.post is not REFUSED:
        yield attribute.type, attribute.post


def _of_update(attribute: Attribute) -> Iterable[tuple[Any, Any]]:
    if attribute.put is not False:
        yield (attribute.type if attribute.put is True else attribute.put) | Missing, MISSING


# -- lists


def filters(attributes: Attributes) -> dict[str, Any]:
    return {
        each.name: each.filter(each.column)
        for each in attributes
        if each.filter is not None and each.column is not None
    }


def sort_keys(attributes: Attributes) -> dict[str, ColumnElement[Any]]:
    """Raises ValueError for an attribute that has nothing to sort by."""
    found: dict[str, ColumnElement[Any]] = {}
    for each in attributes:
        if each.sort is False:
            continue
        if each.sort is not True:
            found[each.name] = each.sort
        elif each.column is None:
            raise ValueError(f"{each.name} is sorted by nothing")
        else:
            found[each.name] = _sorted_by(each.column)
    return found


def _sorted_by(column: Column[Any]) -> ColumnElement[Any]:
    """NULL comes before everything: pages go on after a value, and in SQL nothing is after NULL."""
    if not column.nullable:
        return column
    return func.coalesce(column, -1 if column.type.python_type is int else "")


def require_filters(call: Call, attributes: Attributes) -> None:
    """Raises Forbidden for a filter on what the caller may not see."""
    for each in _ruled_filters(call, attributes):
        call.require(each)


def may_filter(call: Call, attributes: Attributes) -> bool:
    """Whether the caller may filter by all that the query names. If not, no record of the caller's list matches."""
    return all(map(call.may, _ruled_filters(call, attributes)))


def _ruled_filters(call: Call, attributes: Attributes) -> list[str]:
    """The rules of attributes that the query filters by."""
    asked = [each.finds or each.rule for each in attributes if each.name in call.query]
    return [rule for rule in asked if rule is not None]


# -- views


def always(value: Any) -> View:
    """The same for every record."""
    return lambda conn, call, records: repeat(value, len(records))


def of_each(make: Callable[[Any], Any]) -> View:
    """What follows from the record alone."""
    return lambda conn, call, records: map(make, records)


def passed(call: Call, attributes: Attributes) -> frozenset[str]:
    """The rules of attributes that the caller passes: what they are shown depends on these alone."""
    return frozenset(rule for rule in {each.rule for each in attributes} if rule is not None and call.may(rule))


def views(
    conn: Connection, call: Call, attributes: Attributes, records: Sequence[Any], unasked: Collection[str] = ()
) -> list[Json]:
    """Records as the caller may see them, in their order; their attributes in the order of their declaration.

    `unasked`: the attributes that are shown as they are `at_first`.
    """
    shown = [
        each
        for each in attributes
        if each.view is not None and call.version in each.span and (each.rule is None or call.may(each.rule))
    ]
    names = [each.name for each in shown]
    # Column by column: a page of a thousand records costs little more than its queries.
    beside: dict[Read, Any] = {}
    columns = [
        repeat(each.at_first, len(records)) if each.name in unasked else _values(conn, call, each, records, beside)
        for each in shown
    ]
    found = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return [_present(each) if MISSING in each.values() else each for each in found]


def _values(
    conn: Connection, call: Call, attribute: Attribute, records: Sequence[Any], beside: dict[Read, Any]
) -> Iterable[Any]:
    if attribute.view is None:
        raise ValueError(f"{attribute.name} is not shown")
    if isinstance(attribute.view, Beside):
        read = attribute.view.read
        if read not in beside:
            beside[read] = read(conn, [record.id for record in records])
        return map(partial(attribute.view.show, beside[read]), records)
    if attribute.view is not COLUMN:
        return attribute.view(conn, call, records)
    if attribute.column is None:
        raise ValueError(f"{attribute.name} has neither a column nor a view")
    return map(_reader(attribute.column), records)


@cache
def _reader(column: Column[Any]) -> Callable[[Any], Any]:
    # Records are tuples of the columns of their table.
    return itemgetter(column.table.c.keys().index(column.key))


def _present(view: Json) -> Json:
    return {name: value for name, value in view.items() if value is not MISSING}
