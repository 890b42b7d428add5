"""The disks of a server: what may be requested, and the rows that record it. Reference: compute.md, section 5.3."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, evolve, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import BlockDevice, Server
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Forbidden, Invalid

IMAGE, VOLUME, SNAPSHOT, BLANK = "image", "volume", "snapshot", "blank"
LOCAL = "local"
ROOT = "/dev/vda"
SWAP = "swap"

WRONG_ORDER = (
    "Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination is "
    "not valid."
)


@frozen
class NewDevice:
    """One requested disk. `volume_size` is in GiB, or MiB for swap."""

    source_type: str
    destination_type: str
    source_id: str | None = None
    boot_index: int | None = None  # None: never booted from
    volume_size: int | None = None
    volume_type: str | None = None
    delete_on_termination: bool = False
    device_name: str | None = None
    disk_bus: str | None = None
    device_type: str | None = None
    guest_format: str | None = None
    tag: str | None = None

    @property
    def is_volume(self) -> bool:
        return self.destination_type == VOLUME

    @property
    def is_swap(self) -> bool:
        return self.destination_type == LOCAL and self.guest_format == SWAP

    @property
    def is_ephemeral(self) -> bool:
        return self.destination_type == LOCAL and self.source_type == BLANK and not self.is_swap


@frozen
class Disks:
    """What a server gets: volumes (the root one first, if it boots from one), and local disks."""

    volumes: tuple[NewDevice, ...]
    image_id: str  # "": the root disk is a volume
    ephemeral_gib: int
    swap_mib: int


def arrange(
    devices: Sequence[NewDevice], image_id: str, flavor_ephemeral: int, flavor_swap: int, options: ComputeOptions
) -> Disks:
    """Check the whole request. `image_id` is the imageRef, "" if there is none. Raises Invalid, Forbidden.

    A volume to boot from replaces the image, which clients name as well.
    """
    for device in devices:
        _check_one(device, image_id)
    roots = [device for device in devices if device.boot_index == 0]
    if len(roots) == 1 and roots[0].is_volume:
        image_id = ""
    # The image's own disk may be among them; the server gets it in any case.
    devices = [device for device in devices if not (device.source_type == IMAGE and not device.is_volume)]
    volumes = sorted(
        (device for device in devices if device.is_volume),
        key=lambda device: (device.boot_index is None, device.boot_index or 0),
    )
    _check_order(volumes, image_id)
    local = [device for device in devices if not device.is_volume]
    if len(local) > options.max_local_block_devices:
        raise Invalid("You specified more local devices than the limit allows")
    if len(volumes) > options.max_volumes:
        raise Forbidden(f"The maximum allowed number of disk devices ({options.max_volumes}) was exceeded.")
    _check_once(volumes)
    return Disks(tuple(volumes), image_id, _ephemeral(local, flavor_ephemeral), _swap(local, flavor_swap))


def _check_one(device: NewDevice, image_id: str) -> None:
    source, destination = device.source_type, device.destination_type
    if source == BLANK and device.source_id:
        raise Invalid("Block Device Mapping is Invalid: a blank device cannot have a uuid.")
    if source != BLANK and not device.source_id:
        raise Invalid("Block Device Mapping is Invalid: Missing device UUID.")
    if destination == LOCAL:
        if source in (VOLUME, SNAPSHOT):
            raise Invalid(f"Block Device Mapping is Invalid: Mapping {source} to local is not supported.")
        if source == IMAGE and (device.boot_index != 0 or device.source_id != image_id):
            raise Invalid("Block Device Mapping is Invalid: Mapping image to local is not supported.")
        if device.volume_type:
            raise Invalid("Block Device Mapping is Invalid: Specifying a volume_type with destination_type=local.")
    if destination == VOLUME and source in (IMAGE, BLANK) and not device.volume_size:
        raise Invalid(
            f"Block Device Mapping is Invalid: {source.capitalize()} devices that become volumes need a size."
        )
    if source == VOLUME and device.volume_type:
        raise Invalid("Block Device Mapping is Invalid: Specifying a volume_type with a volume is not allowed.")


def _check_order(volumes: Sequence[NewDevice], image_id: str) -> None:
    indexes = [device.boot_index for device in volumes if device.boot_index is not None]
    if image_id:
        indexes.insert(0, 0)
    if sorted(indexes) != list(range(len(indexes))) or not indexes:
        raise Invalid(WRONG_ORDER)


def _check_once(volumes: Sequence[NewDevice]) -> None:
    existing = [device.source_id for device in volumes if device.source_type == VOLUME]
    for volume_id in existing:
        if existing.count(volume_id) > 1:
            raise Invalid(f"Block Device Mapping is Invalid: volume {volume_id} is named more than once.")


def _ephemeral(local: Iterable[NewDevice], most: int) -> int:
    sizes = [device.volume_size for device in local if device.is_ephemeral]
    if not sizes:
        return most
    # One that names no size has the flavor's.
    total = sum(most if size is None else size for size in sizes)
    if total > most:
        raise Invalid("Ephemeral disks requested are larger than the instance type allows.")
    return total


def _swap(local: Iterable[NewDevice], most: int) -> int:
    sizes = [device.volume_size for device in local if device.is_swap]
    if not sizes:
        return most
    if len(sizes) > 1:
        raise Invalid("Block Device Mapping is Invalid: More than one swap drive requested.")
    size = most if sizes[0] is None else sizes[0]
    if size > most:
        raise Invalid("Swap drive requested is larger than instance type allows.")
    return size


# -- rows

# Built once: building costs more than running it.
_new = insert(BlockDevice)
# A server's volumes are part of its representation.
_changed = update(Server).where(Server.id == bindparam("server")).values(revision=Server.revision + 1)
_of_servers = (
    select(BlockDevice)
    .where(BlockDevice.server_id.in_(bindparam("servers", expanding=True)))
    .order_by(BlockDevice.server_id, BlockDevice.position, BlockDevice.created_at, BlockDevice.id)
)


def of_server(conn: Connection, server_id: str) -> Sequence[BlockDevice]:
    """The volumes of a server, the root disk first."""
    return of_servers(conn, [server_id]).get(server_id, [])


def of_servers(conn: Connection, server_ids: Sequence[str]) -> dict[str, list[BlockDevice]]:
    """Server → its volumes, the root disk first. Servers without any are missing."""
    found: dict[str, list[BlockDevice]] = defaultdict(list)
    for row in conn.execute(_of_servers, {"servers": list(server_ids)}):
        found[row.server_id].append(row)
    return dict(found)


def find(conn: Connection, server_id: str, volume_id: str) -> BlockDevice | None:
    mine = (BlockDevice.server_id == server_id) & (BlockDevice.volume_id == volume_id)
    return conn.execute(select(BlockDevice).where(mine)).first()


def add(
    conn: Connection,
    server_id: str,
    position: int,
    device: NewDevice,
    volume_id: str,
    now: datetime,
    attachment_id: str | None,
) -> BlockDevice:
    """Record a volume of the server."""
    made = BlockDevice(
        id=new_id(),
        server_id=server_id,
        position=position,
        volume_id=volume_id,
        attachment_id=attachment_id,
        created_at=now,
        **asdict(device),
    )
    conn.execute(_new, made._asdict())
    conn.execute(_changed, {"server": server_id})
    return made


def change(conn: Connection, device: BlockDevice, changes: Mapping[str, Any]) -> None:
    conn.execute(update(BlockDevice).where(BlockDevice.id == device.id).values(**changes))
    conn.execute(_changed, {"server": device.server_id})


def all_attached(conn: Connection, server_id: str) -> None:
    """The guest has all volumes of the server."""
    conn.execute(update(BlockDevice).where(BlockDevice.server_id == server_id).values(attached=True))


def remove(conn: Connection, device: BlockDevice) -> None:
    conn.execute(delete(BlockDevice).where(BlockDevice.id == device.id))
    conn.execute(_changed, {"server": device.server_id})


def next_name(taken: Iterable[str | None]) -> str:
    """The first free name of /dev/vdb, /dev/vdc … /dev/vdz, /dev/vdaa …; the root disk is /dev/vda."""
    used = {name for name in taken if name}
    letters = "abcdefghijklmnopqrstuvwxyz"
    suffixes = [*letters[1:], *(first + second for first in letters for second in letters)]
    return next(name for suffix in suffixes if (name := f"/dev/vd{suffix}") not in used)


def named(volumes: Sequence[NewDevice], has_image: bool) -> list[NewDevice]:
    """Every volume with a device name of its own: the root one /dev/vda, others the requested or the next free one.

    A requested name is a hint: the first that asks for it has it.
    """
    requested, given = {device.device_name for device in volumes}, {ROOT}
    done = []
    for device in volumes:
        is_root, name = device.boot_index == 0 and not has_image, device.device_name
        if is_root:
            name = ROOT
        elif name is None or name in given:
            name = next_name(given | requested)
        given.add(name)
        done.append(evolve(device, device_name=name))
    return done
