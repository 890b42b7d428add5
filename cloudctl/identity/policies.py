"""Stored policies: text that clients keep here and that has no effect. Reference: identity.md, section 9."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.identity import records
from cloudctl.identity.records import own_attributes
from cloudctl.identity.tables import PolicyBlob
from cloudctl.rest.listing import Listing, equals

LISTING = Listing(
    PolicyBlob.table,
    sort_keys={"id": PolicyBlob.id, "created_at": PolicyBlob.created_at},
    order=(("created_at", "asc"),),
    filters={"type": equals(PolicyBlob.type)},
)


def get(conn: Connection, policy_id: str) -> PolicyBlob:
    """Raises NotFound."""
    return records.get(conn, PolicyBlob, policy_id, "policy")


def create(conn: Connection, values: dict[str, Any], now: datetime) -> PolicyBlob:
    """`values`: type, blob, extra. Raises Invalid."""
    row = {"id": new_hex_id(), **values, "extra": own_attributes(values.get("extra", {})), "created_at": now}
    conn.execute(insert(PolicyBlob).values(row))
    return get(conn, row["id"])


def change(conn: Connection, policy_id: str, changes: dict[str, Any]) -> PolicyBlob:
    """Raises NotFound, Invalid."""
    before = get(conn, policy_id)
    values = dict(changes)
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], before.extra)
    records.update_by_id(conn, PolicyBlob, policy_id, values)
    return get(conn, policy_id)


def remove(conn: Connection, policy_id: str) -> None:
    """Raises NotFound."""
    get(conn, policy_id)
    conn.execute(delete(PolicyBlob).where(PolicyBlob.id == policy_id))
