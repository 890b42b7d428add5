"""What changes in networking while a server's port is plugged: the driver obeys it in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.drivers.fake.network import FakeNetworkBackend
from tests.compute.asking import Asking

V2 = "/networking/v2.0"


def a_rule_goes(demo: Asking, group: dict[str, Any], _network: str) -> None:
    rule = next(each["id"] for each in group["security_group_rules"] if each["direction"] == "ingress")
    assert demo.client.delete(f"{V2}/security-group-rules/{rule}").status == 204


def a_rule_comes(demo: Asking, group: dict[str, Any], _network: str) -> None:
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp", "port_range_min": 22}
    made = demo.client.post(f"{V2}/security-group-rules", {"security_group_rule": {**rule, "port_range_max": 22}})
    assert made.status == 201


def an_automatic_subnet_comes(demo: Asking, _group: dict[str, Any], network: str) -> None:
    modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    subnet = {"network_id": network, "ip_version": 6, "cidr": "fd00:7::/64", **modes}
    assert demo.client.post(f"{V2}/subnets", {"subnet": subnet}).status == 201


@pytest.mark.parametrize("slow", ["ensure_network", "ensure_security_group", "ensure_port"])
@pytest.mark.parametrize("change", [a_rule_goes, a_rule_comes, an_automatic_subnet_comes])
def test_a_change_while_a_port_is_plugged_is_obeyed(
    demo: Asking, network: FakeNetworkBackend, slow: str, change: Callable[..., None]
) -> None:
    (group,) = demo.client.get(f"{V2}/security-groups").json()["security_groups"]
    network.behaviour.delay(slow, 2.0)
    assert demo.create().status == 202
    demo.cloud.advance(1)
    change(demo, group, demo.network)
    # The work that the change requests overtakes the plugging.
    network.behaviour.clear()
    demo.cloud.settle()
    (after,) = demo.client.get(f"{V2}/security-groups").json()["security_groups"]
    (held,) = (each for each in network.groups.values() if each.id == group["id"])
    assert len(held.rules) == len(after["security_group_rules"])
    (port_id,) = demo.ports
    addresses = {each["ip_address"] for each in demo.client.get(f"{V2}/ports/{port_id}").json()["port"]["fixed_ips"]}
    (plug,) = (each for each in network.ports.values() if each.spec.id == port_id)
    assert {each.ip_address for each in plug.spec.fixed_ips} == addresses
