"""What a port may send as: its own MAC and addresses, and its allowed address pairs. Rules of `table bridge`."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address

from cloudctl.drivers.netns.checked import mac, network, networks_of
from cloudctl.drivers.specs import PortSpec

RARP = "0x8035"  # a guest announces itself with it after a live migration
# With a VLAN tag. br_netfilter does not show such frames to `table inet`, which has the security groups' rules, but
# guests take a frame of VLAN 0, whose tag gives a priority only, for an untagged one.
TAGGED = "ether type { 0x8100, 0x88a8 }"


def rules(port: PortSpec, index: int) -> list[str]:
    """Rules for all frames from this port. Accepted ones are marked with its index. Raises Unfit.

    No port may serve DHCP or advertise routes. A port without port security may send anything and gets no mark.
    """
    if not port.port_security:
        return ["accept"]
    lines = [
        f"{TAGGED} drop",
        f"meta mark set {index:#x}",
        # Many clients look at the port that an answer goes to, and not at the one that it comes from.
        "udp dport { 68, 546 } drop",
        "icmpv6 type nd-router-advert drop",
    ]
    for sender, addresses in senders(port).items():
        v4, v6 = networks_of(addresses, 4), networks_of([*addresses, link_local(sender)], 6)
        lines.append(f"ether saddr {sender} ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept")
        if v4:
            lines.append(f"ether saddr {sender} ip saddr {_set(v4)} accept")
            lines.append(f"ether saddr {sender} arp saddr ether {sender} arp saddr ip {_set(v4)} accept")
        mine = f"ether saddr {sender} ip6 saddr {_set(v6)}"
        lines += [f"{mine} icmpv6 type nd-neighbor-advert{_target(each)} accept" for each in v6]
        lines.append(f"ether saddr {sender} icmpv6 type nd-neighbor-advert drop")
        lines.append(f"{mine} accept")
        # From the unspecified address: is this address taken, who routes here, which groups do I join.
        unsaid = f"ether saddr {sender} ip6 saddr ::"
        lines += [f"{unsaid} icmpv6 type nd-neighbor-solicit{_target(each)} accept" for each in v6]
        lines.append(f"{unsaid} icmpv6 type {{ nd-router-solicit, 143 }} accept")
        lines.append(f"ether saddr {sender} ether type {RARP} accept")
    return [*lines, "drop"]


def senders(port: PortSpec) -> dict[str, list[str]]:
    """MAC address → the addresses and CIDRs with which it may be used; the port's own MAC comes first."""
    own = mac(port.mac)
    found = {own: [each.ip_address for each in port.fixed_ips]}
    for prefix, sender in port.address_pairs:
        found.setdefault(mac(sender), []).append(prefix)
    return found


def addresses(port: PortSpec) -> list[str]:
    """All addresses that the port may send from: what it adds to its groups' members."""
    return [each for of_one in senders(port).values() for each in of_one]


def link_local(sender: str) -> str:
    """The IPv6 address derived from a MAC address (RFC 4291, appendix A)."""
    octets = [int(octet, 16) for octet in sender.split(":")]
    octets[0] ^= 2
    host = bytes([*octets[:3], 0xFF, 0xFE, *octets[3:]])
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + host))


def _target(prefix: str) -> str:
    """Matches neighbour discovery about these IPv6 addresses. nftables has a name for this field only since 1.0.9."""
    found = network(prefix)
    bits = found.prefixlen
    return f" @th,64,{bits} {int(found.network_address) >> 128 - bits:#x}" if bits else ""


def _set(values: Iterable[str]) -> str:
    return f"{{ {', '.join(values)} }}"
