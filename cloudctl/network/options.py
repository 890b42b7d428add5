"""What an operator can set for the networking service: the table `[network]` of the configuration."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from attrs import evolve, field, frozen

from cloudctl.config import Config
from cloudctl.drivers.interfaces import INetworkBackend, ITunnelMtu
from cloudctl.options import DERIVED, named

TUNNEL_OVERHEAD = 50  # bytes of a frame that a tunnel uses


def _within(minimum: int, maximum: int) -> Any:
    def check(_instance: object, _attribute: object, value: int) -> None:
        if not minimum <= value <= maximum:
            raise ValueError(f"{value} is not within {minimum} and {maximum}")

    return check


def _cidr(at_least: int) -> Any:
    def check(_instance: object, _attribute: object, value: str) -> None:
        if ip_network(value).num_addresses < at_least:
            raise ValueError(f"{value} has no room: {at_least} addresses are the fewest")

    return check


def usual_length(prefix: str) -> int:
    """The default length of the prefixes that a pool of it gives: 62 addresses of IPv4."""
    return 26 if ip_network(prefix).version == 4 else 64


def _pool(_instance: object, _attribute: object, value: str) -> None:
    if ip_network(value).prefixlen > usual_length(value):
        raise ValueError(f"{value} has no room for a subnet: /{usual_length(value)} is the smallest")


@frozen
class NetworkOptions:
    """`[network]`"""

    mtu: int = field(default=1500, validator=_within(1280, 65535))  # of the wire below all networks, bytes
    vni_minimum: int = field(default=1, validator=_within(1, 2**24 - 1))  # VXLAN ids that networks are given
    vni_maximum: int = field(default=2**24 - 1, validator=_within(1, 2**24 - 1))
    physical_networks: tuple[str, ...] = field(
        default=("public",), validator=named
    )  # that administrators may name for flat and VLAN networks
    availability_zone: str = field(default="nova", validator=named)
    # Of the networks that bootstrap makes: the external one, for a gateway and the router there, and that of the demo
    # project, whose guests have DHCP.
    public_cidr: str = field(default="172.24.4.0/24", validator=_cidr(2))
    private_cidr: str = field(default="10.0.0.0/24", validator=_cidr(4))
    # Of the default subnet pool that bootstrap makes: networks for projects without one are made from it.
    pool_cidr: str = field(default="10.128.0.0/9", validator=_pool)
    # What the network driver says about its tunnels.
    tunnel_mtu: int | None = field(default=None, metadata=DERIVED)

    def __attrs_post_init__(self) -> None:
        if self.vni_minimum > self.vni_maximum:
            raise ValueError(f"vni_minimum {self.vni_minimum} is above vni_maximum {self.vni_maximum}")
        if ip_network(self.private_cidr).overlaps(ip_network(self.public_cidr)):
            raise ValueError(f"private_cidr {self.private_cidr} overlaps with public_cidr {self.public_cidr}")

    @property
    def most_in_tunnels(self) -> int:
        """The largest MTU of a network whose packets travel in tunnels."""
        most = self.mtu - TUNNEL_OVERHEAD
        return most if self.tunnel_mtu is None else min(most, self.tunnel_mtu)


def chosen(config: Config, network: INetworkBackend) -> NetworkOptions:
    """The section, with what the driver says."""
    options = config.section(NetworkOptions)
    return evolve(options, tunnel_mtu=ITunnelMtu(network).tunnel_mtu) if ITunnelMtu.providedBy(network) else options
