"""OAuth 1.0a: a user lets a consumer act with some of the user's roles in one project, without giving it a password.

A consumer asks for a request token, the user authorizes it, the consumer exchanges it for an access token and logs in
with that. Whatever is wrong with a signed request is answered in one wording. Secrets are sealed with the keys of the
credentials, not hashed: checking a signature needs them. Reference: RFC 5849; OS-OAUTH1 of the Identity API v3.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from attrs import frozen
from sqlalchemy import delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id, seconds
from cloudctl.errors import Conflict
from cloudctl.identity import cascade, effective, epoch, oauth_signatures, records, subject
from cloudctl.identity.effective import RoleName
from cloudctl.identity.oauth_signatures import WINDOW, BadSignature, SignedRequest
from cloudctl.identity.payload import Keys, Scope, ScopeKind
from cloudctl.identity.tables import (
    OAuthAccessRole,
    OAuthAccessToken,
    OAuthConsumer,
    OAuthNonce,
    OAuthRequestToken,
    Project,
    Role,
    User,
)
from cloudctl.identity.trusts import chosen
from cloudctl.rest.listing import Listing

VERIFIER = string.ascii_letters + string.digits
VERIFIER_LENGTH = 12

T = TypeVar("T", OAuthRequestToken, OAuthAccessToken)

CONSUMERS = Listing(
    OAuthConsumer.table,
    sort_keys={"id": OAuthConsumer.id, "created_at": OAuthConsumer.created_at},
    order=(("created_at", "asc"),),
    filters={},
)
ACCESS_TOKENS = Listing(
    OAuthAccessToken.table,
    sort_keys={"id": OAuthAccessToken.id, "created_at": OAuthAccessToken.created_at},
    order=(("created_at", "asc"),),
    filters={},
)


@frozen
class Issued:
    """A request token or an access token as its consumer gets it, only once."""

    id: str
    secret: str
    expires_at: datetime | None


# -- consumers


def get_consumer(conn: Connection, consumer_id: str) -> OAuthConsumer:
    """Raises NotFound."""
    return records.get(conn, OAuthConsumer, consumer_id, "consumer")


def create_consumer(conn: Connection, values: dict[str, Any], keys: Keys, now: datetime) -> tuple[OAuthConsumer, str]:
    """`values`: description, extra. Returns the consumer and its secret. Raises Invalid."""
    secret = secrets.token_hex(16)
    row: dict[str, Any] = {
        "id": new_hex_id(),
        "description": values.get("description"),
        "secret": _sealed(secret, keys),
        "extra": records.own_attributes(values.get("extra", {})),
        "created_at": now,
    }
    conn.execute(insert(OAuthConsumer).values(row))
    return get_consumer(conn, row["id"]), secret


def change_consumer(conn: Connection, consumer_id: str, changes: dict[str, Any]) -> OAuthConsumer:
    """Raises NotFound, Invalid."""
    before = records.get(conn, OAuthConsumer, consumer_id, "consumer", lock=True)
    values = dict(changes)
    if "extra" in values:
        values["extra"] = records.own_attributes(values["extra"], before.extra)
    records.update_by_id(conn, OAuthConsumer, consumer_id, values)
    return get_consumer(conn, consumer_id)


def remove_consumer(conn: Connection, consumer_id: str) -> None:
    """With its tokens and those made from them. Raises NotFound."""
    records.get(conn, OAuthConsumer, consumer_id, "consumer", lock=True)
    conn.execute(delete(OAuthRequestToken).where(OAuthRequestToken.consumer_id == consumer_id))
    cascade.delete_access_tokens(conn, OAuthAccessToken.consumer_id == consumer_id)
    conn.execute(delete(OAuthNonce).where(OAuthNonce.consumer_id == consumer_id))
    conn.execute(delete(OAuthConsumer).where(OAuthConsumer.id == consumer_id))
    epoch.changed(conn)


# -- the way to an access token


def request_token(
    conn: Connection, request: SignedRequest, project_id: str, keys: Keys, now: datetime, lifetime: int
) -> Issued:
    """Step one. `lifetime` in seconds, 0: for ever. Raises Unauthorized, NotFound (the project)."""
    consumer = _consumer(conn, request, None, keys, now)
    records.get(conn, Project, project_id, "project", stays=True)
    # Expired ones, which were never authorized or never exchanged.
    conn.execute(delete(OAuthRequestToken).where(OAuthRequestToken.expires_at <= now))
    issued = _new(now, lifetime)
    row: dict[str, Any] = {
        "id": issued.id,
        "consumer_id": consumer.id,
        "secret": _sealed(issued.secret, keys),
        "project_id": project_id,
        "role_ids": [],
        "expires_at": issued.expires_at,
        "created_at": now,
    }
    conn.execute(insert(OAuthRequestToken).values(row))
    return issued


def authorize(conn: Connection, token_id: str, user_id: str, wanted: Sequence[RoleName], now: datetime) -> str:
    """Step two: the user chooses roles to give. Returns the verifier, which the user hands to the consumer.

    Raises NotFound (also one that has expired), Forbidden (a role that the user lacks), Conflict (already authorized).
    """
    records.get(conn, User, user_id, "user", stays=True)
    row = records.get(conn, OAuthRequestToken, token_id, "request token")
    if _has_expired(row, now):
        raise records.not_found("request token", token_id)
    scope = Scope(ScopeKind.PROJECT, row.project_id)
    held = effective.roles_on(conn, user_id, scope) if subject.may_have(conn, user_id, scope) else ()
    given = chosen(wanted, held)
    verifier = "".join(secrets.choice(VERIFIER) for _ in range(VERIFIER_LENGTH))
    free = update(OAuthRequestToken).where(OAuthRequestToken.id == token_id, OAuthRequestToken.user_id.is_(None))
    if conn.execute(free.values(user_id=user_id, verifier=verifier, role_ids=sorted(given))).rowcount != 1:
        raise Conflict("The request token has been authorized already.")
    return verifier


def access_token(conn: Connection, request: SignedRequest, keys: Keys, now: datetime, lifetime: int) -> Issued:
    """Step three: exchange an authorized request token, which is then used up. Raises Unauthorized."""
    consumer, asked = _signed(conn, request, OAuthRequestToken, keys, now)
    right = secrets.compare_digest((asked.verifier or "").encode(), request.verifier.encode())
    if not asked.verifier or not right or asked.user_id is None:
        raise subject.invalid()
    # Before the request token, as where the user is deleted.
    if records.find(conn, User, asked.user_id, stays=True) is None:
        raise subject.invalid()
    if conn.execute(delete(OAuthRequestToken).where(OAuthRequestToken.id == asked.id)).rowcount != 1:
        raise subject.invalid()
    issued = _new(now, lifetime)
    row = {
        "id": issued.id,
        "consumer_id": consumer.id,
        "secret": _sealed(issued.secret, keys),
        "project_id": asked.project_id,
        "user_id": asked.user_id,
        "expires_at": issued.expires_at,
        "created_at": now,
    }
    conn.execute(insert(OAuthAccessToken).values(row))
    for role_id in asked.role_ids:
        conn.execute(insert(OAuthAccessRole).values(token_id=issued.id, role_id=role_id))
    return issued


def prove(conn: Connection, request: SignedRequest, keys: Keys, now: datetime) -> OAuthAccessToken:
    """The access token that signed a login. Raises Unauthorized."""
    return _signed(conn, request, OAuthAccessToken, keys, now)[1]


# -- access tokens of a user


def get_access_token(conn: Connection, user_id: str, token_id: str) -> OAuthAccessToken:
    """Raises NotFound, also for another user's."""
    row = records.get(conn, OAuthAccessToken, token_id, "access token")
    if row.user_id != user_id:
        raise records.not_found("access token", token_id)
    return row


