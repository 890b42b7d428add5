"""Volumes and interfaces of existing servers. Reference: compute.md, sections 8.4 and 8.5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from attrs import evolve, frozen

from cloudctl import tasks
from cloudctl.compute import block_devices, kinds, networking, power, servers
from cloudctl.compute.block_devices import VOLUME, NewDevice
from cloudctl.compute.networking import NewInterface
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.root_volumes import OTHER_ZONE, SHARED
from cloudctl.compute.states import SHELVED, SHELVED_OFFLOADED
from cloudctl.compute.tables import BlockDevice, Server, ServerInterface
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden, Invalid, NotFound
from cloudctl.network import ports
from cloudctl.network.tables import Port
from cloudctl.rest.caller import Caller
from cloudctl.volume import attachments, volumes

SWAP = "compute:attachments:swap"

# -- volumes


def attach_volume(
    conn: Connection,
    caller: Caller,
    server_id: str,
    volume_id: str,
    options: ComputeOptions,
    *,
    knows_multiattach: bool,
    knows_shelved: bool,
    **wishes: Any,
) -> BlockDevice:
    """Reserve the volume and submit the work; returns the row of `block_devices`.

    `wishes`: `device_name`, `tag`, `delete_on_termination`. Unless the client `knows_multiattach`, no volume is shared,
    and unless it `knows_shelved`, no shelved server gets one. A server without a host gets the volume
    when it is unshelved. Raises NotFound, Invalid, Conflict, Forbidden.
    """
    server = servers.allowed(conn, caller, server_id, "attach_volume", lock=True)
    _reachable(server, "attach_volume", knows_shelved)
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    present = block_devices.of_server(conn, server.id)
    device = NewDevice(VOLUME, VOLUME, volume.id, **wishes)
    device = _named(device, present)
    if any(row.volume_id == volume.id for row in present):
        raise Invalid(f"Invalid volume: volume {volume.id} is already attached to instance {server.id}.")
    if len(present) >= options.max_volumes:
        raise Forbidden(f"The maximum allowed number of disk devices ({options.max_volumes}) was exceeded.")
    if not options.cross_az_attach:
        _check_zone(conn, caller, server, volume.availability_zone)
    if volume.multiattach and not knows_multiattach and volume.status == "in-use":
        raise Invalid(SHARED)
    if volume.status not in ("available", "downloading") and not (volume.multiattach and volume.status == "in-use"):
        raise Invalid(
            f"Invalid volume: volume '{volume.id}' status must be 'available'. Currently in '{volume.status}'"
        )
    if server.host is not None:
        power.on_a_living_host(conn, server)
    attachment_id = attachments.reserve(
        conn, volume.id, server.id, project_id=None, now=caller.now, device=device.device_name
    )
    made = block_devices.add(conn, server.id, len(present), device, volume.id, caller.now, attachment_id)
    tasks.submit(conn, kinds.ATTACH_VOLUME, server.id, caller, args={"device_id": made.id})
    return made


def _reachable(server: Server, name: str, knows_shelved: bool) -> None:
    """Raises Conflict for a server that has no host, unless it is shelved and the client `knows_shelved`."""
    if server.vm_state in (SHELVED, SHELVED_OFFLOADED) and not knows_shelved:
        raise Conflict(f"Cannot '{name}' instance {server.id} while it is in vm_state {server.vm_state}")
    if server.vm_state != SHELVED_OFFLOADED:
        power.placed(server)


def _check_zone(conn: Connection, caller: Caller, server: Server, zone: str) -> None:
    """Raises Invalid. A server that has no host and is not restricted to a zone is put in this one."""
    if server.host is None and server.scheduling.get("zone") is None:
        servers.change(conn, server, {"zone": zone, "scheduling": {**server.scheduling, "zone": zone}}, caller.now)
    elif server.zone != zone:
        raise Invalid(OTHER_ZONE)


def _named(device: NewDevice, present: Sequence[BlockDevice]) -> NewDevice:
    taken = ["/dev/vda", *(row.device_name for row in present)]
    if device.device_name in taken:
        raise Conflict(f"The supplied device path ({device.device_name}) is in use.")
    return device if device.device_name else evolve(device, device_name=block_devices.next_name(taken))


def attached(conn: Connection, caller: Caller, server_id: str, volume_id: str) -> tuple[Server, BlockDevice]:
    """The server and its row for the volume. Raises NotFound."""
    server = servers.visible(conn, caller, server_id)
    device = block_devices.find(conn, server.id, volume_id)
    if device is None:
        raise not_attached(server.id, volume_id)
    return server, device


def not_attached(server_id: str, volume_id: str) -> NotFound:
    return NotFound(f"Instance {server_id} is not attached to volume {volume_id[:64]}")


def detach_volume(conn: Connection, caller: Caller, server_id: str, volume_id: str, *, knows_shelved: bool) -> None:
    """Raises NotFound, Invalid, Conflict."""
    server = servers.allowed(conn, caller, server_id, "detach_volume", lock=True)
    _reachable(server, "detach_volume", knows_shelved)
    _, device = attached(conn, caller, server_id, volume_id)
    if device.boot_index == 0:
        raise Invalid("Cannot detach a root device volume")
    # An administrator may have declared the volume detached: then only the server still has it.
    ended = device.attachment_id is not None and attachments.find(conn, device.attachment_id) is None
    # Without a host the volume is only reserved for the server.
    if server.host is not None and not ended:
        attachments.begin_detach(conn, device.attachment_id or "", caller.now)
    tasks.submit(conn, kinds.DETACH_VOLUME, server.id, caller, args={"device_id": device.id})


def swap_volume(conn: Connection, caller: Caller, server_id: str, volume_id: str, other_id: str) -> NoReturn:
    """OpenStack's block storage calls this in the middle of a move. Ours swaps the volumes it moves itself (its kind
    SWAP_VOLUME), and everybody else is refused: a guest would continue on data that its owner knows nothing about.

    Raises NotFound, Forbidden, Invalid, Conflict.
    """
    _, device = attached(conn, caller, server_id, volume_id)
    caller.require(SWAP)
    servers.allowed(conn, caller, server_id, "swap_volume")
    try:
        volumes.visible(conn, caller, other_id)
    except NotFound as error:
        raise Invalid(error.message) from None
    raise Conflict(f"Volume {device.volume_id} is not being moved by the volume service: only then it can be swapped.")


def keep_or_drop(conn: Connection, caller: Caller, server_id: str, volume_id: str, drop: bool) -> None:
    """Set whether the volume is deleted with the server. Raises NotFound."""
    _, device = attached(conn, caller, server_id, volume_id)
    block_devices.change(conn, device, {"delete_on_termination": drop})


# -- interfaces


@frozen
class Interface:
    """An interface of a server: its row, and the port's."""

    row: ServerInterface
    port: Port


