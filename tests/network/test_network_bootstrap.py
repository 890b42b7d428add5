"""What a new cloud has."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.db.columns import utc
from cloudctl.errors import ConfigError
from cloudctl.network.bootstrap import bootstrap
from cloudctl.network.options import NetworkOptions
from cloudctl.testing.cloud import MemoryCloud
from tests.network.conftest import Neutron


def test_it_has_a_public_and_a_private_network_however_often_it_starts(neutron: Neutron) -> None:
    for _ in range(2):
        neutron.transact(bootstrap, "admin", "demo", utc(neutron.clock.seconds()), neutron.options)
    networks = {network["name"]: network for network in neutron.get("/networks")["networks"]}
    assert set(networks) == {"public", "private"}
    assert networks["public"]["router:external"] and not networks["private"]["router:external"]
    cidrs = {subnet["name"]: subnet["cidr"] for subnet in neutron.get("/subnets")["subnets"]}
    assert cidrs == {"public-subnet": "172.24.4.0/24", "private-subnet": "10.0.0.0/24"}
    (pool,) = neutron.get("/subnetpools?is_default=true")["subnetpools"]
    assert (pool["shared"], pool["prefixes"], pool["default_prefixlen"]) == (True, ["10.128.0.0/9"], "26")
    assert neutron.expect(200, "GET", "/auto-allocated-topology/null?fields=dry-run")
    seen = neutron.get(f"/networks/{networks['public']['id']}", "admin")["network"]
    assert (seen["provider:network_type"], seen["provider:physical_network"]) == ("flat", "public")
    assert seen["is_default"]
    (router,) = neutron.get("/routers")["routers"]
    assert router["external_gateway_info"]["network_id"] == networks["public"]["id"]
    neutron.settle()
    (held,) = neutron.driver.routers.values()
    assert (held.gateway.addresses, held.interfaces[0].addresses) == (("172.24.4.2/24",), ("10.0.0.1/24",))
    assert len(neutron.held[0]) == 2
    port = neutron.create("port", network_id=networks["private"]["id"])
    assert port["fixed_ips"][0]["ip_address"] == "10.0.0.2"


def test_without_routers_in_the_driver_it_has_none(neutron: Neutron) -> None:
    neutron.transact(bootstrap, "admin", "demo", utc(neutron.clock.seconds()), neutron.options, has_routers=False)
    assert neutron.get("/routers")["routers"] == [] and neutron.get("/ports", "admin")["ports"] == []


def test_the_two_networks_are_apart() -> None:
    with pytest.raises(ValueError, match="overlaps"):
        NetworkOptions(public_cidr="10.0.0.0/8")
    with pytest.raises(ValueError):
        NetworkOptions(private_cidr="x")


@pytest.mark.parametrize(
    "options",
    [
        {"public_cidr": "192.0.2.0/32"},
        {"public_cidr": "2001:db8::/128"},
        {"private_cidr": "192.0.2.0/31"},
        {"private_cidr": "2001:db8::/127"},
        {"vni_minimum": 10, "vni_maximum": 5},
    ],
)
def test_what_leaves_a_new_cloud_without_room_is_refused_before_it_starts(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"network.*{next(iter(options))}|network.*has no room"):
        MemoryCloud({"network": options})


@pytest.mark.parametrize(
    "options",
    [
        {"public_cidr": "192.0.2.0/31", "private_cidr": "198.51.100.0/30"},
        {"public_cidr": "2001:db8::/127", "private_cidr": "2001:db8::4/126"},
        {"vni_minimum": 7, "vni_maximum": 7},
    ],
)
def test_the_smallest_that_has_room_is_enough(options: dict[str, Any]) -> None:
    cloud = MemoryCloud({"network": options})
    cloud.settle()
    assert {each["status"] for each in cloud.client("demo").get("/networking/v2.0/networks").json()["networks"]} == {
        "ACTIVE"
    }
    cloud.close()


class TestWithoutAWire:
    @pytest.fixture
    def options(self) -> NetworkOptions:
        return NetworkOptions(physical_networks=(), public_cidr="2001:db8::/64")

    def test_the_public_network_is_a_tunnel(self, neutron: Neutron) -> None:
        neutron.transact(bootstrap, "admin", "demo", utc(neutron.clock.seconds()), neutron.options)
        (public,) = neutron.get("/networks?name=public", "admin")["networks"]
        assert public["provider:network_type"] == "vxlan"
        assert neutron.get("/subnets?name=public-subnet")["subnets"][0]["ip_version"] == 6
