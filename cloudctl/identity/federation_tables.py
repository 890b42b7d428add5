"""Tables of federation, kept out of tables.py only for its length. Operators choose the ids."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, Integer, String

from cloudctl.db.columns import Field, column, flag, json, optional_text, text, time
from cloudctl.db.records import Record


class IdentityProvider(Record, table="identity_providers"):
    id: Field[str] = column(String(64), primary_key=True)
    domain_id: Field[str] = text(64)
    enabled: Field[bool] = flag(False)
    description: Field[str | None] = optional_text(65_536)
    authorization_ttl: Field[int | None] = column(Integer)  # minutes
    created_at: Field[datetime] = time()


Index("ix_identity_providers_order", IdentityProvider.created_at, IdentityProvider.id)
Index("ix_identity_providers_domain_id", IdentityProvider.domain_id)


class RemoteId(Record, table="identity_remote_ids"):
    """A remote id belongs to exactly one identity provider of the cloud."""

    remote_id: Field[str] = column(String(255), primary_key=True)
    provider_id: Field[str] = text(64)


Index("ix_identity_remote_ids_provider_id", RemoteId.provider_id)


class FederationMapping(Record, table="identity_mappings"):
    id: Field[str] = column(String(64), primary_key=True)
    rules: Field[list[Any]] = json(list)
    schema_version: Field[str] = text(16)
    created_at: Field[datetime] = time()


Index("ix_identity_mappings_order", FederationMapping.created_at, FederationMapping.id)


class FederationProtocol(Record, table="identity_protocols"):
    provider_id: Field[str] = column(String(64), primary_key=True)
    id: Field[str] = column(String(64), primary_key=True)
    mapping_id: Field[str] = text(64)
    remote_id_attribute: Field[str | None] = optional_text(64)
    created_at: Field[datetime] = time()


Index("ix_identity_protocols_mapping_id", FederationProtocol.mapping_id)


class FederatedUser(Record, table="identity_federated_users"):
    """What a user is called by whoever vouches for it: at most one user of the cloud is meant."""

    provider_id: Field[str] = column(String(64), primary_key=True)
    protocol_id: Field[str] = column(String(64), primary_key=True)
    unique_id: Field[str] = column(String(255), primary_key=True)
    user_id: Field[str] = column(String(64), ForeignKey("identity_users.id", ondelete="CASCADE"), index=True)


ForeignKeyConstraint(
    [FederatedUser.provider_id, FederatedUser.protocol_id],
    [FederationProtocol.provider_id, FederationProtocol.id],
    ondelete="CASCADE",
)
Index("ix_identity_federated_users_protocol_id", FederatedUser.protocol_id)
Index("ix_identity_federated_users_unique_id", FederatedUser.unique_id)


class ServiceProvider(Record, table="identity_service_providers"):
    id: Field[str] = column(String(64), primary_key=True)
    enabled: Field[bool] = flag(False)
    description: Field[str | None] = optional_text(65_536)
    auth_url: Field[str] = text(4096)
    sp_url: Field[str] = text(4096)
    relay_state_prefix: Field[str] = text()
    created_at: Field[datetime] = time()


Index("ix_identity_service_providers_order", ServiceProvider.created_at, ServiceProvider.id)
