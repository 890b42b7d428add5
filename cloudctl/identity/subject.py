"""What a token stands for: its user, scope, roles and delegation, read from the database each time.

The same reading decides whether a token may be issued and whether it is still valid: everything must exist, be enabled,
and grant a role; and nothing may have revoked it. Reference: identity.md, «What revokes tokens».
"""

from __future__ import annotations

from datetime import datetime

from attrs import frozen
from sqlalchemy import Select, select

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import Unauthorized
from cloudctl.identity import effective, revocation
from cloudctl.identity.effective import Role
from cloudctl.identity.payload import Delegation, Scope, ScopeKind, Token
from cloudctl.identity.tables import (
    AccessRule as AccessRuleRecord,
)
from cloudctl.identity.tables import (
    ApplicationCredential,
    ApplicationCredentialRole,
    ApplicationCredentialRule,
    OAuthAccessRole,
    OAuthAccessToken,
    TrustRole,
)
from cloudctl.identity.tables import (
    Project as ProjectRecord,
)
from cloudctl.identity.tables import (
    Trust as TrustRecord,
)
from cloudctl.identity.tables import (
    User as UserRecord,
)
from cloudctl.rest.faults import UNAUTHENTICATED
from cloudctl.rest.identity import AccessRule, Identity


@frozen
class Domain:
    id: str
    name: str


@frozen
class User:
    id: str
    name: str
    domain: Domain
    password_expires_at: datetime | None


@frozen
class Project:
    id: str
    name: str
    domain: Domain


@frozen
class Credential:
    """The application credential of a token. `access_rules` None: it may be used for every call."""

    id: str
    name: str
    unrestricted: bool
    access_rules: tuple[AccessRule, ...] | None
    expires_at: datetime | None


@frozen
class Trust:
    """The trust of a token. Its roles are what the trustor still has of them."""

    id: str
    impersonation: bool
    trustor: User
    trustee: User
    expires_at: datetime | None


@frozen
class Access:
    """The OAuth access token of a token."""

    id: str
    consumer_id: str
    expires_at: datetime | None


@frozen
class Subject:
    """A valid token, complete."""

    token: Token
    user: User
    project: Project | None
    domain: Domain | None
    roles: tuple[Role, ...]
    credential: Credential | None = None
    trust: Trust | None = None
    access: Access | None = None

    @property
    def ends_at(self) -> datetime:
        """When it, or what it was made from, expires."""
        times = [utc(self.token.expires_at)]
        origins = (self.credential, self.trust, self.access)
        times += [made.expires_at for made in origins if made is not None and made.expires_at]
        return min(times)

    @property
    def identity(self) -> Identity:
        """What the services see of it."""
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
            restricted=credential is not None and not credential.unrestricted,
            access_rules=credential.access_rules if credential else None,
        )


def read(conn: Connection, token: Token, now: datetime, expired_for: float = 0) -> Subject:
    """The subject of a token that expired at most `expired_for` seconds ago. Raises Unauthorized if it is not valid."""
    if (now - utc(token.expires_at)).total_seconds() >= expired_for:
        raise invalid()
    user = _user(conn, token.user_id)
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
    roles: tuple[Role, ...] = ()
    if token.scope.kind is not ScopeKind.UNSCOPED:
        roles = effective.roles_on(conn, trust.trustor.id if trust else user.id, token.scope)
    credential = None
    if token.delegation is Delegation.APPLICATION_CREDENTIAL:
        credential = _credential(conn, token, now)
        table = ApplicationCredentialRole.table.c
        roles = _restricted(conn, select(table.role_id).where(table.credential_id == credential.id), roles)
    if trust is not None:
        given = select(TrustRole.role_id).where(TrustRole.trust_id == trust.id)
        roles = _restricted(conn, given, roles)
    access = None
    if token.delegation is Delegation.OAUTH:
        access = _access(conn, token, now)
        given = select(OAuthAccessRole.role_id).where(OAuthAccessRole.token_id == access.id)
        roles = _restricted(conn, given, roles)
    if token.scope.kind is not ScopeKind.UNSCOPED and not roles:
        raise invalid()
    return Subject(token, user, project, domain, roles, credential, trust, access)


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


