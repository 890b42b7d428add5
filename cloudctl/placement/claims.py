"""Claims: a server takes its share of a host, or none of it.

What is free is compared where it is taken (`allocations`), so two claims of the last place cannot both succeed,
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
from cloudctl.placement import aggregates, allocations, hosts
from cloudctl.placement.allocations import INSTANCE, MIGRATION, Owner
from cloudctl.placement.filters import passing
from cloudctl.placement.names import DISK_GB, MEMORY_MB, VCPU
from cloudctl.placement.tables import Allocation, Consumer, Host, Inventory, ProviderTrait
from cloudctl.placement.weighers import Weights, best_first
from cloudctl.placement.wishes import HostState, Wish

NOT_ENOUGH = "No valid host was found. There are not enough hosts available."


class NoValidHost(CloudError):
    """No host can take the server now."""


def _left(name: str) -> ColumnElement[float]:
    """What is free of a class, of the host that is being read."""
    free = (Inventory.total - Inventory.reserved) * Inventory.allocation_ratio - Inventory.used
    mine = Inventory.provider_id == Host.id, Inventory.resource_class == name
    return func.coalesce(select(free).where(*mine).scalar_subquery(), 0.0)


# Built once: building costs more than running it.
_hosts = select(Host, _left(VCPU), _left(MEMORY_MB), _left(DISK_GB)).order_by(Host.name)
_inventories = select(Inventory).join(Host.table, Host.id == Inventory.provider_id)
_traits = select(ProviderTrait.provider_id, ProviderTrait.trait).join(Host.table, Host.id == ProviderTrait.provider_id)
_holding = (
    select(Host.name)
    .where(Host.id == Allocation.provider_id, Allocation.consumer_id == bindparam("by"))
    .distinct()
    .order_by(Host.name)
)


def host_states(conn: Connection, wish: Wish | None = None) -> list[HostState]:
    """Every host as the filters and weighers see it; of what few ask for, only what the wish does."""
    left: dict[str, dict[str, int]] = defaultdict(dict)
    if wish is not None and wish.resources.others:
        for each in conn.execute(_inventories):
            left[each.provider_id][each.resource_class] = each.capacity - each.used
    traits: dict[str, set[str]] = defaultdict(set)
    if wish is not None and (wish.required_traits or wish.forbidden_traits):
        for provider_id, trait in conn.execute(_traits):
            traits[provider_id].add(trait)
    of_aggregates = aggregates.metadata_of_hosts(conn)
    return [
        HostState(
            name=host.name,
            zone=host.zone,
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            free_vcpus=floor(vcpus),
            free_memory_mib=floor(memory_mib),
            free_disk_gib=floor(disk_gib),
            up=hosts.is_alive(host),
            enabled=host.enabled,
            failed_builds=host.failed_builds,
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            cpu_info=host.cpu_info,
            id=host.id,
            host_ip=host.host_ip,
            left=left.get(host.id, {}),
            traits=frozenset(traits.get(host.id, ())),
            aggregates=of_aggregates.get(host.id, ()),
        )
        for host, vcpus, memory_mib, disk_gib in conn.execute(_hosts)
    ]


def claim(
    conn: Connection, consumer_id: str, project_id: str, wish: Wish, weights: Weights, user_id: str = ""
) -> HostState:
    """The best host that takes the wish, its share taken. A consumer that holds a host keeps it.

    Raises NoValidHost.
    """
    states = host_states(conn, wish)
    held = holding(conn, consumer_id)
    if held:
        return next(state for state in states if state.name == held[0])
    owner, amounts = Owner(consumer_id, project_id, user_id), wish.resources.amounts()
    for state in best_first(passing(states, wish), wish, weights):
        if allocations.take(conn, owner, state.id, amounts):
            return state
    raise NoValidHost(NOT_ENOUGH)


def holding(conn: Connection, consumer_id: str) -> Sequence[str]:
    """The hosts that a consumer has a share of: one, or two while it moves."""
    return conn.scalars(_holding, {"by": consumer_id}).all()


def release(conn: Connection, consumer_id: str) -> None:
    """Give everything back that the consumer holds. A repeat does nothing."""
    allocations.release(conn, consumer_id)


def hand_over(conn: Connection, from_id: str, to_id: str, type: str = INSTANCE) -> None:
    """What one consumer holds is the other's, who must hold nothing on that host. A repeat does nothing."""
    allocations.hand_over(conn, from_id, to_id, type)


def held_by_others(conn: Connection, *known: Select[Any]) -> list[tuple[str, str]]:
    """(consumer, host) of what servers and migrations hold whose ids are in none of these."""
    unknown = [~ids.where(ids.selected_columns[0] == Consumer.id).exists() for ids in known]
    # First who they are, of whom there are none as a rule: what the others hold need not be read.
    who = select(Consumer.id).where(Consumer.type.in_((INSTANCE, MIGRATION)), *unknown)
    held = select(Allocation.consumer_id, Host.name).where(
        Allocation.consumer_id.in_(who), Host.id == Allocation.provider_id
    )
    return list(conn.execute(held.distinct()))


def counted(conn: Connection, consumer_ids: Select[Any]) -> dict[str, int]:
    """Host → how many of these consumers hold a share of it; without hosts of which none does."""
    found = (
        select(Host.name, func.count(Allocation.consumer_id.distinct()))
        .where(Host.id == Allocation.provider_id, Allocation.consumer_id.in_(consumer_ids))
        .group_by(Host.name)
    )
    return dict(conn.execute(found).all())
