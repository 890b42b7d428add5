"""Hosts: the machines that the hypervisor drivers serve, and what may be promised of each.

Reference: compute-scheduling.md, sections 2 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from attrs import field, frozen
from sqlalchemy import Insert, bindparam, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.db.columns import new_id, utc
from cloudctl.drivers.specs import HostInventory
from cloudctl.placement import aggregates, providers
from cloudctl.placement.names import DISABLED, DISK_GB, MEMORY_MB, NODE, VCPU
from cloudctl.placement.tables import NAME_MOST, Allocation, Inventory, Provider, ProviderTrait
from cloudctl.placement.tables import Host as Host  # the record of this resource, for those who import from here

log = Logger()

# Built once: building costs more than running it.
_all = select(Host).order_by(Host.number)
_by_name = select(Host).where(Host.name == bindparam("of_host"))
_promised = select(
    Inventory.provider_id,
    Inventory.resource_class,
    Inventory.total,
    Inventory.reserved,
    Inventory.max_unit,
    Inventory.allocation_ratio,
).join(Host.table, Host.id == Inventory.provider_id)
# Of all providers: looking up which are hosts takes longer than comparing all hosts in vain now and then.
_summary = select(
    func.count(),
    func.sum(Inventory.total),
    func.sum(Inventory.reserved),
    func.sum(Inventory.allocation_ratio),
    select(func.count()).select_from(Host.table).scalar_subquery(),
).select_from(Inventory.table)
_inventories = select(Inventory).join(Host.table, Host.id == Inventory.provider_id)
# The tables that `summary` reads; of hosts it reads only their number, which changes with what they provide.
PROVIDED = (Inventory.table.name,)
_providers = select(Provider.id).join(Host.table, Host.id == Provider.id)
_down = select(Host.name).where(Host.up.is_(False))
_alive = select(Host.name).where(Host.up, Host.forced_down.is_(False))
_seen = update(Host).where(Host.up).values(seen_at=bindparam("now"))
_say = update(Provider).where(Provider.id == bindparam("wanted")).values(generation=Provider.generation + 1)
_succeeded = update(Host).where(Host.name == bindparam("of_host"), Host.failed_builds > 0).values(failed_builds=0)


# What drivers report about a host, in the order of the values in `sync`.
_said = attrgetter(
    "home_zone",
    "hypervisor_type",
    "hypervisor_version",
    "host_ip",
    "cpu_info",
    "vcpus",
    "memory_mib",
    "disk_gib",
    "up",
    "up_since",
)


@frozen
class Promises:
    """How much more (or less) than a host has may be promised, and which zone it is in."""

    cpu_ratio: float = 4.0
    ram_ratio: float = 1.0
    disk_ratio: float = 1.0
    reserved_vcpus: int = 0
    reserved_memory_mib: int = 512
    reserved_disk_gib: int = 0
    default_zone: str = "nova"
    zones: Mapping[str, Sequence[str]] = field(factory=dict)  # zone → its hosts, by name

    def zone_of(self, name: str) -> str:
        return next((zone for zone, names in self.zones.items() if name in names), self.default_zone)

    def inventories(self, host: HostInventory) -> dict[str, dict[str, Any]]:
        """Resource class → the columns of its inventory, for the classes that the host has."""
        found = {
            VCPU: (host.vcpus, self.reserved_vcpus, self.cpu_ratio),
            MEMORY_MB: (host.memory_mib, self.reserved_memory_mib, self.ram_ratio),
            DISK_GB: (host.disk_gib, self.reserved_disk_gib, self.disk_ratio),
        }
        return {
            name: {
                # In the order of `_promised`.
                "total": total,
                # More than there is cannot be reserved.
                "reserved": min(reserved, total),
                "max_unit": total,
                "allocation_ratio": ratio,
            }
            for name, (total, reserved, ratio) in found.items()
            if total
        }


@frozen
class Load:
    """What is taken of a host. `shares`: by how many servers, or migrations that still hold it."""

    shares: int = 0
    vcpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0


def sync(
    conn: Connection, found: Sequence[HostInventory], now: datetime, promises: Promises, *, are_all: bool = True
) -> tuple[Sequence[Host], Sequence[Host]]:
    """Record what the drivers report about their hosts. Hosts that no driver serves any more are down.

    `are_all` False: these are only a few, and there is nothing new about the others. Returns these hosts (or all) as
    they were, and as they are; in both, `seen_at` and the zones of aggregates are as they were.
    """
    names = None if are_all else [host.name for host in found]
    before = _those(conn, _all, names)
    known = {host.name: host for host in before}
    changed = False
    for host in found:
        values = {
            "home_zone": promises.zone_of(host.name),
            "hypervisor_type": host.hypervisor_type,
            "hypervisor_version": host.hypervisor_version,
            "host_ip": host.host_ip,
            "cpu_info": dict(host.cpu_info),
            "vcpus": host.vcpus,
            "memory_mib": host.memory_mib,
            "disk_gib": host.disk_gib,
            "up": host.up,
            "up_since": None if host.up_since is None else utc(host.up_since),
        }
        if (row := known.get(host.name)) is not None:
            # Most rounds find nothing new.
            if _said(row) != tuple(values.values()):
                conn.execute(update(Host).where(Host.name == host.name).values(**values))
                changed = True
        else:
            new = insert(Host).values(
                id=new_id(),
                service_id=new_id(),
                name=host.name,
                zone=values["home_zone"],
                created_at=now,
                seen_at=now,
                **values,
            )
            changed = True
            try:
                with conn.begin_nested():
                    conn.execute(new)
            except IntegrityError:
                # Another process, which started at the same time, was first.
                continue
    gone = known.keys() - {host.name for host in found}  # none, if these are only a few
    if lost := [name for name in gone if known[name].up]:
        conn.execute(update(Host).where(Host.name.in_(lost)).values(up=False))
        changed = True
    # A host that does not answer keeps the time at which it still did.
    conn.execute(_seen, {"now": now})
    rows = _those(conn, _all, names) if changed else before
    _provide(conn, rows, {host.name: promises.inventories(host) for host in found}, now, names)
    aggregates.rezone(conn, rows)
    return before, rows


def _those(conn: Connection, query: Any, names: Sequence[str] | None) -> Sequence[Any]:
    """The rows that a query finds for these hosts, or for all."""
    return conn.execute(query if names is None else query.where(Host.name.in_(names))).all()


def summary(conn: Connection) -> tuple[Any, ...]:
    """What hosts provide, in a few numbers: they differ once something has changed, unless changes cancel out."""
    return tuple(conn.execute(_summary).one())


def down(conn: Connection) -> set[str]:
    """The names of the hosts that no driver reaches."""
    return set(conn.scalars(_down))


def seen_again(conn: Connection, now: datetime) -> None:
    """Record that the hosts that answer were seen now, for a round that finds nothing else."""
    conn.execute(_seen, {"now": now})


def _provide(
    conn: Connection,
    rows: Sequence[Host],
    wanted: Mapping[str, Mapping[str, dict[str, Any]]],
    now: datetime,
    names: Sequence[str] | None,
) -> None:
    """Record what these hosts provide, unless it is recorded already. `names`: theirs; None: they are all."""
    known = {id for (id,) in _those(conn, _providers, names)}
    has = {row[:2]: row[2:] for row in _those(conn, _promised, names)}
    for host in rows:
        changed = False
        if host.id not in known and (why := _new_provider(conn, host, now)):
            log.warn("host {name} gets no servers: {why}", name=host.name, why=why)
            continue
        for name, values in wanted.get(host.name, {}).items():
            row = has.get((host.id, name))
            if row is None:
                new = insert(Inventory).values(provider_id=host.id, resource_class=name, **values)
                changed = _unless_there(conn, new) or changed
            elif row != tuple(values.values()):
                mine = Inventory.provider_id == host.id, Inventory.resource_class == name
                conn.execute(update(Inventory).where(*mine).values(values))
                changed = True
        if changed:
            moved = {"generation": Provider.generation + 1, "updated_at": now}
            conn.execute(update(Provider).where(Provider.id == host.id).values(moved))


def _new_provider(conn: Connection, host: Host, now: datetime) -> str | None:
    """Why the host gets no provider of its own: nothing can be taken of it as long as that is so."""
    if len(host.name) > NAME_MOST:
        return f"the name of a resource provider has at most {NAME_MOST} characters"
    times = {"created_at": now, "updated_at": now}
    new = insert(Provider).values(id=host.id, name=host.name, root_id=host.id, **times)
    if not _unless_there(conn, new) and conn.execute(select(Provider.id).where(Provider.id == host.id)).first() is None:
        return "a resource provider of a client has its name"
    _unless_there(conn, insert(ProviderTrait).values(provider_id=host.id, trait=NODE))
    return None


def _unless_there(conn: Connection, row: Insert) -> bool:
    """Whether this process wrote the row, and not another one that started at the same time."""
    try:
        with conn.begin_nested():
            conn.execute(row)
    except IntegrityError:
        return False
    return True


def loads(conn: Connection) -> dict[str, Load]:
    """Host's id → what is taken of it."""
    taken: dict[str, dict[str, int]] = {}
    for each in conn.execute(_inventories):
        taken.setdefault(each.provider_id, {})[each.resource_class] = each.used
    shares = select(Provider.id, Provider.shares).join(Host.table, Host.id == Provider.id)
    return {
        id: Load(count, *(taken.get(id, {}).get(name, 0) for name in (VCPU, MEMORY_MB, DISK_GB)))
        for id, count in conn.execute(shares)
    }