def _user(conn: Connection, user_id: str) -> User:
    columns = (UserRecord.name, UserRecord.domain_id, UserRecord.enabled, UserRecord.password_expires_at)
    row = conn.execute(select(*columns).where(UserRecord.id == user_id)).first()
    if row is None or not row.enabled:
        raise invalid()
    return User(user_id, row.name, _domain(conn, row.domain_id), row.password_expires_at)


def _project(conn: Connection, project_id: str) -> Project:
    columns = (ProjectRecord.name, ProjectRecord.domain_id, ProjectRecord.enabled, ProjectRecord.is_domain)
    row = conn.execute(select(*columns).where(ProjectRecord.id == project_id)).first()
    if row is None or not row.enabled or row.is_domain:
        raise invalid()
    return Project(project_id, row.name, _domain(conn, row.domain_id))


def _domain(conn: Connection, domain_id: str) -> Domain:
    query = select(ProjectRecord.name, ProjectRecord.enabled).where(
        ProjectRecord.id == domain_id, ProjectRecord.is_domain
    )
    row = conn.execute(query).first()
    if row is None or not row.enabled:
        raise invalid()
    return Domain(domain_id, row.name)


def _credential(conn: Connection, token: Token, now: datetime) -> Credential:
    table = ApplicationCredential.table.c
    row = conn.execute(select(ApplicationCredential).where(table.id == token.delegation_id)).first()
    if row is None or row.project_id != token.scope.id or (row.expires_at is not None and row.expires_at <= now):
        raise invalid()
    rules = rules_of(conn, row.id) if row.has_access_rules else None
    return Credential(row.id, row.name, row.unrestricted, rules, row.expires_at)


def rules_of(conn: Connection, credential_id: str) -> tuple[AccessRule, ...]:
    """The access rules of an application credential, oldest first."""
    query = (
        select(AccessRuleRecord.id, AccessRuleRecord.service, AccessRuleRecord.method, AccessRuleRecord.path)
        .join(ApplicationCredentialRule, ApplicationCredentialRule.rule_id == AccessRuleRecord.id)
        .where(ApplicationCredentialRule.credential_id == credential_id)
        .order_by(AccessRuleRecord.created_at, AccessRuleRecord.id)
    )
    return tuple(AccessRule(row.id, row.service, row.method, row.path) for row in conn.execute(query))


def _trust(conn: Connection, token: Token, now: datetime) -> Trust:
    row = conn.execute(select(TrustRecord).where(TrustRecord.id == token.delegation_id)).first()
    if row is None or row.project_id != token.scope.id or (row.expires_at is not None and row.expires_at <= now):
        raise invalid()
    trustor, trustee = _user(conn, row.trustor_user_id), _user(conn, row.trustee_user_id)
    if token.user_id != (trustor.id if row.impersonation else trustee.id):
        raise invalid()
    return Trust(row.id, row.impersonation, trustor, trustee, row.expires_at)


def _access(conn: Connection, token: Token, now: datetime) -> Access:
    row = conn.execute(select(OAuthAccessToken).where(OAuthAccessToken.id == token.delegation_id)).first()
    if row is None or row.project_id != token.scope.id or (row.expires_at is not None and row.expires_at <= now):
        raise invalid()
    if row.user_id != token.user_id:
        raise invalid()
    return Access(row.id, row.consumer_id, row.expires_at)


def _restricted(conn: Connection, query: Select[str], held: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles that were delegated and those they imply; all of them must still be held."""
    given = set(conn.execute(query).scalars())
    if not given <= {role.id for role in held}:
        raise invalid()
    allowed = effective.closure(conn, given)
    return tuple(role for role in held if role.id in allowed)
