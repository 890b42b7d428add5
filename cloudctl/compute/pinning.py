"""The zone that a server may not leave. Reference: compute-microversions.md, 2.96 and 2.104."""

from __future__ import annotations

from typing import Any

from cloudctl.compute import block_devices
from cloudctl.compute.root_volumes import OTHER_ZONE
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.volume import volumes


def pinned(conn: Connection, row: Server, zone: str | None, *, cross_az_attach: bool) -> dict[str, Any]:
    """The columns of a server pinned to `zone`, where it is; None: it may leave its zone, if its volumes allow it.

    Raises Invalid for another zone, Conflict for a server that is on no host.
    """
    if zone is not None and row.host is None:
        raise Conflict(f"Instance {row.id} is on no host, so in no availability zone that it could be pinned to.")
    if zone is not None and zone != row.zone:
        raise Invalid(
            f"Instance {row.id} is in availability zone {row.zone!r} and cannot be pinned to {zone[:255]!r}: "
            "only to the one in which it is."
        )
    needed = needed_zone(conn, row, zone, cross_az_attach=cross_az_attach)
    changes = {"pinned_zone": zone, "scheduling": {**row.scheduling, "zone": needed}}
    return changes if row.host is not None else {**changes, "zone": needed}


def needed_zone(conn: Connection, row: Server, zone: str | None, *, cross_az_attach: bool) -> str | None:
    """The zone that a server has to be in: `zone`, and that of its volumes. Raises Conflict if these differ."""
    needed = zone
    if not cross_az_attach:
        for device in block_devices.of_server(conn, row.id):
            of_volume = volumes.get(conn, device.volume_id).availability_zone
            if needed not in (None, of_volume):
                raise Conflict(OTHER_ZONE)
            needed = of_volume
    return needed