def roles_of(conn: Connection, user_id: str, token_id: str) -> Sequence[Role]:
    """By name. Raises NotFound."""
    get_access_token(conn, user_id, token_id)
    given = select(OAuthAccessRole.role_id).where(OAuthAccessRole.token_id == token_id)
    return conn.execute(select(Role).where(Role.id.in_(given)).order_by(Role.name)).all()


def remove_access_token(conn: Connection, user_id: str, token_id: str) -> None:
    """The tokens that were made from it end. Raises NotFound."""
    get_access_token(conn, user_id, token_id)
    cascade.delete_access_tokens(conn, OAuthAccessToken.id == token_id)
    epoch.changed(conn)


# -- signatures


def _signed(
    conn: Connection, request: SignedRequest, record: type[T], keys: Keys, now: datetime
) -> tuple[OAuthConsumer, T]:
    """The consumer and its token that signed the request. Raises Unauthorized."""
    found = records.find(conn, record, request.token_id)
    token = found if found is not None and found.consumer_id == request.consumer_id else None
    consumer = _consumer(conn, request, token, keys, now)
    if token is None or _has_expired(token, now):
        raise subject.invalid()
    return consumer, token


def _consumer(
    conn: Connection,
    request: SignedRequest,
    token: OAuthRequestToken | OAuthAccessToken | None,
    keys: Keys,
    now: datetime,
) -> OAuthConsumer:
    """The consumer that signed the request, with its token if it has one; it stays. Raises Unauthorized."""
    consumer = records.find(conn, OAuthConsumer, request.consumer_id, stays=True)
    try:
        # Always computed, so that an unknown consumer takes as long as a wrong secret.
        oauth_signatures.check(request, _secret(consumer, keys), _secret(token, keys), seconds(now))
        fresh = _take_nonce(conn, request, now) if consumer is not None else False
    except BadSignature:
        raise subject.invalid() from None
    if consumer is None or not fresh:
        raise subject.invalid()
    return consumer


def _secret(row: OAuthConsumer | OAuthRequestToken | OAuthAccessToken | None, keys: Keys) -> str:
    return "" if row is None else keys.fernet().decrypt(row.secret).decode()


def _take_nonce(conn: Connection, request: SignedRequest, now: datetime) -> bool:
    """Whether the request is the first with its nonce. Requests older than the nonces are refused for their time."""
    conn.execute(delete(OAuthNonce).where(OAuthNonce.said_at < int(seconds(now)) - WINDOW))
    key = {"consumer_id": request.consumer_id, "said_at": request.timestamp, "digest": request.nonce}
    return records.put(conn, OAuthNonce, **key)


def _sealed(secret: str, keys: Keys) -> bytes:
    return keys.fernet().encrypt(secret.encode())


def _new(now: datetime, lifetime: int) -> Issued:
    return Issued(new_hex_id(), secrets.token_hex(16), now + timedelta(seconds=lifetime) if lifetime else None)


def _has_expired(row: OAuthRequestToken | OAuthAccessToken, now: datetime) -> bool:
    return row.expires_at is not None and bool(row.expires_at <= now)
