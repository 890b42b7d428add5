"""A server as its hypervisor shall hold it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from cloudctl.compute import block_devices, networking
from cloudctl.drivers.specs import GuestSpec, ImageSource, PortSpec, VolumeConnection
from cloudctl.image import images, properties
from cloudctl.volume import attachments


def spec(conn: Connection, server: Any, image_path: Callable[[str], Path], ports: tuple[PortSpec, ...]) -> GuestSpec:
    """`server` is its row; it has a host, and its volumes are connected there. Raises NotFound."""
    flavor = server.flavor
    return GuestSpec(
        id=server.id,
        name=server.name,
        host=server.host,
        vcpus=server.vcpus,
        memory_mib=server.memory_mib,
        disk_gib=flavor["disk"] if server.image_id else 0,
        image=image_source(conn, server.image_id, image_path) if server.image_id else None,
        ephemeral_gib=flavor["ephemeral"],
        swap_mib=flavor["swap"],
        ports=ports,
        volumes=volume_connections(conn, server.id),
        hostname=server.hostname,
        user_data=server.user_data,
        metadata=server.metadata,
        keypair_name=server.key_name,
        public_key=server.public_key,
        admin_password=server.admin_password,
        config_drive=server.config_drive,
        extra_specs=flavor["extra_specs"],
    )


def image_source(conn: Connection, image_id: str, image_path: Callable[[str], Path]) -> ImageSource:
    """Raises NotFound."""
    image = images.get(conn, image_id)
    given = properties.of(conn, [image_id])[image_id]
    kernel, ramdisk = given.get("kernel_id"), given.get("ramdisk_id")
    return ImageSource(
        id=image_id,
        path=str(image_path(image_id)),
        disk_format=image.disk_format or "raw",
        kernel_path=str(image_path(kernel)) if kernel else None,
        ramdisk_path=str(image_path(ramdisk)) if ramdisk else None,
        properties=given,
    )


def volume_connections(conn: Connection, server_id: str) -> tuple[VolumeConnection, ...]:
    """Of the volumes that are connected to the server's host, the root disk first."""
    devices = block_devices.of_server(conn, server_id)
    if not devices:
        return ()
    connected = {row.id: row for row in attachments.of_server(conn, [server_id]).get(server_id, [])}
    return tuple(
        connection(row, connected[row.attachment_id].connection) for row in devices if row.attachment_id in connected
    )


def connection(device: Any, info: Any) -> VolumeConnection:
    return VolumeConnection(
        volume_id=device.volume_id, info=info, device=device.device_name, boot_index=device.boot_index
    )


def plugged(conn: Connection, server_id: str) -> Sequence[str]:
    """The ids of a server's ports."""
    return [row.port_id for row in networking.of_server(conn, server_id)]
