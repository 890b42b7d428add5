"""What goes with a deleted user, group, project or role. Reference: identity.md, «What revokes tokens»."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, select, update

from cloudctl.identity import epoch
from cloudctl.identity.federation_tables import identity_providers, protocols, remote_ids
from cloudctl.identity.tables import (
    access_rules,
    application_credential_roles,
    application_credential_rules,
    application_credentials,
    assignments,
    credentials,
    domain_options,
    implied_roles,
    limits,
    memberships,
    oauth_access_roles,
    oauth_access_tokens,
    oauth_request_tokens,
    password_history,
    project_endpoint_groups,
    project_endpoints,
    project_tags,
    trust_roles,
    trusts,
    users,
)


def of_user(conn: Connection, user_id: str) -> None:
    """Grants, memberships, credentials of every kind, and trusts; the tokens end with the user."""
    conn.execute(delete(assignments).where(assignments.c.actor_kind == "user", assignments.c.actor_id == user_id))
    conn.execute(delete(memberships).where(memberships.c.user_id == user_id))
    conn.execute(delete(password_history).where(password_history.c.user_id == user_id))
    conn.execute(delete(credentials).where(credentials.c.user_id == user_id))
    delete_application_credentials(conn, application_credentials.c.user_id == user_id)
    conn.execute(delete(access_rules).where(access_rules.c.user_id == user_id))
    conn.execute(delete(oauth_request_tokens).where(oauth_request_tokens.c.user_id == user_id))
    delete_access_tokens(conn, oauth_access_tokens.c.user_id == user_id)
    delete_trusts(conn, (trusts.c.trustor_user_id == user_id) | (trusts.c.trustee_user_id == user_id))
    epoch.changed(conn)


def of_group(conn: Connection, group_id: str) -> list[str]:
    """Grants and memberships. The ids of the users that were in it."""
    members = list(conn.execute(select(memberships.c.user_id).where(memberships.c.group_id == group_id)).scalars())
    conn.execute(delete(assignments).where(assignments.c.actor_kind == "group", assignments.c.actor_id == group_id))
    conn.execute(delete(memberships).where(memberships.c.group_id == group_id))
    epoch.changed(conn)
    return members


def of_project(conn: Connection, project_id: str) -> None:
    """Grants, tags, limits, and credentials that are for this project only. A domain is a project here."""
    on_it = (assignments.c.target_kind.in_(["project", "domain"]), assignments.c.target_id == project_id)
    conn.execute(delete(assignments).where(*on_it))
    conn.execute(delete(project_tags).where(project_tags.c.project_id == project_id))
    conn.execute(delete(limits).where((limits.c.project_id == project_id) | (limits.c.domain_id == project_id)))
    conn.execute(delete(credentials).where(credentials.c.project_id == project_id))
    delete_application_credentials(conn, application_credentials.c.project_id == project_id)
    delete_trusts(conn, trusts.c.project_id == project_id)
    conn.execute(delete(oauth_request_tokens).where(oauth_request_tokens.c.project_id == project_id))
    delete_access_tokens(conn, oauth_access_tokens.c.project_id == project_id)
    for table in (project_endpoints, project_endpoint_groups):
        conn.execute(delete(table).where(table.c.project_id == project_id))
    conn.execute(update(users).where(users.c.default_project_id == project_id).values(default_project_id=None))
    epoch.changed(conn)


def of_domain(conn: Connection, domain_id: str) -> None:
    """Its configuration, and the identity providers whose users it would hold. The rest of it goes one by one."""
    conn.execute(delete(domain_options).where(domain_options.c.domain_id == domain_id))
    which = identity_providers.c.domain_id == domain_id
    delete_identity_providers(conn, which)


def delete_identity_providers(conn: Connection, which: ColumnElement[bool]) -> None:
    """With their protocols and remote ids."""
    ids = list(conn.execute(select(identity_providers.c.id).where(which)).scalars())
    if ids:
        conn.execute(delete(protocols).where(protocols.c.provider_id.in_(ids)))
        conn.execute(delete(remote_ids).where(remote_ids.c.provider_id.in_(ids)))
        conn.execute(delete(identity_providers).where(identity_providers.c.id.in_(ids)))


def of_role(conn: Connection, role_id: str) -> None:
    """Grants and implications, and the credentials and trusts that hold it."""
    conn.execute(delete(assignments).where(assignments.c.role_id == role_id))
    conn.execute(
        delete(implied_roles).where((implied_roles.c.prior_id == role_id) | (implied_roles.c.implied_id == role_id))
    )
    holding = select(application_credential_roles.c.credential_id).where(
        application_credential_roles.c.role_id == role_id
    )
    delete_application_credentials(conn, application_credentials.c.id.in_(holding))
    delete_trusts(conn, trusts.c.id.in_(select(trust_roles.c.trust_id).where(trust_roles.c.role_id == role_id)))
    given = select(oauth_access_roles.c.token_id).where(oauth_access_roles.c.role_id == role_id)
    delete_access_tokens(conn, oauth_access_tokens.c.id.in_(given))
    epoch.changed(conn)


def delete_application_credentials(conn: Connection, which: ColumnElement[bool]) -> None:
    ids = list(conn.execute(select(application_credentials.c.id).where(which)).scalars())
    if not ids:
        return
    for table in (application_credential_roles, application_credential_rules):
        conn.execute(delete(table).where(table.c.credential_id.in_(ids)))
    conn.execute(delete(credentials).where(credentials.c.application_credential_id.in_(ids)))
    conn.execute(delete(application_credentials).where(application_credentials.c.id.in_(ids)))
    epoch.changed(conn)


def delete_trusts(conn: Connection, which: ColumnElement[bool]) -> None:
    """With those that were made from them."""
    ids = list(conn.execute(select(trusts.c.id).where(which)).scalars())
    if not ids:
        return
    conn.execute(delete(trust_roles).where(trust_roles.c.trust_id.in_(ids)))
    conn.execute(delete(credentials).where(credentials.c.trust_id.in_(ids)))
    conn.execute(delete(trusts).where(trusts.c.id.in_(ids)))
    delete_trusts(conn, trusts.c.redelegated_trust_id.in_(ids))
    epoch.changed(conn)


def delete_access_tokens(conn: Connection, which: ColumnElement[bool]) -> None:
    """OAuth access tokens; the tokens that were made from them end."""
    ids = list(conn.execute(select(oauth_access_tokens.c.id).where(which)).scalars())
    if not ids:
        return
    conn.execute(delete(oauth_access_roles).where(oauth_access_roles.c.token_id.in_(ids)))
    conn.execute(delete(oauth_access_tokens).where(oauth_access_tokens.c.id.in_(ids)))
    epoch.changed(conn)
