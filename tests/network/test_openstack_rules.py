"""etc/policy-openstack.toml: it loads, and opens what OpenStack leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudctl.rest import policy
from cloudctl.rest.identity import Identity

FILE = Path(__file__).parents[2] / "etc/policy-openstack.toml"
SERVICES = ("compute", "identity", "image", "instance_ha", "network", "volume")


@pytest.mark.parametrize("rule", ["network:qos_policies:list", "network:subnets:service_types"])
def test_members_may_what_openstack_lets_them(rule: str) -> None:
    member = Identity(
        user_id="u", user_name="u", project_id="p", project_name="p", roles=frozenset({"member", "reader"})
    )
    opened, shipped = policy.load(SERVICES, FILE), policy.load(SERVICES, None)
    assert (opened.may(rule, member, {}), shipped.may(rule, member, {})) == (True, False)
