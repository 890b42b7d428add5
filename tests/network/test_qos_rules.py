"""Rules of QoS policies that are no bandwidth limits. Reference: network.md, section 10."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.specs import Guarantee, PacketLimit
from tests.network.conftest import Neutron
from tests.network.test_qos_policies import POLICIES, create


def rule(neutron: Neutron, policy: Any, type: str, status: int = 201, **fields: Any) -> Any:
    path, key = f"{POLICIES}/{policy['id']}/{type}_rules", f"{type}_rule"
    return neutron.expect(status, "POST", path, {key: fields}, "admin").get(key)


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dscp_marking": ({"dscp_mark": 26}, {"dscp_mark": 8}),
    "minimum_bandwidth": ({"min_kbps": 100, "direction": "egress"}, {"min_kbps": 200, "direction": "ingress"}),
    "packet_rate_limit": (
        {"max_kpps": 100, "max_burst_kpps": 10, "direction": "egress"},
        {"max_kpps": 1, "max_burst_kpps": 0, "direction": "ingress"},
    ),
    "minimum_packet_rate": ({"min_kpps": 100, "direction": "any"}, {"min_kpps": 5, "direction": "egress"}),
}


@pytest.mark.parametrize("type", OTHERS)
def test_each_type_is_made_changed_and_deleted(neutron: Neutron, type: str) -> None:
    (first, second), made = OTHERS[type], create(neutron)
    one = rule(neutron, made, type, **first)
    assert one == {"id": one["id"], **first}
    rule(neutron, made, type, 409, **first)
    for path in (f"{POLICIES}/{made['id']}/{type}_rules/{one['id']}", f"/qos/alias_{type}_rules/{one['id']}"):
        changed = neutron.expect(200, "PUT", path, {f"{type}_rule": second}, "admin")[f"{type}_rule"]
        assert changed == neutron.get(path, "admin")[f"{type}_rule"] == {"id": one["id"], **second}
    (within,) = neutron.get(f"{POLICIES}/{made['id']}", "admin")["policy"]["rules"]
    assert within == {**changed, "qos_policy_id": made["id"], "type": type}
    other = "bandwidth_limit" if type != "bandwidth_limit" else "dscp_marking"
    neutron.expect(404, "GET", f"{POLICIES}/{made['id']}/{other}_rules/{one['id']}", user="admin")
    assert neutron.get(f"{POLICIES}/{made['id']}/{other}_rules", "admin") == {f"{other}_rules": []}
    neutron.expect(204, "DELETE", path, user="admin")
    assert neutron.get(f"{POLICIES}/{made['id']}", "admin")["policy"]["rules"] == []


@pytest.mark.parametrize(("type", "fields"), [(type, first) for type, (first, _) in OTHERS.items()])
def test_a_body_may_name_the_project_of_its_caller(neutron: Neutron, type: str, fields: dict[str, Any]) -> None:
    """Horizon and Heat do, though a rule belongs to whom its policy belongs."""
    made = create(neutron)
    rule(neutron, made, type, 400, **fields, project_id="admin", tenant_id="demo")
    one = rule(neutron, made, type, **fields, tenant_id="admin")
    assert one == {"id": one["id"], **fields}
    path = f"{POLICIES}/{made['id']}/{type}_rules/{one['id']}"
    neutron.expect(400, "PUT", path, {f"{type}_rule": {"tenant_id": "admin"}}, "admin")


def test_rules_do_not_contradict_each_other(neutron: Neutron) -> None:
    made = create(neutron)
    rule(neutron, made, "bandwidth_limit", max_kbps=100)
    rule(neutron, made, "minimum_bandwidth", 409, min_kbps=101)
    rule(neutron, made, "minimum_bandwidth", min_kbps=100)
    rule(neutron, made, "minimum_bandwidth", min_kbps=500, direction="ingress")
    rule(neutron, made, "bandwidth_limit", 409, max_kbps=499, direction="ingress")
    rule(neutron, made, "minimum_packet_rate", min_kpps=5)
    rule(neutron, made, "minimum_packet_rate", 409, min_kpps=5, direction="any")
    rule(neutron, made, "packet_rate_limit", 409, max_kpps=4)
    rule(neutron, made, "dscp_marking", 400, dscp_mark=7)
    rule(neutron, made, "minimum_bandwidth", 400)


def test_the_driver_has_all_of_them(neutron: Neutron) -> None:
    made = create(neutron)
    port = neutron.create("port", "admin", network_id=neutron.network(user="admin")["id"], qos_policy_id=made["id"])
    neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"binding:host_id": "h"}}, "admin")
    for type, (fields, _) in OTHERS.items():
        rule(neutron, made, type, **fields)
    neutron.settle()
    spec = neutron.driver.ports.get(port["id"]).spec
    assert (spec.dscp_mark, spec.packet_limits) == (26, (PacketLimit("egress", 100, 10),))
    assert spec.guarantees == (Guarantee("egress", 100),)


def test_what_a_port_asks_of_its_host(neutron: Neutron) -> None:
    made = create(neutron)
    fields = {"provider__network_type": "vlan", "provider__segmentation_id": 9, "qos_policy_id": made["id"]}
    port = neutron.create("port", "admin", network_id=neutron.network(None, "admin", **fields)["id"])
    assert port["resource_request"] is None
    neutron.get("/ports", "admin")
    rule(neutron, made, "minimum_bandwidth", min_kbps=100)
    rule(neutron, made, "minimum_packet_rate", min_kpps=7, direction="any")
    (listed,) = neutron.get("/ports", "admin")["ports"]
    asked = listed["resource_request"]
    assert [(group["required"], group["resources"]) for group in asked["request_groups"]] == [
        (["CUSTOM_PHYSNET_PUBLIC", "CUSTOM_VNIC_TYPE_NORMAL"], {"NET_BW_EGR_KILOBIT_PER_SEC": 100}),
        (["CUSTOM_VNIC_TYPE_NORMAL"], {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 7}),
    ]
    assert asked["same_subtree"] == [group["id"] for group in asked["request_groups"]]
