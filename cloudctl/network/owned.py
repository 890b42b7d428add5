"""The records of one table as all modules read them: which exist, who sees them, and how one is deleted.

SCOPES = Owned(AddressScope, "Address scope {} could not be found", "AddressScopeNotFound", shared="address_scope")
find, get, visible, visible_to, not_found = SCOPES.find, SCOPES.get, SCOPES.visible, SCOPES.visible_to, …
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

from attrs import frozen
from sqlalchemy import Delete, bindparam, delete, true

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.network import shares, standard, tags
from cloudctl.network.tables import Standard
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition

R = TypeVar("R", bound=Standard)


@frozen(eq=False)
class Owned(ById[R]):
    """Records that belong to projects. `shared`: their type of object in shares, if they can be shared."""

    shared: str | None = None

    @cached_property
    def _delete(self) -> Delete:
        return delete(self.record.table).where(self.record.id == bindparam("wanted"))

    def visible(self, conn: Connection, caller: Caller, id: str, lock: bool = False) -> R:
        """The record, if the caller may see it. Raises NotFound. `lock`: as for `find`."""
        row = self.get(conn, id, lock=lock)
        if not self.is_seen(conn, caller, row):
            raise self.not_found(id)
        return row

    def usable(self, conn: Connection, caller: Caller, id: str) -> R:
        """As `visible`, for code that refers to it: it cannot be deleted before this transaction ends."""
        row = self.pinned(conn, id)
        if not self.is_seen(conn, caller, row):
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
