"""Hosts and their aggregates, resource providers with what they have, and who takes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, Index, Integer, String

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record


class Host(Record, table="hosts"):
    # Clients before compute 2.53 know hypervisors and services by number.
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    service_id: Field[str] = identifier(unique=True)
    name: Field[str] = column(String(255), unique=True)
    zone: Field[str] = text(default="nova")
    # Its zone, unless an aggregate says otherwise.
    home_zone: Field[str] = text(default="nova")
    hypervisor_type: Field[str] = text(64)
    hypervisor_version: Field[int] = column(Integer, default=1)
    host_ip: Field[str | None] = optional_text(64)
    cpu_info: Field[dict[str, Any]] = json(dict)
    # What the machine has.
    vcpus: Field[int] = column(Integer)
    memory_mib: Field[int] = column(Integer)
    disk_gib: Field[int] = column(Integer)
    up: Field[bool] = flag(True)  # the driver reaches it
    forced_down: Field[bool] = flag(False)
    enabled: Field[bool] = flag(True)
    disabled_reason: Field[str | None] = optional_text()
    failed_builds: Field[int] = column(Integer, default=0)
    created_at: Field[datetime] = time()
    seen_at: Field[datetime] = time()  # when a driver last reported it
    up_since: Field[datetime | None] = time()  # when the machine was started, if its driver can tell


# The longest name of a provider, as in placement's API. Hosts may have longer ones.
NAME_MOST = 200


class Provider(Record, table="resource_providers"):
    """Anything that consumers take a share of: a host, a part of one, a pool that hosts share."""

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)  # for a host: the host's
    name: Field[str] = column(String(NAME_MOST), unique=True)
    # Raised by every change to what it has, what is taken of it, and what is said about it.
    generation: Field[int] = column(Integer, default=0)
    parent_id: Field[str | None] = optional_text(64)
    root_id: Field[str] = identifier()
    shares: Field[int] = column(Integer, default=0)  # how many consumers have a share of it
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


Index("ix_resource_providers_root", Provider.root_id)


class Inventory(Record, table="inventories"):
    provider_id: Field[str] = identifier(primary_key=True)
    resource_class: Field[str] = column(String(255), primary_key=True)
    total: Field[int] = column(Integer)
    reserved: Field[int] = column(Integer, default=0)
    min_unit: Field[int] = column(Integer, default=1)
    max_unit: Field[int] = column(Integer)
    step_size: Field[int] = column(Integer, default=1)
    allocation_ratio: Field[float] = column(Float, default=1.0)
    # What is taken: the sum of the allocations, maintained by `allocations`.
    used: Field[int] = column(BigInteger, default=0)

    @property
    def capacity(self) -> int:
        """What may be taken of it in total."""
        return max(0, int((self.total - self.reserved) * self.allocation_ratio))


class Consumer(Record, table="consumers"):
    """Who takes shares: a server, a migration while a server holds two hosts, or anything a client names."""

    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text()
    user_id: Field[str] = text()
    type: Field[str] = text()
    generation: Field[int] = column(Integer, default=0)


Index("ix_consumers_project", Consumer.project_id, Consumer.user_id)


class Allocation(Record, table="allocations"):
    consumer_id: Field[str] = identifier(primary_key=True)
    provider_id: Field[str] = identifier(primary_key=True)
    resource_class: Field[str] = column(String(255), primary_key=True)
    amount: Field[int] = column(Integer)


Index("ix_allocations_provider", Allocation.provider_id)


class ResourceClass(Record, table="resource_classes"):
    """A class that a client has created; the standard ones are in `names`."""

    name: Field[str] = column(String(255), primary_key=True)


class Trait(Record, table="traits"):
    """A trait that a client has created; the standard ones are in `names`."""

    name: Field[str] = column(String(255), primary_key=True)


class ProviderTrait(Record, table="provider_traits"):
    provider_id: Field[str] = identifier(primary_key=True)
    trait: Field[str] = column(String(255), primary_key=True)


Index("ix_provider_traits_trait", ProviderTrait.trait)


class Aggregate(Record, table="aggregates"):
    # Clients know it by number; placement by its id.
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    name: Field[str] = column(String(255), unique=True)
    metadata: Field[dict[str, Any]] = json(dict)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


class ProviderAggregate(Record, table="provider_aggregates"):
    # A host's id is that of its provider. An aggregate may be known only to placement.
    provider_id: Field[str] = identifier(primary_key=True)
    aggregate_id: Field[str] = identifier(primary_key=True)


Index("ix_provider_aggregates_aggregate", ProviderAggregate.aggregate_id)
