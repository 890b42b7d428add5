"""A port as rows: a port of a logical switch, what its guest is told by DHCP, and its traffic limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attrs import evolve, frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import address, mac, network, plain
from cloudctl.drivers.netns.spoofing import addresses, link_local, senders
from cloudctl.drivers.ovn import groups, networks
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.rows import Place, Ref, Row, Value
from cloudctl.drivers.specs import BandwidthLimit, DhcpOption, NetworkSpec, PortSpec, SubnetSpec

QOS = "QoS"
QOS_PRIORITY = 1000

# OVN's names of extra DHCP options, by name and by number.
DHCP_V4 = {
    "netmask": "netmask", "1": "netmask",
    "router": "router", "3": "router",
    "dns-server": "dns_server", "6": "dns_server",
    "log-server": "log_server", "7": "log_server",
    "lpr-server": "lpr_server", "9": "lpr_server",
    "hostname": "hostname", "12": "hostname",
    "domain-name": "domain_name", "15": "domain_name",
    "swap-server": "swap_server", "16": "swap_server",
    "ip-forward-enable": "ip_forward_enable", "19": "ip_forward_enable",
    "policy-filter": "policy_filter", "21": "policy_filter",
    "default-ttl": "default_ttl", "23": "default_ttl",
    "mtu": "mtu", "26": "mtu",
    "router-discovery": "router_discovery", "31": "router_discovery",
    "router-solicitation": "router_solicitation", "32": "router_solicitation",
    "arp-timeout": "arp_cache_timeout", "35": "arp_cache_timeout",
    "ethernet-encap": "ethernet_encap", "36": "ethernet_encap",
    "tcp-ttl": "tcp_ttl", "37": "tcp_ttl",
    "tcp-keepalive": "tcp_keepalive_interval", "38": "tcp_keepalive_interval",
    "nis-server": "nis_server", "41": "nis_server",
    "ntp-server": "ntp_server", "42": "ntp_server",
    "lease-time": "lease_time", "51": "lease_time",
    "T1": "T1", "58": "T1",
    "T2": "T2", "59": "T2",
    "tftp-server": "tftp_server", "66": "tftp_server",
    "bootfile-name": "bootfile_name", "67": "bootfile_name",
    "domain-search": "domain_search_list", "119": "domain_search_list",
    "classless-static-route": "classless_static_route", "121": "classless_static_route",
    "server-ip-address": "tftp_server_address", "tftp-server-address": "tftp_server_address",
    "150": "tftp_server_address",
    "path-prefix": "path_prefix", "210": "path_prefix",
    "wpad": "wpad", "252": "wpad",
}  # fmt: skip
DHCP_V6 = {
    "dns-server": "dns_server", "23": "dns_server",
    "domain-search": "domain_search", "24": "domain_search",
    "bootfile-url": "bootfile_name", "bootfile-name": "bootfile_name", "59": "bootfile_name",
}  # fmt: skip
TEXTS = frozenset(
    [
        "hostname",
        "domain_name",
        "tftp_server",
        "bootfile_name",
        "domain_search_list",
        "domain_search",
        "path_prefix",
        "wpad",
    ]
)
# OVN writes values into the actions of its flows as they are, and a value must not end there: numbers, addresses and
# lists of them; and what is between the quotation marks of a text.
NUMBERS = re.compile(r"[0-9A-Fa-f.:/, ]*|\{[0-9A-Fa-f.:/, ]*\}")
TEXT = re.compile(r'[^"\\\x00-\x1f\x7f]*')


@frozen
class Port:
    """What is stored of a port."""

    spec: PortSpec
    hosts: tuple[str, ...]  # where it is plugged, the first one first


@frozen
class Carrier:
    """A port that a port's traffic goes through."""

    port_id: str
    vlan: int


def logical_port(port_id: str) -> Ref:
    return Ref(networks.PORT, port_id)


def tap(port_id: str) -> str:
    """The name of the link that a hypervisor creates for it."""
    return f"tap{port_id[:11]}"


def rows(port: Port, network_spec: NetworkSpec, carrier: Carrier | None, config: Config) -> tuple[Row, ...]:
    """Raises Unfit."""
    spec = port.spec
    told = {version: _told(spec, network_spec, version, config) for version in groups.VERSIONS}
    columns: dict[str, Value] = {
        "name": spec.id,
        "type": "",
        "addresses": _addresses(spec),
        "port_security": _may_send(spec),
        "enabled": is_up(port, network_spec),
        "options": _binding(port),
        "parent_name": (carrier.port_id,) if carrier else (),
        "tag": (carrier.vlan,) if carrier else (),
        "dhcpv4_options": _refs(told[4]),
        "dhcpv6_options": _refs(told[6]),
    }
    row = Row(logical_port(spec.id), columns, networks.switch_ports(spec.network_id), _memberships(spec))
    own = (each for each in told.values() if isinstance(each, Row))
    return (row, *own, *_held_back(spec))


def is_up(port: Port, network_spec: NetworkSpec) -> bool:
    return port.spec.admin_state_up and network_spec.admin_state_up


