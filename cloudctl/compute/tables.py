"""The tables of the compute service."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Float, Index, Integer, String, Text, UniqueConstraint, and_, or_
from sqlalchemy import text as sql

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record
from cloudctl.db.totals import Total

LIVE = sql("deleted_at IS NULL")


class Server(Record, table="servers"):
    # The guest's name is made from it: instance-0000002a.
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    project_id: Field[str] = identifier()
    user_id: Field[str] = identifier()
    name: Field[str] = text()
    description: Field[str | None] = optional_text()
    hostname: Field[str] = text()
    # -- state: see `states`
    vm_state: Field[str] = text(32)
    task_state: Field[str | None] = optional_text(64)
    power_state: Field[int] = column(Integer, default=0)
    progress: Field[int] = column(Integer, default=0)
    fault_message: Field[str | None] = column(Text)
    fault_code: Field[int | None] = column(Integer)
    fault_at: Field[datetime | None] = time()
    # -- what it is
    flavor_id: Field[str] = column(String(255))
    flavor: Field[dict[str, Any]] = json(
        dict
    )  # as it was at create: {original_name, vcpus, ram, disk, ephemeral, swap, extra_specs}
    # What counts towards the quota: the flavor's amounts; during a resize, the larger one of the two flavors.
    vcpus: Field[int] = column(Integer)
    memory_mib: Field[int] = column(Integer)
    image_id: Field[str] = text(64)  # "": its root disk is a volume
    key_name: Field[str | None] = optional_text()
    public_key: Field[str | None] = column(Text)  # as it was at create; the key pair may be gone
    user_data: Field[str | None] = column(Text)  # base64
    admin_password: Field[str | None] = column(Text)  # until the guest has it
    guest_password: Field[str | None] = column(Text)  # set and encrypted by the guest itself
    config_drive: Field[bool] = flag(False)
    personality: Field[list[Any]] = json(list)  # {path, contents} of files that a new guest has, in base64
    disk_config: Field[str] = text(8, default="MANUAL")
    access_ip_v4: Field[str] = text(64)
    access_ip_v6: Field[str] = text(64)
    metadata: Field[dict[str, Any]] = json(dict)
    # ",one,two,": a tag contains no comma, so a filter needs no second table.
    tags: Field[str] = column(Text, default="")
    trusted_certs: Field[list[Any]] = json(list)
    root_device_name: Field[str] = text(32, default="/dev/vda")
    shelved_image_id: Field[str | None] = optional_text(64)  # holds its root disk while it is shelved
    # -- where it is
    host: Field[str | None] = optional_text()
    zone: Field[str | None] = optional_text()  # of the host; before scheduling the requested one
    pinned_zone: Field[str | None] = optional_text()
    group_id: Field[str | None] = optional_text(64)
    scheduling: Field[dict[str, Any]] = json(dict)  # {hints, zone, forced, requested, image}
    security_groups: Field[list[Any]] = json(list)  # names requested at create
    reservation_id: Field[str] = text(16)
    launch_index: Field[int] = column(Integer, default=0)
    # -- lock
    locked_by: Field[str | None] = optional_text(8)  # owner, admin
    locked_reason: Field[str | None] = optional_text()
    # -- times
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()
    launched_at: Field[datetime | None] = time()
    terminated_at: Field[datetime | None] = time()
    deleted_at: Field[datetime | None] = time()
    # Since when it has been shelved, resized or soft-deleted, waiting for what happens after a while: see `overdue`.
    # None once a soft-deleted one is being restored.
    waiting_since: Field[datetime | None] = time()
    # Every UPDATE raises it, so a server with the same revision is unchanged.
    revision: Field[int] = column(Integer, default=0, onupdate=sql("revision + 1"))


Index("ix_servers_project", Server.project_id, Server.created_at, Server.id, sqlite_where=LIVE, postgresql_where=LIVE)
Index("ix_servers_created", Server.created_at, Server.id, sqlite_where=LIVE, postgresql_where=LIVE)
# What counts against quotas: a soft-deleted server may still come back, but its place is free until it is restored.
COUNTED = and_(Server.deleted_at.is_(None), or_(Server.vm_state != "soft-delete", Server.waiting_since.is_(None)))
Total("instances", Server.project_id, where=COUNTED)
Total("cores", Server.project_id, Server.vcpus, where=COUNTED)
Total("ram", Server.project_id, Server.memory_mib, where=COUNTED)
Index("ix_servers_host", Server.host, sqlite_where=LIVE, postgresql_where=LIVE)
Index("ix_servers_group", Server.group_id, sqlite_where=LIVE, postgresql_where=LIVE)
# Deleted servers are found by the time of their deletion: changes-since, usage reports.
Index("ix_servers_updated", Server.project_id, Server.updated_at, Server.id)


class ServerInterface(Record, table="server_interfaces"):
    port_id: Field[str] = identifier(primary_key=True)
    server_id: Field[str] = identifier()
    position: Field[int] = column(Integer, default=0)
    made: Field[bool] = flag(True)  # with the server, and deleted with it; others are only released
    tag: Field[str | None] = optional_text(60)


Index("ix_server_interfaces_server", ServerInterface.server_id, ServerInterface.position)


class BlockDevice(Record, table="block_devices"):
    id: Field[str] = identifier(primary_key=True)
    server_id: Field[str] = identifier()
    position: Field[int] = column(Integer, default=0)
    boot_index: Field[int | None] = column(Integer)
    source_type: Field[str] = text(16)  # image, volume, snapshot, blank
    destination_type: Field[str] = text(16)  # local, volume
    source_id: Field[str | None] = optional_text(64)
    volume_id: Field[str] = identifier()
    attachment_id: Field[str | None] = optional_text(64)
    volume_size: Field[int | None] = column(Integer)
    volume_type: Field[str | None] = optional_text()
    delete_on_termination: Field[bool] = flag(False)
    device_name: Field[str | None] = optional_text(64)
    disk_bus: Field[str | None] = optional_text(16)
    device_type: Field[str | None] = optional_text(16)
    guest_format: Field[str | None] = optional_text(64)
    tag: Field[str | None] = optional_text(60)
    attached: Field[bool] = flag(False)  # the guest has it; before, it is only reserved
    created_at: Field[datetime] = time()


Index("ix_block_devices_server", BlockDevice.server_id, BlockDevice.position)
Index("ix_block_devices_volume", BlockDevice.volume_id)


class Migration(Record, table="migrations"):
    """The move of a server to another host, another flavor, or both.

    While it is open, the share of the source host that it still holds is in the migration's own name.
    """

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    server_id: Field[str] = identifier()
    kind: Field[str] = text(16)  # resize, migration
    status: Field[str] = text(16)
    source_host: Field[str] = text()
    dest_host: Field[str | None] = optional_text()
    asked_host: Field[str | None] = optional_text()  # the only one that it may go to
    old_flavor_id: Field[str] = column(String(255))
    old_flavor: Field[dict[str, Any]] = json(dict)
    new_flavor_id: Field[str] = column(String(255))
    new_flavor: Field[dict[str, Any]] = json(dict)
    was_stopped: Field[bool] = flag(False)
    user_id: Field[str] = identifier()
    project_id: Field[str] = identifier()
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()

    @property
    def new_host(self) -> str:
        """`dest_host` of a migration that was scheduled."""
        assert self.dest_host is not None, "it was scheduled"
        return self.dest_host


Index("ix_migrations_server", Migration.server_id, Migration.number)
Index("ix_migrations_status", Migration.status)
Index("ix_migrations_created", Migration.created_at, Migration.id)
Index("ix_migrations_project", Migration.project_id, Migration.created_at, Migration.id)


class ConsoleToken(Record, table="console_tokens"):
    """The bearer of the token may open one console, once."""

    digest: Field[str] = column(String(64), primary_key=True)  # SHA-256 of the token
    server_id: Field[str] = identifier()
    host: Field[str] = text()  # where the server was: on another host it is another console
    type: Field[str] = text(16)  # serial, novnc
    expires_at: Field[datetime] = time()
    # The API token it was requested with, encrypted with this one; None: made by a release that did not store it.
    asker: Field[str | None] = column(Text)


Index("ix_console_tokens_expires", ConsoleToken.expires_at)


class Flavor(Record, table="flavors"):
    id: Field[str] = column(String(255), primary_key=True)
    name: Field[str] = column(String(255), unique=True)
    description: Field[str | None] = optional_text(65535)
    memory_mib: Field[int] = column(Integer)
    vcpus: Field[int] = column(Integer)
    disk_gib: Field[int] = column(Integer)
    ephemeral_gib: Field[int] = column(Integer, default=0)
    swap_mib: Field[int] = column(Integer, default=0)
    rxtx_factor: Field[float] = column(Float, default=1.0)
    is_public: Field[bool] = flag(True)
    disabled: Field[bool] = flag(False)
    extra_specs: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


class FlavorAccess(Record, table="flavor_access"):
    flavor_id: Field[str] = column(String(255), primary_key=True)
    project_id: Field[str] = identifier(primary_key=True)


Index("ix_flavor_access_project", FlavorAccess.project_id)


class Keypair(Record, table="keypairs"):
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    user_id: Field[str] = identifier()
    name: Field[str] = column(String(255))
    type: Field[str] = text(8, default="ssh")
    public_key: Field[str] = column(Text)
    fingerprint: Field[str] = text(128)
    created_at: Field[datetime] = time()


UniqueConstraint(Keypair.user_id, Keypair.name)


class ServerGroup(Record, table="server_groups"):
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    project_id: Field[str] = identifier()
    user_id: Field[str] = identifier()
    name: Field[str] = column(String(255))
    policy: Field[str] = column(String(32))
    rules: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()


Index("ix_server_groups_project", ServerGroup.project_id, ServerGroup.number)


class UserLimit(Record, table="user_quota_limits"):
    """What one user may have within a project, if that is less than the project may have."""

    project_id: Field[str] = identifier(primary_key=True)
    user_id: Field[str] = identifier(primary_key=True)
    resource: Field[str] = column(String(64), primary_key=True)
    limit: Field[int] = column(Integer)


class ControlService(Record, table="control_services"):
    """A service that runs no servers, but schedules or conducts. Its process records here that it is alive."""

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    binary: Field[str] = text(64)
    host: Field[str] = text()
    seen_at: Field[datetime] = time()


UniqueConstraint(ControlService.binary, ControlService.host)
