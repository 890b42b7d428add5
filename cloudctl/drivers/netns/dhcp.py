"""DHCP of a network: the command line of its dnsmasq, and the files in which it finds its ports.

dnsmasq gives addresses to known ports only. It serves from 169.254.169.254 and fe80::a9fe:a9fe, addresses outside all
subnets (`--shared-network` makes it serve these anyway), so that it takes none of the tenant's addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import address, mac, mtu, network
from cloudctl.drivers.netns.names import METADATA_ADDRESS, SERVICE_LINK, pid_file, written
from cloudctl.drivers.specs import DhcpOption, NetworkSpec, PortSpec, SubnetSpec

ON_LINK = "0.0.0.0"  # as a next hop in option 121: the destination is on this link (RFC 3442)


BY_DHCP = ("dhcpv6-stateful", "dhcpv6-stateless")
STATEFUL = "dhcpv6-stateful"
OPTION = re.compile(r"[a-z0-9-]{1,64}")  # a name or a number in dnsmasq's list
LINE = 1024  # bytes that dnsmasq reads at once of a file: it would take the rest of a longer line for another option


def served(spec: NetworkSpec) -> list[SubnetSpec]:
    """The subnets that have DHCP. For IPv6 the mode decides: in others guests choose their addresses themselves."""
    found = [each for each in spec.subnets if each.enable_dhcp]
    return [each for each in found if network(each.cidr).version == 4 or each.ipv6_address_mode in BY_DHCP]


def arguments(spec: NetworkSpec, directory: Path, lease_seconds: int) -> list[str]:
    """The arguments of dnsmasq for this network, its whole configuration; empty if it needs none."""
    subnets = served(spec)
    if not subnets:
        return []
    words = [
        "--conf-file=/dev/null",
        "--no-hosts",
        "--no-resolv",
        "--port=0",  # no DNS
        f"--interface={SERVICE_LINK}",
        "--except-interface=lo",
        "--bind-dynamic",
        "--user=nobody",
        "--leasefile-ro",  # all leases follow from the host files
        "--dhcp-authoritative",
        "--quiet-dhcp",
        "--quiet-dhcp6",
        pid_file(directory),
        f"--dhcp-hostsdir={directory / 'hosts'}",
        f"--dhcp-optsdir={directory / 'options'}",
        f"--dhcp-option=option:mtu,{mtu(spec.mtu)}",
    ]
    for number, subnet in enumerate(subnets):
        tag = f"subnet{number}"
        cidr = network(subnet.cidr)
        start = cidr.network_address
        size = cidr.netmask if cidr.version == 4 else cidr.prefixlen
        words.append(f"--dhcp-range=set:{tag},{start},static,{size},{lease_seconds}")
        words.append(f"--shared-network={SERVICE_LINK},{start}")
        told = _options(subnet) if cidr.version == 4 else _options6(subnet)
        words += [f"--dhcp-option=tag:{tag},{each}" for each in told]
    return words


def hosts_file(port: PortSpec, spec: NetworkSpec) -> str:
    """Which addresses a port gets; empty if it gets nothing by DHCP."""
    dhcp = {each.id for each in served(spec) if each.ipv6_address_mode in (None, STATEFUL)}
    tag = f",set:{written(port.id)}" if port.dhcp_options else ""
    known = mac(port.mac) + tag
    found = [network(each.ip_address) for each in port.fixed_ips if each.subnet_id in dhcp]
    # dnsmasq recognizes an IPv6 address by its brackets.
    lines = [f"{known},{each.network_address if each.version == 4 else f'[{each.network_address}]'}" for each in found]
    return "".join(f"{line}\n" for line in lines or ([known] if tag else []))


def options_file(port: PortSpec, spec: NetworkSpec) -> str:
    """The options that a port gets besides its addresses, overriding those of its subnets. Raises Unfit.

    Those that are too long, which earlier releases let pass, are left out: their network must come up all the same.
    """
    return "".join(filter(_fits, _lines(port)))


def options(port: PortSpec) -> str:
    """The same on any network. Raises Unfit also for one that is too long."""
    lines = _lines(port)
    for option, line in zip(port.dhcp_options, lines, strict=True):
        if not _fits(line):
            raise Unfit(f"DHCP option {option.name!r} is too long")
    return "".join(lines)


def _lines(port: PortSpec) -> list[str]:
    return [f"tag:{written(port.id)},{_written(option)}\n" for option in port.dhcp_options]


def _fits(line: str) -> bool:
    return len(line.encode()) <= LINE


def _written(option: DhcpOption) -> str:
    if not OPTION.fullmatch(option.name) or any(ord(each) < 32 for each in option.value):
        raise Unfit(f"no DHCP option: {option.name!r}")
    kind = "option6" if option.ip_version == 6 else "option"
    if option.name.isdecimal() and option.ip_version == 4:
        return f"{option.name},{option.value}"
    return f"{kind}:{option.name},{option.value}"


def _options6(subnet: SubnetSpec) -> Iterable[str]:
    if servers := [f"[{each}]" for each in map(address, subnet.dns_nameservers) if ":" in each]:
        yield "option6:dns-server," + ",".join(servers)


def _options(subnet: SubnetSpec) -> Iterable[str]:
    routes = [(f"{METADATA_ADDRESS}/32", ON_LINK)]
    routes += [(str(network(route.destination)), address(route.nexthop)) for route in subnet.host_routes]
    if subnet.gateway_ip is None:
        # Without a value: otherwise dnsmasq would name itself.
        yield "option:router"
    else:
        gateway = address(subnet.gateway_ip)
        yield f"option:router,{gateway}"
        # A client that understands option 121 ignores the router option.
        if all(destination != "0.0.0.0/0" for destination, _ in routes):
            routes.append(("0.0.0.0/0", gateway))
    yield "option:classless-static-route," + ",".join(f"{destination},{via}" for destination, via in routes)
    if servers := [each for each in map(address, subnet.dns_nameservers) if network(each).version == 4]:
        yield "option:dns-server," + ",".join(servers)
