"""What must be true after a walk, once the trouble is over: each function yields sentences of what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from cloudctl.drivers.specs import Power
from tests.compute.asking import V21
from tests.walks.end import End, attached
from tests.walks.walk import HA, HOSTS, IMAGES, V2, V3

POWER = {
    "ACTIVE": Power.RUNNING,
    "SHUTOFF": Power.STOPPED,
    "PAUSED": Power.PAUSED,
    "SUSPENDED": Power.SUSPENDED,
    "RESCUE": Power.RUNNING,
}
# The audit does not start or stop guests in these states after their host was down; nova does not, either.
LEFT_AS_FOUND = ("SUSPENDED", "RESCUE")
# The states in which a port that is deleted in networking is taken from the guest at once.
PLUGGABLE = ("ACTIVE", "SHUTOFF")
WITH_A_GUEST = (*POWER, "VERIFY_RESIZE")
AT_REST = (*WITH_A_GUEST, "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED", "ERROR")
VOLUME_AT_REST = (
    "available",
    "in-use",
    "reserved",
    "awaiting-transfer",
    "error",
    "error_deleting",
    "error_extending",
    "error_restoring",
)
COPY_AT_REST = ("available", "active", "error", "error_deleting")
COPIES = (
    ("snapshots", f"{V3}/snapshots/detail?all_tenants=1"),
    ("backups", f"{V3}/backups/detail?all_tenants=1"),
    ("groups", f"{V3}/groups/detail?all_tenants=1"),
    ("group_snapshots", f"{V3}/group_snapshots/detail?all_tenants=1"),
    ("images", IMAGES),
)


def no_task_is_held(end: End) -> Iterator[str]:
    query = "SELECT kind, resource_id, step, error FROM tasks WHERE state = 'held'"
    for kind, resource_id, step, error in end.walk.rows(query):
        yield f"{kind} of {resource_id} is held at {step}: {error}"


def nothing_is_under_way(end: End) -> Iterator[str]:
    for id, server in end.servers.items():
        if server["OS-EXT-STS:task_state"] or server["status"] not in AT_REST:
            yield f"server {id} is {server['status']}, {server['OS-EXT-STS:task_state']}"
    for id, volume in end.volumes.items():
        if volume["status"] not in VOLUME_AT_REST or volume["migration_status"] not in (None, "success", "error"):
            yield f"volume {id} is {volume['status']}, its migration {volume['migration_status']}"
    for kind, path in COPIES:
        for each in end.shown(path, kind):
            if each["status"] not in COPY_AT_REST:
                yield f"{kind}: {each['id']} is {each['status']}"
    for id, port in end.ports.items():
        if port["status"] == "BUILD":
            yield f"port {id} is {port['status']}"


# -- servers and their guests


def guests_are_where_and_as_their_servers(end: End) -> Iterator[str]:
    for id, server in end.servers.items():
        status, guest = server["status"], end.guests.get(id)
        if guest is None:
            if status in WITH_A_GUEST:
                yield f"server {id} is {status} and has no guest"
            continue
        if status == "SHELVED_OFFLOADED":
            yield f"server {id} is {status} and has a guest"
        if status not in WITH_A_GUEST:
            continue
        if guest.spec.host != (host := server["OS-EXT-SRV-ATTR:host"]):
            yield f"server {id} is {status} on {host}, its guest on {guest.spec.host}"
        was_down = HOSTS in end.mix and status in LEFT_AS_FOUND and guest.power is Power.STOPPED
        if guest.power != POWER.get(status, guest.power) and not was_down:
            yield f"server {id} is {status}, its guest {guest.power}"


def guests_have_servers(end: End) -> Iterator[str]:
    for id, guest in end.guests.items():
        if id not in end.servers:
            yield f"guest {id} on {guest.spec.host} is no server's"


def guests_have_the_ports_of_their_servers(end: End) -> Iterator[str]:
    for id, server in end.servers.items():
        guest = end.guests.get(id)
        if guest is not None and server["status"] in PLUGGABLE and id not in end.refused:
            plugged, recorded = {port.id for port in guest.spec.ports}, end.ports_of.get(id, set())
            if plugged != recorded:
                yield f"server {id} is {server['status']}, its guest has the ports {plugged}, itself {recorded}"


def guests_have_the_volumes_of_their_servers(end: End) -> Iterator[str]:
    for id, server in end.servers.items():
        guest = end.guests.get(id)
        if guest is not None and server["status"] in WITH_A_GUEST and id not in end.refused:
            plugged = {volume.volume_id for volume in guest.spec.volumes}
            if plugged != attached(server):
                yield f"server {id} is {server['status']}, its guest has {plugged}, itself {attached(server)}"


# -- volumes


def servers_and_volumes_agree(end: End) -> Iterator[str]:
    for id, server in end.servers.items():
        for volume_id in attached(server):
            volume = end.volumes.get(volume_id)
            if volume is None:
                yield f"server {id} is {server['status']} and has volume {volume_id}, which is gone"
            # What is reserved for a server is not attached to it yet.
            elif id not in {*_servers_of(volume), *end.refused} and volume["status"] != "reserved":
                yield f"server {id} has volume {volume_id}, which is {volume['status']} and not attached to it"
    for id, volume in end.volumes.items():
        for server_id in _servers_of(volume):
            if server_id not in end.servers:
                yield f"volume {id} is attached to server {server_id}, which is gone"
            elif id not in attached(end.servers[server_id]):
                yield f"volume {id} is attached to server {server_id}, which does not have it"


def _servers_of(volume: dict[str, list[dict[str, str]]]) -> set[str]:
    return {each["server_id"] for each in volume["attachments"]}


def the_status_of_volumes_says_whether_they_are_used(end: End) -> Iterator[str]:
    # Those of offloaded servers are kept for them, and so are those of a server whose rebuild had begun and failed, or
    # whose deletion was refused when an attachment had been cancelled for it.
    keeping = {id for id, server in end.servers.items() if server["status"] in ("SHELVED_OFFLOADED", "ERROR")}
    kept = {id for server_id in keeping | (end.refused & end.servers.keys()) for id in attached(end.servers[server_id])}
    for id, volume in end.volumes.items():
        if (volume["status"] == "in-use") != bool(volume["attachments"]):
            yield f"volume {id} is {volume['status']}, with attachments to {_servers_of(volume)}"
        if volume["status"] == "reserved" and id not in kept:
            yield f"volume {id} is reserved for nobody"


def disks_have_volumes(end: End) -> Iterator[str]:
    snapshots = {each["id"] for each in end.shown(f"{V3}/snapshots/detail?all_tenants=1", "snapshots")}
    for backend in end.walk.backends:
        for disk in backend.volumes.values():
            if disk.id not in end.volumes:
                yield f"disk {disk.id} is no volume's"
        for frozen in backend.frozen.values():
            if frozen.state.id not in snapshots:
                yield f"frozen disk {frozen.state.id} is no snapshot's"


# -- networks


def plugs_are_as_their_ports(end: End) -> Iterator[str]:
    for plug in end.walk.network.ports.values():
        port = end.ports.get(plug.spec.id)
        if plug.spec.id in end.refused:
            # What a driver refuses for good is reported by the audit, and left to an administrator.
            continue
        if port is None:
            yield f"plug {plug.spec.id} is no port's"
            continue
        has, shall = {ip.ip_address for ip in plug.spec.fixed_ips}, {ip["ip_address"] for ip in port["fixed_ips"]}
        if has != shall:
            yield f"plug {port['id']} has the addresses {has}, its port {shall}"
        if set(plug.spec.security_groups) != set(port["security_groups"]):
            yield f"plug {port['id']} is in {plug.spec.security_groups}, its port in {port['security_groups']}"
        # That of a server in ERROR may be bound to no host.
        if end.servers.get(port["device_id"], {}).get("status") in WITH_A_GUEST:
            expected = "ACTIVE" if port["admin_state_up"] else "DOWN"
            if port["status"] != expected:
                yield f"port {port['id']} is {port['status']}, not {expected}"


def ports_of_servers_have_servers(end: End) -> Iterator[str]:
    for id, port in end.ports.items():
        if port["device_owner"].startswith("compute:") and port["device_id"] not in end.servers:
            yield f"port {id} is that of server {port['device_id']}, which is gone"


def the_network_backend_has_nothing_unknown(end: End) -> Iterator[str]:
    network = end.walk.network
    for kind, there in (
        ("networks", [each.id for each in network.networks.values()]),
        ("routers", [each.id for each in network.routers.values()]),
        ("security-groups", [each.id for each in network.groups.values()]),
    ):
        known = {each["id"] for each in end.shown(f"{V2}/{kind}", kind.replace("-", "_"))}
        for id in there:
            if id not in known and id not in end.refused:
                yield f"the network backend has {id}, which is none of the {kind}"


# -- placement


def resources_are_allocated_where_servers_are(end: End) -> Iterator[str]:
    status = {id: server["status"] for id, server in end.servers.items()}
    # They have a second allocation, of the migration, where they would return to.
    moved = [id for id in status if status[id] == "VERIFY_RESIZE"]
    of_no_server = [consumer for consumer in end.hosts_of if consumer not in end.servers]
    if len(of_no_server) > len(moved):
        yield f"{len(moved)} servers have been moved, but others than servers have allocated: {of_no_server}"
    for id, server in end.servers.items():
        hosts, host = end.hosts_of.get(id, set()), server["OS-EXT-SRV-ATTR:host"]
        if status[id] == "SHELVED_OFFLOADED" and hosts:
            yield f"server {id} is {status[id]}, with an allocation on {hosts}"
        if status[id] in WITH_A_GUEST and hosts != {host}:
            yield f"server {id} is {status[id]} on {host}, its allocation on {hosts}"


# -- services


def the_audit_finds_nothing(end: End) -> Iterator[str]:
    audit = end.walk.service.audit
    audit.run()
    end.walk.cloud.advance(0)
    # A rebuild that failed once the old guest was gone has left none.
    broken = {id for id, server in end.servers.items() if server["status"] == "ERROR"}
    for name, findings in audit.latest.items():
        for found in findings:
            is_told = found.kind == "guest-missing" and found.resource_id in broken
            if not is_told and found.resource_id not in end.refused:
                yield f"audit {name}: {found.kind}: {found.resource_id}: {found.message}"


def instance_ha_is_done(end: End) -> Iterator[str]:
    if HA not in end.mix:
        return
    for told in end.walk.shown("/v1/notifications", "notifications", admin=True, ha=True):
        if told["status"] not in ("finished", "ignored"):
            yield f"notification {told['notification_uuid']} is {told['status']}: {told['payload']}"
    for host in end.walk.shown(f"{end.walk.segment}/hosts", "hosts", admin=True, ha=True):
        if host["on_maintenance"]:
            yield f"host {host['name']} is on maintenance"
    for service in end.shown(f"{V21}/os-services?binary=nova-compute", "services"):
        if service["status"] != "enabled" or service["state"] != "up" or service["forced_down"]:
            yield f"service {service['id']} of {service['host']} is {service['status']}, {service['state']}"


def no_answer_was_an_error_of_the_server(end: End) -> Iterator[str]:
    for event in end.walk.events:
        if event.status >= 500:
            yield f"{event}"


INVARIANTS = (
    no_task_is_held,
    nothing_is_under_way,
    guests_are_where_and_as_their_servers,
    guests_have_servers,
    guests_have_the_ports_of_their_servers,
    guests_have_the_volumes_of_their_servers,
    servers_and_volumes_agree,
    the_status_of_volumes_says_whether_they_are_used,
    disks_have_volumes,
    plugs_are_as_their_ports,
    ports_of_servers_have_servers,
    the_network_backend_has_nothing_unknown,
    resources_are_allocated_where_servers_are,
    the_audit_finds_nothing,
    instance_ha_is_done,
)