def attach_interface(conn: Connection, caller: Caller, server_id: str, wish: NewInterface) -> Interface:
    """Without a port and a network in the wish it is the only network that the project can use.

    Raises NotFound, Invalid, Conflict, OverQuota.
    """
    server = power.on_a_living_host(conn, servers.allowed(conn, caller, server_id, "attach_interface", lock=True))
    named = wish.port_id or wish.network_id
    (checked,) = networking.chosen(conn, caller, _findable(conn, caller, wish) if named else "auto")
    checked = evolve(checked, tag=wish.tag)
    position = networking.next_position(conn, server.id)
    port_id = networking.add(conn, server, checked, position, caller.now, caller, None)
    ports.bind(conn, port_id, server.id, server.host or "", networking.owner(server.zone), caller.now)
    tasks.submit(conn, kinds.ATTACH_INTERFACE, server.id, caller, args={"port_id": port_id})
    return interface(conn, caller, server_id, port_id)


def _findable(conn: Connection, caller: Caller, wish: NewInterface) -> list[NewInterface]:
    """Here a port that does not exist for the caller is a 404."""
    if wish.port_id:
        try:
            ports.visible(conn, caller, wish.port_id)
        except NotFound:
            raise NotFound(f"Port id {wish.port_id} could not be found.") from None
    return [wish]


def interface(conn: Connection, caller: Caller, server_id: str, port_id: str) -> Interface:
    """Raises NotFound."""
    server = servers.visible(conn, caller, server_id)
    row, port = networking.find(conn, server.id, port_id), ports.find(conn, port_id)
    if row is None or port is None:
        raise NotFound(f"Port id {port_id[:64]} could not be found.")
    return Interface(row, port)


def interfaces(conn: Connection, caller: Caller, server_id: str) -> list[Interface]:
    """In the order the guest has them. Raises NotFound."""
    server = servers.visible(conn, caller, server_id)
    found = {port.id: port for port in ports.of_device(conn, server.id)}
    return [Interface(row, found[row.port_id]) for row in networking.of_server(conn, server.id) if row.port_id in found]


def detach_interface(conn: Connection, caller: Caller, server_id: str, port_id: str) -> None:
    """Raises NotFound, Conflict."""
    server = servers.allowed(conn, caller, server_id, "detach_interface", lock=True)
    interface(conn, caller, server_id, port_id)
    tasks.submit(conn, kinds.DETACH_INTERFACE, server.id, caller, args={"port_id": port_id})
