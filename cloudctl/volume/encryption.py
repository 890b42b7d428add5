"""Encryption of types: how volumes of a type are to be encrypted. Reference: volume.md, section 7.

No backend encrypts: the record is only stored and shown, and a volume of such a type is refused rather than left plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Invalid, NotFound
from cloudctl.volume import types
from cloudctl.volume.tables import TypeEncryption

# Built once: building a statement costs more than running it, and every new volume runs it.
_of_type = select(TypeEncryption).where(TypeEncryption.volume_type_id == bindparam("type"))


def not_found(type_id: str) -> NotFound:
    return NotFound(f"Volume type encryption for type {type_id[:64]} does not exist.")


def find(conn: Connection, type_id: str) -> TypeEncryption | None:
    return conn.execute(_of_type, {"type": type_id}).first()


def get(conn: Connection, type_id: str, encryption_id: str) -> TypeEncryption:
    """Raises NotFound."""
    found = find(conn, type_id)
    if found is None or found.id != encryption_id:
        raise not_found(type_id)
    return found


@frozen
class NewEncryption:
    provider: str
    control_location: str
    cipher: str | None = None
    key_size: int | None = None


def create(conn: Connection, type_id: str, new: NewEncryption, now: datetime) -> TypeEncryption:
    """Raises NotFound; Invalid if one exists or the type is multiattach; Conflict while volumes have the type."""
    type_ = types.get(conn, type_id, lock=True)
    types.demand_unused(conn, type_id, "Cannot create encryption specs. Volume type in use.")
    if find(conn, type_id) is not None:
        raise Invalid(f"Volume type encryption for type {type_id} already exists.")
    if types.is_multiattach(type_):
        raise Invalid("Invalid volume type: multiattach volumes cannot be encrypted.")
    values = {"volume_type_id": type_id, "id": new_id(), "created_at": now, **asdict(new)}
    return conn.execute(insert(TypeEncryption).values(**values).returning(TypeEncryption)).one()


def change(conn: Connection, record: TypeEncryption, changes: Mapping[str, Any], now: datetime) -> None:
    """Raises Conflict while volumes have the type."""
    types.demand_unused(conn, record.volume_type_id, "Cannot update encryption specs. Volume type in use.")
    conn.execute(update(TypeEncryption).where(TypeEncryption.id == record.id).values(updated_at=now, **changes))


def remove(conn: Connection, record: TypeEncryption) -> None:
    """Raises Conflict while volumes have the type."""
    types.demand_unused(conn, record.volume_type_id, "Cannot delete encryption specs. Volume type in use.")
    conn.execute(delete(TypeEncryption).where(TypeEncryption.id == record.id))


def demand_plain(conn: Connection, type_id: str) -> None:
    """Raises Invalid for a type whose volumes would have to be encrypted."""
    if find(conn, type_id) is not None:
        raise Invalid(f"Invalid volume_type: volumes of type {type_id} are encrypted, and no backend here encrypts.")
