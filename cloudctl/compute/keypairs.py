"""Key pairs: public keys that a server receives at first boot. They belong to a user.

Reference: compute.md, section 10.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select
from sqlalchemy.exc import IntegrityError

from cloudctl.compute import quotas
from cloudctl.compute.tables import Keypair
from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.listing import Listing

LISTING = Listing(Keypair.table, {"name": Keypair.name}, order=(("name", "asc"),), marker=Keypair.name)


def find(conn: Connection, user_id: str, name: str) -> Row[Any] | None:
    mine = (Keypair.user_id == user_id) & (Keypair.name == name)
    return conn.execute(select(Keypair).where(mine)).first()


def get(conn: Connection, user_id: str, name: str) -> Row[Any]:
    """Raises NotFound."""
    row = find(conn, user_id, name)
    if row is None:
        raise unknown(user_id, name)
    return row


def unknown(user_id: str, name: str) -> NotFound:
    return NotFound(f"Keypair {name[:255]} not found for user {user_id[:64]}")


def create(
    conn: Connection,
    project_id: str,
    user_id: str,
    name: str,
    type: str,
    public_key: str,
    fingerprint: str,
    now: datetime,
) -> Row[Any]:
    """Raises Conflict if the user has the name, OverQuota if he has too many. `project_id`: whose limit counts."""
    taken = Conflict(f"Key pair '{name}' already exists.")
    if find(conn, user_id, name) is not None:
        raise taken
    quotas.take_keypair(conn, project_id, user_id)
    try:
        with conn.begin_nested():
            conn.execute(
                insert(Keypair).values(
                    user_id=user_id,
                    name=name,
                    type=type,
                    public_key=public_key,
                    fingerprint=fingerprint,
                    created_at=now,
                )
            )
    except IntegrityError:
        raise taken from None
    return get(conn, user_id, name)


def remove(conn: Connection, user_id: str, name: str) -> None:
    """Raises NotFound."""
    mine = (Keypair.user_id == user_id) & (Keypair.name == name)
    if conn.execute(delete(Keypair).where(mine)).rowcount == 0:
        raise unknown(user_id, name)
