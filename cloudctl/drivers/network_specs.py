"""More values for network drivers: see `specs`."""

from __future__ import annotations

from attrs import frozen


@frozen
class DhcpPort:
    """The port from which DHCP serves a network's addresses."""

    port_id: str
    mac: str
    addresses: tuple[str, ...] = ()  # "address/prefix length"


@frozen
class SegmentSpec:
    """A wire that a network is on."""

    id: str
    network_type: str
    physical_network: str | None = None
    segmentation_id: int | None = None


@frozen
class Isolation:
    """A port that reaches ports without isolation, and those of its community (None: no other isolated port)."""

    community: str | None = None


@frozen
class MeterRule:
    """Traffic that comes in from outside or goes out, with addresses in these networks (None: any)."""

    direction: str  # ingress, egress
    remote_prefix: str | None = None
    source_prefix: str | None = None
    destination_prefix: str | None = None
    excluded: bool = False  # such traffic is not counted, whatever another rule says


@frozen
class Meter:
    """A counter of the traffic between a router and its gateway's network."""

    id: str
    rules: tuple[MeterRule, ...]


@frozen
class Metered:
    """What one meter has counted at one router."""

    router_id: str
    meter_id: str
    packets: int
    bytes: int
