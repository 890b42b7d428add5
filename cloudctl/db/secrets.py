"""Secrets that all processes of a cloud share: rows, sealed by a key that is not in the database.

A purpose has numbered secrets. Reading the database alone reveals none of them, and a process that was given the wrong
key is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlalchemy import Integer, LargeBinary, bindparam, delete, insert, select

from cloudctl.db.columns import Field, column, text
from cloudctl.db.connection import Connection
from cloudctl.db.records import Record
from cloudctl.errors import ConfigError


class Secret(Record, table="secrets"):
    purpose: Field[str] = text(40, primary_key=True)
    number: Field[int] = column(Integer, primary_key=True, autoincrement=False)
    sealed: Field[bytes] = column(LargeBinary)


@frozen
class Seal:
    """Seals with the first of its keys, opens with any."""

    fernet: MultiFernet

    @classmethod
    def of(cls, keys: Iterable[str | bytes]) -> Seal:
        """Raises ValueError if one of them is not a Fernet key, or if there are none."""
        return cls(MultiFernet([Fernet(key) for key in keys]))


_of_purpose = select(Secret.number, Secret.sealed).where(Secret.purpose == bindparam("wanted")).order_by(Secret.number)


def read(conn: Connection, seal: Seal, purpose: str) -> dict[int, bytes]:
    """Number → secret. Raises ConfigError if they were sealed with a key that this process does not have."""
    rows = conn.execute(_of_purpose, {"wanted": purpose})
    try:
        return {number: seal.fernet.decrypt(bytes(sealed)) for number, sealed in rows}
    except InvalidToken:
        raise ConfigError(
            [
                f"database.sealing_keys: the {purpose} in the database are sealed with a key that is not among them; "
                "what no option names is in the file sealing-key in the state directory of the cloud's first process"
            ]
        ) from None


def write(conn: Connection, seal: Seal, purpose: str, secrets: Mapping[int, bytes]) -> None:
    """Make these the only secrets of this purpose, all sealed with the first key."""
    conn.execute(delete(Secret).where(Secret.purpose == purpose))
    for number, secret in secrets.items():
        conn.execute(insert(Secret).values(purpose=purpose, number=number, sealed=seal.fernet.encrypt(secret)))


def reseal(conn: Connection, seal: Seal) -> None:
    """Seal with the first key whatever an older one sealed."""
    for purpose in sorted(set(conn.scalars(select(Secret.purpose)))):
        write(conn, seal, purpose, read(conn, seal, purpose))
