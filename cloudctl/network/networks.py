"""Networks: who sees them, and how they may change. Reference: network.md, section 2; network-rules.md, section 5."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, literal_column, or_, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.network_specs import DhcpPort as DhcpPortSpec
from cloudctl.drivers.specs import NetworkSpec, Route, SubnetSpec
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import (
    dhcp_ports,
    kinds,
    private_vlans,
    qos_policies,
    qos_rules,
    quotas,
    router_ports,
    security_groups,
    segments,
    shares,
    shown,
    standard,
    tags,
)
from cloudctl.network.extension_tables import DhcpPort
from cloudctl.network.options import NetworkOptions
from cloudctl.network.owned import Owned
from cloudctl.network.segments import Place, Segment
from cloudctl.network.tables import Agent, AgentAbsence, FloatingIp, IpAllocation, Network, Port, Subnet
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin, queue

# The smallest MTU that each family can work with, bytes.
MTU_LEAST = {4: 68, 6: 1280}
SHOWN_IDS = 20
# What ports show of their network, and servers of their ports.
SHOWN_OF_PORTS = ("name", "qos_policy_id", "dns_domain")
WIRE = ("network_type", "physical_network", "segmentation_id")


@frozen
class NewNetwork:
    """`mtu` 0 is the most that the segment can carry; `qos_policy_id` None is the project's default one, if any."""

    name: str = ""
    description: str = ""
    admin_state_up: bool = True
    shared: bool = False
    external: bool = False
    is_default: bool = False
    port_security_enabled: bool = True
    mtu: int = 0
    segments: Sequence[Segment] = (Segment(),)
    availability_zone_hints: Sequence[str] = ()
    qos_policy_id: str | None = None
    dns_domain: str = ""
    pvlan: bool = False


# -- who sees what


RECORDS = Owned(Network, "Network {} could not be found.", "NetworkNotFound", shared=shares.NETWORK)
# While a network is locked, nobody else makes a port or a subnet on it, either.
find, get, pinned, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.pinned,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)

# Built once: building a statement costs more than running it.
_bootable = (
    select(Network, select(Subnet.id).where(Subnet.network_id == Network.id).exists())
    .where(Network.id == bindparam("wanted"))
    .with_for_update(of=Network.table, read=True, key_share=True)
)
# With the port that gives out addresses, and that port's own, in the one statement that every plugging needs anyway.
_subnets = (
    select(Subnet, DhcpPort.port_id, Port.mac_address, Port.admin_state_up, IpAllocation.ip_address)
    .join_from(Subnet, DhcpPort, DhcpPort.network_id == Subnet.network_id, isouter=True)
    .outerjoin(Port, Port.id == DhcpPort.port_id)
    .outerjoin(IpAllocation, (IpAllocation.port_id == Port.id) & (IpAllocation.subnet_id == Subnet.id))
    .where(Subnet.network_id == bindparam("network"))
    .order_by(Subnet.created_at, Subnet.id, IpAllocation.position)
)
_subnet_ids = (
    select(Subnet.network_id, Subnet.id)
    .where(Subnet.network_id.in_(bindparam("networks", expanding=True)))
    .order_by(Subnet.network_id, Subnet.created_at, Subnet.id)
)


# Whether an agent stays away from a network: to be queried together with the network.
any_absence = select(AgentAbsence.agent_id).where(AgentAbsence.network_id == Network.id).exists()
_with_absence = select(Network, any_absence).where(Network.id == bindparam("wanted"))
_absences = (
    select(Agent.host)
    .join_from(AgentAbsence, Agent, Agent.id == AgentAbsence.agent_id)
    .where(AgentAbsence.network_id == bindparam("network"))
    .order_by(Agent.host)
)
_physical = select(Network.id, Network.physical_network).where(
    Network.id.in_(bindparam("networks", expanding=True)), Network.physical_network.is_not(None)
)
# Its empty name is not a parameter: SQLite would plan it again at each run, since an index has only those with a name.
_around_ports = (
    select(Port.id, Network.dns_domain, Network.qos_policy_id)
    .join_from(Port, Network, Network.id == Port.network_id)
    .where(
        Port.id.in_(bindparam("ports", expanding=True)),
        or_(Network.dns_domain != literal_column("''"), Network.qos_policy_id.is_not(None)),
    )
)
_ports = select(Port.id).where(Port.network_id == bindparam("network"), Port.id != bindparam("but")).limit(SHOWN_IDS)
# Nothing is written if the network has this status already.
_found = (
    update(Network)
    .where(Network.id == bindparam("network"), Network.status != bindparam("found"))
    .values(status=bindparam("found"), revision=Network.revision + 1)
)
_delete_subnets = delete(Subnet).where(Subnet.network_id == bindparam("network"))


