"""Tables of identity. Times are naive UTC.

`name_key` holds the case-folded name: names are unique and looked up without regard to case.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from cloudctl.db.columns import flag, identifier, json, metadata, optional_text, text, time

KEY_LENGTH = 1024  # folding may triple a text

# One row. Raised in the transaction of every change that can affect a token; see epoch.py.
epochs = Table(
    "identity_epoch",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# A domain is a row with `is_domain`; its own domain_id is empty, so that names of domains are unique too.
projects = Table(
    "identity_projects",
    metadata,
    identifier(),
    text("name", 64),
    text("name_key", KEY_LENGTH),
    text("domain_id", 64),
    text("parent_id", 64),
    flag("is_domain", False),
    flag("enabled", True),
    optional_text("description", 65_536),
    json("options", dict),
    json("extra", dict),
    time("created_at", nullable=False),
    UniqueConstraint("domain_id", "name_key"),
    Index("ix_identity_projects_order", "created_at", "id"),
    Index("ix_identity_projects_domain_order", "domain_id", "created_at", "id"),
    Index("ix_identity_projects_parent_id", "parent_id", "id"),
    Index("ix_identity_projects_name_key", "name_key"),
)

# What clients wrote as a domain's configuration; `value` is JSON, sealed with the credential keys.
domain_options = Table(
    "identity_domain_options",
    metadata,
    Column("domain_id", String(64), primary_key=True),
    Column("group", String(64), primary_key=True),
    Column("option", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

project_tags = Table(
    "identity_project_tags",
    metadata,
    Column("project_id", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Index("ix_identity_project_tags_name", "name"),
)

users = Table(
    "identity_users",
    metadata,
    identifier(),
    text("name"),
    text("name_key", KEY_LENGTH),
    text("domain_id", 64),
    flag("enabled", True),
    optional_text("default_project_id", 64),
    optional_text("description", 65_536),
    optional_text("password_hash"),
    time("password_changed_at"),
    time("password_expires_at"),
    Column("failures", Integer, nullable=False, default=0),
    time("failed_at"),
    time("active_at"),
    json("options", dict),
    json("federated", list),
    json("extra", dict),
    time("created_at", nullable=False),
    UniqueConstraint("domain_id", "name_key"),
    Index("ix_identity_users_order", "created_at", "id"),
    Index("ix_identity_users_domain_order", "domain_id", "created_at", "id"),
    Index("ix_identity_users_name_key", "name_key"),
    Index("ix_identity_users_default_project_id", "default_project_id"),
)

# Hashes of passwords that were in use before; only kept while they may not be used again.
password_history = Table(
    "identity_password_history",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    text("user_id", 64),
    text("password_hash"),
    Index("ix_identity_password_history_user_id", "user_id", "id"),
)

groups = Table(
    "identity_groups",
    metadata,
    identifier(),
    text("name"),
    text("name_key", KEY_LENGTH),
    text("domain_id", 64),
    optional_text("description", 65_536),
    json("extra", dict),
    time("created_at", nullable=False),
    UniqueConstraint("domain_id", "name_key"),
    Index("ix_identity_groups_order", "created_at", "id"),
    Index("ix_identity_groups_domain_order", "domain_id", "created_at", "id"),
    Index("ix_identity_groups_name_key", "name_key"),
)

memberships = Table(
    "identity_memberships",
    metadata,
    Column("group_id", String(64), primary_key=True),
    Column("user_id", String(64), primary_key=True),
    Index("ix_identity_memberships_user_id", "user_id"),
)

# domain_id is empty for a role of the whole cloud.
roles = Table(
    "identity_roles",
    metadata,
    identifier(),
    text("name"),
    text("name_key", KEY_LENGTH),
    text("domain_id", 64),
    optional_text("description", 65_536),
    json("options", dict),
    json("extra", dict),
    time("created_at", nullable=False),
    UniqueConstraint("domain_id", "name_key"),
    Index("ix_identity_roles_order", "created_at", "id"),
    Index("ix_identity_roles_name_key", "name_key"),
)

implied_roles = Table(
    "identity_implied_roles",
    metadata,
    Column("prior_id", String(64), primary_key=True),
    Column("implied_id", String(64), primary_key=True),
    Index("ix_identity_implied_roles_implied_id", "implied_id"),
)

# actor_kind: user or group. target_kind: project, domain or system (then target_id is "system").
# `inherited`: it holds for the projects below the target, not for the target itself.
assignments = Table(
    "identity_assignments",
    metadata,
    Column("actor_id", String(64), primary_key=True),
    Column("target_id", String(64), primary_key=True),
    Column("role_id", String(64), primary_key=True),
    Column("actor_kind", String(8), primary_key=True),
    Column("target_kind", String(8), primary_key=True),
    Column("inherited", Integer, primary_key=True, autoincrement=False),
    Index("ix_identity_assignments_target", "target_kind", "target_id"),
    Index("ix_identity_assignments_role_id", "role_id"),
)

regions = Table(
    "identity_regions",
    metadata,
    Column("id", String(255), primary_key=True),
    text("description", 65_536),
    optional_text("parent_region_id"),
    json("extra", dict),
    time("created_at", nullable=False),
    Index("ix_identity_regions_order", "created_at", "id"),
    Index("ix_identity_regions_parent_region_id", "parent_region_id"),
)

services = Table(
    "identity_services",
    metadata,
    identifier(),
    text("type"),
    text("name"),
    optional_text("description", 65_536),
    flag("enabled", True),
    json("extra", dict),
    time("created_at", nullable=False),
    Index("ix_identity_services_order", "created_at", "id"),
)

endpoints = Table(
    "identity_endpoints",
    metadata,
    identifier(),
    text("service_id", 64),
    text("interface", 16),
    text("url", 4096),
    optional_text("region_id"),
    flag("enabled", True),
    json("extra", dict),
    time("created_at", nullable=False),
    Index("ix_identity_endpoints_order", "created_at", "id"),
    Index("ix_identity_endpoints_service_id", "service_id"),
    Index("ix_identity_endpoints_region_id", "region_id"),
)

# A project with any of these sees only the endpoints that are named, directly or by a group; others see all.
project_endpoints = Table(
    "identity_project_endpoints",
    metadata,
    Column("project_id", String(64), primary_key=True),
    Column("endpoint_id", String(64), primary_key=True),
    Index("ix_identity_project_endpoints_endpoint_id", "endpoint_id"),
)

# `filters`: service_id, region_id, interface, enabled; an endpoint that meets all of them is in the group.
endpoint_groups = Table(
    "identity_endpoint_groups",
    metadata,
    identifier(),
    text("name"),
    optional_text("description", 65_536),
    json("filters", dict),
    time("created_at", nullable=False),
    Index("ix_identity_endpoint_groups_order", "created_at", "id"),
)

project_endpoint_groups = Table(
    "identity_project_endpoint_groups",
    metadata,
    Column("project_id", String(64), primary_key=True),
    Column("group_id", String(64), primary_key=True),
    Index("ix_identity_project_endpoint_groups_group_id", "group_id"),
)

application_credentials = Table(
    "identity_application_credentials",
    metadata,
    identifier(),
    text("user_id", 64),
    text("project_id", 64),
    text("name"),
    text("name_key", KEY_LENGTH),
    text("secret_hash"),
    optional_text("description", 65_536),
    time("expires_at"),
    flag("unrestricted", False),
    # No rules at all and an empty list of rules differ: the list then matches nothing.
    flag("has_access_rules", False),
    time("created_at", nullable=False),
    UniqueConstraint("user_id", "name_key"),
    Index("ix_identity_application_credentials_order", "user_id", "created_at", "id"),
    Index("ix_identity_application_credentials_project_id", "project_id"),
)

application_credential_roles = Table(
    "identity_application_credential_roles",
    metadata,
    Column("credential_id", String(64), primary_key=True),
    Column("role_id", String(64), primary_key=True),
    Index("ix_identity_application_credential_roles_role_id", "role_id"),
)

access_rules = Table(
    "identity_access_rules",
    metadata,
    identifier(),
    text("user_id", 64),
    text("service"),
    text("method", 16),
    text("path"),
    time("created_at", nullable=False),
    Index("ix_identity_access_rules_order", "user_id", "created_at", "id"),
)

application_credential_rules = Table(
    "identity_application_credential_rules",
    metadata,
    Column("credential_id", String(64), primary_key=True),
    Column("rule_id", String(64), primary_key=True),
    Index("ix_identity_application_credential_rules_rule_id", "rule_id"),
)

# `epoch`: the value that the revoking transaction raised identity_epoch to. `domain_id`: of the user or of the
# project; `domain_scope_id`: the token's scope. `expires_at`: of the one token that was revoked.
revocations = Table(
    "identity_revocations",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("epoch", BigInteger, nullable=False),
    optional_text("audit_id", 32),
    optional_text("audit_chain_id", 32),
    optional_text("user_id", 64),
    optional_text("project_id", 64),
    optional_text("domain_id", 64),
    optional_text("domain_scope_id", 64),
    time("issued_before"),
    time("expires_at"),
    time("revoked_at", nullable=False),
    Index("ix_identity_revocations_audit_id", "audit_id"),
    Index("ix_identity_revocations_audit_chain_id", "audit_chain_id"),
    Index("ix_identity_revocations_user_id", "user_id", "epoch"),
    Index("ix_identity_revocations_project_id", "project_id", "epoch"),
    Index("ix_identity_revocations_domain_id", "domain_id", "epoch"),
    Index("ix_identity_revocations_domain_scope_id", "domain_scope_id", "epoch"),
    Index("ix_identity_revocations_revoked_at", "revoked_at"),
)

# `blob` is sealed with the credential keys.
credentials = Table(
    "identity_credentials",
    metadata,
    identifier(),
    text("user_id", 64),
    optional_text("project_id", 64),
    text("type"),
    Column("blob", LargeBinary, nullable=False),
    # SHA-256 of the access key of an ec2 credential, by which it is found.
    optional_text("access_hash", 64),
    # Of an ec2 credential that a delegated token made, so that it never reaches further than that token.
    optional_text("application_credential_id", 64),
    optional_text("trust_id", 64),
    # Of a totp credential: the half minute since the epoch whose passcode was taken last.
    Column("totp_step", BigInteger),
    json("extra", dict),
    time("created_at", nullable=False),
    UniqueConstraint("access_hash"),
    Index("ix_identity_credentials_order", "created_at", "id"),
    Index("ix_identity_credentials_user_id", "user_id", "created_at", "id"),
    Index("ix_identity_credentials_project_id", "project_id"),
)

trusts = Table(
    "identity_trusts",
    metadata,
    identifier(),
    text("trustor_user_id", 64),
    text("trustee_user_id", 64),
    optional_text("project_id", 64),
    flag("impersonation", False),
    time("expires_at"),
    Column("remaining_uses", Integer),
    Column("redelegation_count", Integer, nullable=False, default=0),
    optional_text("redelegated_trust_id", 64),
    json("extra", dict),
    time("created_at", nullable=False),
    Index("ix_identity_trusts_order", "created_at", "id"),
    Index("ix_identity_trusts_trustor_user_id", "trustor_user_id"),
    Index("ix_identity_trusts_trustee_user_id", "trustee_user_id"),
    Index("ix_identity_trusts_project_id", "project_id"),
    Index("ix_identity_trusts_redelegated_trust_id", "redelegated_trust_id"),
)

trust_roles = Table(
    "identity_trust_roles",
    metadata,
    Column("trust_id", String(64), primary_key=True),
    Column("role_id", String(64), primary_key=True),
    Index("ix_identity_trust_roles_role_id", "role_id"),
)

# Secrets are sealed with the credential keys. A request token is authorized once it has a user.
oauth_consumers = Table(
    "identity_oauth_consumers",
    metadata,
    identifier(),
    optional_text("description", 65_536),
    Column("secret", LargeBinary, nullable=False),
    json("extra", dict),
    time("created_at", nullable=False),
    Index("ix_identity_oauth_consumers_order", "created_at", "id"),
)

oauth_request_tokens = Table(
    "identity_oauth_request_tokens",
    metadata,
    identifier(),
    text("consumer_id", 64),
    Column("secret", LargeBinary, nullable=False),
    text("project_id", 64),
    optional_text("user_id", 64),
    optional_text("verifier", 64),
    json("role_ids", list),
    time("expires_at"),
    time("created_at", nullable=False),
    Index("ix_identity_oauth_request_tokens_consumer_id", "consumer_id"),
    Index("ix_identity_oauth_request_tokens_expires_at", "expires_at"),
)

oauth_access_tokens = Table(
    "identity_oauth_access_tokens",
    metadata,
    identifier(),
    text("consumer_id", 64),
    Column("secret", LargeBinary, nullable=False),
    text("project_id", 64),
    text("user_id", 64),
    time("expires_at"),
    time("created_at", nullable=False),
    Index("ix_identity_oauth_access_tokens_order", "user_id", "created_at", "id"),
    Index("ix_identity_oauth_access_tokens_consumer_id", "consumer_id"),
    Index("ix_identity_oauth_access_tokens_project_id", "project_id"),
)

oauth_access_roles = Table(
    "identity_oauth_access_roles",
    metadata,
    Column("token_id", String(64), primary_key=True),
    Column("role_id", String(64), primary_key=True),
    Index("ix_identity_oauth_access_roles_role_id", "role_id"),
)

# Signed requests that were taken; `said_at` is the client's own time, in seconds since the epoch.
oauth_nonces = Table(
    "identity_oauth_nonces",
    metadata,
    Column("consumer_id", String(64), primary_key=True),
    Column("said_at", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", String(64), primary_key=True),
    Index("ix_identity_oauth_nonces_said_at", "said_at"),
)

policies = Table(
    "identity_policies",
    metadata,
    identifier(),
    text("type"),
    Column("blob", Text, nullable=False),
    json("extra", dict),
    time("created_at", nullable=False),
    Index("ix_identity_policies_order", "created_at", "id"),
)

# region_id is empty where there is none, so that a limit is unique.
registered_limits = Table(
    "identity_registered_limits",
    metadata,
    identifier(),
    text("service_id", 64),
    text("region_id"),
    text("resource_name"),
    Column("default_limit", Integer, nullable=False),
    optional_text("description", 65_536),
    time("created_at", nullable=False),
    UniqueConstraint("service_id", "region_id", "resource_name"),
    Index("ix_identity_registered_limits_order", "created_at", "id"),
)

limits = Table(
    "identity_limits",
    metadata,
    identifier(),
    text("registered_limit_id", 64),
    text("project_id", 64),
    text("domain_id", 64),
    Column("resource_limit", Integer, nullable=False),
    optional_text("description", 65_536),
    time("created_at", nullable=False),
    UniqueConstraint("registered_limit_id", "project_id", "domain_id"),
    Index("ix_identity_limits_order", "created_at", "id"),
    Index("ix_identity_limits_project_id", "project_id"),
    Index("ix_identity_limits_domain_id", "domain_id"),
)
