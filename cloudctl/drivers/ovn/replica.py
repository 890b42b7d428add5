"""Our rows in the northbound database, and how they become what is wanted.

The IDL of `ovs` keeps a copy of the database up to date. This adds an index of our rows by their owners; a `Draft`
writes the rows of an owner as they should be: it adds missing ones, corrects different ones and removes surplus ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import define, field
from ovs.db import error
from ovs.db.data import Datum
from ovs.db.idl import ROW_DELETE, Idl, SchemaHelper, Transaction

from cloudctl.drivers.errors import DriverError, Unfit
from cloudctl.drivers.ovn.rows import NAMED, OWNER, WISH, WITHIN, Atom, Owned, Ref, Row, Value, anchor
from cloudctl.drivers.ovn.why import noted

# The tables that may have rows of ours.
TABLES = (
    "Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route",
    "NAT", "Load_Balancer", "Gateway_Chassis", "DHCP_Options", "Port_Group", "Address_Set", "ACL", "QoS",
)  # fmt: skip
# A number in its only row that is passed on when it grows: by the databases' daemon, then by each chassis.
GLOBAL, ASKED = "NB_Global", "nb_cfg"


@define(eq=False)
class Known:
    """What the database has of one owner."""

    anchor: UUID | None = None
    wish: str | None = None  # of its anchor; None while that is missing
    named: frozenset[str] = frozenset()
    held: dict[UUID, str] = field(factory=dict)  # its rows → the table of each
    decoded: Any = None  # the wish, decoded by code that understands it


class Copy(Idl):  # type: ignore[misc]  # ovs has no types
    """A copy of a database."""

    @property
    def is_current(self) -> bool:
        """Whether it currently follows the changes of the database."""
        return bool(self.state == self.IDL_S_MONITORING and self._session.is_connected())

    @property
    def server(self) -> str:
        """The one that it is connected to, or about to be."""
        return str(self._session.get_name())

    def note(self, failed: Callable[[str, str], object]) -> None:
        """`failed(server, why)` is called whenever a connection fails."""
        noted(self._session, failed)


class Southbound(Copy):
    """A copy of some columns of the southbound database. Raises DriverError if it lacks a table."""

    def __init__(
        self, remotes: str, schema: dict[str, Any], columns: Mapping[str, Sequence[str]], probe_seconds: int
    ) -> None:
        helper = SchemaHelper(schema_json=schema)
        for table, names in columns.items():
            if table not in schema["tables"]:
                raise DriverError(f"the southbound database has no table {table}")
            helper.register_columns(table, list(names))
        super().__init__(remotes, helper, probe_interval=probe_seconds * 1000)


class Replica(Copy):
    def __init__(self, remotes: str, schema: dict[str, Any], probe_seconds: int) -> None:
        self.known: dict[str, Known] = {}
        self.naming: dict[str, set[str]] = {}  # owner → the owners whose wishes name it
        self._owners: dict[UUID, str] = {}
        helper = SchemaHelper(schema_json=schema)
        missing = [table for table in TABLES if table not in schema["tables"]]
        if missing:
            raise DriverError(f"the northbound database has no table {', '.join(missing)}")
        for table in TABLES:
            columns = schema["tables"][table]["columns"]
            # What refers to rows that cannot be ours is not ours to write.
            wanted = [name for name, column in columns.items() if not _refers_to_others(column)]
            helper.register_columns(table, wanted)
        helper.register_columns(GLOBAL, [ASKED])
        super().__init__(remotes, helper, probe_interval=probe_seconds * 1000)

    def row(self, ref: Ref) -> Any:
        """The row; None if it does not exist."""
        return self.tables[ref.table].rows.get(ref.uuid)

    def run(self) -> bool:
        state = self.state
        changed = bool(super().run())
        if self.state == self.IDL_S_MONITORING and state != self.IDL_S_MONITORING:
            self._refill()
        return changed

    # -- the index

    def notify(self, event: str, row: Any, updates: Any = None) -> None:
        if "external_ids" in row._table.columns:
            self._forget(row.uuid)
            if event != ROW_DELETE:
                self._learn(row)

    def _refill(self) -> None:
        """After a reconnection the copy may be a new one, and rows that it lacks are not reported as deleted."""
        self.known.clear()
        self.naming.clear()
        self._owners.clear()
        for name in TABLES:
            table = self.tables[name]
            if "external_ids" in table.columns:
                for uuid in table.rows:
                    self._learn(table.rows[uuid])

    def _learn(self, row: Any) -> None:
        ids = row.external_ids
        owner = ids.get(OWNER)
        if owner is None:
            return
        known = self.known.setdefault(owner, Known())
        known.held[row.uuid] = row._table.name
        self._owners[row.uuid] = owner
        # A database that `ovsdb-client` has restored gave its rows other UUIDs: such a row is nobody's anchor, and goes
        # when its owner is put again.
        if WISH in ids and row.uuid == anchor(row._table.name, owner).uuid:
            known.anchor, known.wish, known.decoded = row.uuid, ids[WISH], None
            self._name(owner, known, frozenset(ids.get(NAMED, "").split()))

    def _forget(self, uuid: UUID) -> None:
        owner = self._owners.pop(uuid, None)
        if owner is None:
            return
        known = self.known[owner]
        del known.held[uuid]
        if known.anchor == uuid:
            known.anchor = known.wish = known.decoded = None
            self._name(owner, known, frozenset())
        if not known.held:
            del self.known[owner]

    def _name(self, owner: str, known: Known, named: frozenset[str]) -> None:
        for each in known.named - named:
            self.naming[each].discard(owner)
            if not self.naming[each]:
                del self.naming[each]
        for each in named - known.named:
            self.naming.setdefault(each, set()).add(owner)
        known.named = named


def _refers_to_others(column: dict[str, Any]) -> bool:
    key = column["type"].get("key") if isinstance(column["type"], dict) else None
    return isinstance(key, dict) and key.get("refTable") is not None and key["refTable"] not in TABLES


class Draft:
    """The changes of one transaction. What is written here can be read here at once, except through the index."""

    def __init__(self, replica: Replica, transaction: Transaction) -> None:
        self.replica = replica
        self.transaction = transaction
        self.changes = 0  # how many things were not as they should be

    def put(self, owned: Owned) -> bool:
        """The owner has these rows and no others. Returns whether a row was missing. Raises Unfit."""
        missing = False
        for row in owned.rows:
            found = self.replica.row(row.ref)
            if found is None:
                missing = True
                found = self._insert(row)
            elif row is owned.anchor:
                # The wish was computed from what was read here: fail if somebody else was faster.
                found.verify("external_ids")
            for name, value in {**row.columns, "external_ids": owned.external_ids(row)}.items():
                self._write(found, name, value)
            for place in row.members_of:
                self._ensure_in(self.replica.row(place.row), place.column, found)
        wanted = {row.ref.uuid for row in owned.rows}
        self._remove(owned.owner, keep=wanted)
        return missing

    def remove(self, owner: str) -> None:
        """Remove all rows of the owner."""
        self._remove(owner, keep=frozenset())

    def leave(self, row: Ref, group: Ref, column: str) -> None:
        """The row is not in this set of another row."""
        held, member = self.replica.row(group), self.replica.row(row)
        if held is not None and member is not None and member in getattr(held, column):
            held.delvalue(column, member)
            self.changes += 1

    def exchange(self, row: Ref, column: str, gone: Iterable[str], come: Iterable[str]) -> None:
        """Replace some values of a set; others may change the rest of it meanwhile."""
        found = self.replica.row(row)
        if found is None:
            return
        there = set(getattr(found, column))
        if surplus := there.intersection(gone):
            # Another process that wants one of these values may rely on having seen it there.
            found.verify(column)
        missing = set(come) - there
        for value in surplus:
            found.delvalue(column, value)
        for value in missing:
            found.addvalue(column, value)
        self.changes += len(surplus) + len(missing)

    def hold(self, row: Ref, column: str) -> None:
        """What was read there must still be so when this is committed."""
        found = self.replica.row(row)
        if found is not None:
            found.verify(column)

    def ask(self) -> int | None:
        """A number that all chassis acknowledge once this is committed. None: there is no daemon yet that would pass it
        on to them."""
        for row in self.replica.tables[GLOBAL].rows.values():
            row.verify(ASKED)
            asked = int(getattr(row, ASKED)) + 1
            setattr(row, ASKED, asked)
            return asked
        return None

    def _insert(self, row: Row) -> Any:
        made = self.transaction.insert(self.replica.tables[row.ref.table], row.ref.uuid, persist_uuid=True)
        if row.within is not None:
            # If the whole is gone, what is put into it would silently vanish, too.
            self._ensure_in(self._whole(row), row.within.column, made)
        return made

    def _whole(self, row: Row) -> Any:
        assert row.within is not None
        found = self.replica.row(row.within.row)
        if found is None:
            raise DriverError(f"{row.within.row.table} {row.within.row.key} is missing")
        found.verify("external_ids")
        return found

    def _ensure_in(self, whole: Any, column: str, row: Any) -> None:
        if whole is not None and row.uuid not in {each.uuid for each in _values(whole, column)}:
            whole.addvalue(column, row)
            self.changes += 1

    def _remove(self, owner: str, keep: Iterable[UUID]) -> None:
        known = self.replica.known.get(owner)
        for uuid, table in list(known.held.items()) if known else ():
            row = self.replica.tables[table].rows.get(uuid)
            if row is None or uuid in keep:
                continue
            self.changes += 1
            within = row.external_ids.get(WITHIN)
            if within is not None:
                whole_table, column, whole_id = within.split(" ")
                whole = self.replica.tables[whole_table].rows.get(UUID(whole_id))
                if whole is not None:
                    whole.delvalue(column, row)
            else:
                row.delete()

    def _write(self, row: Any, name: str, value: Value) -> None:
        column = row._table.columns.get(name)
        if column is None:
            raise DriverError(f"the northbound database has no column {name} in {row._table.name}")
        plain = _plain(value)
        try:
            # The IDL would only log an error.
            datum = Datum.from_python(column.type, plain, lambda atom: atom)
        except error.Error as wrong:
            raise Unfit(f"{row._table.name}.{name}: {wrong}") from None
        if row._data is None or row._data[name] != datum:
            row.verify(name)
            self.changes += 1
            setattr(row, name, plain)


def _values(row: Any, column: str) -> Iterator[Any]:
    # A new row lacks the attribute of a column that was not set yet.
    return iter(getattr(row, column, ()))


def _plain(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_atom(each) for each in value]
    if isinstance(value, (str, int, bool, Ref)):
        return _atom(value)
    return {key: _atom(each) for key, each in value.items()}


def _atom(value: Atom) -> Any:
    return value.uuid if isinstance(value, Ref) else value
