"""Host aggregates: sets that administrators define, with metadata that the scheduler reads.

Which providers are in one is stored once, for the compute API and for placement alike. An aggregate with the metadata
`availability_zone` is that zone. Reference: compute.md, section 15; compute-scheduling.md, sections 9 and 10.

Functions that change an aggregate take its row as returned by `get` with `lock=True`. Which aggregates a host is in is
changed by whoever has locked the host. Aggregates are locked before hosts, and hosts before their providers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.placement.tables import Aggregate as Aggregate  # the record, for those who import from here
from cloudctl.placement.tables import Host, Provider, ProviderAggregate
from cloudctl.rest.body import INTEGER_MOST

ZONE = "availability_zone"

# Built once: building costs more than running it.
_all = select(Aggregate).order_by(Aggregate.number)
# Whether any host is in one: to be queried together with the hosts.
any_members = select(ProviderAggregate.provider_id).exists()
_metadata = select(ProviderAggregate.provider_id, Aggregate.metadata).where(
    ProviderAggregate.aggregate_id == Aggregate.id
)


@frozen
class NewAggregate:
    name: str
    metadata: Mapping[str, str] = field(factory=dict)


class InUse(Conflict):
    """The change would move a host that has servers into another zone."""


def every(conn: Connection) -> Sequence[Aggregate]:
    """All of them, by number."""
    return conn.execute(_all).all()


def get(conn: Connection, number: int, *, lock: bool = False) -> Aggregate:
    """Raises NotFound."""
    query = select(Aggregate).where(Aggregate.number == number)
    # PostgreSQL compares with no number that the column could not hold.
    found = conn.execute(query.with_for_update() if lock else query).first() if abs(number) <= INTEGER_MOST else None
    if found is None:
        raise NotFound(f"Aggregate {number} could not be found.")
    return found


def create(conn: Connection, new: NewAggregate, now: datetime) -> Aggregate:
    """Raises Conflict."""
    id = new_id()
    row = insert(Aggregate).values(id=id, name=new.name, metadata=dict(new.metadata), created_at=now)
    with unique(conn, Conflict(f"Aggregate {new.name} already exists.")):
        conn.execute(row)
    return conn.execute(select(Aggregate).where(Aggregate.id == id)).one()


def change(conn: Connection, aggregate: Aggregate, changes: Mapping[str, Any], now: datetime) -> Aggregate:
    """`name`, `metadata`. Raises Conflict for a name that is taken, InUse."""
    members = _members(conn, aggregate, lock=True)
    if "metadata" in changes and changes["metadata"].get(ZONE) != aggregate.metadata.get(ZONE):
        _check_zone(conn, aggregate, changes["metadata"].get(ZONE), members)
    values = {**changes, "updated_at": now}
    with unique(conn, Conflict(f"Aggregate {changes.get('name', aggregate.name)} already exists.")):
        conn.execute(update(Aggregate).where(Aggregate.number == aggregate.number).values(values))
    rezone(conn, members)
    return aggregate._replace(**values)


def set_metadata(conn: Connection, aggregate: Aggregate, given: Mapping[str, str | None], now: datetime) -> Aggregate:
    """Add to the metadata; None removes a key. Raises InUse."""
    merged = {key: value for key, value in {**aggregate.metadata, **given}.items() if value is not None}
    return change(conn, aggregate, {"metadata": merged}, now)


def remove(conn: Connection, aggregate: Aggregate) -> None:
    """Raises Invalid while it has hosts."""
    if _members(conn, aggregate):
        raise Invalid(f"Unable to delete aggregate {aggregate.number}: Host aggregate is not empty.")
    conn.execute(delete(ProviderAggregate).where(ProviderAggregate.aggregate_id == aggregate.id))
    conn.execute(delete(Aggregate).where(Aggregate.number == aggregate.number))


# -- hosts


def host_names(conn: Connection, aggregates: Iterable[Aggregate]) -> dict[str, list[str]]:
    """Aggregate's id → the names of its hosts."""
    found: dict[str, list[str]] = {aggregate.id: [] for aggregate in aggregates}
    query = (
        select(ProviderAggregate.aggregate_id, Host.name)
        .where(ProviderAggregate.provider_id == Host.id, ProviderAggregate.aggregate_id.in_(found))
        .order_by(Host.name)
    )
    for aggregate_id, name in conn.execute(query):
        found[aggregate_id].append(name)
    return found


