"""A network as rows: a logical switch, its port to the wire, and what guests are told by DHCP."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import address, mtu, network
from cloudctl.drivers.netns.dhcp import ON_LINK
from cloudctl.drivers.netns.names import METADATA_ADDRESS
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.rows import Place, Ref, Row, Value
from cloudctl.drivers.specs import NetworkSpec, SubnetSpec

SWITCH = "Logical_Switch"
PORT = "Logical_Switch_Port"
DHCP = "DHCP_Options"

ON_WIRES = ("flat", "vlan")
# The DHCP server's address if a subnet has no gateway: guests renew their leases with it, and then by broadcast.
NOBODY = "169.254.0.1"
METADATA = "metadata-"  # and the network's id: the name of the port of `cloudctl metadata-proxy`
WITHOUT_DHCP_OPTIONS = ("slaac", None)  # IPv6 modes without a DHCP server


def switch(network_id: str) -> Ref:
    return Ref(SWITCH, network_id)


def switch_ports(network_id: str) -> Place:
    return Place(switch(network_id), "ports")


def dhcp_options(subnet_id: str) -> Ref:
    return Ref(DHCP, subnet_id)


def is_on_wire(spec: NetworkSpec) -> bool:
    return spec.physical_network is not None


def guest_mtu(spec: NetworkSpec, config: Config) -> int:
    """Raises Unfit."""
    return mtu(spec.mtu if is_on_wire(spec) else min(spec.mtu, config.tunnel_mtu))


def rows(spec: NetworkSpec, config: Config) -> tuple[Row, ...]:
    """Raises Unfit."""
    made = [Row(switch(spec.id), {"name": spec.id})]
    if is_on_wire(spec):
        made.append(_wire(spec))
    elif spec.network_type in ON_WIRES:
        raise Unfit(f"a {spec.network_type} network is on a physical one, and {spec.id} names none")
    if config.metadata:
        made.append(_metadata(spec))
    for subnet in spec.subnets:
        options = told(spec, subnet, config)
        if options is not None:
            made.append(Row(dhcp_options(subnet.id), {"cidr": str(network(subnet.cidr)), "options": options}))
    return tuple(made)


def _wire(spec: NetworkSpec) -> Row:
    tag = (spec.segmentation_id,) if spec.network_type == "vlan" and spec.segmentation_id else ()
    name = f"wire-{spec.id}"
    columns = {
        "name": name,
        "type": "localnet",
        "addresses": ("unknown",),
        "options": {"network_name": spec.physical_network or ""},
        "tag": tag,
    }
    return Row(Ref(PORT, name), columns, switch_ports(spec.id))


def _metadata(spec: NetworkSpec) -> Row:
    """A port that each host has for itself: what a guest sends to it stays on the guest's host."""
    name = f"{METADATA}{spec.id}"
    own = f"{derived_mac(name)} {METADATA_ADDRESS}"
    columns: dict[str, Value] = {"name": name, "type": "localport", "addresses": (own,), "port_security": (own,)}
    return Row(Ref(PORT, name), columns, switch_ports(spec.id))


def told(spec: NetworkSpec, subnet: SubnetSpec, config: Config) -> Mapping[str, str] | None:
    """What guests are told by DHCP, in OVN's terms; None: nothing. Raises Unfit."""
    if not subnet.enable_dhcp:
        return None
    if network(subnet.cidr).version == 6:
        return None if subnet.ipv6_address_mode in WITHOUT_DHCP_OPTIONS else _told_v6(subnet)
    gateway = None if subnet.gateway_ip is None else address(subnet.gateway_ip)
    options = {
        "server_id": gateway or NOBODY,
        "server_mac": derived_mac(subnet.id),
        "lease_time": str(config.lease_seconds),
        "mtu": str(guest_mtu(spec, config)),
    }
    if gateway is not None:
        options["router"] = gateway
    if subnet.dns_nameservers:
        options["dns_server"] = listed([address(each) for each in subnet.dns_nameservers])
    routes = [f"{METADATA_ADDRESS}/32,{ON_LINK}"] if config.metadata else []
    routes += [f"{network(each.destination)},{address(each.nexthop)}" for each in subnet.host_routes]
    if routes:
        # A client that uses this option ignores the router option (RFC 3442).
        has_default = any(network(each.destination).prefixlen == 0 for each in subnet.host_routes)
        routes += [f"0.0.0.0/0,{gateway}"] if gateway is not None and not has_default else []
        options["classless_static_route"] = listed(routes)
    return options


def _told_v6(subnet: SubnetSpec) -> dict[str, str]:
    options = {"server_id": derived_mac(subnet.id)}
    if subnet.dns_nameservers:
        options["dns_server"] = listed([address(each) for each in subnet.dns_nameservers])
    if subnet.ipv6_address_mode == "dhcpv6-stateless":
        options["dhcpv6_stateless"] = "true"
    return options


def listed(values: list[str]) -> str:
    return f"{{{', '.join(values)}}}"


def derived_mac(name: str) -> str:
    """A locally administered address that no guest has."""
    octets = sha256(name.encode()).digest()[:5]
    return ":".join(["0e", *(f"{each:02x}" for each in octets)])
