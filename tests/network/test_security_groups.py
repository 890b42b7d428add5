"""`/security-groups` and `/security-group-rules`. Reference: network.md, section 9; network-rules.md, section 8."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from cloudctl.errors import Conflict, NotFound
from cloudctl.network import security_groups
from cloudctl.network.tables import NetworkTag
from tests.network.conftest import Neutron


def rule(neutron: Neutron, group: Any, **fields: Any) -> Any:
    return neutron.create("security_group_rule", security_group_id=group["id"], **{"direction": "ingress", **fields})


def test_a_project_has_its_default_group_when_it_first_looks(neutron: Neutron) -> None:
    for _ in range(2):
        (group,) = neutron.get("/security-groups")["security_groups"]
    assert (group["name"], group["description"]) == ("default", "Default security group")
    rules = {
        (each["direction"], each["ethertype"], each["remote_group_id"]): each for each in group["security_group_rules"]
    }
    assert set(rules) == {
        ("egress", "IPv4", None),
        ("egress", "IPv6", None),
        ("ingress", "IPv4", group["id"]),
        ("ingress", "IPv6", group["id"]),
    }
    assert all(each["belongs_to_default_sg"] and each["protocol"] is None for each in rules.values())


@pytest.mark.parametrize("first", ["network", "security_group"])
def test_other_first_acts_make_it_too(neutron: Neutron, first: str) -> None:
    neutron.create(first, name="x")
    assert "default" in {group["name"] for group in neutron.get("/security-groups")["security_groups"]}


def test_a_new_group_lets_everything_out(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="web", description="d")
    rules = sorted((each["direction"], each["ethertype"]) for each in group["security_group_rules"])
    assert rules == [("egress", "IPv4"), ("egress", "IPv6")]
    assert (group["stateful"], group["shared"], group["description"]) == (True, False, "d")
    assert len({neutron.create("security_group", name="web")["id"], group["id"]}) == 2


def test_there_is_one_default_group(neutron: Neutron) -> None:
    neutron.refused(
        409, "SecurityGroupDefaultAlreadyExists", "POST", "/security-groups", {"security_group": {"name": "Default"}}
    )
    group = neutron.create("security_group", name="web")
    (default,) = neutron.get("/security-groups?name=default")["security_groups"]
    for made, type in [(group, "SecurityGroupDefaultAlreadyExists"), (default, "SecurityGroupCannotUpdateDefault")]:
        name = "default" if made is group else "web"
        neutron.refused(409, type, "PUT", f"/security-groups/{made['id']}", {"security_group": {"name": name}})
    path = f"/security-groups/{default['id']}"
    changed = neutron.expect(200, "PUT", path, {"security_group": {"name": "default", "description": "x"}})
    assert changed["security_group"]["description"] == "x"
    neutron.refused(409, "SecurityGroupCannotRemoveDefault", "DELETE", path)
    neutron.expect(204, "DELETE", path, user="admin")
    assert neutron.get("/security-groups?name=default")["security_groups"][0]["id"] != default["id"]


def test_a_group_in_use_stays(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="web")
    port = neutron.create("port", network_id=neutron.network()["id"], security_groups=[group["id"]])
    path = f"/security-groups/{group['id']}"
    neutron.refused(409, "SecurityGroupInUse", "DELETE", path)
    neutron.refused(409, "SecurityGroupInUse", "PUT", path, {"security_group": {"stateful": False}})
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    assert (
        neutron.expect(200, "PUT", path, {"security_group": {"stateful": False}})["security_group"]["stateful"] is False
    )
    neutron.expect(204, "DELETE", path)
    neutron.refused(404, "SecurityGroupNotFound", "DELETE", path)


def test_rules_that_name_a_group_go_with_it(neutron: Neutron) -> None:
    web, db = (neutron.create("security_group", name=name) for name in ("web", "db"))
    named = rule(neutron, db, remote_group_id=web["id"])
    before = neutron.get(f"/security-groups/{db['id']}")["security_group"]["revision_number"]
    neutron.expect(204, "DELETE", f"/security-groups/{web['id']}")
    neutron.refused(404, "SecurityGroupRuleNotFound", "GET", f"/security-group-rules/{named['id']}")
    assert neutron.get(f"/security-groups/{db['id']}")["security_group"]["revision_number"] > before


def test_the_tags_of_its_rules_go_with_a_group(neutron: Neutron) -> None:
    group, other = neutron.create("security_group", name="a"), neutron.create("security_group", name="b")
    for made in (rule(neutron, group), rule(neutron, other, remote_group_id=group["id"])):
        neutron.expect(201, "PUT", f"/security-group-rules/{made['id']}/tags/t")
    neutron.expect(204, "DELETE", f"/security-groups/{group['id']}")
    assert neutron.transact(lambda conn: conn.execute(select(NetworkTag)).all()) == []


def test_a_rule_looks_as_documented(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="web")
    made = rule(
        neutron, group, protocol="TCP", port_range_min="22", port_range_max=22, remote_ip_prefix="203.0.113.7/24"
    )
    assert made | {"id": 0} == {
        "id": 0,
        "security_group_id": group["id"],
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "tcp",
        "port_range_min": 22,
        "port_range_max": 22,
        "remote_ip_prefix": "203.0.113.7/24",
        "normalized_cidr": "203.0.113.0/24",
        "remote_group_id": None,
        "remote_address_group_id": None,
        "belongs_to_default_sg": False,
        "tenant_id": "demo",
        "project_id": "demo",
        "description": "",
        "tags": [],
        "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z",
        "revision_number": 0,
    }
    shown = neutron.get(f"/security-groups/{group['id']}")["security_group"]
    assert made in shown["security_group_rules"] and shown["revision_number"] > group["revision_number"]
    assert neutron.get(f"/security-group-rules?security_group_id={group['id']}&protocol=tcp") == {
        "security_group_rules": [made]
    }


def test_a_rule_is_there_once(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="web")
    made = rule(neutron, group, protocol="tcp")
    body = {"security_group_id": group["id"], "direction": "ingress", "protocol": "6", "remote_ip_prefix": "0.0.0.0/0"}
    message = neutron.refused(
        409, "SecurityGroupRuleExists", "POST", "/security-group-rules", {"security_group_rule": body}
    )
    assert message == f"Security group rule already exists. Rule id is {made['id']}."
    two = [{**body, "protocol": "udp"}] * 2
    neutron.refused(
        409, "DuplicateSecurityGroupRuleInPost", "POST", "/security-group-rules", {"security_group_rules": two}
    )


def test_several_rules_at_once_are_of_one_group(neutron: Neutron) -> None:
    one, two = (neutron.create("security_group", name=name)["id"] for name in "ab")
    rules = [{"security_group_id": group, "direction": "ingress", "protocol": "udp"} for group in (one, two)]
    body = {"security_group_rules": rules}
    neutron.refused(400, "SecurityGroupNotSingleGroupRules", "POST", "/security-group-rules", body)
    rules[1] |= {"security_group_id": one, "protocol": "tcp"}
    made = neutron.expect(201, "POST", "/security-group-rules", body)["security_group_rules"]
    assert [each["protocol"] for each in made] == ["udp", "tcp"]


def test_rules_have_no_put(neutron: Neutron) -> None:
    made = rule(neutron, neutron.create("security_group", name="web"))
    response = neutron.ask("PUT", f"/security-group-rules/{made['id']}", {"security_group_rule": {}})
    assert response.status == 405 and "DELETE" in response.headers["Allow"]


def test_any_rule_can_go(neutron: Neutron) -> None:
    (group,) = neutron.get("/security-groups")["security_groups"]
    for each in group["security_group_rules"]:
        neutron.expect(204, "DELETE", f"/security-group-rules/{each['id']}")
        neutron.refused(404, "SecurityGroupRuleNotFound", "DELETE", f"/security-group-rules/{each['id']}")
    assert neutron.get("/security-group-rules") == {"security_group_rules": []}


@pytest.mark.parametrize("field", ["security_group_id", "remote_group_id"])
def test_unknown_and_foreign_groups_are_not_found(neutron: Neutron, field: str) -> None:
    own = neutron.create("security_group", name="web")["id"]
    foreign = neutron.create("security_group", "other", name="web")["id"]
    for group in (foreign, str(uuid4())):
        body = {"security_group_id": own, "direction": "ingress", field: group}
        neutron.refused(404, "SecurityGroupNotFound", "POST", "/security-group-rules", {"security_group_rule": body})


def test_quotas_are_kept(neutron: Neutron) -> None:
    neutron.create("security_group", name="a")
    neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"security_group": 2, "security_group_rule": 7}}, "admin")
    neutron.refused(409, "OverQuota", "POST", "/security-groups", {"security_group": {"name": "b"}})
    (group,) = neutron.get("/security-groups?name=a")["security_groups"]
    rule(neutron, group)
    body = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    neutron.refused(409, "OverQuota", "POST", "/security-group-rules", {"security_group_rule": body})


def test_changed_rules_reach_the_ports_that_are_there(neutron: Neutron) -> None:
    group = neutron.create("security_group", "admin", name="web")
    network = neutron.network(user="admin")
    port = neutron.create(
        "port", "admin", network_id=network["id"], security_groups=[group["id"]], binding__host_id="h1"
    )
    neutron.settle()
    assert neutron.held[2] == [group["id"]]
    made = neutron.create(
        "security_group_rule", "admin", security_group_id=group["id"], direction="ingress", protocol="tcp"
    )
    neutron.settle()
    assert "tcp" in {each.protocol for each in neutron.driver.groups.get(group["id"]).rules}
    neutron.expect(204, "DELETE", f"/security-group-rules/{made['id']}", user="admin")
    neutron.settle()
    assert "tcp" not in {each.protocol for each in neutron.driver.groups.get(group["id"]).rules}
    neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"security_groups": []}}, "admin")
    neutron.expect(204, "DELETE", f"/security-groups/{group['id']}", user="admin")
    neutron.settle()
    assert neutron.held[2] == [] and neutron.driver.ports.get(port["id"]).spec.security_groups == ()


def test_groups_are_found_by_name_or_id(neutron: Neutron) -> None:
    one, two, three = (neutron.create("security_group", name=name)["id"] for name in ("a", "b", "b"))

    def resolve(*wanted: str, project: str = "demo") -> list[str]:
        return neutron.transact(security_groups.resolve, project, wanted)

    assert resolve("a", two, one) == [one, two]
    assert resolve("default") == [neutron.transact(security_groups.ensure_default, "demo", 0.0)]
    with pytest.raises(Conflict):
        resolve("b")
    for wanted, project in [("c", "demo"), (one, "other"), ("a", "other")]:
        with pytest.raises(NotFound):
            resolve(wanted, project=project)
    assert neutron.transact(security_groups.names, [one, three]) == {one: "a", three: "b"}


def test_a_spec_holds_every_rule(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="web", stateful=False)
    rule(neutron, group, protocol="icmp", port_range_min=8, port_range_max=0)
    spec = neutron.transact(security_groups.driver_spec, group["id"])
    assert spec.stateful is False and len(spec.rules) == 3
    (icmp,) = [each for each in spec.rules if each.protocol == "icmp"]
    assert (icmp.port_range_min, icmp.port_range_max) == (8, 0)
    assert neutron.transact(security_groups.driver_spec, "nothing") is None


def test_a_remote_group_that_is_none_is_not_found(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="g")
    for unknown in ("bad", "0" * 8 + "-0000-4000-8000-" + "0" * 12):
        body = {"security_group_id": group["id"], "direction": "ingress", "remote_group_id": unknown}
        path = "/security-group-rules"
        neutron.refused(404, "SecurityGroupNotFound", "POST", path, {"security_group_rule": body})


def test_the_words_for_icmp_are_its_own(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="g")
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "icmp"}
    for least, most, words in ((300, 1, "ICMP type (port_range_min) 300"), (1, 256, "ICMP code (port_range_max) 256")):
        body = {"security_group_rule": {**rule, "port_range_min": least, "port_range_max": most}}
        told = neutron.refused(400, "SecurityGroupInvalidIcmpValue", "POST", "/security-group-rules", body)
        assert words in told
