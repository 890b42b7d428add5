"""Tables of identity. Times are naive UTC.

`name_key` holds the case-folded name: names are unique and looked up without regard to case.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, Integer, LargeBinary, String, Text, UniqueConstraint

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record

KEY_LENGTH = 1024  # folding may triple a text


class Epoch(Record, table="identity_epoch"):
    """One row. Raised in the transaction of every change that can affect a token; see epoch.py."""

    id: Field[int] = column(Integer, primary_key=True)
    value: Field[int] = column(BigInteger)


class Project(Record, table="identity_projects"):
    """A domain is a row with `is_domain`; its own domain_id is empty, so that names of domains are unique too."""

    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text(64)
    name_key: Field[str] = text(KEY_LENGTH)
    domain_id: Field[str] = text(64)
    parent_id: Field[str] = text(64)
    is_domain: Field[bool] = flag(False)
    enabled: Field[bool] = flag(True)
    description: Field[str | None] = optional_text(65_536)
    options: Field[dict[str, Any]] = json(dict)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


UniqueConstraint(Project.domain_id, Project.name_key)
Index("ix_identity_projects_order", Project.created_at, Project.id)
Index("ix_identity_projects_domain_order", Project.domain_id, Project.created_at, Project.id)
Index("ix_identity_projects_parent_id", Project.parent_id, Project.id)
Index("ix_identity_projects_name_key", Project.name_key)


class DomainOption(Record, table="identity_domain_options"):
    """What clients wrote as a domain's configuration; `value` is JSON, sealed with the credential keys."""

    domain_id: Field[str] = column(String(64), primary_key=True)
    group: Field[str] = column(String(64), primary_key=True)
    option: Field[str] = column(String(64), primary_key=True)
    value: Field[bytes] = column(LargeBinary)


class ProjectTag(Record, table="identity_project_tags"):
    project_id: Field[str] = column(String(64), primary_key=True)
    name: Field[str] = column(String(255), primary_key=True)


Index("ix_identity_project_tags_name", ProjectTag.name)


class User(Record, table="identity_users"):
    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text()
    name_key: Field[str] = text(KEY_LENGTH)
    domain_id: Field[str] = text(64)
    enabled: Field[bool] = flag(True)
    default_project_id: Field[str | None] = optional_text(64)
    description: Field[str | None] = optional_text(65_536)
    password_hash: Field[str | None] = optional_text()
    password_changed_at: Field[datetime | None] = time()
    password_expires_at: Field[datetime | None] = time()
    failures: Field[int] = column(Integer, default=0)
    failed_at: Field[datetime | None] = time()
    active_at: Field[datetime | None] = time()
    options: Field[dict[str, Any]] = json(dict)
    federated: Field[list[Any]] = json(list)  # always empty, and written by earlier releases: see FederatedUser
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


UniqueConstraint(User.domain_id, User.name_key)
Index("ix_identity_users_order", User.created_at, User.id)
Index("ix_identity_users_domain_order", User.domain_id, User.created_at, User.id)
Index("ix_identity_users_name_key", User.name_key)
Index("ix_identity_users_default_project_id", User.default_project_id)


class PasswordHistory(Record, table="identity_password_history"):
    """Hashes of former passwords, kept only while they may not be used again."""

    id: Field[int] = column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
    user_id: Field[str] = text(64)
    password_hash: Field[str] = text()


Index("ix_identity_password_history_user_id", PasswordHistory.user_id, PasswordHistory.id)


class Group(Record, table="identity_groups"):
    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text()
    name_key: Field[str] = text(KEY_LENGTH)
    domain_id: Field[str] = text(64)
    description: Field[str | None] = optional_text(65_536)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


UniqueConstraint(Group.domain_id, Group.name_key)
Index("ix_identity_groups_order", Group.created_at, Group.id)
Index("ix_identity_groups_domain_order", Group.domain_id, Group.created_at, Group.id)
Index("ix_identity_groups_name_key", Group.name_key)


class Membership(Record, table="identity_memberships"):
    group_id: Field[str] = column(String(64), primary_key=True)
    user_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_memberships_user_id", Membership.user_id)


class Role(Record, table="identity_roles"):
    """domain_id is empty for a role of the whole cloud."""

    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text()
    name_key: Field[str] = text(KEY_LENGTH)
    domain_id: Field[str] = text(64)
    description: Field[str | None] = optional_text(65_536)
    options: Field[dict[str, Any]] = json(dict)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


