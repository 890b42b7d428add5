"""What a token stands for: its user, scope, roles and delegation, read from the database each time.

The same reading decides whether a token may be issued and whether it is still valid: everything must exist, be enabled,
and grant a role; and nothing may have revoked it. Reference: identity.md, «What revokes tokens».
"""

from __future__ import annotations

from datetime import datetime

from attrs import frozen
from sqlalchemy import Select, bindparam, select

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import Unauthorized
from cloudctl.identity import effective, epoch, revocation, tables
from cloudctl.identity.effective import RoleRef
from cloudctl.identity.payload import SIGNED, Delegation, Scope, ScopeKind, Token
from cloudctl.identity.tables import (
    ApplicationCredential,
    ApplicationCredentialRole,
    ApplicationCredentialRule,
    OAuthAccessRole,
    OAuthAccessToken,
    Project,
    Trust,
    TrustRole,
    User,
)
from cloudctl.rest.faults import UNAUTHENTICATED
from cloudctl.rest.identity import AccessRule, Identity


@frozen
class DomainRef:
    id: str
    name: str


@frozen
class UserRef:
    id: str
    name: str
    domain: DomainRef
    password_expires_at: datetime | None


@frozen
class ProjectRef:
    id: str
    name: str
    domain: DomainRef


@frozen
class CredentialRef:
    """The application credential of a token. `access_rules` None: every call is allowed."""

    id: str
    name: str
    unrestricted: bool
    access_rules: tuple[AccessRule, ...] | None
    expires_at: datetime | None


@frozen
class TrustRef:
    """The trust of a token, valid while the trustor holds its roles. `made_from`: another trust's id, or empty."""

    id: str
    impersonation: bool
    trustor: UserRef
    trustee: UserRef
    expires_at: datetime | None
    made_from: str = ""


@frozen
class AccessRef:
    """The OAuth access token of a token."""

    id: str
    consumer_id: str
    expires_at: datetime | None


@frozen
class Subject:
    """A valid token, complete."""

    token: Token
    user: UserRef
    project: ProjectRef | None
    domain: DomainRef | None
    roles: tuple[RoleRef, ...]
    epoch: int  # of the cloud, when it was read
    credential: CredentialRef | None = None
    trust: TrustRef | None = None
    access: AccessRef | None = None

    @property
    def ends_at(self) -> datetime:
        """When it or what it was made from expires, whichever comes first."""
        times = [utc(self.token.expires_at)]
        origins = (self.credential, self.trust, self.access)
        times += [made.expires_at for made in origins if made is not None and made.expires_at]
        return min(times)

    @property
    def identity(self) -> Identity:
        """What the services see of the token."""
        project, credential = self.project, self.credential
        return Identity(
            user_id=self.user.id,
            user_name=self.user.name,
            user_domain_id=self.user.domain.id,
            project_id=project.id if project else "",
            project_name=project.name if project else "",
            project_domain_id=project.domain.id if project else "",
            domain_id=self.domain.id if self.domain else "",
            system=self.token.scope.kind is ScopeKind.SYSTEM,
            roles=frozenset(role.name for role in self.roles),
            audit_id=self.token.audit_ids[0],
            expires_at=float(self.token.expires_at),
            application_credential_id=credential.id if credential else "",
            trust_id=self.trust.id if self.trust else "",
            oauth_access_token_id=self.access.id if self.access else "",
            signed=SIGNED in self.token.methods,
            restricted=credential is not None and not credential.unrestricted,
            access_rules=credential.access_rules if credential else None,
        )


