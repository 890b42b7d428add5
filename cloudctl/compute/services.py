"""Services: those of hosts, which run servers, and those of processes, which schedule and conduct.

A process with an engine chooses hosts (`placing`, in the step of a workflow) and leads every workflow: it is scheduler
and conductor, and records every few seconds that it is alive. These services cannot be disabled: the process is stopped
instead. Reference: compute.md, section 14.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import frozen
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.compute.options import INTERNAL
from cloudctl.compute.tables import ControlService, Server
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.placement import hosts
from cloudctl.placement.hosts import Host

SCHEDULER, CONDUCTOR, COMPUTE = "nova-scheduler", "nova-conductor", "nova-compute"
CONTROL = (SCHEDULER, CONDUCTOR)
# A service that has been silent for so long is down.
SILENCE = timedelta(seconds=60)


@frozen
class Service:
    """`machine`: the host, for a service that runs servers."""

    id: str
    number: int
    binary: str
    host: str
    zone: str
    up: bool
    seen_at: datetime
    machine: Host | None = None


def of_host(host: Host) -> Service:
    return Service(
        host.service_id, host.number, COMPUTE, host.name, host.zone, hosts.is_alive(host), host.seen_at, host
    )


def _of_control(row: ControlService, now: datetime) -> Service:
    # Hosts are numbered up from 1; these, which are few, down from 0: clients before 2.53 know both by number.
    up = now - row.seen_at < SILENCE
    return Service(row.id, 1 - row.number, row.binary, row.host, INTERNAL, up, row.seen_at)


_seen = update(ControlService).where(ControlService.host == bindparam("of_host")).values(seen_at=bindparam("now"))


def every(conn: Connection, now: datetime) -> list[Service]:
    """Those of hosts first."""
    return [*map(of_host, hosts.every(conn)), *control(conn, now)]


def control(conn: Connection, now: datetime) -> list[Service]:
    rows = conn.execute(select(ControlService).order_by(ControlService.number))
    return [_of_control(row, now) for row in rows]


def beat(conn: Connection, host: str, now: datetime) -> None:
    """Record that the scheduler and conductor of this host are alive."""
    if conn.execute(_seen, {"of_host": host, "now": now}).rowcount >= len(CONTROL):
        return
    for binary in CONTROL:
        try:
            with conn.begin_nested():
                conn.execute(insert(ControlService).values(id=new_id(), binary=binary, host=host, seen_at=now))
        except IntegrityError:
            # Another process of the same name was first.
            continue


def machine(service: Service) -> Host:
    """The host of a service that can be switched. Raises Invalid."""
    if service.machine is None:
        raise Invalid(f"Updating a {service.binary} service is not supported. Only {COMPUTE} services can be updated.")
    return service.machine


def at(conn: Connection, binary: str, host: str, now: datetime) -> Service:
    """Raises NotFound."""
    found = next((each for each in every(conn, now) if (each.binary, each.host) == (binary, host)), None)
    if found is None:
        raise NotFound(f"Could not find binary {binary} on host {host}.")
    return found


def remove(conn: Connection, service: Service) -> None:
    """Forget a service that is gone for good. Raises Conflict if it is up, or still has servers."""
    if service.up:
        raise Conflict(
            f"Unable to delete service {service.id}: {service.binary} on {service.host} is up and would register again."
        )
    if service.machine is None:
        conn.execute(delete(ControlService).where(ControlService.id == service.id))
    elif _has_servers(conn, service.host) or not hosts.remove(conn, service.machine):
        raise Conflict(f"Unable to delete compute service that is hosting instances: {service.host}")


def _has_servers(conn: Connection, host: str) -> bool:
    """Whether there are any, even such as have no share of it: a flavor may take nothing."""
    there = select(Server.id).where(Server.host == host, Server.deleted_at.is_(None)).limit(1)
    return conn.execute(there).first() is not None