def attachable(conn: Connection, caller: Caller, network_id: str) -> Network:
    """The network, if the caller may make ports on it, pinned: what shares it stays, too.

    Raises NotFound, Forbidden (another project's external one).
    """
    row = RECORDS.usable(conn, caller, network_id)
    if row.project_id != caller.project_id and not is_shared(conn, caller, row):
        standard.refuse_foreign(caller, row, "network:ports:create:foreign_network")
    return row


def check_choice(caller: Caller, row: Network) -> None:
    """Check that the caller may choose a port's addresses there, and what it lets through: that is up to the owner.

    Raises Forbidden.
    """
    standard.refuse_foreign(caller, row, "network:ports:network_owner")


def is_shared(conn: Connection, caller: Caller, row: Network) -> bool:
    """Whether a share lets the caller's project put ports on it; its owner may anyway."""
    return shares.reaches(conn, row.id, caller.project_id, shares.SHARED)


def usable(conn: Connection, caller: Caller) -> list[Network]:
    """Where a server of the caller's project is put by default: its own networks and shared ones; up, not external."""
    shared = shares.seen(conn, shares.NETWORK, caller.project_id, shares.SHARED)
    ours = or_(Network.project_id == caller.project_id, Network.id.in_(shared))
    query = select(Network).where(ours, Network.external.is_(False), Network.admin_state_up.is_(True))
    return list(conn.execute(query.order_by(Network.created_at, Network.id)))


def bootable(conn: Connection, caller: Caller, network_id: str) -> tuple[Network, bool]:
    """A network that the caller may see, pinned, and whether it has a subnet. Raises NotFound."""
    found = conn.execute(_bootable, {"wanted": network_id}).first()
    if found is None or not RECORDS.is_seen(conn, caller, found[0]):
        raise not_found(network_id)
    return found


def subnets_of(conn: Connection, network_ids: Sequence[str]) -> dict[str, list[str]]:
    """Network id → the ids of its subnets, the oldest first. Networks without any are missing."""
    return standard.grouped(standard.rows(conn, _subnet_ids, networks=network_ids))