UniqueConstraint(Role.domain_id, Role.name_key)
Index("ix_identity_roles_order", Role.created_at, Role.id)
Index("ix_identity_roles_name_key", Role.name_key)


class ImpliedRole(Record, table="identity_implied_roles"):
    prior_id: Field[str] = column(String(64), primary_key=True)
    implied_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_implied_roles_implied_id", ImpliedRole.implied_id)


class Assignment(Record, table="identity_assignments"):
    """actor_kind: user or group. target_kind: project, domain or system (then target_id is "system").
    `inherited`: it holds for the projects below the target, not for the target itself.
    """

    actor_id: Field[str] = column(String(64), primary_key=True)
    target_id: Field[str] = column(String(64), primary_key=True)
    role_id: Field[str] = column(String(64), primary_key=True)
    actor_kind: Field[str] = column(String(8), primary_key=True)
    target_kind: Field[str] = column(String(8), primary_key=True)
    inherited: Field[int] = column(Integer, primary_key=True, autoincrement=False)


Index("ix_identity_assignments_target", Assignment.target_kind, Assignment.target_id)
Index("ix_identity_assignments_role_id", Assignment.role_id)


class Region(Record, table="identity_regions"):
    id: Field[str] = column(String(255), primary_key=True)
    description: Field[str] = text(65_536)
    parent_region_id: Field[str | None] = optional_text()
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_regions_order", Region.created_at, Region.id)
Index("ix_identity_regions_parent_region_id", Region.parent_region_id)


class Service(Record, table="identity_services"):
    id: Field[str] = identifier(primary_key=True)
    type: Field[str] = text()
    name: Field[str] = text()
    description: Field[str | None] = optional_text(65_536)
    enabled: Field[bool] = flag(True)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_services_order", Service.created_at, Service.id)


class Endpoint(Record, table="identity_endpoints"):
    id: Field[str] = identifier(primary_key=True)
    service_id: Field[str] = text(64)
    interface: Field[str] = text(16)
    url: Field[str] = text(4096)
    region_id: Field[str | None] = optional_text()
    enabled: Field[bool] = flag(True)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_endpoints_order", Endpoint.created_at, Endpoint.id)
Index("ix_identity_endpoints_service_id", Endpoint.service_id)
Index("ix_identity_endpoints_region_id", Endpoint.region_id)


class ProjectEndpoint(Record, table="identity_project_endpoints"):
    """A project with any of these sees only the endpoints named, directly or through a group; others see all."""

    project_id: Field[str] = column(String(64), primary_key=True)
    endpoint_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_project_endpoints_endpoint_id", ProjectEndpoint.endpoint_id)


class EndpointGroup(Record, table="identity_endpoint_groups"):
    """`filters`: service_id, region_id, interface, enabled; an endpoint that meets all of them is in the group."""

    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text()
    description: Field[str | None] = optional_text(65_536)
    filters: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_endpoint_groups_order", EndpointGroup.created_at, EndpointGroup.id)


class ProjectEndpointGroup(Record, table="identity_project_endpoint_groups"):
    project_id: Field[str] = column(String(64), primary_key=True)
    group_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_project_endpoint_groups_group_id", ProjectEndpointGroup.group_id)


class ApplicationCredential(Record, table="identity_application_credentials"):
    id: Field[str] = identifier(primary_key=True)
    user_id: Field[str] = text(64)
    project_id: Field[str] = text(64)
    name: Field[str] = text()
    name_key: Field[str] = text(KEY_LENGTH)
    secret_hash: Field[str] = text()
    description: Field[str | None] = optional_text(65_536)
    expires_at: Field[datetime | None] = time()
    unrestricted: Field[bool] = flag(False)
    # No rules at all and an empty list of rules differ: an empty list matches nothing.
    has_access_rules: Field[bool] = flag(False)
    created_at: Field[datetime] = time()


UniqueConstraint(ApplicationCredential.user_id, ApplicationCredential.name_key)
Index(
    "ix_identity_application_credentials_order",
    ApplicationCredential.user_id,
    ApplicationCredential.created_at,
    ApplicationCredential.id,
)
Index("ix_identity_application_credentials_project_id", ApplicationCredential.project_id)


class ApplicationCredentialRole(Record, table="identity_application_credential_roles"):
    credential_id: Field[str] = column(String(64), primary_key=True)
    role_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_application_credential_roles_role_id", ApplicationCredentialRole.role_id)


class AccessRule(Record, table="identity_access_rules"):
    id: Field[str] = identifier(primary_key=True)
    user_id: Field[str] = text(64)
    service: Field[str] = text()
    method: Field[str] = text(16)
    path: Field[str] = text()
    created_at: Field[datetime] = time()


