"""Tags of records, and the four filters on them. Reference: network.md, section 17."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Column, Select, and_, bindparam, delete, exists, insert, not_, select

from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.network.standard import grouped, rows
from cloudctl.network.tables import NetworkTag
from cloudctl.rest.listing import Condition, Filter, words
from cloudctl.rest.ways import linked

LENGTH = 255
MOST = 50

# Built once: building a statement costs more than running it.
_of = (
    select(NetworkTag)
    .where(NetworkTag.resource_id.in_(bindparam("ids", expanding=True)))
    .order_by(NetworkTag.resource_id, NetworkTag.tag)
)
_forget = delete(NetworkTag).where(NetworkTag.resource_id == bindparam("of"))


def of(conn: Connection, ids: Sequence[str]) -> dict[str, list[str]]:
    """Record id → its tags, sorted. Ids without tags are missing."""
    return grouped((row.resource_id, row.tag) for row in rows(conn, _of, ids=ids))


def replace(conn: Connection, id: str, wanted: Iterable[str]) -> list[str]:
    """Make `wanted` the record's tags; returns them sorted. Raises Invalid beyond 50."""
    final = sorted(set(wanted))
    if len(final) > MOST:
        raise Invalid(f"The number of tags exceeds the maximum of {MOST}.")
    forget(conn, id)
    if final:
        conn.execute(insert(NetworkTag), [{"resource_id": id, "tag": tag} for tag in final])
    return final


def add(conn: Connection, id: str, wanted: Iterable[str]) -> list[str]:
    return replace(conn, id, {*of(conn, [id]).get(id, ()), *wanted})


def remove(conn: Connection, id: str, tag: str) -> None:
    """Raises NotFound."""
    if conn.execute(delete(NetworkTag).where(NetworkTag.resource_id == id, NetworkTag.tag == tag)).rowcount == 0:
        raise not_found(tag)


def forget_all(conn: Connection, ids: Select[str]) -> None:
    """The records that `ids` selects are about to be deleted."""
    conn.execute(delete(NetworkTag).where(NetworkTag.resource_id.in_(ids)))


def forget(conn: Connection, id: str) -> None:
    """Remove all tags of the record."""
    conn.execute(_forget, {"of": id})


def not_found(tag: str) -> NotFound:
    return NotFound(f"Tag {tag[:LENGTH]} could not be found.", type="TagNotFound")


# -- filters: comma lists


def _words(values: Sequence[str]) -> list[str]:
    return words("tags", values)


def _has(id: Column[Any], tag: str) -> Condition:
    return id.in_(select(NetworkTag.resource_id).where(NetworkTag.tag == tag))


def _all(id: Column[Any], values: Sequence[str]) -> Condition:
    return and_(*(_has(id, word) for word in _words(values))) if _words(values) else _nothing(id)


def _any(id: Column[Any], values: Sequence[str]) -> Condition:
    return (
        id.in_(select(NetworkTag.resource_id).where(NetworkTag.tag.in_(_words(values))))
        if _words(values)
        else _nothing(id)
    )


def _any_way(id: Column[Any], values: Sequence[str]) -> Condition:
    """As `_any`, where there are tags and the condition is used as it is."""
    return linked(id, NetworkTag.resource_id, NetworkTag.tag.in_(_words(values)))


def _nothing(id: Column[Any]) -> Condition:
    """A filter for the empty text finds what has no tag at all."""
    return not_(exists().where(NetworkTag.resource_id == id))


def filters(id: Column[Any]) -> dict[str, Filter]:
    """`tags` (all of them), `tags-any` and their opposites."""
    return {
        "tags": lambda values: _any_way(id, values) if len(_words(values)) == 1 else _all(id, values),
        "tags-any": lambda values: _any_way(id, values) if _words(values) else _nothing(id),
        "not-tags": lambda values: not_(_all(id, values)),
        "not-tags-any": lambda values: not_(_any(id, values)),
    }
