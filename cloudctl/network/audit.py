"""The audit of network backends: what they hold, compared with networks, ports, routers and security groups.

Anything that is missing or differs from the database is mended by the task that would create it. Anything the database
does not know is only reported: nobody is entitled to delete it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from attrs import frozen
from sqlalchemy import select

from cloudctl import db, tasks
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import INetworkBackend, INetworkDrift
from cloudctl.drivers.specs import NetworkInventory
from cloudctl.network import kinds, ports
from cloudctl.network.tables import Network, Port, Router, SecurityGroup, Standard
from cloudctl.tasks import Kind
from cloudctl.tasks.audit import Finding, mended

ACTIVE = "ACTIVE"
ENSURE: Mapping[str, Kind] = {
    each.resource: each
    for each in (kinds.ENSURE_NETWORK, kinds.ENSURE_PORT, kinds.ENSURE_ROUTER, kinds.ENSURE_SECURITY_GROUP)
}
RECORDS: Mapping[str, type[Standard]] = {
    kinds.NETWORK: Network,
    kinds.PORT: Port,
    kinds.ROUTER: Router,
    kinds.SECURITY_GROUP: SecurityGroup,
}

_networks = select(Network.id, Network.status, Network.updated_at)
_routers = select(Router.id, Router.status, Router.updated_at)
_ports = select(Port.id, Port.host, Port.vif_type, Port.updated_at)
_groups = select(SecurityGroup.id, SecurityGroup.updated_at)


@frozen
class Before:
    """What the database held before the backend was queried: anything changed since then is not judged."""

    at: datetime
    ids: frozenset[str]  # of all


class Seen(NamedTuple):
    """What the audit looks at in an object. `host` is that of a port."""

    type: str
    id: str
    updated_at: datetime
    held: bool  # the backend shall have it
    host: str = ""


def check(database: Database, backend: INetworkBackend) -> Callable[[], Awaitable[Sequence[Finding]]]:
    """The check, for `tasks.audit.Audit`."""

    async def round() -> Sequence[Finding]:
        before = await database.scan(_before)
        found = await backend.inventory()
        drifted = await backend.drifted() if INetworkDrift.providedBy(backend) else frozenset()
        # It reads every port, so it must not block writers.
        return await mended(database, _mend, await database.scan(compare, before, found, drifted))

    return round


def _before(conn: Connection) -> Before:
    ids = (id for record in RECORDS.values() for id in conn.scalars(select(record.id)))
    return Before(utc(db.now(conn)), frozenset(ids))


def compare(conn: Connection, before: Before, found: NetworkInventory, drifted: frozenset[str]) -> list[Finding]:
    """All differences; those marked `submitted` are yet to be."""
    there = set(_there(found))
    findings, known = [], set(before.ids)
    for one in _all(conn):
        known.add(one.id)
        difference = _difference(one, there, drifted)
        if difference is not None and one.updated_at < before.at and not tasks.has_open(conn, one.type, one.id):
            findings.append(_finding(one.type, one.id, *difference, submitted=True))
    unknown = sorted({(type, id) for type, id, _ in there if id not in known})
    return [*findings, *(_finding(*each, "unknown", "the database does not know it") for each in unknown)]


def _there(found: NetworkInventory) -> Iterator[tuple[str, str, str]]:
    """Type, id and host of all that the backend has."""
    for type, ids in (
        (kinds.NETWORK, found.networks),
        (kinds.ROUTER, found.routers),
        (kinds.SECURITY_GROUP, found.security_groups),
    ):
        for id in ids:
            yield type, id, ""
    for port in found.ports:
        for host in port.hosts:
            yield kinds.PORT, port.id, host


def _all(conn: Connection) -> Iterator[Seen]:
    for id, status, updated_at in conn.execute(_networks):
        yield Seen(kinds.NETWORK, id, updated_at, status == ACTIVE)
    for id, status, updated_at in conn.execute(_routers):
        yield Seen(kinds.ROUTER, id, updated_at, status == ACTIVE)
    for id, host, vif_type, updated_at in conn.execute(_ports):
        yield Seen(kinds.PORT, id, updated_at, vif_type not in (ports.UNBOUND, ports.BINDING_FAILED), host)
    for id, updated_at in conn.execute(_groups):
        # It is made with the first port that is in it.
        yield Seen(kinds.SECURITY_GROUP, id, updated_at, False)


def _difference(one: Seen, there: set[tuple[str, str, str]], drifted: frozenset[str]) -> tuple[str, str] | None:
    if one.held and (one.type, one.id, one.host) not in there:
        return "missing", f"the backend does not have it on host {one.host}" if one.host else "the backend lacks it"
    if one.id in drifted:
        return "drifted", "the backend has it otherwise than it was wished"
    return None


def _finding(type: str, id: str, what: str, message: str, submitted: bool = False) -> Finding:
    return Finding(f"{type.replace('_', '-')}-{what}", type, id, message, submitted)


def _mend(conn: Connection, wanted: Sequence[tuple[str, str]]) -> set[str]:
    """Those that now have a task; an object that has other work by now is checked in the next round."""
    having = set()
    for type, id in wanted:
        record = RECORDS[type]
        project_id = conn.scalar(select(record.project_id).where(record.id == id))
        if project_id is not None and not tasks.has_open(conn, type, id):
            tasks.submit(conn, ENSURE[type], id, tasks.Unasked(project_id))
            having.add(id)
    return having