Index("ix_identity_access_rules_order", AccessRule.user_id, AccessRule.created_at, AccessRule.id)


class ApplicationCredentialRule(Record, table="identity_application_credential_rules"):
    credential_id: Field[str] = column(String(64), primary_key=True)
    rule_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_application_credential_rules_rule_id", ApplicationCredentialRule.rule_id)


class Revocation(Record, table="identity_revocations"):
    """`epoch`: the value that the revoking transaction raised identity_epoch to. `domain_id`: of the user or of the
    project; `domain_scope_id`: the token's scope. `expires_at`: of the one token that was revoked.
    """

    id: Field[int] = column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
    epoch: Field[int] = column(BigInteger)
    audit_id: Field[str | None] = optional_text(32)
    audit_chain_id: Field[str | None] = optional_text(32)
    user_id: Field[str | None] = optional_text(64)
    project_id: Field[str | None] = optional_text(64)
    domain_id: Field[str | None] = optional_text(64)
    domain_scope_id: Field[str | None] = optional_text(64)
    issued_before: Field[datetime | None] = time()
    expires_at: Field[datetime | None] = time()
    revoked_at: Field[datetime] = time()


Index("ix_identity_revocations_audit_id", Revocation.audit_id)
Index("ix_identity_revocations_audit_chain_id", Revocation.audit_chain_id)
Index("ix_identity_revocations_user_id", Revocation.user_id, Revocation.epoch)
Index("ix_identity_revocations_project_id", Revocation.project_id, Revocation.epoch)
Index("ix_identity_revocations_domain_id", Revocation.domain_id, Revocation.epoch)
Index("ix_identity_revocations_domain_scope_id", Revocation.domain_scope_id, Revocation.epoch)
Index("ix_identity_revocations_revoked_at", Revocation.revoked_at)


class Credential(Record, table="identity_credentials"):
    """`blob` is sealed with the credential keys."""

    id: Field[str] = identifier(primary_key=True)
    user_id: Field[str] = text(64)
    project_id: Field[str | None] = optional_text(64)
    type: Field[str] = text()
    blob: Field[bytes] = column(LargeBinary)
    # SHA-256 of the access key of an ec2 credential, by which it is found.
    access_hash: Field[str | None] = optional_text(64)
    # Of an ec2 credential that a delegated token made, so that it never reaches further than that token.
    application_credential_id: Field[str | None] = optional_text(64)
    trust_id: Field[str | None] = optional_text(64)
    # Of a totp credential: the step (half minutes since the epoch) whose passcode was accepted last.
    totp_step: Field[int | None] = column(BigInteger)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


UniqueConstraint(Credential.access_hash)
Index("ix_identity_credentials_order", Credential.created_at, Credential.id)
Index("ix_identity_credentials_user_id", Credential.user_id, Credential.created_at, Credential.id)
Index("ix_identity_credentials_project_id", Credential.project_id)


class Trust(Record, table="identity_trusts"):
    id: Field[str] = identifier(primary_key=True)
    trustor_user_id: Field[str] = text(64)
    trustee_user_id: Field[str] = text(64)
    project_id: Field[str | None] = optional_text(64)
    impersonation: Field[bool] = flag(False)
    expires_at: Field[datetime | None] = time()
    remaining_uses: Field[int | None] = column(Integer)
    redelegation_count: Field[int] = column(Integer, default=0)
    redelegated_trust_id: Field[str | None] = optional_text(64)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_trusts_order", Trust.created_at, Trust.id)
Index("ix_identity_trusts_trustor_user_id", Trust.trustor_user_id)
Index("ix_identity_trusts_trustee_user_id", Trust.trustee_user_id)
Index("ix_identity_trusts_project_id", Trust.project_id)
Index("ix_identity_trusts_redelegated_trust_id", Trust.redelegated_trust_id)


class TrustRole(Record, table="identity_trust_roles"):
    trust_id: Field[str] = column(String(64), primary_key=True)
    role_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_trust_roles_role_id", TrustRole.role_id)


class OAuthConsumer(Record, table="identity_oauth_consumers"):
    """Secrets are sealed with the credential keys. A request token is authorized once it has a user."""

    id: Field[str] = identifier(primary_key=True)
    description: Field[str | None] = optional_text(65_536)
    secret: Field[bytes] = column(LargeBinary)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_oauth_consumers_order", OAuthConsumer.created_at, OAuthConsumer.id)


