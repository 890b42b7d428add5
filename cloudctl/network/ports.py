"""Ports: their addresses, groups and bindings. Reference: network.md, section 6; network-rules.md, sections 3 and 4.

A port that is bound to a host is held by the driver there: compute's steps put it there (`plugging.plug`), the task
`network.port.ensure` brings it up to date and takes it away. `realised` says that a driver may hold something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from attrs import field, frozen
from sqlalchemy import bindparam, delete, exists, insert, or_, select, true

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import (
    associations,
    dhcp_options,
    dhcp_ports,
    fixed_ips,
    ipam,
    kinds,
    local_ip_ports,
    macs,
    port_security,
    port_uses,
    private_vlans,
    quotas,
    router_ports,
    security_groups,
    standard,
    tags,
    trunk_ports,
)
from cloudctl.network.extension_tables import PortBinding
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.port_uses import Uses
from cloudctl.network.tables import IpAllocation, Network, Port, PortSecurityGroup, SecurityGroup
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition
from cloudctl.tasks import Origin, Unasked

UNBOUND = "unbound"
BINDING_FAILED = "binding_failed"

RECORDS = ById(Port, "Port {} could not be found.", "PortNotFound")
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found

# Built once, here and below: building a statement costs more than running it.
_on_host = PortBinding.port_id == bindparam("wanted"), PortBinding.host == bindparam("on")
# With whether it has another binding there: queried together, since each boot asks.
_locked_for_host = select(Port, exists().where(*_on_host)).where(Port.id == bindparam("wanted")).with_for_update()
_drop_binding = delete(PortBinding).where(*_on_host)
_join = insert(PortSecurityGroup)
_leave = delete(PortSecurityGroup).where(PortSecurityGroup.port_id == bindparam("port"))
_drop = delete(Port).where(Port.id == bindparam("wanted"))

FLOATING = "network:floatingip"
# Owners of devices that are servers: this and the zone.
SERVERS = "compute:"
# The status of floating IPs' ports, which nothing is plugged into.
NOT_APPLICABLE = "N/A"


@frozen
class NewPort:
    """`network` is pinned: nobody else deletes it before the port is there.

    `fixed_ips`, `mac_address`, `security_groups`, `port_security_enabled`: None is what a port gets by default.
    """

    network: Network
    name: str = ""
    description: str = ""
    admin_state_up: bool = True
    fixed_ips: tuple[FixedIpRequest, ...] | None = None
    mac_address: str | None = None
    device_id: str = ""
    device_owner: str = ""
    security_groups: tuple[str, ...] | None = None
    port_security_enabled: bool | None = None
    address_pairs: tuple[tuple[str, str | None], ...] = ()  # (address or CIDR, MAC)
    host: str = ""
    profile: Mapping[str, Any] = field(factory=dict)
    qos_policy_id: str | None = None
    dhcp_options: Sequence[dict[str, Any]] = ()
    kept: Mapping[str, Any] = field(factory=dict)  # other columns, as requested


# -- who sees what


def visible_to(conn: Connection, caller: Caller) -> Condition:
    """The ports that the caller sees: their own, and all on their networks."""
    if standard.sees_all(caller):
        return true()
    own, hosted = Port.project_id == caller.project_id, Port.network_project_id == caller.project_id
    if conn.execute(select(Port.id).where(hosted).limit(1)).first() is not None:
        return or_(own, hosted)
    # One condition is one range of an index.
    return own


def visible(conn: Connection, caller: Caller, port_id: str, lock: bool = False) -> Port:
    """The port, if the caller may see it. Raises NotFound. `lock`: as for `find`."""
    row = find(conn, port_id, lock=lock)
    if row is None or not (is_on_ours(caller, row) or standard.sees_all(caller)):
        raise not_found(port_id)
    return row


def usable(conn: Connection, caller: Caller, port_id: str, lock: bool = False) -> Port:
    """The port, to be given to a server, a trunk or the like. Raises NotFound, Forbidden.

    Seeing it is not enough: the owner of a shared network sees what others have there.
    """
    row = visible(conn, caller, port_id, lock)
    caller.require("network:ports:update", project_id=row.project_id)
    return row


def is_on_ours(caller: Caller, row: Port) -> bool:
    """Whether the port is the caller's project's, or on a network of it."""
    return bool(caller.project_id) and caller.project_id in (row.project_id, row.network_project_id)


def lock(conn: Connection, port_ids: Sequence[str]) -> None:
    """Lock these ports until the end of the transaction, always in the same order, to avoid deadlocks."""
    conn.execute(select(Port.id).where(Port.id.in_(port_ids)).order_by(Port.id).with_for_update())


def of_device(conn: Connection, device_id: str) -> list[Port]:
    """The ports of a server or another device, the oldest first."""
    return list(conn.execute(select(Port).where(Port.device_id == device_id).order_by(Port.created_at, Port.id)))


def at(conn: Connection, network_id: str, ip_address: str) -> str | None:
    """The id of the port that has this address on this network."""
    here = IpAllocation.ip_address == ip_address, IpAllocation.network_id == network_id
    return conn.scalar(select(IpAllocation.port_id).where(*here))


def fixed_ips_of(conn: Connection, port_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Port id → its addresses in order, as `fixed_ips` has them."""
    return {
        port_id: [{"subnet_id": row.subnet_id, "ip_address": row.ip_address} for row in rows]
        for port_id, rows in ipam.of_ports(conn, port_ids).items()
    }


