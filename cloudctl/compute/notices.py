"""Compute's notifications: the lifecycle of servers, and what the high-availability service waits for.

Types and payloads are those of OpenStack's versioned notifications. Reference: compute.md, section 19. They are written
in the transactions that begin and end the work, and only if somebody wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select

from cloudctl.compute.states import (
    CRASHED,
    ERROR,
    NO_STATE,
    POWER_PAUSED,
    POWER_SUSPENDED,
    RUNNING,
    SHUTDOWN,
)
from cloudctl.compute.tables import BlockDevice, Migration, Server, ServerInterface
from cloudctl.db import Connection
from cloudctl.events import outbox
from cloudctl.events.outbox import NewEvent
from cloudctl.network import devices
from cloudctl.rest.formats import zulu
from cloudctl.tasks import Phase, Told

INSTANCE_ERROR, HOST_ERROR = "compute.instance.error", "compute.host.error"
# What happened to a guest, in the words in which instance monitors report libvirt's events.
FAILED, SHUT_DOWN = "STOPPED_FAILED", "STOPPED_SHUTDOWN"
POWER = {
    NO_STATE: "pending",
    RUNNING: "running",
    POWER_PAUSED: "paused",
    SHUTDOWN: "shutdown",
    CRASHED: "crashed",
    POWER_SUSPENDED: "suspended",
}

_server = select(Server).where(Server.id == bindparam("wanted"))
_of_migration = select(Migration.server_id).where(Migration.id == bindparam("wanted"))
_ports = (
    select(ServerInterface.port_id)
    .where(ServerInterface.server_id == bindparam("of"))
    .order_by(ServerInterface.position)
)
_volumes = (
    select(BlockDevice)
    .where(BlockDevice.server_id == bindparam("of"), BlockDevice.destination_type == "volume")
    .order_by(BlockDevice.position)
)


def work(word: str) -> Callable[[Connection, Told], None]:
    """For a Kind of work on a server: `instance.WORD.start`, `.end` and `.error`."""
    return phases({phase: f"instance.{word}.{phase}" for phase in Phase})


def phases(types: Mapping[Phase, str]) -> Callable[[Connection, Told], None]:
    def tell(conn: Connection, told: Told) -> None:
        if types[told.phase] in conn.wishes:
            _tell(conn, told, types[told.phase], told.resource_id)
        if told.phase is Phase.ERROR and INSTANCE_ERROR in conn.wishes:
            _tell_broken(conn, told)

    return tell


def work_on_migration(word: str) -> Callable[[Connection, Told], None]:
    """The same for a server that is being moved; the task's resource is its migration."""
    types = {phase: f"instance.{word}.{phase}" for phase in Phase}

    def tell(conn: Connection, told: Told) -> None:
        if types[told.phase] in conn.wishes:
            server_id = conn.scalar(_of_migration, {"wanted": told.resource_id})
            if server_id is not None:
                _tell(conn, told, types[told.phase], server_id)

    return tell


def _tell(conn: Connection, told: Told, type: str, server_id: str) -> None:
    server = conn.execute(_server, {"wanted": server_id}).first()
    if server is None:
        return
    data = {**instance(conn, server), **_initiator(told), "fault": _fault(told.message)}
    _write(conn, server, type, data, told.now, told.by.request_id, failed=told.phase is Phase.ERROR)


def _tell_broken(conn: Connection, told: Told) -> None:
    """Report that failed work has left the server in ERROR, if it has."""
    server = conn.execute(_server, {"wanted": told.resource_id}).first()
    if server is None or server.vm_state != ERROR or server.deleted_at is not None:
        return
    asked = bool(told.by.user_id)
    error(conn, server, told.message or "it is in ERROR", told.now, asked=asked, request_id=told.by.request_id)


def error(
    conn: Connection,
    server: Server,
    why: str,
    now: datetime,
    *,
    event: str = FAILED,
    asked: bool = False,
    request_id: str | None = None,
) -> None:
    """Something is wrong with a guest. `asked`: it results from a user's request, and the user has been told."""
    if INSTANCE_ERROR not in conn.wishes:
        return
    data = {
        **instance(conn, server),
        "request_id": request_id,
        "fault": _fault(why),
        "instance_uuid": server.id,
        "event": "STOPPED",
        "vir_domain_event": event,
        "reason": why,
        "asked_for": asked,
        "generated_time": now.isoformat(),
    }
    _write(conn, server, INSTANCE_ERROR, data, now, request_id, failed=True)


def off(conn: Connection, server_id: str, power: int, why: str, now: datetime) -> None:
    """A guest is off although nobody stopped it: it crashed, or shut itself down."""
    if INSTANCE_ERROR not in conn.wishes:
        return
    server = conn.execute(_server, {"wanted": server_id}).first()
    if server is not None:
        error(conn, server, why, now, event=FAILED if power == CRASHED else SHUT_DOWN)


