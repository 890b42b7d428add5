"""A server as its hypervisor is to hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import evolve

from cloudctl.compute import block_devices, migrations, networking, servers
from cloudctl.compute.tables import BlockDevice, Server, ServerInterface
from cloudctl.db import Connection
from cloudctl.drivers.specs import GuestFile, GuestSpec, ImageSource, NetworkSpec, PortSpec, VolumeConnection
from cloudctl.errors import NotFound
from cloudctl.image import images, properties
from cloudctl.network import networks, port_specs, ports
from cloudctl.volume import attachments
from cloudctl.volume.tables import Attachment


def spec(
    conn: Connection,
    server: Server,
    image_path: Callable[[str], Path],
    plugs: Sequence[PortSpec],
    around: Sequence[NetworkSpec],
    *,
    is_made: bool = False,
) -> GuestSpec:
    """The guest of `server`, which has a host where its volumes are connected. `around`: the networks of `plugs`.

    Raises NotFound for an image that is gone, unless the guest `is_made` and no longer needs it.
    """
    return _spec(conn, server, _image(conn, server, image_path, may_be_gone=is_made), plugs, around)


def described(conn: Connection, server: Server, image_path: Callable[[str], Path]) -> GuestSpec:
    """The same for describing the guest only: it need not be on a host, and its image may be gone."""
    image = _image(conn, server, image_path, may_be_gone=True)
    mine = networking.of_server(conn, server.id)
    plugs = [evolve(port_specs.driver_spec(conn, row.port_id), tag=row.tag) for row in mine if _is_there(conn, row)]
    found = (networks.driver_spec(conn, network_id) for network_id in dict.fromkeys(each.network_id for each in plugs))
    groups = networking.security_groups(conn, [server.id]).get(server.id, {})
    addresses = networking.addresses(conn, [server.id]).get(server.id, [])
    made = _spec(conn, server, image, plugs, [network for network in found if network is not None])
    return evolve(
        made,
        security_groups=tuple(sorted({*groups.values()})),
        public_ipv4=next((address.ip for address in addresses if address.floating), ""),
    )


def _is_there(conn: Connection, interface: ServerInterface) -> bool:
    """Whether the port still exists: its owner may delete it."""
    return ports.find(conn, interface.port_id) is not None


def _image(
    conn: Connection, server: Server, image_path: Callable[[str], Path], *, may_be_gone: bool
) -> ImageSource | None:
    # A shelved server's disk is an image of its own.
    image_id = server.shelved_image_id or server.image_id
    if not image_id:
        return None
    try:
        return image_source(conn, image_id, image_path, is_made=may_be_gone)
    except NotFound:
        if may_be_gone:
            return _gone(conn, server, image_id, image_path)
        raise


def _gone(conn: Connection, server: Server, image_id: str, image_path: Callable[[str], Path]) -> ImageSource:
    """An image that is gone, as far as the server remembers it. The guest has its own kernel and ramdisk.

    Its file does not exist: a driver that has the guest's disk does not look for it, and any other says so.
    """
    said: Mapping[str, str] = server.scheduling.get("image", {})
    try:
        started = _started_with(conn, None, said, image_path, is_made=True)
    except NotFound:
        started = {}
    return ImageSource(image_id, f"{image_path(image_id)}.gone", **started, properties=said)


def _spec(
    conn: Connection,
    server: Server,
    image: ImageSource | None,
    plugs: Sequence[PortSpec],
    around: Sequence[NetworkSpec],
) -> GuestSpec:
    flavor = server.flavor
    return GuestSpec(
        id=server.id,
        name=server.name,
        host=server.host or "",
        vcpus=flavor["vcpus"],
        memory_mib=flavor["ram"],
        disk_gib=flavor["disk"] if server.image_id else 0,
        image=image,
        ephemeral_gib=flavor["ephemeral"],
        swap_mib=flavor["swap"],
        ports=tuple(plugs),
        volumes=volume_connections(conn, server.id),
        hostname=server.hostname,
        user_data=server.user_data,
        metadata=server.metadata,
        keypair_name=server.key_name,
        public_key=server.public_key,
        admin_password=server.admin_password,
        config_drive=server.config_drive,
        files=tuple(GuestFile(each["path"], each["contents"]) for each in server.personality),
        extra_specs=flavor["extra_specs"],
        project_id=server.project_id,
        number=server.number,
        launch_index=server.launch_index,
        reservation_id=server.reservation_id,
        flavor_name=flavor["original_name"],
        availability_zone=server.zone or "",
        security_groups=tuple(server.security_groups),
        networks=tuple(around),
    )


def image_source(
    conn: Connection, image_id: str, image_path: Callable[[str], Path], *, is_made: bool = False
) -> ImageSource:
    """`is_made`: the guest already has its own kernel and ramdisk, so their images may be gone. Raises NotFound."""
    found = properties.with_format(conn, image_id)
    if found is None:
        raise images.not_found(image_id)
    owner, disk_format, given = found
    started = _started_with(conn, owner, given, image_path, is_made=is_made)
    return ImageSource(
        image_id, str(image_path(image_id)), disk_format=disk_format or "raw", **started, properties=given
    )


def _started_with(
    conn: Connection, owner: str | None, given: Mapping[str, str], image_path: Callable[[str], Path], *, is_made: bool
) -> dict[str, str]:
    """The files of the kernel and the ramdisk that the properties name, as ImageSource has them.

    An image's owner may write anything there, so they must be images that the owner may use; `owner` None: unknown.
    A guest that is made has its own copies, and is given no others: paths lead nowhere then. Raises NotFound.
    """
    files = {}
    for name in ("kernel", "ramdisk"):
        if id := given.get(f"{name}_id"):
            is_usable = owner is not None and images.is_usable(conn, id, owner)
            if not is_usable and not (is_made and _is_id(id)):
                raise images.not_found(id)
            files[f"{name}_path"] = str(image_path(id)) if is_usable else f"{image_path(id)}.gone"
    return files


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def volume_connections(conn: Connection, server_id: str) -> tuple[VolumeConnection, ...]:
    """The server's volumes that are connected to its host, the root disk first."""
    return tuple(connection(row, used.connection, used.mode) for row, used in volumes_of(conn, server_id))


def volumes_of(conn: Connection, server_id: str) -> list[tuple[BlockDevice, Attachment]]:
    """The server's volumes, the root disk first, without those that an administrator has declared detached."""
    mine = block_devices.of_server(conn, server_id)
    if not mine:
        return []
    having = {row.id: row for row in attachments.of_server(conn, [server_id]).get(server_id, [])}
    return [(row, having[row.attachment_id]) for row in mine if row.attachment_id in having]


def connection(device: BlockDevice, info: Any, mode: str | None) -> VolumeConnection:
    """`mode`: of its attachment."""
    return VolumeConnection(
        volume_id=device.volume_id,
        info=info,
        device=device.device_name,
        boot_index=device.boot_index,
        read_only=mode == "ro",
        tag=device.tag,
    )


def plugged(conn: Connection, server_id: str) -> Sequence[str]:
    """The ids of a server's ports."""
    return [row.port_id for row in networking.of_server(conn, server_id)]


def places(conn: Connection, server_id: str) -> tuple[str, ...]:
    """The hosts that a server's guest may be on: the one it belongs on, then those that it is leaving."""
    server = servers.find(conn, server_id)
    if server is None:
        return ()
    found = [server.host, *(each.source_host for each in migrations.unfinished(conn, server_id))]
    return tuple(dict.fromkeys(host for host in found if host is not None))
