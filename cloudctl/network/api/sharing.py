"""`shared`: whether others may use a record, as each caller sees it. Reference: network.md, section 11."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Column, not_

from cloudctl.db import Connection
from cloudctl.network import shares
from cloudctl.network.api import lists
from cloudctl.network.tables import Standard
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Filter


def shared(conn: Connection, call: Call, records: Sequence[Standard]) -> list[bool]:
    """Whether each is shared with everybody or with the caller's project."""
    found = shares.among(conn, [record.id for record in records], call.project_id)
    return [record.id in found for record in records]


def filters(id: Column[str], object_type: str) -> Mapping[str, Callable[[Caller], Filter]]:
    """The filter `shared` of records, or of anything that refers to them by `id`."""

    def of(caller: Caller) -> Filter:
        condition = shares.shared_with(id, object_type, caller.project_id)
        return lists.truths_of("shared", lambda wanted: condition if wanted else not_(condition))

    return {"shared": of}
