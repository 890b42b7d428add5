"""A guest's disks and interfaces in QEMU's terms: the same for its command line and for QMP. Pure.

Sources: QEMU's documents «QMP Reference Manual» (blockdev-add, device_add, netdev_add) and «Device emulation».
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.qemu import keys, slots
from cloudctl.drivers.qemu.switches import OPEN_VSWITCH
from cloudctl.drivers.rbd import disk as rbd
from cloudctl.drivers.specs import PortSpec, VolumeConnection

RECONNECT_SECONDS = 60  # that a guest's I/O waits for a storage daemon that has gone
SERIAL_LENGTH = 20  # of a virtio disk, at most
# What a guest could offload to its network card, and the card to the guest.
OFFLOADS = (
    "csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo",
    "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo",
)  # fmt: skip


@frozen
class Disk:
    """A block device: `block` for blockdev-add, `device` for device_add."""

    name: str
    block: Mapping[str, Any]
    device: Mapping[str, Any]


@frozen
class Nic:
    """An interface: `backend` for netdev_add, `device` for device_add."""

    name: str
    backend: Mapping[str, Any]
    device: Mapping[str, Any]


def bus(slot: int) -> str:
    """The name of a root port."""
    return f"rp{slot}"


def file_disk(
    name: str, path: Path, slot: int, *, format: str, read_only: bool = False, boot: int | None = None
) -> Disk:
    """A disk that is a file of the guest's own. `format`: qcow2 or raw."""
    block = {
        "driver": format,
        "node-name": slots.node(name),
        "read-only": read_only,
        "discard": "unmap",
        "file": {"driver": "file", "filename": str(path)},
    }
    return Disk(name, block, _virtio_disk(name, slot, name, boot))


def rbd_disk(name: str, disk: rbd.RbdDisk, slot: int, *, boot: int | None = None) -> Disk:
    """A disk of the guest's own in Ceph."""
    block = {**_rbd_block(disk), "node-name": slots.node(name), "read-only": False, "discard": "unmap"}
    return Disk(name, block, _virtio_disk(name, slot, name, boot))


def volume_disk(connection: VolumeConnection, slot: int) -> Disk:
    """Raises Unfit for a connection type that this driver does not support."""
    name = slots.volume(connection.volume_id)
    common = {"node-name": slots.node(name), "read-only": connection.read_only, "discard": "unmap"}
    return Disk(
        name,
        {**_volume_block(connection), **common},
        _virtio_disk(name, slot, connection.volume_id, connection.boot_index),
    )


def _volume_block(connection: VolumeConnection) -> dict[str, Any]:
    kind, data = connection.info["driver_volume_type"], connection.info["data"]
    if kind == "qcow2":
        return {"driver": data["format"], "file": {"driver": "file", "filename": data["path"]}}
    if kind == "nbd":
        return {
            "driver": "nbd",
            "server": dict(data["server"]),
            "export": data["export"],
            "reconnect-delay": RECONNECT_SECONDS,
        }
    if kind == rbd.KIND:
        return _rbd_block(rbd.rbd_disk(data))
    raise Unfit(f"volume {connection.volume_id} has the connection type {kind!r}, which QEMU guests cannot use")


def _rbd_block(disk: rbd.RbdDisk) -> dict[str, Any]:
    return {
        "driver": "rbd",
        "pool": disk.pool,
        "namespace": disk.namespace,
        "image": disk.image,
        "server": [{"host": host, "port": port} for host, port in disk.monitors],
        "user": disk.user,
        "auth-client-required": ["cephx"],
        "key-secret": keys.name(disk),
    }


def _virtio_disk(name: str, slot: int, serial: str, boot: int | None) -> dict[str, Any]:
    device = {
        "driver": "virtio-blk-pci",
        "id": name,
        "bus": bus(slot),
        "drive": slots.node(name),
        "serial": serial[:SERIAL_LENGTH],
    }
    return device if boot is None or boot < 0 else {**device, "bootindex": boot}


def nic(port: PortSpec, slot: int) -> Nic:
    """Raises Unfit for a port that is plugged neither by a tap nor into Open vSwitch."""
    name, binding = slots.port(port.id), port.binding or {}
    if binding.get("vif_type") not in ("tap", OPEN_VSWITCH):
        raise Unfit(f"port {port.id} is plugged as {binding.get('vif_type')!r}, which QEMU guests cannot use")
    details = binding["vif_details"]
    backend = {
        "type": "tap",
        "id": slots.node(name),
        "ifname": details["tap"],
        "script": "no",
        "downscript": "no",
    }
    device = {
        "driver": "virtio-net-pci",
        "id": name,
        "bus": bus(slot),
        "netdev": slots.node(name),
        "mac": port.mac,
        "host_mtu": details.get("mtu", port.mtu),
        # No boot from the network: the ROM for it costs time at each start.
        "romfile": "",
    }
    offloads = {} if details.get("offloads", True) else dict.fromkeys(OFFLOADS, False)
    return Nic(name, backend, {**device, **offloads})
