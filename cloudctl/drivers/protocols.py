"""IP protocols that security groups know by name, with their IANA numbers."""

from __future__ import annotations

ICMP, ICMPV6 = 1, 58
PROTOCOLS = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "hopopt": 0, "icmp": ICMP, "icmpv6": ICMPV6, "igmp": 2,
    "ip": 0, "ipip": 4, "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": ICMPV6, "ipv6-nonxt": 59, "ipv6-opts": 60,
    "ipv6-route": 43, "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136,
    "vrrp": 112,
}  # fmt: skip
WITH_PORTS = {PROTOCOLS[name] for name in ("tcp", "udp", "sctp", "dccp", "udplite")}
