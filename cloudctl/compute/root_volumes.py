"""The volumes that a server is created with: existing ones are reserved for it, others are created.

Reference: compute.md, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from cloudctl.compute import block_devices
from cloudctl.compute.block_devices import IMAGE, SNAPSHOT, VOLUME, Disks, NewDevice
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.placing import Place
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.volume import attachments, creation, states, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Volume

OTHER_ZONE = "The availability zone between the server and its attached volumes do not match"
SHARED = "Multiattach volumes are only supported starting with compute API version 2.60."


def volume_zone(
    conn: Connection,
    caller: Caller,
    place: Place,
    devices: Sequence[NewDevice],
    options: ComputeOptions,
    volume_options: VolumeOptions,
) -> Place:
    """The place, narrowed to where the server's volumes are, or will be. Raises Invalid."""
    for device in devices:
        if device.source_type != VOLUME:
            continue
        volume = _volume(conn, caller, device)
        if options.cross_az_attach:
            continue
        if place.zone is None:
            place = evolve(place, zone=volume.availability_zone)
        elif place.zone != volume.availability_zone:
            raise Invalid(OTHER_ZONE)
    if place.zone is None and devices and not options.cross_az_attach:
        return evolve(place, zone=volume_options.default_zone)
    return place


def check_bootable(conn: Connection, caller: Caller, devices: Sequence[NewDevice]) -> None:
    """Raises Invalid if an existing volume that is to be booted from is not bootable."""
    for device in devices:
        if device.source_type == VOLUME and device.boot_index == 0:
            volume = _volume(conn, caller, device)
            if not volume.bootable:
                raise Invalid(f"Block Device {volume.id} is not bootable.")


def check_unshared(conn: Connection, caller: Caller, devices: Sequence[NewDevice]) -> None:
    """Raises Invalid if another server has one of the existing volumes."""
    for device in devices:
        if device.source_type == VOLUME:
            volume = _volume(conn, caller, device)
            if volume.multiattach and volume.status == states.IN_USE:
                raise Invalid(SHARED)


def _volume(conn: Connection, caller: Caller, device: NewDevice, *, lock: bool = False) -> Any:
    assert device.source_id is not None, "block_devices.arrange has seen to it"
    try:
        return volumes.visible(conn, caller, device.source_id, lock=lock)
    except NotFound:
        raise Invalid(f"Block Device Mapping is Invalid: failed to get volume {device.source_id}.") from None


def find(conn: Connection, server_id: str) -> Volume | None:
    """The volume that a server boots from."""
    for device in block_devices.of_server(conn, server_id):
        if device.boot_index == 0:
            return volumes.find(conn, device.volume_id)
    return None


def image_of(conn: Connection, server_id: str) -> str | None:
    """The id of the image that the volume a server boots from was made from."""
    root = find(conn, server_id)
    return None if root is None else root.image_metadata.get("image_id")


def add_volumes(
    conn: Connection,
    caller: Caller,
    server: Server,
    disks: Disks,
    options: ComputeOptions,
    volume_options: VolumeOptions,
) -> None:
    """Reserve or create every volume and record it. `server`: id and zone are read. Raises Invalid, OverQuota.

    New volumes have no task of their own: the boot creates them as its children.
    """
    existing = [device for device in disks.volumes if device.source_type == VOLUME]
    # By their ids, and before new ones count for a quota: as all do that lock several.
    for device in sorted(existing, key=lambda device: device.source_id or ""):
        _volume(conn, caller, device, lock=True)
    for position, device in enumerate(block_devices.named(disks.volumes, bool(disks.image_id))):
        attachment_id = None
        try:
            if device.source_type == VOLUME:
                volume_id = str(_volume(conn, caller, device).id)
                attachment_id = attachments.reserve(
                    conn, volume_id, server.id, project_id=None, now=caller.now, device=device.device_name
                )
            else:
                zone = None if options.cross_az_attach else server.zone
                volume_id = str(creation.create(conn, caller, _wish(device, zone), volume_options, submit=False).id)
        except (NotFound, Conflict, Invalid) as error:
            raise Invalid(error.message) from None
        block_devices.add(conn, server.id, position, device, volume_id, caller.now, attachment_id)


def _wish(device: NewDevice, zone: str | None) -> creation.NewVolume:
    """`zone` None: the volume service's default."""
    return creation.NewVolume(
        size=device.volume_size,
        volume_type=device.volume_type,
        availability_zone=zone,
        image_id=device.source_id if device.source_type == IMAGE else None,
        snapshot_id=device.source_id if device.source_type == SNAPSHOT else None,
    )