# Built once: building a query costs more than running it, and every view of a server needs these.
_groups = (
    select(PortSecurityGroup.port_id, SecurityGroup.id, SecurityGroup.name)
    .join_from(PortSecurityGroup, SecurityGroup, SecurityGroup.id == PortSecurityGroup.security_group_id)
    .where(PortSecurityGroup.port_id.in_(bindparam("ports", expanding=True)))
    .order_by(PortSecurityGroup.port_id, SecurityGroup.id)
)


def groups_of(conn: Connection, port_ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Port id → (id, name) of its security groups, sorted by id."""
    return standard.grouped(
        (id, (group_id, name)) for id, group_id, name in standard.rows(conn, _groups, ports=port_ids)
    )


# -- create, change, delete


def create(
    conn: Connection, project_id: str, new: NewPort, now: datetime, by: Origin, everybodys_groups: bool = False
) -> Port:
    """Create a port with its addresses. `everybodys_groups`: security groups of other projects are accepted, too.

    Raises NotFound (subnet, group), Invalid, Conflict (no address left; address or MAC taken), OverQuota.
    """
    network = new.network
    if project_id:
        quota.take(conn, quotas.QUOTAS, project_id, {"port": 1})
    else:  # no turn, but a sum: as when one is removed, it comes after the subnets
        fixed_ips.lock(conn, network.id)
    mac = macs.parse(new.mac_address) if new.mac_address else None
    secure = network.port_security_enabled if new.port_security_enabled is None else new.port_security_enabled
    groups = _groups_of_new(conn, project_id, new, secure, now, everybodys_groups)

    def port(mac: str) -> Port:
        pairs = port_security.address_pairs(new.address_pairs, mac)
        port_security.check(secure, groups, pairs, True)
        return Port(
            **standard.new(project_id, now, description=new.description),
            network_id=network.id,
            network_project_id="" if network.project_id == project_id else network.project_id,
            name=new.name,
            status=NOT_APPLICABLE if new.device_owner == FLOATING and not project_id else "DOWN",
            admin_state_up=new.admin_state_up,
            mac_address=mac,
            device_id=new.device_id,
            device_owner=new.device_owner,
            port_security_enabled=secure,
            allowed_address_pairs=pairs,
            host=new.host,
            profile=dict(new.profile),
            vif_type=UNBOUND,
            vif_details={},
            qos_policy_id=new.qos_policy_id,
            dhcp_options=dhcp_options.merged((), new.dhcp_options),
            ip_allocation=fixed_ips.when(network, new.device_owner, new.host, new.fixed_ips),
            **{**new.kept, **private_vlans.of_new(network.pvlan, new.kept, secure)},
        )

    made = macs.insert_port(conn, network.id, mac, port)
    if made.ip_allocation != fixed_ips.DEFERRED:
        wish = new.fixed_ips
        fixed_ips.assign(conn, network.id, made.id, made.mac_address, made.device_owner, wish, is_new=True)
    _join_groups(conn, made.id, groups)
    if new.host:
        tasks.submit_once(conn, kinds.ENSURE_PORT, made.id, by)
    return made


def _groups_of_new(
    conn: Connection, project_id: str, wanted: NewPort, secure: bool, now: datetime, everybodys: bool
) -> list[str]:
    if wanted.security_groups is not None:
        return security_groups.check_ids(conn, project_id, wanted.security_groups, everybodys)
    if not secure or not project_id or port_security.is_network_owned(wanted.device_owner):
        return []
    return [security_groups.ensure_default(conn, project_id, now)]


def _join_groups(conn: Connection, port_id: str, groups: Iterable[str]) -> None:
    rows = [{"port_id": port_id, "security_group_id": group} for group in groups]
    if rows:
        conn.execute(_join, rows)


def change(
    conn: Connection,
    row: Port,
    changes: dict[str, Any],
    now: datetime,
    by: Origin,
    everybodys_groups: bool = False,
) -> Port:
    """Change a locked port. So is its router, or the port that carries it, before it.

    `changes`: columns of `ports`, and `fixed_ips` (FixedIpRequests), `security_groups` (ids), `address_pairs`
    ((address, MAC) pairs). Raises as `create`.
    """
    changes = dict(changes)
    router_id = router_ports.router_of(conn, row.id)
    gives_out = dhcp_ports.is_one(conn, row)
    if router_id is not None or gives_out:
        router_ports.check_change(conn, row, changes)
    wish, groups = _settle(conn, row, changes, everybodys_groups)
    mac, host = (changes.get(name, getattr(row, name)) for name in ("mac_address", "host"))
    if host != row.host:
        # A host has one binding of the port: this one replaces any other.
        conn.execute(_drop_binding, {"wanted": row.id, "on": host})
    write = partial(standard.change, conn, Port.table, row.id, now, **changes)
    if mac == row.mac_address:
        write()
    else:
        macs.give(conn, row.network_id, mac, write)
    if wish is not None or "ip_allocation" in changes:
        owner = changes.get("device_owner", row.device_owner)
        left = fixed_ips.assign(conn, row.network_id, row.id, mac, owner, wish)
        port_uses.keep(conn, row.id, left, now, by)
    if groups is not None:
        conn.execute(_leave, {"port": row.id})
        _join_groups(conn, row.id, groups)
    if row.host and host not in ("", row.host):
        tasks.submit(conn, kinds.ENSURE_PORT, row.id, by, args={"left": row.host})
    elif row.host or row.realised or host:
        tasks.submit_once(conn, kinds.ENSURE_PORT, row.id, by)
    if router_id is not None:
        router_ports.changed(conn, row, router_id, now, by)
    if row.host and not host:
        trunk_ports.follow(conn, row.id, "", now)
    if mac != row.mac_address:
        trunk_ports.subport_changed(conn, row.id)
    if gives_out:
        dhcp_ports.changed(conn, row, by)
    return get(conn, row.id)


def _settle(
    conn: Connection, row: Port, changes: dict[str, Any], everybodys_groups: bool
) -> tuple[Sequence[FixedIpRequest] | None, list[str] | None]:
    """Make `changes` columns, with all that follows from them.

    Returns the addresses that the port is to have and its new security groups; None: they stay. Raises as `create`.
    """
    wish: Sequence[FixedIpRequest] | None = changes.pop("fixed_ips", None)
    groups: list[str] | None = changes.pop("security_groups", None)
    pairs = changes.pop("address_pairs", None)
    if "mac_address" in changes:
        owner = changes.get("device_owner") or row.device_owner
        changes["mac_address"] = _new_mac(conn, row, owner, changes["mac_address"])
        if wish is None and changes["mac_address"] != row.mac_address:
            wish = fixed_ips.present_wish(conn, row.id)
    if "dhcp_options" in changes:
        changes["dhcp_options"] = dhcp_options.merged(row.dhcp_options, changes["dhcp_options"])
    changes |= private_vlans.of_changed(conn, row, changes)
    _check_bound(row, changes)
    if pairs is not None:
        mac = changes.get("mac_address", row.mac_address)
        changes["allowed_address_pairs"] = port_security.address_pairs(pairs, mac)
    if groups is not None:
        groups = security_groups.check_ids(conn, row.project_id, groups, everybodys_groups)
    present = [id for id, _ in groups_of(conn, [row.id]).get(row.id, ())]
    port_security.check(
        changes.get("port_security_enabled", row.port_security_enabled),
        present if groups is None else groups,
        changes.get("allowed_address_pairs", row.allowed_address_pairs),
        groups is not None,
    )
    if changes.get("host", row.host) != row.host:
        changes |= {"vif_type": UNBOUND, "vif_details": {}, "status": "DOWN"}
    if changes.get("admin_state_up") is False:
        changes["status"] = "DOWN"
    if row.ip_allocation == fixed_ips.DEFERRED and (wish is not None or changes.get("host")):
        changes["ip_allocation"] = fixed_ips.IMMEDIATE if wish is None or wish else fixed_ips.NONE
    return wish, None if groups == present else groups


def _check_bound(row: Port, changes: Mapping[str, Any]) -> None:
    """Raises Conflict if the kind of interface, or its place in the host, would change while a host has the port."""
    policy = row.numa_affinity_policy
    if row.host and changes.get("numa_affinity_policy", policy) != policy:
        raise Conflict(
            f"Unable to complete operation on port {row.id}, port is already bound to host {row.host}, "
            f"numa_affinity_policy {policy} can't be changed.",
            type="PortBoundNUMAAffinityPolicy",
        )
    if row.host and changes.get("vnic_type", row.vnic_type) != row.vnic_type:
        raise Conflict(
            f"Unable to complete operation on port {row.id} for network {row.network_id}. Port already has an attached "
            f"device {row.device_id}.",
            type="PortInUse",
        )


def _new_mac(conn: Connection, row: Port, owner: str, wanted: str) -> str:
    mac = macs.parse(wanted)
    if mac == row.mac_address:
        return mac
    if owner.startswith("network:"):
        message = f"Operation mac address update is not supported for device_owner {owner} on port {row.id}."
        raise Conflict(message, type="UnsupportedPortDeviceOwner")
    if row.host:
        raise Conflict(
            f"Unable to complete operation on port {row.id}, port is already bound, port type: {row.vif_type}, "
            f"old_mac {row.mac_address}, new_mac {mac}.",
            type="PortBound",
        )
    if macs.is_taken(conn, row.network_id, mac):
        raise macs.in_use(row.network_id, mac)
    return mac


def remove(conn: Connection, row: Port, now: datetime, by: Origin, privileged: bool = False) -> None:
    """Delete a locked port. Raises Conflict for ports that belong to a router or a floating IP.

    `privileged`: also one that a floating IP of another project leads to.
    """
    uses = port_uses.of(conn, row.id)
    if uses.is_floating or uses.is_routers or local_ip_ports.is_made_for_one(conn, row):
        message = f"Port {row.id} cannot be deleted directly via the port API: has device owner {row.device_owner}."
        raise Conflict(message, type="ServicePortInUse")
    if uses.has_floating_ips and not privileged:
        associations.check_deletable(conn, row.id, row.project_id)
    if uses.is_of_trunk:
        trunk_ports.check_deletable(conn, row.id)
    gave_out = dhcp_ports.is_one(conn, row)
    _remove(conn, row, uses, now, by)
    if row.host and row.device_owner.startswith(SERVERS):
        tasks.submit(conn, kinds.PORT_LOST, row.id, by)
    if gave_out:
        dhcp_ports.changed(conn, row, by)


def discard(conn: Connection, port_id: str, now: datetime, by: Origin, *, has_left: bool = False) -> None:
    """Delete the port and free its addresses; a task makes the driver release it. An unknown id is not an error.

    `has_left`: after `leaving` the driver has released it, so nothing is left to do unless it was plugged again.
    """
    row = find(conn, port_id, lock=True)
    if row is not None:
        _remove(conn, row, port_uses.of(conn, port_id), now, by, has_left=has_left)


def _remove(conn: Connection, row: Port, uses: Uses, now: datetime, by: Origin, *, has_left: bool = False) -> None:
    quotas.gives_back(conn, row.project_id)
    port_uses.end(conn, row.id, uses, now, by)
    fixed_ips.release(conn, row.network_id, row.id)
    tags.forget(conn, row.id)
    conn.execute(_leave, {"port": row.id})
    conn.execute(_drop, {"wanted": row.id})
    if row.realised or (row.host and not has_left):
        tasks.supersede(conn, kinds.DELETE_PORT, row.id, by)


# -- binding


def bind(
    conn: Connection, port_id: str, device_id: str, host: str, device_owner: str, now: datetime, dns_name: str = ""
) -> Port:
    """Give the port to a device, on a host ("": not known yet). May be repeated. `dns_name`: what the device is called.

    Raises NotFound, Conflict if another device has it, Invalid if it has another name.
    """
    found = conn.execute(_locked_for_host, {"wanted": port_id, "on": host}).first()
    if found is None:
        raise not_found(port_id)
    row: Port
    row, has_binding = found
    if row.device_id not in ("", device_id):
        raise Conflict(
            f"Unable to complete operation on port {row.id} for network {row.network_id}. Port already has an attached "
            f"device {row.device_id}.",
            type="PortInUse",
        )
    changes: dict[str, Any] = {"device_id": device_id, "device_owner": device_owner}
    if dns_name:
        if row.dns_name not in ("", dns_name):
            raise Invalid(f"Port {row.id} is called {row.dns_name!r} in DNS, and what is to have it {dns_name!r}.")
        changes["dns_name"] = dns_name
    if host and host != row.host:
        if has_binding:
            conn.execute(_drop_binding, {"wanted": port_id, "on": host})
        changes |= {"host": host, "vif_type": UNBOUND, "vif_details": {}, "status": "DOWN"}
        if row.ip_allocation == fixed_ips.DEFERRED:
            changes["ip_allocation"] = fixed_ips.IMMEDIATE
            fixed_ips.assign(conn, row.network_id, row.id, row.mac_address, device_owner, None, is_new=True)
    # Only what differs: SQLite writes the indexes of every column that is set.
    changes = {name: value for name, value in changes.items() if getattr(row, name) != value}
    return standard.changed(conn, row, now, **changes) if changes else row


def unbind(conn: Connection, port_id: str, now: datetime) -> None:
    """Take the port from its device and its host; a task makes the driver release it. An unknown id is not an error."""
    row = find(conn, port_id, lock=True)
    if row is None or not (row.device_id or row.device_owner or row.host):
        return
    free = {"device_id": "", "device_owner": "", "dns_name": "", "host": "", "profile": {}}
    standard.change(conn, Port.table, port_id, now, **free, vif_type=UNBOUND, vif_details={}, status="DOWN")
    trunk_ports.follow(conn, port_id, "", now)
    if row.host or row.realised:
        tasks.submit_once(conn, kinds.ENSURE_PORT, port_id, Unasked(row.project_id))


def leave_host(conn: Connection, port_id: str, now: datetime) -> None:
    """The driver has released it: it stays its device's, and is on no host for now. An unknown id is not an error."""
    row = find(conn, port_id, lock=True)
    if row is not None and row.host:
        away = {"host": "", "vif_type": UNBOUND, "vif_details": {}, "status": "DOWN", "realised": False}
        standard.change(conn, Port.table, port_id, now, **away)
        trunk_ports.follow(conn, port_id, "", now)
