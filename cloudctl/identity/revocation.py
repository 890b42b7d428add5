"""Tokens that end before their time. Reference: identity.md, «What revokes tokens».

Only what cannot be read from the records needs an event: a token that was revoked individually, and tokens that must
stay invalid after the user, project or domain is enabled again. Roles are looked up whenever a token is validated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import String, bindparam, delete, insert, or_, select

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.identity import epoch
from cloudctl.identity.payload import ScopeKind, Token
from cloudctl.identity.tables import Revocation

# Longer than any token can be validated: IdentityOptions bounds its lifetime and the window after it.
KEPT = timedelta(days=15)


def revoke_token(conn: Connection, token: Token, now: datetime) -> None:
    """This token, not the others of its chain."""
    _revoke(conn, now, audit_id=token.audit_ids[0], expires_at=utc(token.expires_at))


def revoke_user(conn: Connection, user_id: str, now: datetime) -> None:
    """All tokens of a user that were issued before this transaction."""
    _revoke(conn, now, user_id=user_id, issued_before=now)


def revoke_project(conn: Connection, project_id: str, now: datetime) -> None:
    """All tokens scoped to a project."""
    _revoke(conn, now, project_id=project_id, issued_before=now)


def revoke_domain(conn: Connection, domain_id: str, now: datetime) -> None:
    """All tokens of the domain's users, and those scoped to it or to its projects."""
    _revoke(conn, now, domain_id=domain_id, issued_before=now)
    _revoke(conn, now, domain_scope_id=domain_id, issued_before=now)


def is_revoked(conn: Connection, token: Token, user_ids: Iterable[str], domain_ids: Iterable[str]) -> bool:
    """`user_ids`: the token's user, and those that delegated to it; `domain_ids`: theirs and that of the project."""
    scope = token.scope
    values = {
        "epoch": token.epoch,
        "audit": token.audit_ids[0],
        "chain": token.audit_ids[-1],
        "users": set(user_ids),
        "domains": set(domain_ids),
        "project": scope.id if scope.kind is ScopeKind.PROJECT else None,
        "domain_scope": scope.id if scope.kind is ScopeKind.DOMAIN else None,
    }
    return conn.execute(_revoking, values).first() is not None


_revoking = (
    select(Revocation.id)
    .where(
        Revocation.epoch > bindparam("epoch"),
        or_(
            Revocation.audit_id == bindparam("audit"),
            Revocation.audit_chain_id == bindparam("chain"),
            Revocation.user_id.in_(bindparam("users", expanding=True)),
            Revocation.domain_id.in_(bindparam("domains", expanding=True)),
            # Nothing equals NULL.
            Revocation.project_id == bindparam("project", type_=String),
            Revocation.domain_scope_id == bindparam("domain_scope", type_=String),
        ),
    )
    .limit(1)
)


def events(conn: Connection, since: datetime | None) -> Sequence[Revocation]:
    """All revocations, oldest first; only those made since then if a time is given."""
    query = select(Revocation).order_by(Revocation.id)
    return conn.execute(query if since is None else query.where(Revocation.revoked_at >= since)).all()


def revoked_tokens(conn: Connection, now: datetime) -> Sequence[Revocation]:
    """Tokens that were revoked individually and have not expired yet, oldest first."""
    query = select(Revocation).where(Revocation.audit_id.is_not(None), Revocation.expires_at > now)
    return conn.execute(query.order_by(Revocation.id)).all()


def _revoke(conn: Connection, now: datetime, **values: Any) -> None:
    conn.execute(delete(Revocation).where(Revocation.revoked_at < now - KEPT))
    conn.execute(insert(Revocation).values(epoch=epoch.changed(conn), revoked_at=now, **values))