def around_ports(conn: Connection, port_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    """Port id → the DNS domain and the QoS policy of its network. Ports of networks that have neither are missing."""
    return {id: (domain, policy) for id, domain, policy in standard.rows(conn, _around_ports, ports=port_ids)}


def physical_of(conn: Connection, network_ids: Sequence[str]) -> dict[str, str]:
    """Network id → the physical network that it is on. Tunnels are missing."""
    rows = standard.rows(conn, _physical, networks=network_ids)
    return {id: physical for id, physical in rows if physical is not None}


# -- changes


def create(
    conn: Connection, project_id: str, new: NewNetwork, now: datetime, options: NetworkOptions, by: Origin
) -> Network:
    """Raises OverQuota, Invalid, Conflict (a segment is taken), Unavailable (all are), NotFound (a zone)."""
    check_zones(new.availability_zone_hints, options)
    wires = [segments.check(each, options) for each in new.segments]
    segments.check_differ(wires)
    mtu = checked_mtu(new.mtu, wires, options)
    private_vlans.check_network(new.pvlan, new.port_security_enabled)
    quota.take(conn, quotas.QUOTAS, project_id, {"network": 1})
    security_groups.ensure_default(conn, project_id, now)
    if new.is_default:
        _check_default(conn, new.external)
    values = standard.new(project_id, now, description=new.description)
    first, *others = (
        segments.take(conn, each, options, Place(values["id"], project_id, position), now)
        for position, each in enumerate(wires)
    )
    segment = segments.wire(first)
    made = Network(
        **values,
        name=new.name,
        status="ACTIVE",
        admin_state_up=new.admin_state_up,
        external=new.external,
        is_default=new.is_default,
        port_security_enabled=new.port_security_enabled,
        mtu=mtu,
        availability_zone_hints=list(new.availability_zone_hints),
        network_type=segment.network_type,
        physical_network=segment.physical_network,
        segmentation_id=segment.segmentation_id,
        dns_domain=new.dns_domain,
        pvlan=new.pvlan,
        more_segments=bool(others),
        qos_policy_id=new.qos_policy_id or qos_policies.default_of(conn, project_id),
    )
    standard.insert(conn, made)
    for action, everybodys in ((shares.SHARED, new.shared), (shares.EXTERNAL, new.external)):
        if everybodys:
            shares.share(conn, shares.NETWORK, made, shares.EVERYBODY, now, action=action)
    tasks.submit(conn, kinds.ENSURE_NETWORK, made.id, by)
    return made


def change(
    conn: Connection, row: Network, changes: dict[str, Any], now: datetime, options: NetworkOptions, by: Origin
) -> Network:
    """Set columns of a locked network. Raises Invalid, Conflict."""
    changes = dict(changes)
    if "mtu" in changes:
        wires = [segments.wire(each) for each in segments.of_network(conn, row.id)]
        changes["mtu"] = checked_mtu(changes["mtu"], wires, options)
        for version in conn.scalars(select(Subnet.ip_version).where(Subnet.network_id == row.id)):
            check_mtu_of_family(changes["mtu"], version, row.id)
    said = {name: changes.pop(name) for name in WIRE if changes.get(name) is not None}
    if said:
        present = {name: getattr(row, name) for name in WIRE}
        changes["segmentation_id"] = _renumbered(conn, row, Segment(**(present | said)), options, now)
    enabled, secure = (changes.get(name, getattr(row, name)) for name in ("pvlan", "port_security_enabled"))
    private_vlans.check_network(enabled, secure)
    if enabled != row.pvlan:
        private_vlans.network_changed(conn, row, enabled, now, by)
    if "shared" in changes:
        shares.set_everybodys(conn, shares.NETWORK, row, changes.pop("shared"), now)
    external = changes.get("external", row.external)
    if not external:
        if row.external:
            _check_unused(conn, row.id)
            shares.withdraw(conn, row.id, shares.EXTERNAL)
        changes.setdefault("is_default", False)
    elif not row.external:
        shares.set_everybodys(conn, shares.NETWORK, row, True, now, shares.EXTERNAL)
    if changes.get("is_default") and not row.is_default:
        _check_default(conn, external)
    standard.change(conn, Network.table, row.id, now, **changes)
    if "mtu" in changes:
        router_ports.network_changed(conn, row.id)
    if any(changes.get(name, getattr(row, name)) != getattr(row, name) for name in SHOWN_OF_PORTS):
        shown.network_changed(conn, row.id)
    if changes.get("qos_policy_id", row.qos_policy_id) != row.qos_policy_id:
        qos_rules.network_changed(conn, row.id, by)
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, row.id, by)
    return get(conn, row.id)


def _renumbered(conn: Connection, row: Network, said: Segment, options: NetworkOptions, now: datetime) -> int | None:
    number = segments.renumber(conn, row.id, said, options, now)
    if number != row.segmentation_id and conn.scalars(_ports, {"network": row.id, "but": ""}).first() is not None:
        message = "Invalid input for operation: provider:segmentation_id cannot be updated while the network has ports."
        raise Invalid(message, type="InvalidInput")
    return number


def remove(conn: Connection, row: Network, now: datetime, by: Origin) -> None:
    """Delete a locked network with its subnets. Raises Conflict while it has ports."""
    automatic = dhcp_ports.idle(conn, row.id)
    but = "" if automatic is None else automatic.id
    in_use = list(conn.scalars(_ports, {"network": row.id, "but": but}))
    if in_use:
        raise Conflict(
            f"Unable to complete operation on network {row.id}. There are one or more ports still in use on the "
            f"network, id for these ports is: {','.join(in_use)}.",
            type="NetworkInUse",
        )
    quotas.gives_back(conn, row.project_id)
    if automatic is not None:
        dhcp_ports.remove(conn, automatic)
    for subnet_id in subnets_of(conn, [row.id]).get(row.id, ()):
        tags.forget(conn, subnet_id)
    conn.execute(_delete_subnets, {"network": row.id})
    segments.release(conn, row.id)
    RECORDS.delete(conn, row)
    tasks.supersede(conn, kinds.DELETE_NETWORK, row.id, by)


def checked_mtu(mtu: int, wires: Sequence[Segment], options: NetworkOptions) -> int:
    """Raises Invalid if any of the wires carries less."""
    most = min(wire.mtu(options) for wire in wires)
    if mtu > most:
        raise Invalid(f"Invalid input for operation: Requested MTU is too big, maximum is {most}.")
    return mtu or most


