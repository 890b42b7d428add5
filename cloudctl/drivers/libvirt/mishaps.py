"""What QEMU and libvirt leave undone when a migration breaks off, put right by QEMU's monitor. Plain functions, which
block.

libvirt notes in its log that somebody else used the monitor of such a guest; nothing else changes by that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import libvirt
import libvirt_qemu

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.libvirt import guests

# What libvirt names the nodes by which a QEMU sends a disk: of one whose end libvirtd did not live to see they stay,
# and each later migration of the guest fails by them.
SENDING = "migration-"
IN_THE_WAY = f"Duplicate nodes with node-name='{SENDING}"


def release(connection: Any, id: str) -> None:
    """A guest that stands still for a migration that is cancelled goes on.

    QEMU (7.2) waits for ever if it is told to cancel in the moment in which it lets the guest stand still to change
    sides: it is told to go on then, and finds that it is cancelled. To one that does not wait this does nothing.
    """
    # It has gone, or gone off, or libvirt is at it; who looks looks again.
    harmless = libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_TIMEOUT
    with guests.Unless(*harmless):
        guest = guests.find(connection, id)
        if guest is None or guest.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
            return
        if _said(guest, "query-migrate").get("status") == "cancelling":
            with suppress(DriverError):  # it was cancelled meanwhile
                _said(guest, "migrate-continue", state="cancelling")


def are_in_the_way(error: libvirt.libvirtError) -> bool:
    """Whether a migration was refused for what an earlier one has left."""
    return IN_THE_WAY in str(error)


def clear(guest: Any) -> None:
    """Of what sent the guest's disks nothing is left; for one that nobody moves. Raises DriverError."""
    found = [node["node-name"] for node in _said(guest, "query-named-block-nodes", flat=True)]
    # A format is above its storage, which is in use until it is gone.
    for name in sorted(name for name in found if name.startswith(SENDING)):
        _said(guest, "blockdev-del", **{"node-name": name})


def _said(guest: Any, command: str, **arguments: Any) -> Any:
    """What QEMU answers. Raises DriverError, libvirtError."""
    asked = {"execute": command, **({"arguments": arguments} if arguments else {})}
    told: Mapping[str, Any] = json.loads(libvirt_qemu.qemuMonitorCommand(guest, json.dumps(asked), 0))
    if "error" in told:
        raise DriverError(f"QEMU refuses {command}: {told['error']['desc']}")
    return told["return"]
