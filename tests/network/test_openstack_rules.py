"""etc/policy-openstack.toml: it loads, and opens what OpenStack leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from cloudctl.network.options import NetworkOptions
from cloudctl.rest import policy
from cloudctl.rest.identity import Identity
from cloudctl.testing.cloud import empty_database
from tests.network.conftest import START, make_neutron

FILE = Path(__file__).parents[2] / "etc/policy-openstack.toml"
SERVICES = ("compute", "identity", "image", "instance_ha", "network", "volume")


@pytest.mark.parametrize(
    "rule", ["network:qos_policies:list", "network:subnets:service_types", "network:networks:find:provider"]
)
def test_members_may_what_openstack_lets_them(rule: str) -> None:
    member = Identity(
        user_id="u", user_name="u", project_id="p", project_name="p", roles=frozenset({"member", "reader"})
    )
    opened, shipped = policy.load(SERVICES, FILE), policy.load(SERVICES, None)
    assert (opened.may(rule, member, {}), shipped.may(rule, member, {})) == (True, False)


def test_members_find_networks_by_a_wire_that_they_are_not_shown() -> None:
    clock = Clock()
    clock.rightNow = START
    neutron = make_neutron(empty_database(clock), clock, NetworkOptions(), FILE)
    own = neutron.network(None)
    neutron.network(None, "other")
    for query, found in (("network_type=vxlan", [own["id"]]), ("network_type=vlan", [])):
        listed = neutron.get(f"/networks?provider:{query}")["networks"]
        assert [each["id"] for each in listed] == found
        assert not any(name.startswith("provider:") for each in listed for name in each)
    neutron.engine.stopService()
