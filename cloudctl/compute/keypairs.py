"""Key pairs: public keys that a server receives at first boot. They belong to a user.

Reference: compute.md, section 10.
"""

from __future__ import annotations

from attrs import asdict, frozen
from sqlalchemy import delete, insert, select

from cloudctl.compute import quotas
from cloudctl.compute.tables import Keypair
from cloudctl.db import Connection
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing

LISTING = Listing(Keypair.table, {"name": Keypair.name}, order=(("name", "asc"),), marker=Keypair.name)


def find(conn: Connection, user_id: str, name: str) -> Keypair | None:
    mine = (Keypair.user_id == user_id) & (Keypair.name == name)
    return conn.execute(select(Keypair).where(mine)).first()


def get(conn: Connection, user_id: str, name: str) -> Keypair:
    """Raises NotFound."""
    row = find(conn, user_id, name)
    if row is None:
        raise not_found(user_id, name)
    return row


def not_found(user_id: str, name: str) -> NotFound:
    return NotFound(f"Keypair {name[:255]} not found for user {user_id[:64]}")


@frozen
class NewKeypair:
    user_id: str
    name: str
    type: str
    public_key: str
    fingerprint: str


def create(conn: Connection, caller: Caller, new: NewKeypair) -> Keypair:
    """Raises Conflict if the user has the name already, OverQuota if the caller's project allows the user no more."""
    taken = Conflict(f"Key pair '{new.name}' already exists.")
    if find(conn, new.user_id, new.name) is not None:
        raise taken
    quotas.take_keypair(conn, caller.project_id, new.user_id)
    values = {**asdict(new), "created_at": caller.now}
    with unique(conn, taken):
        number = conn.execute(insert(Keypair), values).key
    return Keypair(number=number, **values)


def remove(conn: Connection, user_id: str, name: str) -> None:
    """Raises NotFound."""
    mine = (Keypair.user_id == user_id) & (Keypair.name == name)
    if conn.execute(delete(Keypair).where(mine)).rowcount == 0:
        raise not_found(user_id, name)
