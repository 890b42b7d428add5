"""The tables of the compute service."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, String, Table, Text, UniqueConstraint, text

from cloudctl.db.columns import flag, identifier, json, metadata, optional_text, time
from cloudctl.db.columns import text as text_column

LIVE = text("deleted_at IS NULL")

servers = Table(
    "servers",
    metadata,
    # The guest's name is made of it: instance-0000002a.
    Column("number", Integer, primary_key=True, autoincrement=True),
    identifier("id", primary_key=False, nullable=False, unique=True),
    identifier("project_id", nullable=False),
    identifier("user_id", nullable=False),
    text_column("name"),
    optional_text("description"),
    text_column("hostname"),
    # -- state: see `states`
    text_column("vm_state", 32),
    optional_text("task_state", 64),
    Column("power_state", Integer, nullable=False, default=0),
    Column("progress", Integer, nullable=False, default=0),
    Column("fault_message", Text, nullable=True),
    Column("fault_code", Integer, nullable=True),
    time("fault_at", nullable=True),
    # -- what it is
    Column("flavor_id", String(255), nullable=False),
    json("flavor", dict),  # as it was at create: {original_name, vcpus, ram, disk, ephemeral, swap, extra_specs}
    # What counts for the quota: the flavor's; while it is resized, of both flavors the larger amount.
    Column("vcpus", Integer, nullable=False),
    Column("memory_mib", Integer, nullable=False),
    text_column("image_id", 64),  # "": its root disk is a volume
    optional_text("key_name"),
    Column("public_key", Text, nullable=True),  # as it was at create; the key pair may be gone
    Column("user_data", Text, nullable=True),  # base64
    Column("admin_password", Text, nullable=True),  # until the guest has it
    Column("guest_password", Text, nullable=True),  # that the guest has set, encrypted by itself
    flag("config_drive", False),
    text_column("disk_config", 8, default="MANUAL"),
    text_column("access_ip_v4", 64),
    text_column("access_ip_v6", 64),
    json("metadata", dict),
    # ",one,two,": a tag holds no comma, so a filter needs no second table.
    Column("tags", Text, nullable=False, default=""),
    json("trusted_certs", list),
    text_column("root_device_name", 32, default="/dev/vda"),
    # -- where it is
    optional_text("host"),
    optional_text("zone"),  # of the host; before scheduling the one asked for
    optional_text("pinned_zone"),
    optional_text("group_id", 64),
    json("scheduling", dict),  # {hints, forced_host, requested_host}
    json("security_groups", list),  # names asked for at create
    text_column("reservation_id", 16),
    Column("launch_index", Integer, nullable=False, default=0),
    # -- lock
    optional_text("locked_by", 8),  # owner, admin
    optional_text("locked_reason"),
    # -- times
    time("created_at", nullable=False),
    time("updated_at", nullable=False),
    time("launched_at", nullable=True),
    time("terminated_at", nullable=True),
    time("deleted_at", nullable=True),
    Index("ix_servers_project", "project_id", "created_at", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("ix_servers_created", "created_at", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    # All that is counted for quotas, so that no row is read.
    Index("ix_servers_usage", "project_id", "deleted_at", "vm_state", "vcpus", "memory_mib"),
    Index("ix_servers_host", "host", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("ix_servers_group", "group_id", sqlite_where=LIVE, postgresql_where=LIVE),
    # Servers that are gone are found by when that was: changes-since, usage reports.
    Index("ix_servers_updated", "project_id", "updated_at", "id"),
)

server_interfaces = Table(
    "server_interfaces",
    metadata,
    identifier("port_id", primary_key=True),
    identifier("server_id", nullable=False),
    Column("position", Integer, nullable=False, default=0),
    flag("made", True),  # with the server, and deleted with it; others are only let go
    optional_text("tag", 60),
    Index("ix_server_interfaces_server", "server_id", "position"),
)

block_devices = Table(
    "block_devices",
    metadata,
    identifier(),
    identifier("server_id", nullable=False),
    Column("position", Integer, nullable=False, default=0),
    Column("boot_index", Integer, nullable=True),
    text_column("source_type", 16),  # image, volume, snapshot, blank
    text_column("destination_type", 16),  # local, volume
    optional_text("source_id", 64),
    optional_text("volume_id", 64),
    optional_text("attachment_id", 64),
    Column("volume_size", Integer, nullable=True),
    optional_text("volume_type"),
    flag("delete_on_termination", False),
    optional_text("device_name", 64),
    optional_text("disk_bus", 16),
    optional_text("device_type", 16),
    optional_text("guest_format", 64),
    optional_text("tag", 60),
    flag("attached", False),  # the guest has it; before, it is only reserved
    time("created_at", nullable=False),
    Index("ix_block_devices_server", "server_id", "position"),
    Index("ix_block_devices_volume", "volume_id"),
)

# A server that goes to another host, another flavor, or both. While it is open, the share of the source host that it
# still holds is in its own name.
migrations = Table(
    "migrations",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    identifier("id", primary_key=False, nullable=False, unique=True),
    identifier("server_id", nullable=False),
    text_column("kind", 16),  # resize, migration
    text_column("status", 16),
    text_column("source_host"),
    optional_text("dest_host"),
    optional_text("asked_host"),  # the only one that it may go to
    Column("old_flavor_id", String(255), nullable=False),
    json("old_flavor", dict),
    Column("new_flavor_id", String(255), nullable=False),
    json("new_flavor", dict),
    flag("was_stopped", False),
    identifier("user_id", nullable=False),
    identifier("project_id", nullable=False),
    time("created_at", nullable=False),
    time("updated_at", nullable=False),
    Index("ix_migrations_server", "server_id", "number"),
    Index("ix_migrations_status", "status"),
    Index("ix_migrations_created", "created_at", "id"),
    Index("ix_migrations_project", "project_id", "created_at", "id"),
)

flavors = Table(
    "flavors",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    optional_text("description", 65535),
    Column("memory_mib", Integer, nullable=False),
    Column("vcpus", Integer, nullable=False),
    Column("disk_gib", Integer, nullable=False),
    Column("ephemeral_gib", Integer, nullable=False, default=0),
    Column("swap_mib", Integer, nullable=False, default=0),
    Column("rxtx_factor", Float, nullable=False, default=1.0),
    flag("is_public", True),
    flag("disabled", False),
    json("extra_specs", dict),
    time("created_at", nullable=False),
    time("updated_at", nullable=True),
)

flavor_access = Table(
    "flavor_access",
    metadata,
    Column("flavor_id", String(255), primary_key=True),
    identifier("project_id", primary_key=True),
    Index("ix_flavor_access_project", "project_id"),
)

keypairs = Table(
    "keypairs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    identifier("user_id", nullable=False),
    Column("name", String(255), nullable=False),
    text_column("type", 8, default="ssh"),
    Column("public_key", Text, nullable=False),
    text_column("fingerprint", 128),
    time("created_at", nullable=False),
    UniqueConstraint("user_id", "name"),
)

server_groups = Table(
    "server_groups",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    identifier("id", primary_key=False, nullable=False, unique=True),
    identifier("project_id", nullable=False),
    identifier("user_id", nullable=False),
    Column("name", String(255), nullable=False),
    Column("policy", String(32), nullable=False),
    json("rules", dict),
    time("created_at", nullable=False),
    Index("ix_server_groups_project", "project_id", "number"),
)