def of_host(conn: Connection, name: str) -> Sequence[Aggregate]:
    """The aggregates that this host is in, by number."""
    mine = Aggregate.id == ProviderAggregate.aggregate_id, ProviderAggregate.provider_id == Host.id, Host.name == name
    return conn.execute(select(Aggregate).where(*mine).order_by(Aggregate.number)).all()


def metadata_of_hosts(conn: Connection) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Host's id → the metadata of each aggregate that it is in."""
    found: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for provider_id, metadata in conn.execute(_metadata):
        found[provider_id].append(metadata)
    return found


def add_host(conn: Connection, aggregate: Aggregate, host: Host, now: datetime) -> None:
    """Raises Conflict if the host is in the aggregate already, or in another zone; InUse, NotFound."""
    host = _locked(conn, host)
    if host.id in {member.id for member in _members(conn, aggregate)}:
        raise Conflict(f"Aggregate {aggregate.number} already has host {host.name}.")
    _check_zone(conn, aggregate, aggregate.metadata.get(ZONE), [host])
    conn.execute(insert(ProviderAggregate).values(provider_id=host.id, aggregate_id=aggregate.id))
    _touch(conn, aggregate, now)
    rezone(conn, [host])


def remove_host(conn: Connection, aggregate: Aggregate, host: Host, now: datetime) -> None:
    """Raises NotFound, InUse."""
    host = _locked(conn, host)
    if host.id not in {member.id for member in _members(conn, aggregate)}:
        raise NotFound(f"Aggregate {aggregate.number} has no host {host.name}.")
    if aggregate.metadata.get(ZONE):
        _check_unused(conn, host, host.home_zone)
    mine = ProviderAggregate.provider_id == host.id, ProviderAggregate.aggregate_id == aggregate.id
    conn.execute(delete(ProviderAggregate).where(*mine))
    _touch(conn, aggregate, now)
    rezone(conn, [host])


def lock_host(conn: Connection, provider_id: str) -> Host | None:
    """The host of this provider, if it is one. Nobody else changes it before the transaction ends."""
    return conn.execute(select(Host).where(Host.id == provider_id).with_for_update()).first()


def _locked(conn: Connection, host: Host) -> Host:
    """The host as it is now. Raises NotFound."""
    found = lock_host(conn, host.id)
    if found is None:
        raise NotFound(f"Compute host {host.name} could not be found.")
    return found


def rezone(conn: Connection, hosts: Iterable[Host]) -> None:
    """Record the zones of these hosts: that of an aggregate, or the one that the configuration names."""
    of_hosts = metadata_of_hosts(conn)
    for host in hosts:
        zone = next((each[ZONE] for each in of_hosts.get(host.id, ()) if each.get(ZONE)), host.home_zone)
        if zone != host.zone:
            conn.execute(update(Host).where(Host.number == host.number).values(zone=zone))


def _members(conn: Connection, aggregate: Aggregate, *, lock: bool = False) -> Sequence[Host]:
    inside = select(ProviderAggregate.provider_id).where(ProviderAggregate.aggregate_id == aggregate.id)
    query = select(Host).where(Host.id.in_(inside)).order_by(Host.number)
    return conn.execute(query.with_for_update() if lock else query).all()


def _check_zone(conn: Connection, aggregate: Aggregate, zone: str | None, hosts: Sequence[Host]) -> None:
    """Check that this aggregate can put these hosts into a zone. Raises Conflict, InUse."""
    if not hosts:
        return
    of_hosts = _zones_of_others(conn, aggregate)
    for host in hosts:
        others = of_hosts.get(host.id, set())
        if zone is not None and others - {zone}:
            raise Conflict(
                f"Cannot use the zone {zone} for aggregate {aggregate.number}: "
                f"host {host.name} is in zone {min(others)} by another aggregate."
            )
        _check_unused(conn, host, zone or next(iter(others), host.home_zone))


def _zones_of_others(conn: Connection, aggregate: Aggregate) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    query = _metadata.where(Aggregate.number != aggregate.number)
    for provider_id, metadata in conn.execute(query):
        if metadata.get(ZONE):
            found[provider_id].add(metadata[ZONE])
    return found


def _check_unused(conn: Connection, host: Host, zone: str) -> None:
    """Servers stay in the zone in which they were created. Raises InUse."""
    shares = conn.scalars(select(Provider.shares).where(Provider.id == host.id)).first()
    if zone != host.zone and shares:
        raise InUse(f"Cannot move host {host.name} from zone {host.zone} to {zone}: it has servers.")


def _touch(conn: Connection, aggregate: Aggregate, now: datetime) -> None:
    conn.execute(update(Aggregate).where(Aggregate.number == aggregate.number).values(updated_at=now))