def host_error(conn: Connection, name: str, host_id: str, seen_at: datetime, now: datetime, *, forced: bool) -> None:
    """The host's compute service is down; `forced`: an administrator, who knows, says so."""
    if HOST_ERROR not in conn.wishes:
        return
    data = {
        "host": name,
        "hypervisor_hostname": name,
        "service_id": host_id,
        "binary": "nova-compute",
        "topic": "compute",
        "forced_down": forced,
        "event": "STOPPED",
        "cluster_status": "OFFLINE",
        "host_status": "NORMAL" if forced else "UNKNOWN",
        "reason": "an administrator has said so" if forced else "it does not answer",
        "last_seen": zulu(seen_at),
        "generated_time": now.isoformat(),
    }
    payload = _object("ServiceStatusPayload", "1.1", data)
    outbox.tell(conn, NewEvent(HOST_ERROR, f"host/{name}", payload, f"nova-compute:{name}", outbox.ERROR), now)


def _write(
    conn: Connection,
    server: Server,
    type: str,
    data: Mapping[str, Any],
    now: datetime,
    request_id: str | None,
    *,
    failed: bool,
) -> None:
    publisher = f"nova-compute:{server.host}" if server.host else "nova-api:cloudctl"
    payload = _object("InstanceActionPayload", "1.9", data)
    priority = outbox.ERROR if failed else outbox.INFO
    new = NewEvent(type, f"server/{server.id}", payload, publisher, priority, server.project_id)
    outbox.tell(conn, new, now, request_id)


# -- payloads


def _object(name: str, version: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": dict(data),
    }


def _initiator(told: Told) -> dict[str, Any]:
    return {
        "request_id": told.by.request_id,
        "action_initiator_user": told.by.user_id or None,
        "action_initiator_project": told.by.project_id or None,
    }


def _fault(message: str | None) -> dict[str, Any] | None:
    if message is None:
        return None
    told = {"exception": "", "exception_message": message, "function_name": "", "module_name": "", "traceback": None}
    return _object("ExceptionPayload", "1.1", told)


def instance(conn: Connection, server: Server) -> dict[str, Any]:
    """A server as it is now."""
    return {
        "uuid": server.id,
        "display_name": server.name,
        "display_description": server.description,
        "host_name": server.hostname,
        "host": server.host,
        "node": server.host,
        "state": server.vm_state,
        "task_state": server.task_state,
        "power_state": POWER.get(server.power_state, "pending"),
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "reservation_id": server.reservation_id,
        "flavor": _flavor(server),
        "image_uuid": server.image_id,
        "key_name": server.key_name,
        "metadata": dict(server.metadata),
        "locked": server.locked_by is not None,
        "locked_reason": server.locked_reason,
        "ip_addresses": _addresses(conn, server.id),
        "block_devices": [_block_device(each) for each in conn.execute(_volumes, {"of": server.id})],
        "os_type": None,
        "architecture": None,
        "progress": server.progress,
        "auto_disk_config": server.disk_config,
        "availability_zone": server.zone,
        "created_at": zulu(server.created_at),
        "launched_at": zulu(server.launched_at),
        "terminated_at": zulu(server.terminated_at),
        "deleted_at": zulu(server.deleted_at),
        "updated_at": zulu(server.updated_at),
    }


def _flavor(server: Server) -> dict[str, Any]:
    kept = server.flavor
    data = {
        "flavorid": server.flavor_id,
        "name": kept["original_name"],
        "vcpus": kept["vcpus"],
        "memory_mb": kept["ram"],
        "root_gb": kept["disk"],
        "ephemeral_gb": kept["ephemeral"],
        "swap": kept["swap"],
        "extra_specs": kept["extra_specs"],
    }
    return _object("FlavorPayload", "1.4", data)


def _addresses(conn: Connection, server_id: str) -> list[dict[str, Any]]:
    port_ids = list(conn.scalars(_ports, {"of": server_id}))
    found = devices.addresses(conn, port_ids)
    return [
        _object(
            "IpPayload",
            "1.0",
            {
                "address": each.ip,
                "version": each.version,
                "mac": each.mac,
                "port_uuid": each.port_id,
                "label": each.network_name,
                "device_name": f"tap{each.port_id[:11]}",
                "meta": {},
            },
        )
        for port_id in port_ids
        for each in found.get(port_id, ())
        if not each.floating
    ]


def _block_device(each: BlockDevice) -> dict[str, Any]:
    data = {
        "device_name": each.device_name,
        "volume_id": each.volume_id,
        "delete_on_termination": each.delete_on_termination,
        "boot_index": each.boot_index,
        "tag": each.tag,
    }
    return _object("BlockDevicePayload", "1.0", data)