def read(conn: Connection, token: Token, now: datetime, expired_for: float = 0) -> Subject:
    """The subject of a token that expired at most `expired_for` seconds ago. Raises Unauthorized if it is not valid."""
    if (now - utc(token.expires_at)).total_seconds() >= expired_for:
        raise invalid()
    # The epoch is read with the user, before anything else, so that a later commit shows up as newer.
    user, value = _user(conn, token.user_id)
    project = domain = None
    if token.scope.kind is ScopeKind.PROJECT:
        project = _project(conn, token.scope.id)
    if token.scope.kind is ScopeKind.DOMAIN:
        domain = _domain(conn, token.scope.id)
    trust = _trust(conn, token, now) if token.delegation is Delegation.TRUST else None
    people = [user] if trust is None else [user, trust.trustor, trust.trustee]
    domain_ids = [person.domain.id for person in people] + ([project.domain.id] if project else [])
    if revocation.is_revoked(conn, token, [person.id for person in people], domain_ids):
        raise invalid()
    roles: tuple[RoleRef, ...] = ()
    if token.scope.kind is not ScopeKind.UNSCOPED:
        roles = effective.roles_on(conn, trust.trustor.id if trust else user.id, token.scope)
    credential = access = None
    if token.delegation is Delegation.APPLICATION_CREDENTIAL:
        credential = _credential(conn, token, now)
        roles = _restricted(conn, _of_credential, credential.id, roles)
    if trust is not None:
        roles = _restricted(conn, _of_trust, trust.id, roles)
        if trust.made_from:
            roles = _within(conn, trust.made_from, token, roles)
    if token.delegation is Delegation.OAUTH:
        access = _access(conn, token, now)
        roles = _restricted(conn, _of_access, access.id, roles)
    if token.scope.kind is not ScopeKind.UNSCOPED and not roles:
        raise invalid()
    return Subject(token, user, project, domain, roles, value, credential, trust, access)


def invalid() -> Unauthorized:
    """One wording for everything that is wrong with a token or with credentials."""
    return Unauthorized(UNAUTHENTICATED)


def may_have(conn: Connection, user_id: str, scope: Scope) -> bool:
    """Whether the scope exists, is enabled, and the user has a role there."""
    try:
        if scope.kind is ScopeKind.PROJECT:
            _project(conn, scope.id)
        if scope.kind is ScopeKind.DOMAIN:
            _domain(conn, scope.id)
    except Unauthorized:
        return False
    return bool(effective.roles_on(conn, user_id, scope))


# -- queries, built once

_domains = Project.table.alias("domains")
_open_domain = _domains.c.is_domain & _domains.c.enabled
_user_by_id = (
    select(User.name, User.domain_id, User.password_expires_at, _domains.c.name, epoch.CURRENT)
    .join(_domains, (_domains.c.id == User.domain_id) & _open_domain)
    .where(User.id == bindparam("id"), User.enabled)
)
_project_by_id = (
    select(Project.name, Project.domain_id, _domains.c.name)
    .join(_domains, (_domains.c.id == Project.domain_id) & _open_domain)
    .where(Project.id == bindparam("id"), Project.enabled, Project.is_domain.is_(False))
)
_domain_by_id = select(Project.name).where(Project.id == bindparam("id"), Project.enabled, Project.is_domain)
_credential_by_id = select(ApplicationCredential).where(ApplicationCredential.id == bindparam("id"))
_trust_by_id = select(Trust).where(Trust.id == bindparam("id"))
_access_by_id = select(OAuthAccessToken).where(OAuthAccessToken.id == bindparam("id"))
_rules = (
    select(tables.AccessRule)
    .join(ApplicationCredentialRule, ApplicationCredentialRule.rule_id == tables.AccessRule.id)
    .where(ApplicationCredentialRule.credential_id == bindparam("id"))
    .order_by(tables.AccessRule.created_at, tables.AccessRule.id)
)
# The delegated roles.
_of_credential = select(ApplicationCredentialRole.role_id).where(
    ApplicationCredentialRole.credential_id == bindparam("id")
)
_of_trust = select(TrustRole.role_id).where(TrustRole.trust_id == bindparam("id"))
_of_access = select(OAuthAccessRole.role_id).where(OAuthAccessRole.token_id == bindparam("id"))