class OAuthRequestToken(Record, table="identity_oauth_request_tokens"):
    id: Field[str] = identifier(primary_key=True)
    consumer_id: Field[str] = text(64)
    secret: Field[bytes] = column(LargeBinary)
    project_id: Field[str] = text(64)
    user_id: Field[str | None] = optional_text(64)
    verifier: Field[str | None] = optional_text(64)
    role_ids: Field[list[Any]] = json(list)
    expires_at: Field[datetime | None] = time()
    created_at: Field[datetime] = time()


Index("ix_identity_oauth_request_tokens_consumer_id", OAuthRequestToken.consumer_id)
Index("ix_identity_oauth_request_tokens_expires_at", OAuthRequestToken.expires_at)


class OAuthAccessToken(Record, table="identity_oauth_access_tokens"):
    id: Field[str] = identifier(primary_key=True)
    consumer_id: Field[str] = text(64)
    secret: Field[bytes] = column(LargeBinary)
    project_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    expires_at: Field[datetime | None] = time()
    created_at: Field[datetime] = time()


Index(
    "ix_identity_oauth_access_tokens_order", OAuthAccessToken.user_id, OAuthAccessToken.created_at, OAuthAccessToken.id
)
Index("ix_identity_oauth_access_tokens_consumer_id", OAuthAccessToken.consumer_id)
Index("ix_identity_oauth_access_tokens_project_id", OAuthAccessToken.project_id)


class OAuthAccessRole(Record, table="identity_oauth_access_roles"):
    token_id: Field[str] = column(String(64), primary_key=True)
    role_id: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_oauth_access_roles_role_id", OAuthAccessRole.role_id)


class OAuthNonce(Record, table="identity_oauth_nonces"):
    """Signed requests that were accepted; `said_at` is the client's own time, in seconds since the epoch."""

    consumer_id: Field[str] = column(String(64), primary_key=True)
    said_at: Field[int] = column(BigInteger, primary_key=True, autoincrement=False)
    digest: Field[str] = column(String(64), primary_key=True)


Index("ix_identity_oauth_nonces_said_at", OAuthNonce.said_at)


class PolicyBlob(Record, table="identity_policies"):
    id: Field[str] = identifier(primary_key=True)
    type: Field[str] = text()
    blob: Field[str] = column(Text)
    extra: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_identity_policies_order", PolicyBlob.created_at, PolicyBlob.id)


class PolicyAssociation(Record, table="identity_policy_associations"):
    """The policy of an endpoint, of a service, or of a service in a region; what does not name it is empty."""

    endpoint_id: Field[str] = column(String(64), primary_key=True)
    service_id: Field[str] = column(String(64), primary_key=True)
    region_id: Field[str] = column(String(255), primary_key=True)
    policy_id: Field[str] = text(64)


Index("ix_identity_policy_associations_policy_id", PolicyAssociation.policy_id)
Index("ix_identity_policy_associations_service_id", PolicyAssociation.service_id)
Index("ix_identity_policy_associations_region_id", PolicyAssociation.region_id)


class RegisteredLimit(Record, table="identity_registered_limits"):
    """region_id is empty, not NULL, where there is none, so that the unique constraint holds."""

    id: Field[str] = identifier(primary_key=True)
    service_id: Field[str] = text(64)
    region_id: Field[str] = text()
    resource_name: Field[str] = text()
    default_limit: Field[int] = column(Integer)
    description: Field[str | None] = optional_text(65_536)
    created_at: Field[datetime] = time()


UniqueConstraint(RegisteredLimit.service_id, RegisteredLimit.region_id, RegisteredLimit.resource_name)
Index("ix_identity_registered_limits_order", RegisteredLimit.created_at, RegisteredLimit.id)


class ProjectLimit(Record, table="identity_limits"):
    id: Field[str] = identifier(primary_key=True)
    registered_limit_id: Field[str] = text(64)
    project_id: Field[str] = text(64)
    domain_id: Field[str] = text(64)
    resource_limit: Field[int] = column(Integer)
    description: Field[str | None] = optional_text(65_536)
    created_at: Field[datetime] = time()


UniqueConstraint(ProjectLimit.registered_limit_id, ProjectLimit.project_id, ProjectLimit.domain_id)
Index("ix_identity_limits_order", ProjectLimit.created_at, ProjectLimit.id)
Index("ix_identity_limits_project_id", ProjectLimit.project_id)
Index("ix_identity_limits_domain_id", ProjectLimit.domain_id)
