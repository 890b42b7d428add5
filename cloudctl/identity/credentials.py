"""Credentials of users: EC2 key pairs, certificates, and whatever else they store.

Blobs are sealed with keys of their own, which are not rotated with those of the tokens. Reference: identity.md,
section 8.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from datetime import datetime
from typing import Any

from attrs import frozen
from cryptography.fernet import InvalidToken
from sqlalchemy import bindparam, delete, false, func, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import records, totp
from cloudctl.identity.payload import Keys
from cloudctl.identity.records import own_attributes
from cloudctl.identity.tables import ApplicationCredential, Credential, Project, User
from cloudctl.rest.body import BodyError
from cloudctl.rest.decoding import parse
from cloudctl.rest.identity import Identity
from cloudctl.rest.listing import Condition, Listing, equals

EC2 = "ec2"
FIXED = ("type", "user_id", "project_id")
# Built once: building a statement costs more than running it.
_by_access = select(Credential).where(Credential.access_hash == bindparam("hash"))

LISTING = Listing(
    Credential.table,
    sort_keys={"id": Credential.id, "type": Credential.type, "created_at": Credential.created_at},
    order=(("created_at", "asc"),),
    filters={"user_id": equals(Credential.user_id), "type": equals(Credential.type)},
)


@frozen
class Delegated:
    """The delegation of the token that made an EC2 credential, which reaches no further. Both may be empty."""

    application_credential_id: str = ""
    trust_id: str = ""


def get(conn: Connection, credential_id: str) -> Credential:
    """Raises NotFound."""
    return records.get(conn, Credential, credential_id, "credential")


def is_of(identity: Identity, row: Credential) -> bool:
    """Whether it is the caller's: the user's own, or, for a delegated token, one that it has made."""
    if identity.user_id != row.user_id:
        return False
    if not identity.delegated:
        return True
    made_by = row.application_credential_id
    return made_by is not None and made_by == identity.application_credential_id and not identity.signed


def are_of(identity: Identity) -> Condition:
    """The same, for a list."""
    mine = Credential.user_id == identity.user_id
    if not identity.delegated:
        return mine
    if identity.signed or not identity.application_credential_id:
        return false()
    return mine & (Credential.application_credential_id == identity.application_credential_id)


def blob(row: Credential, keys: Keys) -> str:
    """Raises ValueError if the key that sealed it is gone."""
    try:
        return keys.fernet().decrypt(bytes(row.blob)).decode()
    except InvalidToken:
        raise ValueError(f"credential {row.id} cannot be opened with the keys that there are") from None


def create(
    conn: Connection, values: dict[str, Any], keys: Keys, made_by: Delegated, now: datetime, most: int
) -> Credential:
    """`values`: type, blob (text), user_id, project_id or None, extra.

    Raises NotFound (user, project, what the token was made from), Invalid, Conflict (access key), Forbidden (too many).
    """
    # Locked, so that the limit holds for concurrent requests, too.
    records.get(conn, User, values["user_id"], "user", lock=True)
    if values.get("project_id"):
        records.get(conn, Project, values["project_id"], "project", stays=True)
    if made_by.application_credential_id:
        records.get(
            conn, ApplicationCredential, made_by.application_credential_id, "application credential", stays=True
        )
    held = conn.execute(select(func.count()).where(Credential.user_id == values["user_id"])).scalar_one()
    if most and held >= most:
        raise Forbidden(f"A user has at most {most} credentials.")
    access_hash = _access_hash(values)
    row = {
        **values,
        "id": access_hash or new_hex_id(),
        "access_hash": access_hash,
        "blob": _sealed(values["type"], values["blob"], keys),
        "extra": own_attributes(values.get("extra", {})),
        "application_credential_id": made_by.application_credential_id or None,
        "trust_id": made_by.trust_id or None,
        "created_at": now,
    }
    records.insert_unique(conn, Credential, row, Conflict("A credential with this access key already exists."))
    return get(conn, row["id"])


def _sealed(type: str, blob: str, keys: Keys) -> bytes:
    """Raises Invalid."""
    if type == totp.TYPE:
        totp.shared_secret(blob)
    return keys.fernet().encrypt(blob.encode())


def _access_hash(values: dict[str, Any]) -> str | None:
    """An EC2 credential is found by its access key."""
    if values["type"] != EC2:
        return None
    if not values.get("project_id"):
        raise Invalid("A credential of type ec2 needs project_id.")
    return ec2_id(_ec2_blob(values["blob"])["access"])


def ec2_id(access: str) -> str:
    return hashlib.sha256(access.encode()).hexdigest()


def _ec2_blob(text: str) -> dict[str, Any]:
    """Raises Invalid unless it is a JSON object with `access` and `secret`."""
    try:
        found = parse(text.encode())
    except BodyError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in ("access", "secret")):
        raise Invalid("The blob of an ec2 credential is a JSON object with access and secret.")
    return found


def change(conn: Connection, credential_id: str, changes: dict[str, Any], keys: Keys) -> Credential:
    """Its type, user and project cannot change. Raises NotFound, Invalid, Conflict (access key)."""
    before = records.get(conn, Credential, credential_id, "credential", lock=True)
    for name in FIXED:
        if changes.get(name, getattr(before, name)) != getattr(before, name):
            raise Invalid(f"The {name} of a credential cannot be changed.")
    values = {name: value for name, value in changes.items() if name not in FIXED}
    if "blob" in values:
        if before.type == EC2:
            values["access_hash"] = ec2_id(_ec2_blob(values["blob"])["access"])
        values["blob"] = _sealed(before.type, values["blob"], keys)
        values["totp_step"] = None
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], before.extra)
    taken = Conflict("A credential with this access key already exists.")
    records.update_unique(conn, Credential, credential_id, values, taken)
    return get(conn, credential_id)


def remove(conn: Connection, credential_id: str) -> None:
    """Raises NotFound."""
    get(conn, credential_id)
    conn.execute(delete(Credential).where(Credential.id == credential_id))


# -- EC2


def create_ec2(
    conn: Connection, user_id: str, project_id: str, keys: Keys, made_by: Delegated, now: datetime, most: int
) -> Credential:
    """With a new access key and secret. Raises NotFound, Forbidden."""
    pair = {"access": secrets.token_hex(16), "secret": secrets.token_hex(16)}
    values = {"type": EC2, "user_id": user_id, "project_id": project_id, "blob": json.dumps(pair)}
    return create(conn, values, keys, made_by, now, most)


def get_ec2(conn: Connection, user_id: str, access: str) -> Credential:
    """Raises NotFound, also for another user's."""
    row = find_ec2(conn, access)
    if row is None or row.user_id != user_id:
        raise records.not_found("credential", access)
    return row


def find_ec2(conn: Connection, access: str) -> Credential | None:
    return conn.execute(_by_access, {"hash": ec2_id(access)}).first()


def pair(row: Credential, keys: Keys) -> tuple[str, str]:
    """Access key and secret."""
    found = _ec2_blob(blob(row, keys))
    return found["access"], found["secret"]
