"""Claims: a server takes its share of a host, or none of it.

What is free is compared in the same statement that takes it, so two claims of the last place cannot both succeed,
whatever the scheduler saw before. Reference: compute-scheduling.md, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict
from sqlalchemy import CompoundSelect, Select, bindparam, delete, func, insert, select, update

from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.placement import hosts
from cloudctl.placement.filters import passing
from cloudctl.placement.tables import Host, HostAllocation
from cloudctl.placement.weighers import Weights, best_first
from cloudctl.placement.wishes import HostState, Resources, Wish

NOT_ENOUGH = "No valid host was found. There are not enough hosts available."


class NoValidHost(CloudError):
    """No host can take the server now."""


# Built once, and given its values as parameters: building it costs more than running it.
_take = (
    update(Host)
    .where(
        Host.name == bindparam("on_host"),
        Host.used_vcpus + bindparam("more_vcpus") <= Host.most_vcpus,
        Host.used_memory_mib + bindparam("more_memory") <= Host.most_memory_mib,
        Host.used_disk_gib + bindparam("more_disk") <= Host.most_disk_gib,
    )
    .values(
        used_vcpus=Host.used_vcpus + bindparam("more_vcpus"),
        used_memory_mib=Host.used_memory_mib + bindparam("more_memory"),
        used_disk_gib=Host.used_disk_gib + bindparam("more_disk"),
        shares=Host.shares + 1,
    )
)
_new = insert(HostAllocation)
_held = select(HostAllocation).where(HostAllocation.consumer_id == bindparam("by")).order_by(HostAllocation.host)
_let_go = delete(HostAllocation).where(HostAllocation.consumer_id == bindparam("by")).returning(HostAllocation)
_give_back = (
    update(Host)
    .where(Host.name == bindparam("on_host"))
    .values(
        used_vcpus=Host.used_vcpus - bindparam("less_vcpus"),
        used_memory_mib=Host.used_memory_mib - bindparam("less_memory"),
        used_disk_gib=Host.used_disk_gib - bindparam("less_disk"),
        shares=Host.shares - 1,
    )
)
_hosts = select(Host).order_by(Host.name)


def host_states(conn: Connection) -> list[HostState]:
    """Every host as the filters and weighers see it."""
    return [
        HostState(
            name=host.name,
            zone=host.zone,
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            free_vcpus=host.most_vcpus - host.used_vcpus,
            free_memory_mib=host.most_memory_mib - host.used_memory_mib,
            free_disk_gib=host.most_disk_gib - host.used_disk_gib,
            up=hosts.is_alive(host),
            enabled=host.enabled,
            failed_builds=host.failed_builds,
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            cpu_info=host.cpu_info,
        )
        for host in conn.execute(_hosts)
    ]


def claim(conn: Connection, consumer_id: str, project_id: str, wish: Wish, weights: Weights) -> HostState:
    """The best host that takes the wish, its share taken. A consumer that holds a host keeps it.

    Raises NoValidHost.
    """
    states = host_states(conn)
    held = holding(conn, consumer_id)
    if held:
        return next(state for state in states if state.name == held[0].host)
    for state in best_first(passing(states, wish), wish, weights):
        if _taken(conn, state.name, wish.resources):
            share = {"consumer_id": consumer_id, "host": state.name, "project_id": project_id}
            conn.execute(_new, {**share, **asdict(wish.resources)})
            return state
    raise NoValidHost(NOT_ENOUGH)


def _taken(conn: Connection, host: str, more: Resources) -> bool:
    return _change(conn, host, more.vcpus, more.memory_mib, more.disk_gib)


def _change(conn: Connection, host: str, vcpus: int, memory_mib: int, disk_gib: int) -> bool:
    values = {"on_host": host, "more_vcpus": vcpus, "more_memory": memory_mib, "more_disk": disk_gib}
    return conn.execute(_take, values).rowcount > 0


def holding(conn: Connection, consumer_id: str) -> Sequence[HostAllocation]:
    """The allocations of a consumer: one, or two while it moves."""
    return conn.execute(_held, {"by": consumer_id}).all()


def release(conn: Connection, consumer_id: str) -> None:
    """Give everything back that the consumer holds. A repeat does nothing."""
    for share in conn.execute(_let_go, {"by": consumer_id}):
        amounts = {"less_vcpus": share.vcpus, "less_memory": share.memory_mib, "less_disk": share.disk_gib}
        conn.execute(_give_back, {"on_host": share.host, **amounts})


def hand_over(conn: Connection, from_id: str, to_id: str) -> None:
    """What one consumer holds is the other's, who must hold nothing on that host. A repeat does nothing."""
    conn.execute(update(HostAllocation).where(HostAllocation.consumer_id == from_id).values(consumer_id=to_id))


def held_by_others(conn: Connection, consumer_ids: Select[Any] | CompoundSelect[Any]) -> list[tuple[str, str]]:
    """(consumer, host) of the allocations whose consumers are not among these."""
    others = select(HostAllocation.consumer_id, HostAllocation.host).where(
        HostAllocation.consumer_id.not_in(consumer_ids)
    )
    return list(conn.execute(others))


def counted(conn: Connection, consumer_ids: Select[Any]) -> dict[str, int]:
    """Host → how many of these consumers hold a share of it; without hosts of which none does."""
    mine = HostAllocation.consumer_id.in_(consumer_ids)
    found = select(HostAllocation.host, func.count()).where(mine).group_by(HostAllocation.host)
    return dict(conn.execute(found).all())
