"""The records of one table as all modules read them: which exist, who sees them, and how one is deleted.

SCOPES = Owned(AddressScope, "Address scope {} could not be found", "AddressScopeNotFound", shared="address_scope")
find, get, visible, visible_to, not_found = SCOPES.find, SCOPES.get, SCOPES.visible, SCOPES.visible_to, …
"""

from __future__ import annotations

from functools import cached_property
from typing import Generic, TypeVar

from attrs import frozen
from sqlalchemy import Delete, Select, bindparam, delete, select, true

from cloudctl.db import Connection
from cloudctl.errors import NotFound
from cloudctl.network import shares, standard, tags
from cloudctl.network.tables import Standard
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition

R = TypeVar("R", bound=Standard)


@frozen(eq=False)
class Owned(Generic[R]):
    """Records that belong to projects. `shared`: their type of object in shares, if they can be shared."""

    record: type[R]
    unknown: str  # the message for an unknown id
    type: str
    shared: str | None = None

    # Built once: building a statement costs more than running it.
    @cached_property
    def _by_id(self) -> Select[R]:
        return select(self.record).where(self.record.id == bindparam("wanted"))

    @cached_property
    def _locked_by_id(self) -> Select[R]:
        return self._by_id.with_for_update()

    @cached_property
    def _pinned_by_id(self) -> Select[R]:
        return self._by_id.with_for_update(read=True, key_share=True)

    @cached_property
    def _delete(self) -> Delete:
        return delete(self.record.table).where(self.record.id == bindparam("wanted"))

    def not_found(self, id: str) -> NotFound:
        return NotFound(self.unknown.format(id[:64]), type=self.type)

    def find(self, conn: Connection, id: str, lock: bool = False) -> R | None:
        """`lock`: nobody else changes it before this transaction ends."""
        return conn.execute(self._locked_by_id if lock else self._by_id, {"wanted": id}).first()

    def get(self, conn: Connection, id: str, lock: bool = False) -> R:
        """Raises NotFound. `lock`: as for `find`."""
        row = self.find(conn, id, lock)
        if row is None:
            raise self.not_found(id)
        return row

    def visible(self, conn: Connection, caller: Caller, id: str, lock: bool = False) -> R:
        """The record, if the caller may see it. Raises NotFound. `lock`: as for `find`."""
        row = self.find(conn, id, lock)
        if row is None or not self.is_seen(conn, caller, row):
            raise self.not_found(id)
        return row

    def usable(self, conn: Connection, caller: Caller, id: str) -> R:
        """As `visible`, for code that refers to it: it cannot be deleted before this transaction ends."""
        row = conn.execute(self._pinned_by_id, {"wanted": id}).first()
        if row is None or not self.is_seen(conn, caller, row):
            raise self.not_found(id)
        return row

    def is_seen(self, conn: Connection, caller: Caller, row: R) -> bool:
        if row.project_id == caller.project_id or standard.sees_all(caller):
            return True
        return self.shared is not None and shares.reaches(conn, row.id, caller.project_id)

    def visible_to(self, conn: Connection, caller: Caller) -> Condition:
        """The records that the caller sees: their own and shared ones; all for administrators."""
        if standard.sees_all(caller):
            return true()
        if self.shared is None:
            return self.record.project_id == caller.project_id
        return shares.visible_to(conn, caller, self.record, self.shared)

    def delete(self, conn: Connection, row: R) -> None:
        """Delete the record with its tags and its shares."""
        tags.forget(conn, row.id)
        if self.shared is not None:
            shares.forget(conn, row.id)
        conn.execute(self._delete, {"wanted": row.id})
