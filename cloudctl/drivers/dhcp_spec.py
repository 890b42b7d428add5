"""What a driver is told of that which gives out a network's addresses. See `specs`."""

from __future__ import annotations

from attrs import frozen


@frozen
class DhcpPort:
    """The port from which a network's addresses are given out."""

    port_id: str
    mac: str
    addresses: tuple[str, ...] = ()  # "address/prefix length"
