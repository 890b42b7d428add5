"""Tables of federation; part of tables.py in all but length. Ids are the operator's own texts."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, String, Table

from cloudctl.db.columns import flag, json, metadata, optional_text, text, time

identity_providers = Table(
    "identity_providers",
    metadata,
    Column("id", String(64), primary_key=True),
    text("domain_id", 64),
    flag("enabled", False),
    optional_text("description", 65_536),
    Column("authorization_ttl", Integer),  # minutes
    time("created_at", nullable=False),
    Index("ix_identity_providers_order", "created_at", "id"),
    Index("ix_identity_providers_domain_id", "domain_id"),
)

# A remote id names one identity provider of the cloud.
remote_ids = Table(
    "identity_remote_ids",
    metadata,
    Column("remote_id", String(255), primary_key=True),
    text("provider_id", 64),
    Index("ix_identity_remote_ids_provider_id", "provider_id"),
)

mappings = Table(
    "identity_mappings",
    metadata,
    Column("id", String(64), primary_key=True),
    json("rules", list),
    text("schema_version", 16),
    time("created_at", nullable=False),
    Index("ix_identity_mappings_order", "created_at", "id"),
)

protocols = Table(
    "identity_protocols",
    metadata,
    Column("provider_id", String(64), primary_key=True),
    Column("id", String(64), primary_key=True),
    text("mapping_id", 64),
    time("created_at", nullable=False),
    Index("ix_identity_protocols_mapping_id", "mapping_id"),
)

service_providers = Table(
    "identity_service_providers",
    metadata,
    Column("id", String(64), primary_key=True),
    flag("enabled", False),
    optional_text("description", 65_536),
    text("auth_url", 4096),
    text("sp_url", 4096),
    text("relay_state_prefix"),
    time("created_at", nullable=False),
    Index("ix_identity_service_providers_order", "created_at", "id"),
)
