"""Servers as the API shows them. Reference: compute.md, section 6; compute-microversions.md.

Everything that a page needs besides the rows is fetched once for all of them (`gather`); a view is a plain function of
a row and that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import define, field

from cloudctl.compute import block_devices, networking
from cloudctl.compute.api import gates
from cloudctl.compute.api.query import bookmark, resource_links
from cloudctl.compute.creation import split_tags
from cloudctl.compute.remembered import told
from cloudctl.compute.servers import host_id, instance_name
from cloudctl.compute.states import BUILDING
from cloudctl.compute.status import WITH_PROGRESS, status
from cloudctl.compute.tables import BlockDevice, Server
from cloudctl.db import Connection
from cloudctl.network import devices, ports
from cloudctl.network.devices import PortAddress
from cloudctl.placement import hosts
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros, zulu
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields

ADMIN_FIELDS = "compute:servers:show:admin_fields"
USER_DATA = "compute:servers:show:user_data"
USER_DATA_KEY = "OS-EXT-SRV-ATTR:user_data"

View = dict[str, Any]

# -- what a microversion added

LATER = Fields[[Server]](
    "a server",
    {
        "locked": (since(2, 9), lambda server: server.locked_by is not None),
        "description": (since(2, 19), lambda server: server.description),
        "tags": (since(2, 26), lambda server: split_tags(server.tags)),
        "trusted_image_certificates": (since(2, 63), lambda server: server.trusted_certs or None),
        "locked_reason": (since(2, 73), lambda server: server.locked_reason),
        "pinned_availability_zone": (since(2, 96), lambda server: server.pinned_zone),
        "OS-EXT-SRV-ATTR:hostname": (since(2, 90), lambda server: server.hostname),
        "scheduler_hints": (since(2, 100), lambda server: server.scheduling.get("hints", {})),
    },
)
IMAGE = Fields[[Server]](
    "the image of a server, as it was when its disk was made of it",
    {"properties": (since(2, 98), lambda server: told(server.scheduling.get("image", {})))},
)
ONE = Fields[[Server]](
    "a server shown alone",
    {"server_groups": (since(2, 71), lambda server: [server.group_id] if server.group_id else [])},
)
FOR_ADMINS = Fields[[Server]](
    "a server, to administrators",
    {
        "OS-EXT-SRV-ATTR:reservation_id": (since(2, 3), lambda server: server.reservation_id),
        "OS-EXT-SRV-ATTR:launch_index": (since(2, 3), lambda server: server.launch_index),
        "OS-EXT-SRV-ATTR:hostname": (since(2, 3), lambda server: server.hostname),
        "OS-EXT-SRV-ATTR:kernel_id": (since(2, 3), lambda server: ""),
        "OS-EXT-SRV-ATTR:ramdisk_id": (since(2, 3), lambda server: ""),
        "OS-EXT-SRV-ATTR:root_device_name": (since(2, 3), lambda server: server.root_device_name),
    },
)
# It may hold passwords, so people who look after the cloud without being its administrators do not see it.
SECRETS = Fields[[Server]](
    "a server, to those who may see user data",
    {USER_DATA_KEY: (since(2, 3), lambda server: server.user_data)},
)
VOLUME = Fields[[BlockDevice]](
    "the volumes that a server shows",
    {"delete_on_termination": (since(2, 3), lambda device: device.delete_on_termination)},
)

# -- the record


@define
class Surroundings:
    """What it takes to show the servers of one page."""

    call: Call
    admin: bool
    user_data: bool
    ports: Mapping[str, Collection[str]]  # server id → its ports' ids
    addresses: Mapping[str, Sequence[PortAddress]]  # of each port
    groups: Mapping[str, Sequence[tuple[str, str]]]  # of each port: (id, name)
    volumes: Mapping[str, Sequence[BlockDevice]]
    host_statuses: Mapping[str, str]
    _host_ids: dict[tuple[str, str | None], str] = field(factory=dict)

    def host_id(self, project_id: str, host: str | None) -> str:
        key = (project_id, host)
        if key not in self._host_ids:
            self._host_ids[key] = host_id(project_id, host)
        return self._host_ids[key]


def gather(
    conn: Connection, call: Call, rows: Sequence[Server], plugged: Mapping[str, Collection[str]] | None = None
) -> Surroundings:
    """One query each for ports, addresses, groups, volumes and hosts, however many servers there are.

    `plugged`: the ports of these servers, if they have been read already.
    """
    ids = [row.id for row in rows]
    if plugged is None:
        plugged = networking.ports_of(conn, ids)
    # The other servers are being built: their ports do not count yet.
    port_ids = [port_id for row in rows if row.vm_state != BUILDING for port_id in plugged.get(row.id, ())]
    return Surroundings(
        call=call,
        admin=call.may(ADMIN_FIELDS),
        user_data=call.may(USER_DATA),
        ports=plugged,
        addresses=devices.addresses(conn, port_ids),
        groups=ports.groups_of(conn, port_ids),
        volumes=block_devices.of_servers(conn, ids),
        host_statuses=host_statuses(conn, call),
    )


def host_statuses(conn: Connection, call: Call) -> dict[str, str]:
    """Host → its status, as the caller may see it; nothing if they may not."""
    if call.version in gates.HOST_STATUS and call.may(ADMIN_FIELDS):
        return {row.name: hosts.status(row) for row in hosts.every(conn)}
    return {}


def brief(call: Call, id: str, name: str) -> View:
    return {"id": id, "name": name, "links": resource_links(call, "servers", id)}


def detail(around: Surroundings, row: Server) -> View:
    """The record of `GET /servers/detail`."""
    call = around.call
    shown = _identity(around, row)
    shown |= _places(around, row)
    if row.fault_message is not None and shown["status"] in ("ERROR", "DELETED"):
        shown["fault"] = {"code": row.fault_code, "created": zulu(row.fault_at), "message": row.fault_message}
    shown["addresses"] = _addresses(around, row)
    shown |= _named(row.security_groups if row.vm_state == BUILDING else _security_groups(around, row))
    shown |= LATER.of(call.version, row)
    if around.admin:
        shown |= _for_admins(around, row)
    if around.user_data:
        shown |= SECRETS.of(call.version, row)
    shown["links"] = resource_links(call, "servers", row.id)
    shown["os-extended-volumes:volumes_attached"] = [
        {"id": device.volume_id, **VOLUME.of(call.version, device)} for device in around.volumes.get(row.id, ())
    ]
    if around.admin and call.version in gates.HOST_STATUS:
        shown["host_status"] = around.host_statuses.get(row.host, "UNKNOWN") if row.host else ""
    return shown


def full(around: Surroundings, row: Server) -> View:
    """The record of one server."""
    return detail(around, row) | ONE.of(around.call.version, row)


def _identity(around: Surroundings, row: Server) -> View:
    word = status(row.vm_state, row.task_state)
    shown: View = {
        "id": row.id,
        "name": row.name,
        "status": word,
        "tenant_id": row.project_id,
        "user_id": row.user_id,
        "metadata": row.metadata,
        "hostId": around.host_id(row.project_id, row.host),
        "image": _image(around.call, row),
        "flavor": _flavor(around.call, row),
        "created": zulu(row.created_at),
        "updated": zulu(row.updated_at),
        "accessIPv4": row.access_ip_v4,
        "accessIPv6": row.access_ip_v6,
        "key_name": row.key_name,
        "config_drive": "True" if row.config_drive else "",
        "OS-DCF:diskConfig": row.disk_config,
    }
    if word in WITH_PROGRESS:
        shown["progress"] = row.progress
    return shown


def _places(around: Surroundings, row: Server) -> View:
    return {
        "OS-EXT-AZ:availability_zone": row.zone or "",
        "OS-EXT-STS:vm_state": row.vm_state,
        "OS-EXT-STS:task_state": row.task_state,
        "OS-EXT-STS:power_state": row.power_state,
        "OS-SRV-USG:launched_at": micros(row.launched_at),
        "OS-SRV-USG:terminated_at": micros(row.terminated_at),
    }


def _image(call: Call, row: Server) -> View | str:
    if not row.image_id:
        return ""
    links = bookmark(call, "images", row.image_id)
    return {"id": row.image_id, "links": links, **IMAGE.of(call.version, row)}


def _flavor(call: Call, row: Server) -> View:
    if call.version in gates.WHOLE_FLAVOR:
        flavor: View = row.flavor
        return flavor
    return {"id": row.flavor_id, "links": bookmark(call, "flavors", row.flavor_id)}


def _addresses(around: Surroundings, row: Server) -> dict[str, list[View]]:
    shown: dict[str, list[View]] = {}
    for address in (each for port_id in around.ports.get(row.id, ()) for each in around.addresses.get(port_id, ())):
        shown.setdefault(address.network_name, []).append(
            {
                "addr": address.ip,
                "version": address.version,
                "OS-EXT-IPS:type": "floating" if address.floating else "fixed",
                "OS-EXT-IPS-MAC:mac_addr": address.mac,
            }
        )
    return shown


def _named(groups: Sequence[str]) -> View:
    return {"security_groups": [{"name": name} for name in groups]} if groups else {}


def _security_groups(around: Surroundings, row: Server) -> list[str]:
    """The names of the ports' groups, each group once."""
    mine = (around.groups.get(port_id, ()) for port_id in around.ports.get(row.id, ()))
    return [*{id: name for groups in mine for id, name in groups}.values()]


def _for_admins(around: Surroundings, row: Server) -> View:
    return {
        "OS-EXT-SRV-ATTR:host": row.host,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": row.host,
        "OS-EXT-SRV-ATTR:instance_name": instance_name(row.number),
        **FOR_ADMINS.of(around.call.version, row),
    }


def updated(around: Surroundings, row: Server) -> View:
    """The answer of a PUT or a rebuild: below 2.75 with bare addresses, and without zone, key, volumes and states."""
    shown = full(around, row)
    if around.call.version in gates.EVERY_FIELD:
        return shown
    shown["addresses"] = {
        network: [{"addr": each["addr"], "version": each["version"]} for each in addresses]
        for network, addresses in shown["addresses"].items()
    }
    return {
        key: value
        for key, value in shown.items()
        if not key.startswith(("OS-EXT-", "OS-SRV-USG", "os-extended-volumes"))
        and key not in ("key_name", "config_drive", "security_groups", "host_status")
    }