def every(conn: Connection) -> Sequence[Host]:
    """All hosts, by number."""
    return conn.execute(_all).all()


def alive(conn: Connection) -> set[str]:
    """The names of the hosts for which `is_alive` holds."""
    return set(conn.scalars(_alive))


def find(conn: Connection, name: str) -> Host | None:
    return conn.execute(_by_name, {"of_host": name}).first()


def zones(conn: Connection) -> dict[str, bool]:
    """Zone → whether a server can be requested there: it has an enabled host. By name."""
    enabled = func.max(case((Host.enabled, 1), else_=0))
    rows = conn.execute(select(Host.zone, enabled).group_by(Host.zone).order_by(Host.zone))
    return {zone: bool(usable) for zone, usable in rows}


def is_alive(host: Host) -> bool:
    return host.up and not host.forced_down


def status(host: Host) -> str:
    """`host_status` of the servers on it: UP, DOWN (an administrator says so), UNKNOWN (silent) or MAINTENANCE."""
    if host.forced_down:
        return "DOWN"
    if not host.up:
        return "UNKNOWN"
    return "UP" if host.enabled else "MAINTENANCE"


def change(conn: Connection, host: Host, changes: Mapping[str, Any]) -> Host:
    """`enabled`, `disabled_reason`, `forced_down`: what administrators say about a host."""
    conn.execute(update(Host).where(Host.number == host.number).values(changes))
    # Whatever `host` says, which may be out of date.
    if "enabled" in changes:
        conn.execute(_say, {"wanted": host.id})
        mark = ProviderTrait.provider_id == host.id, ProviderTrait.trait == DISABLED
        conn.execute(delete(ProviderTrait).where(*mark))
        if not changes["enabled"]:
            conn.execute(insert(ProviderTrait).values(provider_id=host.id, trait=DISABLED))
    return host._replace(**changes)


def remove(conn: Connection, host: Host) -> bool:
    """Forget a host, with all providers below its own; False if somebody has a share of it, or of one of them."""
    aggregates.lock_host(conn, host.id)
    # A host may have got no provider: see `_new_provider`.
    shares = select(Allocation.consumer_id).where(Allocation.provider_id == host.id).limit(1)
    if not providers.remove_tree(conn, host.id) or conn.execute(shares).first() is not None:
        return False
    conn.execute(delete(Host).where(Host.number == host.number))
    return True


def build_failed(conn: Connection, name: str) -> None:
    """Lower the host's weight until a build there succeeds."""
    conn.execute(update(Host).where(Host.name == name).values(failed_builds=Host.failed_builds + 1))


def build_succeeded(conn: Connection, name: str) -> None:
    """Writes nothing for a host without failures: boots on one host must not wait for each other."""
    conn.execute(_succeeded, {"of_host": name})
