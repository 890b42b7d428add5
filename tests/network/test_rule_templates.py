"""Which rules new security groups have. Reference: network.md, section 9."""

from __future__ import annotations

from typing import Any

from tests.network.conftest import Neutron

PATH, KEY = "/default-security-group-rules", "default_security_group_rule"


def template(neutron: Neutron, status: int = 201, **fields: Any) -> Any:
    body = {KEY: {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22, **fields}}
    return neutron.expect(status, "POST", PATH, body, "admin").get(KEY)


def test_a_new_cloud_has_four(neutron: Neutron) -> None:
    found = neutron.get(PATH)["default_security_group_rules"]
    said = {
        (each["direction"], each["ethertype"], each["remote_group_id"], each["used_in_non_default_sg"])
        for each in found
    }
    assert said == {
        ("egress", "IPv4", None, True), ("egress", "IPv6", None, True),
        ("ingress", "IPv4", "PARENT", False), ("ingress", "IPv6", "PARENT", False),
    }  # fmt: skip
    assert all(each["used_in_default_sg"] for each in found)


def test_new_groups_have_them(neutron: Neutron) -> None:
    old = neutron.create("security_group", name="old")
    template(neutron, description="ssh")
    template(neutron, protocol="udp", used_in_default_sg=True, used_in_non_default_sg=False)
    group = neutron.create("security_group", name="new")
    assert sorted((rule["direction"], rule["protocol"] or "") for rule in group["security_group_rules"]) == [
        ("egress", ""), ("egress", ""), ("ingress", "tcp"),
    ]  # fmt: skip
    assert len(neutron.get(f"/security-groups/{old['id']}")["security_group"]["security_group_rules"]) == 2
    (default,) = neutron.get("/security-groups?name=default&project_id=other", "admin")["security_groups"]
    rules = {(rule["direction"], rule["protocol"], rule["remote_group_id"]) for rule in default["security_group_rules"]}
    assert {("ingress", None, default["id"]), ("ingress", "udp", None)} <= rules
    assert ("ingress", "tcp", None) not in rules


def test_one_is_made_and_deleted(neutron: Neutron) -> None:
    made = template(neutron)
    assert neutron.get(f"{PATH}/{made['id']}") == {KEY: made}
    assert (made["used_in_default_sg"], made["used_in_non_default_sg"]) == (False, True)
    template(neutron, 409)
    template(neutron, 409, used_in_default_sg=True)
    template(neutron, used_in_default_sg=True, used_in_non_default_sg=False)
    neutron.expect(403, "DELETE", f"{PATH}/{made['id']}")
    neutron.expect(403, "POST", PATH, {KEY: {"direction": "ingress"}})
    neutron.expect(204, "DELETE", f"{PATH}/{made['id']}", user="admin")
    neutron.refused(404, "DefaultSecurityGroupRuleNotFound", "GET", f"{PATH}/{made['id']}")
    template(neutron, 400, protocol="magic")


def test_without_any_a_group_lets_nothing_through(neutron: Neutron) -> None:
    for each in neutron.get(PATH)["default_security_group_rules"]:
        neutron.expect(204, "DELETE", f"{PATH}/{each['id']}", user="admin")
    assert neutron.create("security_group", name="g")["security_group_rules"] == []


def test_one_that_names_a_group_goes_with_it(neutron: Neutron) -> None:
    """A new group with a rule that names a group that is gone could not be made."""
    bastion = neutron.create("security_group", "admin", name="bastion")
    kept = template(neutron)
    made = template(neutron, remote_group_id=bastion["id"], used_in_default_sg=True)
    assert neutron.get(f"{PATH}/{made['id']}")[KEY]["remote_group_id"] == bastion["id"]
    neutron.expect(204, "DELETE", f"/security-groups/{bastion['id']}", user="admin")
    neutron.refused(404, "DefaultSecurityGroupRuleNotFound", "GET", f"{PATH}/{made['id']}")
    neutron.get(f"{PATH}/{kept['id']}")
    neutron.create("security_group", name="new")
    neutron.network(user="other")
