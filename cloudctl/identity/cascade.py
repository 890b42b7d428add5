"""What is deleted along with a user, group, project or role. Reference: identity.md, «What revokes tokens».

Callers raise the epoch last: all who raise it take turns, so nobody may hold it and then wait for a record.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, delete, or_, select, update

from cloudctl.db import Connection
from cloudctl.identity import effective, records
from cloudctl.identity.federation_tables import FederationProtocol, IdentityProvider, RemoteId
from cloudctl.identity.payload import Scope, ScopeKind
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


def of_group(conn: Connection, group_id: str) -> None:
    """Grants and memberships, and what its members lose with them."""
    members = list(conn.execute(select(Membership.user_id).where(Membership.group_id == group_id)).scalars())
    conn.execute(delete(Assignment).where(Assignment.actor_kind == "group", Assignment.actor_id == group_id))
    conn.execute(delete(Membership).where(Membership.group_id == group_id))
    drop_what_lost_its_roles(conn, members)


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
    losing = who_may_lose(conn, role_id, role_id)
    conn.execute(delete(Assignment).where(Assignment.role_id == role_id))
    conn.execute(delete(ImpliedRole).where((ImpliedRole.prior_id == role_id) | (ImpliedRole.implied_id == role_id)))
    holding = select(ApplicationCredentialRole.credential_id).where(ApplicationCredentialRole.role_id == role_id)
    delete_application_credentials(conn, ApplicationCredential.id.in_(holding))
    delete_trusts(conn, Trust.id.in_(select(TrustRole.trust_id).where(TrustRole.role_id == role_id)))
    given = select(OAuthAccessRole.token_id).where(OAuthAccessRole.role_id == role_id)
    delete_access_tokens(conn, OAuthAccessToken.id.in_(given))
    drop_what_lost_its_roles(conn, losing)


# -- application credentials end for good when a role of theirs is lost


def who_may_lose(conn: Connection, role_id: str, implied_id: str) -> list[str]:
    """The users with a credential that holds `implied_id`, or what it implies, who have been given `role_id`."""
    giving = sorted(effective.implying(conn, role_id))
    direct = select(Assignment.actor_id).where(Assignment.actor_kind == "user", Assignment.role_id.in_(giving))
    groups = select(Assignment.actor_id).where(Assignment.actor_kind == "group", Assignment.role_id.in_(giving))
    members = select(Membership.user_id).where(Membership.group_id.in_(groups))
    query = (
        select(ApplicationCredential.user_id)
        .join(ApplicationCredentialRole, ApplicationCredentialRole.credential_id == ApplicationCredential.id)
        .where(
            ApplicationCredentialRole.role_id.in_(sorted(effective.closure(conn, [implied_id]))),
            or_(ApplicationCredential.user_id.in_(direct), ApplicationCredential.user_id.in_(members)),
        )
    )
    return list(conn.execute(query.distinct()).scalars())


def drop_what_lost_its_roles(conn: Connection, user_ids: Iterable[str]) -> None:
    """Delete these users' application credentials that hold a role which their user no longer has there."""
    for user_id in sorted(user_ids):
        # One that is being made is waited for, and one that is made later is not given the role.
        records.find(conn, User, user_id, stays=True)
        mine = select(ApplicationCredential.id, ApplicationCredential.project_id).where(
            ApplicationCredential.user_id == user_id
        )
        for credential_id, project_id in conn.execute(mine).all():
            held = effective.roles_on(conn, user_id, Scope(ScopeKind.PROJECT, project_id))
            given = select(ApplicationCredentialRole.role_id).where(
                ApplicationCredentialRole.credential_id == credential_id
            )
            if not set(conn.execute(given).scalars()) <= {role.id for role in held}:
                delete_application_credentials(conn, ApplicationCredential.id == credential_id)


def delete_application_credentials(conn: Connection, which: ColumnElement[bool]) -> None:
    locked = select(ApplicationCredential.id).where(which).order_by(ApplicationCredential.id).with_for_update()
    ids = list(conn.execute(locked).scalars())
    if not ids:
        return
    for table in (ApplicationCredentialRole.table, ApplicationCredentialRule.table):
        conn.execute(delete(table).where(table.c.credential_id.in_(ids)))
    conn.execute(delete(Credential).where(Credential.application_credential_id.in_(ids)))
    conn.execute(delete(ApplicationCredential).where(ApplicationCredential.id.in_(ids)))


def delete_trusts(conn: Connection, which: ColumnElement[bool]) -> None:
    """With those that were made from them."""
    ids = list(conn.execute(select(Trust.id).where(which).order_by(Trust.id).with_for_update()).scalars())
    if not ids:
        return
    conn.execute(delete(TrustRole).where(TrustRole.trust_id.in_(ids)))
    conn.execute(delete(Credential).where(Credential.trust_id.in_(ids)))
    conn.execute(delete(Trust).where(Trust.id.in_(ids)))
    delete_trusts(conn, Trust.redelegated_trust_id.in_(ids))


def delete_access_tokens(conn: Connection, which: ColumnElement[bool]) -> None:
    """OAuth access tokens; the tokens that were made from them end."""
    locked = select(OAuthAccessToken.id).where(which).order_by(OAuthAccessToken.id).with_for_update()
    ids = list(conn.execute(locked).scalars())
    if not ids:
        return
    conn.execute(delete(OAuthAccessRole).where(OAuthAccessRole.token_id.in_(ids)))
    conn.execute(delete(OAuthAccessToken).where(OAuthAccessToken.id.in_(ids)))
