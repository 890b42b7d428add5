"""Records by their ids, as every domain reads them.

    RECORDS = ById(Segment, "No failover segment with id {}.")
    find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found

Who sees a record is for each service to say.
"""

from __future__ import annotations

from functools import cached_property
from typing import Generic, TypeVar

from attrs import frozen
from sqlalchemy import Select, bindparam, select

from cloudctl.db.connection import Connection
from cloudctl.db.records import Record
from cloudctl.errors import NotFound

R = TypeVar("R", bound=Record)


@frozen(eq=False)
class ById(Generic[R]):
    """The records of one table.

    `unknown`: the message for an unknown id, which may be `longest` characters; `type`: of the error, as in `errors`.
    """

    record: type[R]
    unknown: str
    type: str | None = None
    longest: int = 64

    # Built once: building a statement costs more than running it.
    @cached_property
    def _plain(self) -> Select[R]:
        return select(self.record).where(self.record.table.c.id == bindparam("wanted"))

    @cached_property
    def _locked(self) -> Select[R]:
        return self._plain.with_for_update()

    @cached_property
    def _pinned(self) -> Select[R]:
        return self._plain.with_for_update(read=True, key_share=True)

    def not_found(self, id: str) -> NotFound:
        return NotFound(self.unknown.format(id[: self.longest]), type=self.type)

    def find(self, conn: Connection, id: str, *, lock: bool = False) -> R | None:
        """`lock`: nobody else changes it before this transaction ends."""
        return conn.execute(self._locked if lock else self._plain, {"wanted": id}).first()

    def get(self, conn: Connection, id: str, *, lock: bool = False) -> R:
        """The record, whoever owns it. Raises NotFound. `lock`: as for `find`."""
        found = self.find(conn, id, lock=lock)
        if found is None:
            raise self.not_found(id)
        return found

    def pinned(self, conn: Connection, id: str) -> R:
        """As `get`, for what refers to it: nobody deletes or locks it before this transaction ends."""
        found = conn.execute(self._pinned, {"wanted": id}).first()
        if found is None:
            raise self.not_found(id)
        return found