def members(port: Port) -> dict[str, frozenset[str]]:
    """Security group → what the port adds to the addresses of its members."""
    spec = port.spec
    if not spec.port_security:
        return {}
    found = frozenset(plain(network(each)) for each in addresses(spec))
    return dict.fromkeys(spec.security_groups, found)


def _addresses(spec: PortSpec) -> tuple[str, ...]:
    """What the switch sends to the port. With «unknown»: also traffic to addresses that no port is known to have."""
    own = " ".join([mac(spec.mac), *(address(each.ip_address) for each in spec.fixed_ips)])
    is_one = spec.port_security and len(senders(spec)) == 1
    return (own,) if is_one else (own, "unknown")


def _may_send(spec: PortSpec) -> tuple[str, ...]:
    if not spec.port_security:
        return ()
    # A MAC address alone would allow any IP address.
    return tuple(
        " ".join([sender, *(plain(network(each)) for each in found)]) if found else f"{sender} {link_local(sender)}"
        for sender, found in senders(spec).items()
    )


def _binding(port: Port) -> dict[str, str]:
    if not port.hosts:
        return {}
    options = {"requested-chassis": ",".join(port.hosts)}
    if len(port.hosts) > 1:
        # During a migration the new host passes nothing on until the guest announces itself there.
        options["activation-strategy"] = "rarp"
    return options


def _memberships(spec: PortSpec) -> tuple[Place, ...]:
    if not spec.port_security:
        return ()
    found = (groups.SECURED, *(groups.port_group(each) for each in spec.security_groups))
    return tuple(Place(each, "ports") for each in found)


# -- what guests are told


def _told(spec: PortSpec, network_spec: NetworkSpec, version: int, config: Config) -> Row | Ref | None:
    """For the port's first address of this IP version: the subnet's row, a row of its own, or None."""
    subnets = {each.id: each for each in network_spec.subnets}
    found = (subnets.get(each.subnet_id) for each in spec.fixed_ips)
    subnet = next((each for each in found if each and network(each.cidr).version == version), None)
    if subnet is None:
        return None
    options = networks.told(network_spec, subnet, config)
    if options is None:
        return None
    more = [each for each in spec.dhcp_options if each.ip_version == version]
    return _own_options(spec, subnet, options, more) if more else networks.dhcp_options(subnet.id)


def _own_options(spec: PortSpec, subnet: SubnetSpec, options: Mapping[str, str], more: list[DhcpOption]) -> Row:
    merged = dict(options)
    for each in more:
        name = _dhcp_name(each)
        if not (TEXT if name in TEXTS else NUMBERS).fullmatch(each.value):
            raise Unfit(f"the value of DHCP option {each.name!r} cannot be told by OVN")
        merged[name] = f'"{each.value}"' if name in TEXTS else each.value
    # An option without a value is not given.
    given = {name: value for name, value in merged.items() if value}
    columns: dict[str, Value] = {"cidr": str(network(subnet.cidr)), "options": given}
    return Row(Ref(networks.DHCP, f"{spec.id} {subnet.id}"), columns)


def _dhcp_name(option: DhcpOption) -> str:
    known = DHCP_V6 if option.ip_version == 6 else DHCP_V4
    name = option.name.removeprefix("option6:").removeprefix("option:")
    if name not in known:
        raise Unfit(f"OVN tells guests nothing of DHCP option {option.name!r}")
    return known[name]


def _refs(told: Row | Ref | None) -> tuple[Ref, ...]:
    if told is None:
        return ()
    return (told.ref if isinstance(told, Row) else told,)


# -- traffic limits and marks


def _held_back(spec: PortSpec) -> Iterable[Row]:
    for limit in spec.limits:
        yield _rule(spec, limit.direction, "limit", {"bandwidth": bandwidth(limit)})
    if spec.dscp_mark is not None:
        if not 0 <= spec.dscp_mark < 64:
            raise Unfit(f"no DSCP mark: {spec.dscp_mark}")
        yield _rule(spec, "egress", "mark", {"action": {"dscp": spec.dscp_mark}})


def _rule(spec: PortSpec, direction: str, what: str, columns: Mapping[str, Value]) -> Row:
    side, of = ("inport", groups.FROM) if direction == "egress" else ("outport", groups.TO)
    match: dict[str, Value] = {"match": f'{side} == "{spec.id}"', "direction": of, "priority": QOS_PRIORITY}
    place = Place(networks.switch(spec.network_id), "qos_rules")
    return Row(Ref(QOS, f"{spec.id} {what} {direction}"), {**match, **columns}, place)


def bandwidth(limit: BandwidthLimit) -> dict[str, int]:
    """In kbit/s and kbit. Raises Unfit."""
    if limit.max_kbps <= 0 or limit.max_burst_kbit < 0:
        raise Unfit(f"no limit of bandwidth: {limit.max_kbps} kbit/s, {limit.max_burst_kbit} kbit at once")
    burst = {"burst": limit.max_burst_kbit} if limit.max_burst_kbit else {}
    return {"rate": limit.max_kbps, **burst}


def without_binding(spec: PortSpec) -> PortSpec:
    return evolve(spec, binding=None)
