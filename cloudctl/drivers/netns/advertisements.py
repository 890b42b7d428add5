"""Router advertisements: the command line of a router's dnsmasq.

A guest takes the sender of an advertisement for its default router, so the router must send them. DHCPv6 addresses are
served by the dnsmasq of the network (`dhcp`); the router's serves nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_interface
from pathlib import Path

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import address, network
from cloudctl.drivers.netns.names import pid_file
from cloudctl.drivers.netns.routing import Leg
from cloudctl.drivers.specs import SubnetSpec

# dnsmasq's modes: addresses are derived from the prefix; DHCP has further options; DHCP has the addresses, too.
MODES = {"slaac": ",ra-only", "dhcpv6-stateless": ",ra-stateless", "dhcpv6-stateful": ",static"}


def arguments(legs: Mapping[str, Leg], directory: Path) -> list[str]:
    """The arguments of dnsmasq for the router with these interfaces; empty if nothing is to be advertised.

    Raises Unfit.
    """
    wanted = [(name, subnet) for name, leg in legs.items() for subnet in _told(leg)]
    if not wanted:
        return []
    words = [
        "--conf-file=/dev/null",
        "--no-hosts",
        "--no-resolv",
        "--port=0",  # no DNS
        *(f"--interface={name}" for name in dict.fromkeys(name for name, _ in wanted)),
        "--except-interface=lo",
        "--bind-dynamic",
        "--user=nobody",
        "--leasefile-ro",
        "--quiet-dhcp6",
        "--quiet-ra",
        "--dhcp-ignore=tag:!known",  # nobody is known
        "--enable-ra",
        pid_file(directory),
    ]
    for number, (_, subnet) in enumerate(wanted):
        tag, prefix = f"subnet{number}", network(subnet.cidr)
        mode = MODES.get(subnet.ipv6_ra_mode or "")
        if mode is None:
            raise Unfit(f"no mode of advertisements: {subnet.ipv6_ra_mode!r}")
        words.append(f"--dhcp-range=set:{tag},{prefix.network_address}{mode},{prefix.prefixlen}")
        if servers := [f"[{each}]" for each in map(address, subnet.dns_nameservers) if ":" in each]:
            words.append(f"--dhcp-option=tag:{tag},option6:dns-server,{','.join(servers)}")
    return words


def _told(leg: Leg) -> list[SubnetSpec]:
    """The subnets of an inside network in which the router has an address and that it is to advertise."""
    if leg.gateway:
        return []
    own = [ip_interface(each).ip for each in leg.spec.addresses]
    subnets = (each for each in leg.network.subnets if each.ipv6_ra_mode is not None)
    return [each for each in subnets if any(ip in network(each.cidr) for ip in own)]
