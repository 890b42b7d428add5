"""Rows of the northbound database as values: what it should contain. `northbound` makes it so.

What the cloud wants for one object (a network, a port, …) is an `Owned`: all of its rows, of which the first is its
anchor. The anchor stores the wish itself, so that the database alone shows any process what there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from attrs import frozen

NAMESPACE = UUID("6f0b1c7e-51ad-4f39-9d0c-7d4f1f3c9a52")

# Keys of `external_ids`.
OWNER = "cloudctl:owner"  # to which object the row belongs: KIND/ID
WISH = "cloudctl:wish"  # of an anchor: the specification, as JSON
NAMED = "cloudctl:named"  # of an anchor: the owners that its specification names, separated by spaces
WITHIN = "cloudctl:within"  # of a row that is part of another: TABLE COLUMN UUID


@frozen
class Ref:
    """A row's identity: its UUID follows from it, so two processes never make the row twice."""

    table: str
    key: str

    @property
    def uuid(self) -> UUID:
        return uuid5(NAMESPACE, f"{self.table} {self.key}")


Atom = str | int | bool | Ref
Value = Atom | tuple[Atom, ...] | Mapping[str, Atom]


@frozen
class Place:
    """A column that refers to other rows."""

    row: Ref
    column: str

    def __str__(self) -> str:
        return f"{self.row.table} {self.column} {self.row.uuid}"


@frozen
class Row:
    ref: Ref
    columns: Mapping[str, Value]  # without those that do not matter to us
    within: Place | None = None  # what it is a part of and is deleted with; None: it stands on its own
    members_of: tuple[Place, ...] = ()  # sets that it is in; missing ones are ignored


@frozen
class Owned:
    """All rows of one object."""

    owner: str
    wish: str
    rows: tuple[Row, ...]  # the anchor first
    named: frozenset[str] = frozenset()

    @property
    def anchor(self) -> Row:
        return self.rows[0]

    def external_ids(self, row: Row) -> dict[str, str]:
        found = {OWNER: self.owner}
        if row.within is not None:
            found[WITHIN] = str(row.within)
        if row is self.anchor:
            found |= {WISH: self.wish, NAMED: " ".join(sorted(self.named))}
        return found


def owner(kind: str, id: str) -> str:
    return f"{kind}/{id}"


def anchor(table: str, owner: str) -> Ref:
    """Of the anchor in this table, whose key is the id of the object."""
    return Ref(table, owner.partition("/")[2])