def check_mtu_of_family(mtu: int, ip_version: int, network_id: str) -> None:
    """Raises Conflict if the family's packets do not fit."""
    least = MTU_LEAST[ip_version]
    if mtu < least:
        message = f"The MTU {mtu} of network {network_id} is below {least}, the least that IPv{ip_version} works with."
        raise Conflict(message, type="NetworkMTUSubnetConflict")


def check_zones(hints: Sequence[str], options: NetworkOptions) -> None:
    """Raises NotFound for a zone that does not exist."""
    for name in hints:
        if name != options.availability_zone:
            raise NotFound(f"AvailabilityZone {name} could not be found.", type="AvailabilityZoneNotFound")


def _check_default(conn: Connection, external: bool) -> None:
    """Raises Invalid for a network that is not external, Conflict if another one is the default."""
    if not external:
        raise Invalid("Invalid input for is_default. Reason: only an external network can be the default one.")
    # Concurrent requests take turns.
    queue.lock_resource(conn, "network", "the default one")
    if conn.execute(select(Network.id).where(Network.is_default.is_(True))).first() is not None:
        raise Conflict("A default external network already exists.", type="DefaultExternalNetworkExists")


def is_way_out(conn: Connection, network_id: str) -> bool:
    """Whether routers have their gateways on this external network, or floating IPs are on it."""
    floating = select(FloatingIp.id).where(FloatingIp.floating_network_id == network_id).limit(1)
    return router_ports.is_gateway_anywhere(conn, network_id) or conn.execute(floating).first() is not None


def _check_unused(conn: Connection, network_id: str) -> None:
    """Raises Conflict if routers or floating IPs use this external network."""
    if is_way_out(conn, network_id):
        message = (
            f"External network {network_id} cannot be updated to be made non-external, since it has existing gateway "
            "ports or floating IPs."
        )
        raise Conflict(message, type="ExternalNetworkInUse")


# -- the driver


def driver_spec(conn: Connection, network_id: str) -> NetworkSpec | None:
    """The network as the driver shall hold it; None if there is none."""
    found = conn.execute(_with_absence, {"wanted": network_id}).first()
    return None if found is None else spec_of(conn, *found)


def spec_of(conn: Connection, row: Network, has_absences: bool) -> NetworkSpec:
    """The same for one that was read already."""
    subnets, dhcp_port = _served(conn, row.id)
    return NetworkSpec(
        id=row.id,
        name=row.name,
        network_type=row.network_type,
        physical_network=row.physical_network,
        segmentation_id=row.segmentation_id,
        mtu=row.mtu,
        admin_state_up=row.admin_state_up,
        external=row.external,
        no_dhcp_on=tuple(conn.scalars(_absences, {"network": row.id})) if has_absences else (),
        subnets=subnets,
        dhcp_port=dhcp_port,
        segments=segments.driver_specs(conn, row.id) if row.more_segments else (),
    )


def _served(conn: Connection, network_id: str) -> tuple[tuple[SubnetSpec, ...], DhcpPortSpec | None]:
    """The subnets, and the port that gives out their addresses. While the port is down, nobody does."""
    subnets: dict[str, Subnet] = {}
    addresses: list[str] = []
    port: tuple[str, str] | None = None
    is_down = False
    for subnet, port_id, mac, is_up, address in conn.execute(_subnets, {"network": network_id}):
        subnets[subnet.id] = subnet
        if port_id is not None:
            port, is_down = (port_id, mac), not is_up
        if address is not None:
            addresses.append(f"{address}/{ip_network(subnet.cidr).prefixlen}")
    specs = tuple(_subnet_spec(each, each.enable_dhcp and not is_down) for each in subnets.values())
    return specs, None if port is None or is_down else DhcpPortSpec(*port, tuple(addresses))


def _subnet_spec(row: Subnet, enable_dhcp: bool) -> SubnetSpec:
    return SubnetSpec(
        id=row.id,
        cidr=row.cidr,
        gateway_ip=row.gateway_ip,
        enable_dhcp=enable_dhcp,
        dns_nameservers=tuple(row.dns_nameservers),
        host_routes=tuple(Route(route["destination"], route["nexthop"]) for route in row.host_routes),
        ipv6_address_mode=row.ipv6_address_mode,
        ipv6_ra_mode=row.ipv6_ra_mode,
        segment_id=row.segment_id,
    )


def found_status(conn: Connection, network_id: str, status: str, now: datetime) -> None:
    """Record what the driver made of it."""
    conn.execute(_found, {"network": network_id, "found": status, "updated_at": now})
