"""Hosts with what is promised of them, and who holds it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Integer, String

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record


class Host(Record, table="hosts"):
    # Clients before compute 2.53 know hypervisors and services by number.
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(nullable=False, unique=True)
    service_id: Field[str] = identifier(nullable=False, unique=True)
    name: Field[str] = column(String(255), nullable=False, unique=True)
    zone: Field[str] = text(default="nova")
    # Where it is as long as no aggregate says otherwise.
    home_zone: Field[str] = text(default="nova")
    hypervisor_type: Field[str] = text(64)
    hypervisor_version: Field[int] = column(Integer, nullable=False, default=1)
    host_ip: Field[str | None] = optional_text(64)
    cpu_info: Field[dict[str, Any]] = json(dict)
    # What the machine has.
    vcpus: Field[int] = column(Integer, nullable=False)
    memory_mib: Field[int] = column(Integer, nullable=False)
    disk_gib: Field[int] = column(Integer, nullable=False)
    # What may be promised of it: (total - reserved) x ratio.
    most_vcpus: Field[int] = column(Integer, nullable=False)
    most_memory_mib: Field[int] = column(Integer, nullable=False)
    most_disk_gib: Field[int] = column(Integer, nullable=False)
    # What is promised: the sums of the allocations, kept by `claims`.
    used_vcpus: Field[int] = column(Integer, nullable=False, default=0)
    used_memory_mib: Field[int] = column(Integer, nullable=False, default=0)
    used_disk_gib: Field[int] = column(Integer, nullable=False, default=0)
    shares: Field[int] = column(Integer, nullable=False, default=0)  # how many allocations that are
    up: Field[bool] = flag(True)  # the driver reaches it
    forced_down: Field[bool] = flag(False)
    enabled: Field[bool] = flag(True)
    disabled_reason: Field[str | None] = optional_text()
    failed_builds: Field[int] = column(Integer, nullable=False, default=0)
    created_at: Field[datetime] = time(nullable=False)
    seen_at: Field[datetime] = time(nullable=False)  # when a driver last told of it
    up_since: Field[datetime | None] = time()  # when the machine was started, if its driver can tell


class HostAllocation(Record, table="allocations"):
    # A server, or a migration while a server holds two hosts.
    consumer_id: Field[str] = identifier(primary_key=True)
    host: Field[str] = column(String(255), primary_key=True)
    project_id: Field[str] = identifier(nullable=False)
    vcpus: Field[int] = column(Integer, nullable=False)
    memory_mib: Field[int] = column(Integer, nullable=False)
    disk_gib: Field[int] = column(Integer, nullable=False)


Index("ix_allocations_host", HostAllocation.host)


class Aggregate(Record, table="aggregates"):
    # Clients know it by number; placement by its id.
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(nullable=False, unique=True)
    name: Field[str] = column(String(255), nullable=False, unique=True)
    metadata: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time(nullable=False)
    updated_at: Field[datetime | None] = time()


class ProviderAggregate(Record, table="provider_aggregates"):
    # A host's id is that of its provider. An aggregate may be known to placement alone.
    provider_id: Field[str] = identifier(primary_key=True)
    aggregate_id: Field[str] = identifier(primary_key=True)


Index("ix_provider_aggregates_aggregate", ProviderAggregate.aggregate_id)
