"""Repairs, through QEMU's monitor, what QEMU and libvirt leave behind when a migration breaks off. Plain functions,
which block.

libvirt logs that somebody else used the monitor of such a guest; that has no other effect.
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

# Prefix of libvirt's names of the nodes through which QEMU sends a disk. If libvirtd died before a migration ended,
# they stay, and every later migration of the guest fails because of them.
SENDING = "migration-"
IN_THE_WAY = f"Duplicate nodes with node-name='{SENDING}"


def release(connection: Any, id: str) -> None:
    """A guest that stands still for a cancelled migration goes on.

    QEMU (7.2) waits for ever if it is told to cancel at the moment when it stops the guest to switch sides. Told to
    continue, it finds that the migration is cancelled. A QEMU that does not wait is not affected.
    """
    # The guest has gone or gone off, or libvirt is busy with it; the next look tries again.
    harmless = libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_TIMEOUT
    with guests.Unless(*harmless):
        guest = guests.find(connection, id)
        if guest is None or guest.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
            return
        if _said(guest, "query-migrate").get("status") == "cancelling":
            with suppress(DriverError):  # it was cancelled meanwhile
                _said(guest, "migrate-continue", state="cancelling")


def are_in_the_way(error: libvirt.libvirtError) -> bool:
    """Whether a migration was refused because of what an earlier one has left."""
    return IN_THE_WAY in str(error)


def clear(guest: Any) -> None:
    """Remove the nodes that sent the guest's disks; for a guest that is not being moved. Raises DriverError."""
    found = [node["node-name"] for node in _said(guest, "query-named-block-nodes", flat=True)]
    # A format node is above its storage node, which is in use until the former is gone.
    for name in sorted(name for name in found if name.startswith(SENDING)):
        _said(guest, "blockdev-del", **{"node-name": name})


def _said(guest: Any, command: str, **arguments: Any) -> Any:
    """QEMU's answer. Raises DriverError, libvirtError."""
    asked = {"execute": command, **({"arguments": arguments} if arguments else {})}
    told: Mapping[str, Any] = json.loads(libvirt_qemu.qemuMonitorCommand(guest, json.dumps(asked), 0))
    if "error" in told:
        raise DriverError(f"QEMU refuses {command}: {told['error']['desc']}")
    return told["return"]
