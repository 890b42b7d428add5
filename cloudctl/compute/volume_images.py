"""Images of servers that boot from volumes: snapshots of these, and a description of which disk each one was.

Such an image has no data. A server made from it gets a volume from each snapshot. Reference: compute.md, section 7.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from attrs import evolve, frozen

from cloudctl import tasks
from cloudctl.compute import block_devices, kinds
from cloudctl.compute.block_devices import SNAPSHOT, VOLUME, NewDevice
from cloudctl.compute.tables import BlockDevice, Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.image import images
from cloudctl.image.images import SAVING, NewImage
from cloudctl.rest.body import BodyError, Check, Length, LooseInt, extra, structure
from cloudctl.rest.caller import Caller
from cloudctl.rest.decoding import parse
from cloudctl.tasks import Origin
from cloudctl.volume import snapshots, states, uploads, volumes
from cloudctl.volume.kinds import DELETE_SNAPSHOT, LENT
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.snapshots import NewSnapshot

MAPPING, IS_NEW_FORM = "block_device_mapping", "bdm_v2"
TEXTS = ("device_name", "disk_bus", "device_type", "guest_format", "tag")
DESCRIBED = (*TEXTS, "boot_index", "delete_on_termination")


def create(conn: Connection, caller: Caller, server: Server, new: NewImage, options: VolumeOptions) -> str:
    """The id of the image, which a task makes active once the snapshots exist. Raises Conflict, OverQuota."""
    described, root = [], {}
    for device in block_devices.of_server(conn, server.id):
        volume = volumes.get(conn, device.volume_id)
        if device.boot_index == 0:
            root = uploads.properties(volume.image_metadata)
        named = f"snapshot for {new.name}"[:255]
        snapshot = snapshots.create(conn, caller, NewSnapshot(volume.id, name=named, force=True), options)
        described.append(_described(device, snapshot.id, volume.size))
    told = {MAPPING: json.dumps(described), IS_NEW_FORM: "True", "root_device_name": server.root_device_name}
    own = {name: value for name, value in new.properties.items() if name != "base_image_ref"}
    new_image = evolve(new, properties={**root, **own, **told}, min_disk=0, container_format="bare")
    image_id = images.create(conn, new_image, caller.now, status=SAVING)
    args = {"image_id": image_id, "snapshot_ids": [each["snapshot_id"] for each in described]}
    tasks.submit(conn, kinds.FREEZE_VOLUMES, server.id, caller, args=args)
    return image_id


def _described(device: BlockDevice, snapshot_id: str, size: int) -> dict[str, Any]:
    return {
        "source_type": SNAPSHOT,
        "destination_type": VOLUME,
        "snapshot_id": snapshot_id,
        "volume_size": size,
        "volume_type": None,
        **{name: getattr(device, name) for name in DESCRIBED},
    }


def devices(properties: Mapping[str, str]) -> tuple[NewDevice, ...]:
    """The devices that an image with these properties gives to its servers; none if it holds a disk itself.

    Raises Invalid: an image's owner may write anything there.
    """
    if MAPPING not in properties:
        return ()
    try:
        return tuple(_devices(parse(properties[MAPPING].encode())))
    except (BodyError, ValueError, TypeError):
        raise Invalid("Block Device Mapping is Invalid: that of the image cannot be read.") from None


def _devices(described: Any) -> Iterator[NewDevice]:
    """Raises ValueError, TypeError."""
    if not isinstance(described, list):
        raise TypeError("it is not a list")
    for each in described:
        yield _device(each)


def _plain(text: str) -> str:
    """Raises ValueError for characters that no database stores, or that nobody sees."""
    if not text.isprintable():
        raise ValueError("it has unprintable characters")
    return text


@frozen
class Described:
    """One disk, as an image describes it."""

    source_type: Literal["snapshot"]  # nothing else is known
    destination_type: Literal["volume"]
    snapshot_id: Annotated[str, Length(1, 64), Check(_plain)]
    boot_index: LooseInt | None = None
    volume_size: LooseInt | None = None
    delete_on_termination: Any = None
    device_name: Annotated[str, Length(0, 64), Check(_plain)] | None = None
    disk_bus: Annotated[str, Length(0, 16), Check(_plain)] | None = None
    device_type: Annotated[str, Length(0, 16), Check(_plain)] | None = None
    guest_format: Annotated[str, Length(0, 64), Check(_plain)] | None = None
    tag: Annotated[str, Length(0, 60), Check(_plain)] | None = None
    others: dict[str, Any] = extra()


def _device(described: Any) -> NewDevice:
    """Raises ValueError."""
    try:
        told: Described = structure(described, Described)
    except BodyError as error:
        raise ValueError(str(error)) from None
    return NewDevice(
        SNAPSHOT,
        VOLUME,
        source_id=told.snapshot_id,
        boot_index=None if told.boot_index is None or told.boot_index < 0 else told.boot_index,
        volume_size=told.volume_size,
        delete_on_termination=told.delete_on_termination is True,
        **{name: getattr(told, name) or None for name in TEXTS},
    )


def override(of_image: tuple[NewDevice, ...], asked: tuple[NewDevice, ...]) -> tuple[NewDevice, ...]:
    """A requested device replaces the image's device with the same name or boot index."""
    names = {device.device_name for device in asked if device.device_name}
    turns = {device.boot_index for device in asked if device.boot_index is not None}
    kept = [each for each in of_image if each.device_name not in names and each.boot_index not in turns]
    return (*kept, *asked)


def drop(conn: Connection, snapshot_ids: Sequence[str], now: datetime, by: Origin) -> None:
    """Delete the snapshots of an image that failed. May be repeated."""
    for snapshot_id in snapshot_ids:
        if states.SNAPSHOT.try_move(conn, snapshot_id, "force delete", now):
            tasks.supersede(conn, DELETE_SNAPSHOT, snapshot_id, by, keep=LENT)
