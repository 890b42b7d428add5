"""Shelved servers: off, with their root disk kept as an image, and sooner or later on no host.

Reference: compute-states.md, section 4.9.
"""

from __future__ import annotations

from datetime import datetime

from attrs import frozen
from sqlalchemy import update

from cloudctl import tasks
from cloudctl.compute import block_devices, kinds, networking, power, servers, snapshots
from cloudctl.compute.pinning import needed_zone
from cloudctl.compute.placing import NO_ZONE
from cloudctl.compute.states import SHELVED_OFFLOADED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.image import images
from cloudctl.placement import claims, hosts
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin, Unasked

TO_HOST = "compute:servers:unshelve:host"


@frozen
class Destination:
    """Where an offloaded server is to be. `zone`: None for no particular one; "" keeps the previous one."""

    zone: str | None = ""
    host: str | None = None


def shelve(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict, OverQuota."""
    row = power.on_a_living_host(conn, servers.begin(conn, caller, server_id, "shelve"))
    image_id = None
    if row.image_id:
        new = snapshots.new(conn, caller, row, f"{row.name}-shelved"[:255], {})
        image_id = images.create(conn, new, caller.now, status=images.SAVING)
    tasks.submit(conn, kinds.SHELVE, row.id, caller, args={"image_id": image_id, "was": row.vm_state})


def offload(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = power.placed(servers.begin(conn, caller, server_id, "shelveOffload"))
    tasks.submit(conn, kinds.OFFLOAD, row.id, caller)


def unshelve(
    conn: Connection, caller: Caller, server_id: str, wanted: Destination, *, cross_az_attach: bool = False
) -> None:
    """Raises NotFound, Conflict, Invalid, Forbidden."""
    row = servers.begin(conn, caller, server_id, "unshelve")
    if wanted != Destination():
        row = _send(conn, caller, row, wanted, cross_az_attach)
    here = row.vm_state != SHELVED_OFFLOADED
    if here:
        power.on_a_living_host(conn, row)
    tasks.submit(conn, kinds.UNSHELVE, row.id, caller, args={"here": here, "host": wanted.host})


def _send(conn: Connection, caller: Caller, row: Server, wanted: Destination, cross_az_attach: bool) -> Server:
    if wanted.host is not None:
        caller.require(TO_HOST)
    if row.vm_state != SHELVED_OFFLOADED:
        raise Conflict(
            f'Specifying an availability zone or a host when unshelving server {row.id} with status "{row.vm_state}" '
            "is not supported. The server status must be SHELVED_OFFLOADED."
        )
    if wanted.zone and not hosts.zones(conn).get(wanted.zone):
        raise Invalid(NO_ZONE)
    zone = row.pinned_zone if wanted.zone == "" else wanted.zone
    if wanted.host is not None:
        host = hosts.find(conn, wanted.host)
        if host is None:
            raise Invalid(f"Compute host {wanted.host[:255]} could not be found.")
        if zone and host.zone != zone:
            raise Conflict(f'Host "{host.name}" is not in the availability zone "{zone}".')
    if wanted.zone == "":
        return row
    needed = needed_zone(conn, row, zone, cross_az_attach=cross_az_attach)
    sent = {"pinned_zone": zone, "zone": needed, "scheduling": {**row.scheduling, "zone": needed}}
    return servers.change(conn, row, sent, caller.now)


# -- what the workflows write


def shelved(
    conn: Connection, server_id: str, image_id: str | None, now: datetime, by: Origin, *, goes_on: bool
) -> bool:
    """`goes_on`: the server leaves its host at once. Returns False if a deletion has begun in the meantime."""
    name = "shelved, and goes on" if goes_on else "shelved"
    before = servers.get(conn, server_id).shelved_image_id
    done = servers.try_move(conn, server_id, name, now, shelved_image_id=image_id, waiting_since=now)
    if done and before is not None and before != image_id:
        # It was shelved before, until an administrator reset its state.
        snapshots.discard(conn, before, now, by)
    if done and goes_on:
        tasks.submit(conn, kinds.LEAVE_HOST, server_id, by)
    return done


def overdue(conn: Connection, row: Server, now: datetime) -> None:
    """Offload a server that has been shelved long enough."""
    if servers.try_move(conn, row.id, "offload", now):
        tasks.submit(conn, kinds.LEAVE_HOST, row.id, Unasked(row.project_id))


def offloaded(conn: Connection, server_id: str, now: datetime) -> None:
    """Nothing of the server is left on its host. May be repeated."""
    server = servers.get(conn, server_id)
    claims.release(conn, server_id)
    networking.leave_host(conn, server_id, now)
    changes = {"zone": server.scheduling.get("zone"), "waiting_since": None}
    if not servers.try_move(conn, server_id, "offloaded", now, **changes):
        servers.try_move(conn, server_id, "shelved after all", now, **changes)


def unshelved(conn: Connection, server_id: str, now: datetime, by: Origin) -> bool:
    """The server runs, and its disk is its own again. Returns False if a deletion has begun in the meantime."""
    server = servers.get(conn, server_id)
    forgotten = {"shelved_image_id": None, "waiting_since": None}
    if not servers.try_move(conn, server_id, "unshelved", now, launched_at=now, **forgotten):
        return False
    block_devices.all_attached(conn, server_id)
    forget_image(conn, server, now, by)
    return True


def forget_image(conn: Connection, server: Server, now: datetime, by: Origin) -> None:
    """Discard the image that held the server's root disk. May be repeated."""
    if server.shelved_image_id is not None:
        conn.execute(update(Server).where(Server.id == server.id).values(shelved_image_id=None))
        snapshots.discard(conn, server.shelved_image_id, now, by)
