"""What every network driver must do. Used as `hypervisor_suite` is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve

from cloudctl.drivers.errors import InUse, UnknownNetwork, UnknownPort
from cloudctl.drivers.interfaces import IMetering, IRouters, ISecurityGroups
from cloudctl.drivers.network_specs import Meter, MeterRule
from cloudctl.drivers.specs import (
    FixedIp,
    FloatingIp,
    NetworkSpec,
    PortSpec,
    PortState,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
    SubnetSpec,
)
from cloudctl.testing.driver_checks import Contract, Make, Move, at_once, driving, need, refused, twice

NETWORK = "77777777-0000-4000-8000-00000000000a"
SUBNET = "88888888-0000-4000-8000-00000000000b"
PORT = "a1b2c3d4-0000-4000-8000-00000000000c"
ROUTER = "b2c3d4e5-0000-4000-8000-00000000000d"
GROUP = "c3d4e5f6-0000-4000-8000-00000000000e"


def network_suite(make: Make, hosts: tuple[str, str] = ("host-1", "host-2")) -> type[Any]:
    """A class of tests for the driver that `make(directory)` returns, with two hosts that it can plug ports on."""
    here, there = hosts
    both = tuple(sorted(hosts))

    class NetworkSuite(Contract):
        kind = "network"
        made = staticmethod(make)

        def network(self) -> NetworkSpec:
            subnet = SubnetSpec(SUBNET, "10.7.0.0/24", "10.7.0.1", dns_nameservers=("10.7.0.2",))
            return NetworkSpec(NETWORK, "suite", segmentation_id=4242, mtu=1450, subnets=(subnet,))

        def port(self) -> PortSpec:
            return PortSpec(PORT, NETWORK, "fa:16:3e:00:00:02", (FixedIp(SUBNET, "10.7.0.9"),), mtu=1450)

        async def see(self, driver: Any) -> tuple[tuple[str, ...], PortState | None]:
            """Networks, and the port, on which `observe_port` and `inventory` must agree."""
            found = await driver.inventory()
            listed = {state.id: state for state in found.ports}
            try:
                state: PortState | None = await driver.observe_port(PORT)
            except UnknownPort:
                state = None
            assert listed.get(PORT) == state, "inventory and observe_port disagree"
            return found.networks, state

        async def moves(self, driver: Any, directory: Path) -> list[Move]:
            network, port = self.network(), self.port()
            on_here = ((NETWORK,), PortState(PORT, NETWORK, (here,), True))
            on_both = ((NETWORK,), PortState(PORT, NETWORK, both, True))
            on_there = ((NETWORK,), PortState(PORT, NETWORK, (there,), True))
            return [
                Move("ensure_network", (network,), ((NETWORK,), None)),
                Move("ensure_port", (port, here), on_here),
                Move("ensure_port", (port, there), on_both),
                Move("ensure_port_absent", (PORT, here), on_there),
                Move("ensure_network", (evolve(network, subnets=()),), on_there),
                Move("ensure_port_absent", (PORT, there), ((NETWORK,), None)),
                Move("ensure_port", (port, here), on_here),
                Move("ensure_port_absent", (PORT,), ((NETWORK,), None)),
                Move("ensure_network_absent", (NETWORK,), ((), None)),
            ]

        def router(self) -> RouterSpec:
            interface = RouterInterface(ROUTER, NETWORK, "fa:16:3e:00:00:03", ("10.7.0.1/24",))
            floating = FloatingIp("d4e5f6a7-0000-4000-8000-00000000000f", "203.0.113.5", "10.7.0.9")
            return RouterSpec(ROUTER, "suite", interfaces=(interface,), floating_ips=(floating,))

        # -- the contract

        async def test_a_new_driver_holds_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                found = await driver.inventory()
                assert (found.networks, found.ports, found.routers, found.security_groups) == ((), (), (), ())

        async def test_unknown_ids_are_refused(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await refused(UnknownPort, driver.observe_port, PORT)
                await refused(UnknownNetwork, driver.ensure_port, self.port(), here)
                assert await self.see(driver) == ((), None)

        async def test_the_absence_of_unknown_ids_is_no_error(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_network_absent(NETWORK)
                await driver.ensure_port_absent(PORT)
                await driver.ensure_port_absent(PORT, here)

        async def test_unplugging_elsewhere_is_no_error(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_network(self.network())
                await driver.ensure_port(self.port(), here)
                await driver.ensure_port_absent(PORT, there)
                assert (await driver.observe_port(PORT)).hosts == (here,)

        async def test_names_are_any_unicode(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_network(evolve(self.network(), name="Netz/網 🦄 \"'\\"))
                assert await self.see(driver) == ((NETWORK,), None)

        async def test_a_network_with_ports_is_not_deleted(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_network(self.network())
                await driver.ensure_port(self.port(), here)
                await refused(InUse, driver.ensure_network_absent, NETWORK)
                assert (await driver.inventory()).networks == (NETWORK,)

        async def test_a_port_that_is_down_passes_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_network(self.network())
                for up in (True, False, True):
                    await driver.ensure_port(evolve(self.port(), admin_state_up=up), here)
                    assert (await driver.observe_port(PORT)).up is up

        # -- capabilities

        async def test_routers_live_and_go(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IRouters)
                await refused(UnknownNetwork, driver.ensure_router, self.router())
                await driver.ensure_network(self.network())
                changed = evolve(self.router(), name="Weiche", enable_snat=False, floating_ips=())
                moves = [
                    Move("ensure_router", (self.router(),), (ROUTER,)),
                    Move("ensure_router", (changed,), (ROUTER,)),
                    Move("ensure_router_absent", (ROUTER,), ()),
                ]

                async def look() -> Any:
                    return (await driver.inventory()).routers

                await twice(driver, moves, look)
                await at_once(driver, moves, look)

        async def test_what_is_counted_is_of_meters_that_there_are(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IRouters)
                need(driver, IMetering)
                assert await driver.metered() == ()
                await driver.ensure_network(self.network())
                meters = tuple(Meter(id, (MeterRule("egress", remote_prefix="0.0.0.0/0"),)) for id in (GROUP, PORT))
                await driver.ensure_router(evolve(self.router(), meters=meters))
                found = await driver.metered()
                # No packets flowed in between, and a dry run has no meters at all.
                assert [(each.router_id, each.meter_id) for each in found] in ([], [(ROUTER, PORT), (ROUTER, GROUP)])
                assert {(each.packets, each.bytes) for each in found} <= {(0, 0)}
                await driver.ensure_router_absent(ROUTER)
                assert await driver.metered() == ()

        async def test_security_groups_live_and_go(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ISecurityGroups)
                await driver.ensure_network(self.network())
                rules = (
                    SecurityGroupRule("egress", "IPv4"),
                    SecurityGroupRule("ingress", "IPv4", "tcp", 22, 22, remote_prefix="203.0.113.0/24"),
                    SecurityGroupRule("ingress", "IPv4", remote_group_id=GROUP),
                )
                moves = [
                    Move("ensure_security_group", (SecurityGroupSpec(GROUP, rules),), (GROUP,)),
                    Move("ensure_security_group", (SecurityGroupSpec(GROUP),), (GROUP,)),
                    Move("ensure_security_group_absent", (GROUP,), ()),
                ]

                async def look() -> Any:
                    return (await driver.inventory()).security_groups

                await twice(driver, moves, look)
                await at_once(driver, moves, look)

        async def test_a_security_group_with_ports_is_not_deleted(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ISecurityGroups)
                await driver.ensure_network(self.network())
                await driver.ensure_security_group(SecurityGroupSpec(GROUP))
                await driver.ensure_port(evolve(self.port(), security_groups=(GROUP,)), here)
                await refused(InUse, driver.ensure_security_group_absent, GROUP)

    return NetworkSuite
