"""The links that a network namespace has, and the lines of `ip -batch -` that make them what they should be.

All functions are pure. A line is only written for what is missing or different.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

import orjson
from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import address, interface, mac, mtu, network, networks_of, plain
from cloudctl.drivers.netns.dhcp import served
from cloudctl.drivers.netns.names import METADATA_ADDRESS, SERVICE_ADDRESSES6, SERVICE_LINK, Names, read, written
from cloudctl.drivers.specs import NetworkSpec, PortSpec

VXLAN_PORT = 4789
UNDERLAY_BRIDGE = "underlay"
UNDERLAY_MTU = 9000  # room for VXLAN's 50 bytes around any tenant's frame of usual size


@frozen
class Link:
    """One line of `ip link show`."""

    name: str
    master: str | None
    up: bool  # as it is set, not whether anything is plugged in
    mtu: int
    alias: str
    mac: str
    index: int = 0  # the kernel's number for it, in its namespace


Found = Mapping[str, Link]


def found_links(output: bytes) -> dict[str, Link]:
    """Links by name, from `ip -j link show`."""
    rows: list[dict[str, Any]] = orjson.loads(output or b"[]")
    return {
        row["ifname"]: Link(
            name=row["ifname"],
            master=row.get("master"),
            up="UP" in row.get("flags", ()),
            mtu=row.get("mtu", 0),
            alias=row.get("ifalias", ""),
            mac=row.get("address", ""),
            index=row.get("ifindex", 0),
        )
        for row in rows
        if "ifname" in row
    }


@frozen
class Segment:
    """A network as it is on one host."""

    spec: NetworkSpec
    bridge: str
    physical: bool  # the bridge is the operator's
    tunnel_from: str | None  # the host's address for VXLAN; None: no tunnel
    tunnel_to: tuple[str, ...] = ()
    served: bool = False  # its namespace is attached on this host


def segment(
    names: Names, spec: NetworkSpec, host: str, hosts: Mapping[str, str | None], physical: Mapping[str, str]
) -> Segment:
    """`hosts`: each host's address for VXLAN, the one that carries the namespaces first.

    Raises Unfit for a network that this driver cannot make.
    """
    if spec.network_type == "vlan":
        raise Unfit(f"network {spec.id} is a VLAN; the driver makes flat, local and VXLAN networks")
    # An operator's networks get neither DHCP nor metadata unless requested: another cloud may be there.
    has_service = host == next(iter(hosts)) and (not spec.external or bool(served(spec)))
    if spec.network_type == "flat":
        bridge = physical.get(spec.physical_network or "")
        if bridge is None:
            raise Unfit(f"the option physical_networks has no bridge for {spec.physical_network!r}")
        return Segment(spec, bridge, physical=True, tunnel_from=None, served=has_service)
    alone = len(hosts) == 1 or spec.network_type == "local"
    if not alone and spec.segmentation_id is None:
        raise Unfit(f"network {spec.id} has no segmentation id for its tunnels")
    others = () if alone else tuple(each for name, each in hosts.items() if name != host and each is not None)
    own = None if alone else hosts[host]
    return Segment(spec, names.bridge(spec.id), physical=False, tunnel_from=own, tunnel_to=others, served=has_service)


def segment_lines(names: Names, found: Found, wanted: Segment) -> list[str]:
    """The bridge of a network, its tunnel, and the pair to its namespace, which must exist. Raises Unfit."""
    spec = wanted.spec
    size = mtu(spec.mtu)
    if wanted.physical:
        if wanted.bridge not in found:
            raise Unfit(f"the bridge {wanted.bridge} of physical network {spec.physical_network} does not exist")
        lines = []
    else:
        lines = _bridge(found, wanted.bridge, spec)
    if wanted.tunnel_from is not None:
        name = names.tunnel(spec.id)
        if name not in found:
            vni, local = spec.segmentation_id, address(wanted.tunnel_from)
            lines.append(f"link add name {name} type vxlan id {vni} local {local} dstport {VXLAN_PORT}")
        lines += in_bridge(found, name, wanted.bridge, size, spec.id)
    name = names.service(spec.id)
    if not wanted.served:
        lines += [f"link del dev {name}"] if name in found else []
    else:
        if name not in found:
            namespace = names.network_namespace(spec.id)
            lines.append(f"link add name {name} type veth peer name {SERVICE_LINK} netns {namespace}")
        lines += in_bridge(found, name, wanted.bridge, size, spec.id)
    return lines


def segment_removal(names: Names, found: Found, network_id: str) -> list[str]:
    """Remove everything of a network on one host. An operator's bridge has another name, and stays."""
    mine = (names.service(network_id), names.tunnel(network_id), names.bridge(network_id))
    return [f"link del dev {name}" for name in mine if name in found]


def flood_lines(names: Names, wanted: Segment) -> list[str]:
    """For `bridge -batch -`: frames to unknown destinations go to all other hosts. The others are learned."""
    return [
        f"fdb append 00:00:00:00:00:00 dev {names.tunnel(wanted.spec.id)} dst {address(other)}"
        for other in wanted.tunnel_to
    ]