def _user(conn: Connection, user_id: str) -> tuple[UserRef, int]:
    """The user, and the epoch."""
    row = conn.execute(_user_by_id, {"id": user_id}).first()
    if row is None:
        raise invalid()
    name, domain_id, password_expires_at, domain_name, value = row
    return UserRef(user_id, name, DomainRef(domain_id, domain_name), password_expires_at), value or 0


def _project(conn: Connection, project_id: str) -> ProjectRef:
    row = conn.execute(_project_by_id, {"id": project_id}).first()
    if row is None:
        raise invalid()
    name, domain_id, domain_name = row
    return ProjectRef(project_id, name, DomainRef(domain_id, domain_name))


def _domain(conn: Connection, domain_id: str) -> DomainRef:
    name = conn.scalar(_domain_by_id, {"id": domain_id})
    if name is None:
        raise invalid()
    return DomainRef(domain_id, name)


def _credential(conn: Connection, token: Token, now: datetime) -> CredentialRef:
    row = conn.execute(_credential_by_id, {"id": token.delegation_id}).first()
    if row is None or row.project_id != token.scope.id or (row.expires_at is not None and row.expires_at <= now):
        raise invalid()
    if row.user_id != token.user_id:
        raise invalid()
    rules = rules_of(conn, row.id) if row.has_access_rules else None
    return CredentialRef(row.id, row.name, row.unrestricted, rules, row.expires_at)


def rules_of(conn: Connection, credential_id: str) -> tuple[AccessRule, ...]:
    """The access rules of an application credential, oldest first."""
    found = conn.execute(_rules, {"id": credential_id})
    return tuple(AccessRule(rule.id, rule.service, rule.method, rule.path) for rule in found)


def _trust(conn: Connection, token: Token, now: datetime) -> TrustRef:
    row = conn.execute(_trust_by_id, {"id": token.delegation_id}).first()
    if row is None or row.project_id != token.scope.id or (row.expires_at is not None and row.expires_at <= now):
        raise invalid()
    trustor, trustee = _user(conn, row.trustor_user_id)[0], _user(conn, row.trustee_user_id)[0]
    if token.user_id != (trustor.id if row.impersonation else trustee.id):
        raise invalid()
    return TrustRef(row.id, row.impersonation, trustor, trustee, row.expires_at, row.redelegated_trust_id or "")


def _access(conn: Connection, token: Token, now: datetime) -> AccessRef:
    row = conn.execute(_access_by_id, {"id": token.delegation_id}).first()
    if row is None or row.project_id != token.scope.id or (row.expires_at is not None and row.expires_at <= now):
        raise invalid()
    if row.user_id != token.user_id:
        raise invalid()
    return AccessRef(row.id, row.consumer_id, row.expires_at)


def _restricted(conn: Connection, query: Select[str], id: str, held: tuple[RoleRef, ...]) -> tuple[RoleRef, ...]:
    """The delegated roles and those they imply; every delegated role must still be held."""
    given = set(conn.scalars(query, {"id": id}))
    if not given <= {role.id for role in held}:
        raise invalid()
    allowed = effective.closure(conn, given)
    return tuple(role for role in held if role.id in allowed)


def _within(conn: Connection, trust_id: str, token: Token, roles: tuple[RoleRef, ...]) -> tuple[RoleRef, ...]:
    """The roles that `trust_id` and every trust it was made from still give.

    Raises Unauthorized if one is gone, or what revokes the tokens of one of its people has revoked this one.
    """
    while trust_id:
        row = conn.execute(_trust_by_id, {"id": trust_id}).first()
        if row is None:
            raise invalid()
        people = [_user(conn, user_id)[0] for user_id in (row.trustor_user_id, row.trustee_user_id)]
        if revocation.is_revoked(conn, token, [each.id for each in people], [each.domain.id for each in people]):
            raise invalid()
        given = _restricted(conn, _of_trust, row.id, effective.roles_on(conn, row.trustor_user_id, token.scope))
        roles = tuple(role for role in roles if role in given)
        trust_id = row.redelegated_trust_id or ""
    return roles
