"""What is deleted along with a user, group, project or role. Reference: identity.md, «What revokes tokens»."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, select, update

from cloudctl.db import Connection
from cloudctl.identity import epoch
from cloudctl.identity.federation_tables import FederationProtocol, IdentityProvider, RemoteId
from cloudctl.identity.tables import (
    AccessRule,
    ApplicationCredential,
    ApplicationCredentialRole,
    ApplicationCredentialRule,
    Assignment,
    Credential,
    DomainOption,
    ImpliedRole,
    Membership,
    OAuthAccessRole,
    OAuthAccessToken,
    OAuthRequestToken,
    PasswordHistory,
    ProjectEndpoint,
    ProjectEndpointGroup,
    ProjectLimit,
    ProjectTag,
    Trust,
    TrustRole,
    User,
)


def of_user(conn: Connection, user_id: str) -> None:
    """Grants, memberships, credentials of every kind, and trusts; the tokens end with the user."""
    conn.execute(delete(Assignment).where(Assignment.actor_kind == "user", Assignment.actor_id == user_id))
    conn.execute(delete(Membership).where(Membership.user_id == user_id))
    conn.execute(delete(PasswordHistory).where(PasswordHistory.user_id == user_id))
    conn.execute(delete(Credential).where(Credential.user_id == user_id))
    delete_application_credentials(conn, ApplicationCredential.user_id == user_id)
    conn.execute(delete(AccessRule).where(AccessRule.user_id == user_id))
    conn.execute(delete(OAuthRequestToken).where(OAuthRequestToken.user_id == user_id))
    delete_access_tokens(conn, OAuthAccessToken.user_id == user_id)
    delete_trusts(conn, (Trust.trustor_user_id == user_id) | (Trust.trustee_user_id == user_id))
    epoch.changed(conn)


def of_group(conn: Connection, group_id: str) -> list[str]:
    """Grants and memberships. Returns the ids of the users that were in it."""
    members = list(conn.execute(select(Membership.user_id).where(Membership.group_id == group_id)).scalars())
    conn.execute(delete(Assignment).where(Assignment.actor_kind == "group", Assignment.actor_id == group_id))
    conn.execute(delete(Membership).where(Membership.group_id == group_id))
    epoch.changed(conn)
    return members


def of_project(conn: Connection, project_id: str) -> None:
    """Grants, tags, limits, and credentials that are for this project only. A domain is a project here."""
    on_it = (Assignment.target_kind.in_(["project", "domain"]), Assignment.target_id == project_id)
    conn.execute(delete(Assignment).where(*on_it))
    conn.execute(delete(ProjectTag).where(ProjectTag.project_id == project_id))
    conn.execute(
        delete(ProjectLimit).where((ProjectLimit.project_id == project_id) | (ProjectLimit.domain_id == project_id))
    )
    conn.execute(delete(Credential).where(Credential.project_id == project_id))
    delete_application_credentials(conn, ApplicationCredential.project_id == project_id)
    delete_trusts(conn, Trust.project_id == project_id)
    conn.execute(delete(OAuthRequestToken).where(OAuthRequestToken.project_id == project_id))
    delete_access_tokens(conn, OAuthAccessToken.project_id == project_id)
    for table in (ProjectEndpoint.table, ProjectEndpointGroup.table):
        conn.execute(delete(table).where(table.c.project_id == project_id))
    conn.execute(update(User).where(User.default_project_id == project_id).values(default_project_id=None))
    epoch.changed(conn)


def of_domain(conn: Connection, domain_id: str) -> None:
    """Its configuration, and the identity providers whose users it would hold. The rest of it is deleted one by one."""
    conn.execute(delete(DomainOption).where(DomainOption.domain_id == domain_id))
    which = IdentityProvider.domain_id == domain_id
    delete_identity_providers(conn, which)


def delete_identity_providers(conn: Connection, which: ColumnElement[bool]) -> None:
    """With their protocols and remote ids."""
    ids = list(conn.execute(select(IdentityProvider.id).where(which)).scalars())
    if ids:
        conn.execute(delete(FederationProtocol).where(FederationProtocol.provider_id.in_(ids)))
        conn.execute(delete(RemoteId).where(RemoteId.provider_id.in_(ids)))
        conn.execute(delete(IdentityProvider).where(IdentityProvider.id.in_(ids)))


def of_role(conn: Connection, role_id: str) -> None:
    """Grants and implications, and the credentials and trusts that hold it."""
    conn.execute(delete(Assignment).where(Assignment.role_id == role_id))
    conn.execute(delete(ImpliedRole).where((ImpliedRole.prior_id == role_id) | (ImpliedRole.implied_id == role_id)))
    holding = select(ApplicationCredentialRole.credential_id).where(ApplicationCredentialRole.role_id == role_id)
    delete_application_credentials(conn, ApplicationCredential.id.in_(holding))
    delete_trusts(conn, Trust.id.in_(select(TrustRole.trust_id).where(TrustRole.role_id == role_id)))
    given = select(OAuthAccessRole.token_id).where(OAuthAccessRole.role_id == role_id)
    delete_access_tokens(conn, OAuthAccessToken.id.in_(given))
    epoch.changed(conn)


def delete_application_credentials(conn: Connection, which: ColumnElement[bool]) -> None:
    ids = list(conn.execute(select(ApplicationCredential.id).where(which)).scalars())
    if not ids:
        return
    for table in (ApplicationCredentialRole.table, ApplicationCredentialRule.table):
        conn.execute(delete(table).where(table.c.credential_id.in_(ids)))
    conn.execute(delete(Credential).where(Credential.application_credential_id.in_(ids)))
    conn.execute(delete(ApplicationCredential).where(ApplicationCredential.id.in_(ids)))
    epoch.changed(conn)


def delete_trusts(conn: Connection, which: ColumnElement[bool]) -> None:
    """With those that were made from them."""
    ids = list(conn.execute(select(Trust.id).where(which)).scalars())
    if not ids:
        return
    conn.execute(delete(TrustRole).where(TrustRole.trust_id.in_(ids)))
    conn.execute(delete(Credential).where(Credential.trust_id.in_(ids)))
    conn.execute(delete(Trust).where(Trust.id.in_(ids)))
    delete_trusts(conn, Trust.redelegated_trust_id.in_(ids))
    epoch.changed(conn)


def delete_access_tokens(conn: Connection, which: ColumnElement[bool]) -> None:
    """OAuth access tokens; the tokens that were made from them end."""
    ids = list(conn.execute(select(OAuthAccessToken.id).where(which)).scalars())
    if not ids:
        return
    conn.execute(delete(OAuthAccessRole).where(OAuthAccessRole.token_id.in_(ids)))
    conn.execute(delete(OAuthAccessToken).where(OAuthAccessToken.id.in_(ids)))
    epoch.changed(conn)
