"""A router as rows: its legs in networks, its gateway, and the addresses that it translates.

A leg is a port of the logical router joined to one of the network's switch. Gateways are on the chassis that the
operator names; the first one that is alive is used.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import address, interface, mac, network
from cloudctl.drivers.ovn import networks
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.rows import Place, Ref, Row, Value
from cloudctl.drivers.specs import NetworkSpec, PortForwarding, RouterInterface, RouterSpec

ROUTER = "Logical_Router"
ROUTER_PORT = "Logical_Router_Port"
NAT = "NAT"
ROUTE = "Logical_Router_Static_Route"
BALANCER = "Load_Balancer"
FORWARDED = ("tcp", "udp", "sctp")
RA_MODES = {"slaac": "slaac", "dhcpv6-stateful": "dhcpv6_stateful", "dhcpv6-stateless": "dhcpv6_stateless"}

Networks = Mapping[str, NetworkSpec]


def router(router_id: str) -> Ref:
    return Ref(ROUTER, router_id)


def legs(spec: RouterSpec) -> tuple[RouterInterface, ...]:
    return (*spec.interfaces, *((spec.gateway,) if spec.gateway else ()))


def rows(spec: RouterSpec, known: Networks, bound: Container[str], config: Config) -> tuple[Row, ...]:
    """`known`: at least the networks in which it has legs. `bound`: ids of its floating addresses' ports that are on a
    host. Raises Unfit.
    """
    made = [Row(router(spec.id), {"name": spec.id, "enabled": spec.admin_state_up})]
    for leg in spec.interfaces:
        made += _leg(spec, leg, {"ipv6_ra_configs": _advertised(leg, known[leg.network_id], config)}, {})
    if spec.gateway is not None:
        made += _gateway(spec, spec.gateway, known[spec.gateway.network_id], bound, config)
    made += [
        _route(spec, str(network(each.destination)), address(each.nexthop), "extra")
        for each in spec.routes
        if _is_reached(spec, each.nexthop)
    ]
    return tuple(made)


def _leg(
    spec: RouterSpec, leg: RouterInterface, columns: Mapping[str, Value], options: Mapping[str, str]
) -> Iterable[Row]:
    name = port_name(leg)
    own: dict[str, Value] = {
        "name": name,
        "mac": mac(leg.mac),
        "networks": tuple(interface(each) for each in leg.addresses),
    }
    yield Row(Ref(ROUTER_PORT, leg.port_id), {**own, **columns}, Place(router(spec.id), "ports"))
    joined: dict[str, Value] = {
        "name": f"join-{leg.port_id}",
        "type": "router",
        "addresses": ("router",),
        "options": {"router-port": name, **options},
    }
    yield Row(Ref(networks.PORT, f"leg {leg.port_id}"), joined, networks.switch_ports(leg.network_id))


def port_name(leg: RouterInterface) -> str:
    return f"leg-{leg.port_id}"


def _own(leg: RouterInterface, version: int) -> list[IPv4Interface | IPv6Interface]:
    found = (ip_interface(interface(each)) for each in leg.addresses)
    return [each for each in found if each.version == version]


# -- inside


def _advertised(leg: RouterInterface, spec: NetworkSpec, config: Config) -> dict[str, str]:
    """What IPv6 guests are told about the network; empty if nothing."""
    addresses = [each.ip for each in _own(leg, 6)]
    reached = (each for each in spec.subnets if any(ip in network(each.cidr) for ip in addresses))
    subnets = [each for each in reached if each.ipv6_ra_mode is not None]
    if not subnets:
        return {}
    mode = RA_MODES.get(subnets[0].ipv6_ra_mode or "")
    if mode is None:
        raise Unfit(f"no mode of advertisements: {subnets[0].ipv6_ra_mode}")
    told = {
        "address_mode": mode,
        "send_periodic": "true",
        "mtu": str(networks.guest_mtu(spec, config)),
    }
    servers = [address(each) for subnet in subnets for each in subnet.dns_nameservers]
    # OVN announces only one.
    return {**told, **({"rdnss": servers[0]} if servers else {})}


# -- outside


def _gateway(
    spec: RouterSpec, leg: RouterInterface, outside: NetworkSpec, bound: Container[str], config: Config
) -> Iterable[Row]:
    # After another chassis has taken over, the outside is told again where its addresses are.
    joined = {"nat-addresses": "router", "exclude-lb-vips-from-garp": "true"}
    yield from _leg(spec, leg, {"ipv6_ra_configs": {}}, joined)
    for place, name in enumerate(config.gateway_chassis):
        columns: dict[str, Value] = {
            "name": f"{port_name(leg)}_{name}",
            "chassis_name": name,
            "priority": len(config.gateway_chassis) - place,
        }
        held = Place(Ref(ROUTER_PORT, leg.port_id), "gateway_chassis")
        yield Row(Ref("Gateway_Chassis", f"{leg.port_id} {name}"), columns, held)
    for via in _gateways(leg, outside):
        everywhere = "::/0" if ip_address(via).version == 6 else "0.0.0.0/0"
        yield _route(spec, everywhere, via, "default", (port_name(leg),))
    yield from _translated(spec, leg, bound if config.distributed_floating_ips else ())
    yield from _forwarded(spec)


def _gateways(leg: RouterInterface, outside: NetworkSpec) -> Sequence[str]:
    """Gateways of the subnets in which the leg has an address."""
    own = [each.ip for version in (4, 6) for each in _own(leg, version)]
    subnets = [each for each in outside.subnets if any(ip in network(each.cidr) for ip in own)]
    return [address(each.gateway_ip) for each in subnets if each.gateway_ip is not None]


def _translated(spec: RouterSpec, leg: RouterInterface, on_hosts: Container[str]) -> Iterable[Row]:
    """`on_hosts`: ids of ports whose floating addresses are served on their own hosts."""
    outside = next((str(each.ip) for each in _own(leg, 4)), None)
    if spec.enable_snat and outside is not None:
        inside = {str(each.network) for inner in spec.interfaces for each in _own(inner, 4)}
        for prefix in sorted(inside):
            yield _nat(spec, f"snat {prefix}", {"type": "snat", "external_ip": outside, "logical_ip": prefix})
    for each in spec.floating_ips:
        columns: dict[str, Value] = {
            "type": "dnat_and_snat",
            "external_ip": address(each.floating_address),
            "logical_ip": address(each.fixed_address),
            "external_mac": (),
            "logical_port": (),
        }
        # An address that guests hand on to each other belongs to a port on no host: the gateway serves it. So it does
        # one behind another router, whose host sees none of what comes through this one.
        fixed = ip_address(each.fixed_address)
        is_near = any(fixed in own.network for inner in spec.interfaces for own in _own(inner, 4))
        is_mapped = is_near and ip_address(each.floating_address).version == 4
        if is_mapped and each.port_id is not None and each.port_id in on_hosts:
            columns |= {"external_mac": (networks.derived_mac(each.id),), "logical_port": (each.port_id,)}
        yield _nat(spec, f"floating {each.id}", columns)


def _nat(spec: RouterSpec, what: str, columns: Mapping[str, Value]) -> Row:
    return Row(Ref(NAT, f"{spec.id} {what}"), columns, Place(router(spec.id), "nat"))


def _forwarded(spec: RouterSpec) -> Iterable[Row]:
    for protocol in dict.fromkeys(each.protocol for each in spec.port_forwardings):
        if protocol not in FORWARDED:
            raise Unfit(f"ports of {protocol!r} are not forwarded")
        ways = {
            public: private
            for each in spec.port_forwardings
            if each.protocol == protocol
            for public, private in _ways(each)
        }
        name = f"forwarded-{spec.id}-{protocol}"
        columns: dict[str, Value] = {"name": name, "protocol": (protocol,), "vips": ways}
        used = (Place(router(spec.id), "load_balancer"),)
        yield Row(Ref(BALANCER, f"{spec.id} {protocol}"), columns, members_of=used)


def _ways(each: PortForwarding) -> Iterable[tuple[str, str]]:
    outside, inside = address(each.floating_address), address(each.fixed_address)
    for n in range(each.count):
        yield f"{outside}:{each.external + n}", f"{inside}:{each.internal + n}"


def _route(spec: RouterSpec, prefix: str, nexthop: str, what: str, output: tuple[str, ...] = ()) -> Row:
    columns: dict[str, Value] = {"ip_prefix": prefix, "nexthop": nexthop, "output_port": output}
    return Row(Ref(ROUTE, f"{spec.id} {what} {prefix} {nexthop}"), columns, Place(router(spec.id), "static_routes"))


def _is_reached(spec: RouterSpec, nexthop: str) -> bool:
    """A next hop may be out of reach until an interface is added."""
    hop = ip_address(address(nexthop))
    return any(hop in own.network for leg in legs(spec) for own in _own(leg, hop.version))
