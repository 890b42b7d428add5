"""What the tests with real networks ask for, and guests that have it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.task import deferLater
from twisted.web.resource import Resource

from cloudctl.drivers.network_specs import DhcpPort
from cloudctl.drivers.specs import (
    FixedIp,
    FloatingIp,
    NetworkSpec,
    PortSpec,
    Route,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
    SubnetSpec,
)
from tests.drivers.netns.lab import Lab

SILENCE = 0.15  # seconds after which what has not come counts as dropped

SUBNET = SubnetSpec(
    "subnet", "10.7.0.0/24", "10.7.0.1", dns_nameservers=("10.7.0.53",), host_routes=(Route("10.9.0.0/16", "10.7.0.7"),)
)
GIVING = DhcpPort("66666666-bbbb-4000-8000-000000000006", "fa:16:3e:66:00:fe", ("10.7.0.254/24",))
NETWORK = NetworkSpec(
    "11111111-aaaa-4000-8000-000000000001", segmentation_id=101, mtu=1400, subnets=(SUBNET,), dhcp_port=GIVING
)
TWIN = evolve(NETWORK, id="22222222-aaaa-4000-8000-000000000002", segmentation_id=102)
PUBLIC = NetworkSpec(
    "33333333-aaaa-4000-8000-000000000003",
    network_type="flat",
    physical_network="public",
    external=True,
    subnets=(SubnetSpec("public", "203.0.113.0/24", "203.0.113.1", enable_dhcp=False),),
)
OPEN = SecurityGroupSpec(
    "44444444-aaaa-4000-8000-000000000004",
    (SecurityGroupRule("egress", "IPv4"), SecurityGroupRule("ingress", "IPv4")),
)
QUIET = SecurityGroupSpec("55555555-aaaa-4000-8000-000000000005", (SecurityGroupRule("egress", "IPv4"),))


def port(
    number: int, network: NetworkSpec = NETWORK, groups: tuple[SecurityGroupSpec, ...] = (OPEN,), **changes: Any
) -> PortSpec:
    """The port with address 10.7.0.NUMBER of a network."""
    found = PortSpec(
        id=f"{number:04x}{network.id[:4]}-bbbb-4000-8000-000000000000",
        network_id=network.id,
        mac=f"fa:16:3e:{network.id[:2]}:00:{number:02x}",
        fixed_ips=(FixedIp("subnet", f"10.7.0.{number}"),),
        mtu=network.mtu,
        security_groups=tuple(group.id for group in groups),
    )
    return evolve(found, **changes)


def router(*floating: tuple[str, str], **changes: Any) -> RouterSpec:
    """From NETWORK to the outside, where it is 203.0.113.10; floating addresses and what they are for."""
    found = RouterSpec(
        "66666666-aaaa-4000-8000-000000000006",
        gateway=RouterInterface(
            "77777777-cccc-4000-8000-000000000000", PUBLIC.id, "fa:16:3e:fe:00:01", ("203.0.113.10/24",)
        ),
        interfaces=(
            RouterInterface("88888888-cccc-4000-8000-000000000000", NETWORK.id, "fa:16:3e:fe:00:02", ("10.7.0.1/24",)),
        ),
        floating_ips=tuple(FloatingIp(public, public, private) for public, private in floating),
    )
    return evolve(found, **changes)


async def ensure(lab: Lab, *wishes: Any) -> None:
    for wish in wishes:
        kind = {NetworkSpec: "network", RouterSpec: "router", SecurityGroupSpec: "security_group"}[type(wish)]
        await getattr(lab.driver, f"ensure_{kind}")(wish)


async def eventually(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    from twisted.internet import reactor

    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"it did not come to be within {seconds} seconds"
        await deferLater(reactor, 0.02)


async def guest(lab: Lab, spec: PortSpec, host: str = "host-1") -> Any:
    """With its address, as it has it from DHCP, without the wait for that."""
    made = await lab.guest(spec, host)
    address = spec.fixed_ips[0].ip_address
    made.settle(f"{address}/24", address.rpartition(".")[0] + ".1")
    return made


async def leasing(lab: Lab, spec: PortSpec) -> Any:
    """A guest that asked for its address."""
    made = await lab.guest(spec)
    lease = await made.lease()
    assert lease.get("ip") == spec.fixed_ips[0].ip_address, lease
    return made


class Site(Resource):
    """Says on which network, and to whom."""

    isLeaf = True

    def __init__(self, network_id: str) -> None:
        super().__init__()
        self.network_id = network_id

    def render_GET(self, request: Any) -> bytes:
        return f"{self.network_id} {request.getClientAddress().host} {request.path.decode()}".encode()
