"""Hosts with what is promised of them, and who holds it."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, String, Table

from cloudctl.db.columns import flag, identifier, json, metadata, optional_text, text, time

hosts = Table(
    "hosts",
    metadata,
    # Clients before compute 2.53 know hypervisors and services by number.
    Column("number", Integer, primary_key=True, autoincrement=True),
    identifier("id", primary_key=False, nullable=False, unique=True),
    identifier("service_id", nullable=False, unique=True),
    Column("name", String(255), nullable=False, unique=True),
    text("zone", default="nova"),
    text("hypervisor_type", 64),
    Column("hypervisor_version", Integer, nullable=False, default=1),
    optional_text("host_ip", 64),
    json("cpu_info", dict),
    # What the machine has.
    Column("vcpus", Integer, nullable=False),
    Column("memory_mib", Integer, nullable=False),
    Column("disk_gib", Integer, nullable=False),
    # What may be promised of it: (total - reserved) x ratio.
    Column("most_vcpus", Integer, nullable=False),
    Column("most_memory_mib", Integer, nullable=False),
    Column("most_disk_gib", Integer, nullable=False),
    # What is promised: the sums of the allocations, kept by `claims`.
    Column("used_vcpus", Integer, nullable=False, default=0),
    Column("used_memory_mib", Integer, nullable=False, default=0),
    Column("used_disk_gib", Integer, nullable=False, default=0),
    flag("up", True),  # the driver reaches it
    flag("forced_down", False),
    flag("enabled", True),
    optional_text("disabled_reason"),
    Column("failed_builds", Integer, nullable=False, default=0),
    time("created_at", nullable=False),
    time("seen_at", nullable=False),  # when a driver last told of it
)

allocations = Table(
    "allocations",
    metadata,
    # A server, or a migration while a server holds two hosts.
    identifier("consumer_id", primary_key=True),
    Column("host", String(255), primary_key=True),
    identifier("project_id", nullable=False),
    Column("vcpus", Integer, nullable=False),
    Column("memory_mib", Integer, nullable=False),
    Column("disk_gib", Integer, nullable=False),
    Index("ix_allocations_host", "host"),
)
