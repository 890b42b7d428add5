"""Claims: a server takes its share of a host, or none of it.

What is free is checked where it is taken (`allocations`), so two claims of the last place cannot both succeed,
whatever the scheduler saw before. Reference: compute-scheduling.md, section 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import floor
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, select

from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.placement import aggregates, allocations
from cloudctl.placement.allocations import INSTANCE, MIGRATION, Owner
from cloudctl.placement.filters import passing
from cloudctl.placement.names import DISK_GB, MEMORY_MB, VCPU
from cloudctl.placement.tables import Allocation, Consumer, Host, Inventory, ProviderTrait
from cloudctl.placement.weighers import Weights, best_first
from cloudctl.placement.wishes import NOTHING, HostState, Wish

NOT_ENOUGH = "No valid host was found. There are not enough hosts available."


class NoValidHost(CloudError):
    """No host can take the server now."""


def _left(name: str) -> ColumnElement[float]:
    """What is free of a resource class on the host that is being read."""
    free = (Inventory.total - Inventory.reserved) * Inventory.allocation_ratio - Inventory.used
    mine = Inventory.provider_id == Host.id, Inventory.resource_class == name
    return func.coalesce(select(free).where(*mine).scalar_subquery(), 0.0)


# Built once: building costs more than running it.
# Whole records are not read: their times and documents are most of the work, and few wishes need the latter.
_hosts = select(
    Host.name,
    Host.zone,
    Host.vcpus,
    Host.memory_mib,
    Host.disk_gib,
    _left(VCPU),
    _left(MEMORY_MB),
    _left(DISK_GB),
    Host.up,
    Host.forced_down,
    Host.enabled,
    Host.failed_builds,
    Host.hypervisor_type,
    Host.hypervisor_version,
    Host.id,
    Host.host_ip,
    aggregates.any_members,
).order_by(Host.name)
_named = _hosts.where(Host.name == bindparam("named"))
_cpus = select(Host.id, Host.cpu_info)
_inventories = select(Inventory).join(Host.table, Host.id == Inventory.provider_id)
_traits = select(ProviderTrait.provider_id, ProviderTrait.trait).join(Host.table, Host.id == ProviderTrait.provider_id)
_holding = (
    select(Host.name)
    .where(Host.id == Allocation.provider_id, Allocation.consumer_id == bindparam("by"))
    .distinct()
    .order_by(Host.name)
)


def host_states(conn: Connection, wish: Wish | None = None, name: str | None = None) -> list[HostState]:
    """The hosts as the filters and weighers see them: the one with this name, the one that the wish names, or all.

    What few wishes ask for is only read if this one does.
    """
    if name is None and wish is not None:
        name = wish.forced or wish.requested
    left: dict[str, dict[str, int]] = defaultdict(dict)
    if wish is not None and wish.resources.others:
        for each in conn.execute(_inventories):
            left[each.provider_id][each.resource_class] = each.capacity - each.used
    traits: dict[str, set[str]] = defaultdict(set)
    if wish is not None and (wish.required_traits or wish.forbidden_traits):
        for provider_id, trait in conn.execute(_traits):
            traits[provider_id].add(trait)
    cpus = dict[str, dict[str, Any]]()
    if wish is None or wish.extra_specs or wish.image_properties:
        cpus = dict(conn.execute(_cpus).all())
    rows = (conn.execute(_hosts) if name is None else conn.execute(_named, {"named": name})).all()
    of_aggregates = aggregates.metadata_of_hosts(conn) if rows and rows[0][-1] else {}
    none = frozenset[str]()
    return [
        # By position, in the order of its fields: there may be thousands.
        HostState(
            name,
            zone,
            vcpus,
            memory_mib,
            disk_gib,
            floor(free_vcpus),
            floor(free_memory_mib),
            floor(free_disk_gib),
            up and not forced_down,
            enabled,
            failed_builds,
            hypervisor_type,
            hypervisor_version,
            cpus.get(id, NOTHING),
            id,
            host_ip,
            left.get(id, NOTHING),
            frozenset(traits[id]) if id in traits else none,
            of_aggregates.get(id, ()),
        )
        for (
            name,
            zone,
            vcpus,
            memory_mib,
            disk_gib,
            free_vcpus,
            free_memory_mib,
            free_disk_gib,
            up,
            forced_down,
            enabled,
            failed_builds,
            hypervisor_type,
            hypervisor_version,
            id,
            host_ip,
            _,
        ) in rows
    ]


def claim(
    conn: Connection, consumer_id: str, project_id: str, wish: Wish, weights: Weights, user_id: str = ""
) -> HostState:
    """The best host that can take the wish, with its share taken. A consumer that holds a host keeps it.

    Raises NoValidHost.
    """
    if held := holding(conn, consumer_id):
        (state,) = host_states(conn, wish, held[0])
        return state
    owner, amounts = Owner(consumer_id, project_id, user_id), wish.resources.amounts()
    for state in best_first(passing(host_states(conn, wish), wish), wish, weights):
        if allocations.take(conn, owner, state.id, amounts):
            return state
    raise NoValidHost(NOT_ENOUGH)


def holding(conn: Connection, consumer_id: str) -> Sequence[str]:
    """The hosts that a consumer has a share of: one, or two while it moves."""
    return conn.scalars(_holding, {"by": consumer_id}).all()


def release(conn: Connection, consumer_id: str) -> None:
    """Give back everything the consumer holds. Repeating it does nothing."""
    allocations.release(conn, consumer_id)


def hand_over(conn: Connection, from_id: str, to_id: str, type: str = INSTANCE) -> None:
    """Give all that one consumer holds to another, which must hold nothing on that host. May be repeated."""
    allocations.hand_over(conn, from_id, to_id, type)


def held_by_others(conn: Connection, *known: Select[Any]) -> list[tuple[str, str]]:
    """(consumer, host) of what is held by servers and migrations whose ids are in none of these."""
    unknown = [~ids.where(ids.selected_columns[0] == Consumer.id).exists() for ids in known]
    # First find these consumers, usually none: what the others hold need not be read.
    who = select(Consumer.id).where(Consumer.type.in_((INSTANCE, MIGRATION)), *unknown)
    held = select(Allocation.consumer_id, Host.name).where(
        Allocation.consumer_id.in_(who), Host.id == Allocation.provider_id
    )
    return list(conn.execute(held.distinct()))


def counted(conn: Connection, consumer_ids: Select[Any]) -> dict[str, int]:
    """Host → how many of these consumers hold a share of it; hosts without any are missing."""
    found = (
        select(Host.name, func.count(Allocation.consumer_id.distinct()))
        .where(Host.id == Allocation.provider_id, Allocation.consumer_id.in_(consumer_ids))
        .group_by(Host.name)
    )
    return dict(conn.execute(found).all())
