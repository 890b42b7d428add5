"""DHCP of a network: the command line of its dnsmasq, and the files in which it finds its ports.

dnsmasq gives addresses to known ports only. It speaks from 169.254.169.254, an address outside all subnets
(`--shared-network` makes it serve them all the same), so that it takes none of the tenant's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cloudctl.drivers.netns.checked import address, mac, mtu, network
from cloudctl.drivers.netns.names import METADATA_ADDRESS, SERVICE_LINK
from cloudctl.drivers.specs import NetworkSpec, PortSpec, SubnetSpec

ON_LINK = "0.0.0.0"  # as a next hop in option 121: none, the destination is on this wire (RFC 3442)


def served(spec: NetworkSpec) -> list[SubnetSpec]:
    """The subnets that have DHCP: IPv4 ones only."""
    return [each for each in spec.subnets if each.enable_dhcp and network(each.cidr).version == 4]


def arguments(spec: NetworkSpec, directory: Path, lease_seconds: int) -> list[str]:
    """Of dnsmasq for this network; nothing if it needs none. All of its configuration is here."""
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
        f"--pid-file={directory / 'pid'}",
        f"--dhcp-hostsdir={directory / 'hosts'}",
        f"--dhcp-option=option:mtu,{mtu(spec.mtu)}",
    ]
    for number, subnet in enumerate(subnets):
        tag = f"subnet{number}"
        cidr = network(subnet.cidr)
        start = cidr.network_address
        words.append(f"--dhcp-range=set:{tag},{start},static,{cidr.netmask},{lease_seconds}")
        words.append(f"--shared-network={SERVICE_LINK},{start}")
        words += [f"--dhcp-option=tag:{tag},{option}" for option in _options(subnet)]
    return words


def hosts_file(port: PortSpec, spec: NetworkSpec) -> str:
    """Which addresses a port gets; empty if none by DHCP."""
    dhcp = {each.id for each in served(spec)}
    addresses = (address(each.ip_address) for each in port.fixed_ips if each.subnet_id in dhcp)
    return "".join(f"{mac(port.mac)},{each}\n" for each in addresses)


def _options(subnet: SubnetSpec) -> Iterable[str]:
    routes = [(f"{METADATA_ADDRESS}/32", ON_LINK)]
    routes += [(str(network(route.destination)), address(route.nexthop)) for route in subnet.host_routes]
    if subnet.gateway_ip is None:
        # Without a value: dnsmasq would name itself.
        yield "option:router"
    else:
        gateway = address(subnet.gateway_ip)
        yield f"option:router,{gateway}"
        # A client that understands option 121 takes no notice of the router.
        if all(destination != "0.0.0.0/0" for destination, _ in routes):
            routes.append(("0.0.0.0/0", gateway))
    yield "option:classless-static-route," + ",".join(f"{destination},{via}" for destination, via in routes)
    if servers := [each for each in map(address, subnet.dns_nameservers) if network(each).version == 4]:
        yield "option:dns-server," + ",".join(servers)
