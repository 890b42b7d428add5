"""Bandwidth and packet limits as nftables rules: what exceeds them is dropped. `table bridge` sees a port's frames one
by one.

nftables always lets through at once what the rate allows in a second; a burst is what may come on top of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.specs import BandwidthLimit, PacketLimit, PortSpec

BYTES = 125  # in 1000 bits
# nftables counts no further. 147 Gbit/s is more than a tap can carry, so a higher limit has no effect.
RATE_MOST = 2**64 // 10**9  # bytes a second, together with the burst
BURST_MOST = 2**32 - 1


def of_port(port: PortSpec) -> dict[str, list[str]]:
    """As `rules`, for all limits of the port."""
    bits, packets = rules(port.limits), packet_rules(port.packet_limits)
    return {direction: [*bits[direction], *packets[direction]] for direction in bits}


def rules(limits: Iterable[BandwidthLimit]) -> dict[str, list[str]]:
    """Rules by direction, as the guest sees it: for the start of the chain of frames from it, or to it."""
    found: dict[str, list[str]] = {"egress": [], "ingress": []}
    for limit in limits:
        if limit.direction not in found or limit.max_kbps <= 0 or limit.max_burst_kbit < 0:
            raise Unfit(f"no bandwidth limit: {limit}")
        rate = limit.max_kbps * BYTES
        if rate > RATE_MOST:
            continue
        more = min(limit.max_burst_kbit * BYTES - rate, BURST_MOST, RATE_MOST - rate)
        burst = f" burst {more} bytes" if more > 0 else ""
        found[limit.direction].append(f"limit rate over {rate} bytes/second{burst} drop")
    return found


def packet_rules(limits: Sequence[PacketLimit]) -> dict[str, list[str]]:
    """As `rules`. A burst is in packets: as many as its rate allows in a second."""
    found: dict[str, list[str]] = {"egress": [], "ingress": []}
    for limit in limits:
        if limit.direction not in found or limit.max_kpps <= 0 or limit.max_burst_kpps < 0:
            raise Unfit(f"no packet limit: {limit}")
        burst = min(1000 * (limit.max_burst_kpps or limit.max_kpps), BURST_MOST)
        found[limit.direction].append(f"limit rate over {1000 * limit.max_kpps}/second burst {burst} packets drop")
    return found