def port_lines(names: Names, found: Found, wanted: Segment, port: PortSpec, carried: bool = False) -> list[str]:
    """The tap of a port in its network's bridge. An existing link of that name is taken for it.

    `carried`: it goes through another port's tap, so it is a pair of links, of which `tagging` uses the other end.
    """
    name, other = names.tap(port.id), names.carried(port.id)
    # A port that was carried becomes one that is not, or the other way round.
    there = name in found and (other in found) is carried
    lines = [f"link del dev {name}"] if name in found and not there else []
    if not there:
        found = {each: link for each, link in found.items() if each != name}
        if carried:
            pair = f"link add name {name} type veth peer name {other}"
            lines += [pair, f"link set dev {other} addrgenmode none mtu {mtu(port.mtu)} up"]
        else:
            lines.append(f"tuntap add dev {name} mode tap")
    return lines + in_bridge(found, name, wanted.bridge, mtu(port.mtu), port.id, up=port.admin_state_up)


def in_bridge(found: Found, name: str, bridge: str, size: int, id: str, up: bool = True) -> list[str]:
    """A link of ours is in the bridge. It gets no address of its own, not even a link-local one."""
    link = found.get(name)
    wanted = (bridge, up, size, written(id))
    if link is not None and (link.master, link.up, link.mtu, link.alias) == wanted:
        return []
    state = "up" if up else "down"
    return [f"link set dev {name} addrgenmode none mtu {size} master {bridge} {state} alias {written(id)}"]


def _bridge(found: Found, name: str, spec: NetworkSpec) -> list[str]:
    lines = []
    link = found.get(name)
    if link is None:
        lines.append(f"link add name {name} type bridge forward_delay 0 mcast_snooping 0")
    if link is None or (link.up, link.mtu, link.alias) != (spec.admin_state_up, spec.mtu, written(spec.id)):
        state = "up" if spec.admin_state_up else "down"
        lines.append(f"link set dev {name} addrgenmode none mtu {mtu(spec.mtu)} {state} alias {written(spec.id)}")
    return lines


def service_lines(spec: NetworkSpec) -> list[str]:
    """Inside a network's namespace: the address of DHCP and metadata, and how guests are reached from it.

    The subnets' routes, and the addresses of the port shown as the DHCP port, may have changed: they are set again.
    These addresses are single ones, so that the kernel makes no routes for them. It answers for IPv4 ones on any link:
    on `lo` dnsmasq does not see them and so continues to identify itself by the metadata address.
    """
    port = spec.dhcp_port
    lines = [
        "link set dev lo up",
        f"link set dev {SERVICE_LINK} addrgenmode none mtu {mtu(spec.mtu)} up",
        *([] if port is None else [f"link set dev {SERVICE_LINK} address {mac(port.mac)}"]),
        *(_flush(each.cidr) for each in spec.subnets),
        *([] if port is None else [_single(each) for each in port.addresses]),
        f"address replace {METADATA_ADDRESS}/32 dev {SERVICE_LINK}",
        *(f"address replace {each} dev {SERVICE_LINK} nodad" for each in SERVICE_ADDRESSES6),
        f"route flush dev {SERVICE_LINK} proto static",
    ]
    for subnet in networks_of((each.cidr for each in spec.subnets), version=4):
        lines.append(f"route replace {subnet} dev {SERVICE_LINK} src {METADATA_ADDRESS} scope link proto static")
    return lines


def _flush(cidr: str) -> str:
    found = network(cidr)
    return f"address flush dev {'lo' if found.version == 4 else SERVICE_LINK} scope global to {plain(found)}"


def _single(own: str) -> str:
    found = ip_interface(interface(own)).ip
    if found.version == 4:
        return f"address replace {found}/32 dev lo"
    return f"address replace {found}/128 dev {SERVICE_LINK} nodad"


def plugged(names: Names, found: Found) -> dict[str, bool]:
    """The ids of the ports that are on a host, and whether traffic passes."""
    taps = [link for link in found.values() if names.is_tap(link.name) and link.master is not None]
    return {read(tap.alias): tap.up and _is_up(found, tap.master) for tap in taps}


def _is_up(found: Found, name: str | None) -> bool:
    return name is not None and name in found and found[name].up


# -- several hosts


def host_lines(names: Names, found: Found, number: int, own_address: str | None) -> list[str]:
    """In a host's namespace: loopback, and the pair to the namespace that joins the hosts, if there are several.

    `number` distinguishes the hosts; `own_address` has a prefix length.
    """
    if own_address is None:
        return ["link set dev lo up"]
    link = names.underlay_link
    lines = ["link set dev lo up"]
    if link not in found:
        peer = underlay_port(number)
        lines.append(f"link add name {link} type veth peer name {peer} netns {names.underlay_namespace}")
    lines.append(f"link set dev {link} addrgenmode none mtu {UNDERLAY_MTU} up")
    lines.append(f"address replace {interface(own_address)} dev {link}")
    return lines


def underlay_lines(found: Found, numbers: Sequence[int]) -> list[str]:
    """In the namespace that joins the hosts with these numbers: a bridge with a port for each."""
    lines = [] if UNDERLAY_BRIDGE in found else [f"link add name {UNDERLAY_BRIDGE} type bridge forward_delay 0"]
    lines.append(f"link set dev {UNDERLAY_BRIDGE} addrgenmode none mtu {UNDERLAY_MTU} up")
    for number in numbers:
        lines.append(f"link set dev {underlay_port(number)} mtu {UNDERLAY_MTU} master {UNDERLAY_BRIDGE} up")
    return lines


def underlay_port(number: int) -> str:
    return f"host{number}"
