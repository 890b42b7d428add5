"""`/qos/policies` and their rules. Reference: network.md, section 10; network-rules.md, sections 5 and 12."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from cloudctl.drivers.specs import BandwidthLimit
from tests.network.conftest import Neutron

POLICIES = "/qos/policies"


@pytest.fixture
def policy(neutron: Neutron) -> Any:
    return create(neutron)


def create(neutron: Neutron, **fields: Any) -> Any:
    """A policy of the administrator's, unless `project_id` says whose."""
    body = {"policy": {"name": "slow", **fields}}
    return neutron.expect(201, "POST", POLICIES, body, "admin")["policy"]


def limit(neutron: Neutron, policy: Any, max_kbps: int = 1000, **fields: Any) -> Any:
    body = {"bandwidth_limit_rule": {"max_kbps": max_kbps, **fields}}
    return neutron.expect(201, "POST", rules(policy), body, "admin")["bandwidth_limit_rule"]


def rules(policy: Any) -> str:
    return f"{POLICIES}/{policy['id']}/bandwidth_limit_rules"


def show(neutron: Neutron, policy: Any, user: str = "admin") -> Any:
    return neutron.get(f"{POLICIES}/{policy['id']}", user)["policy"]


def put(neutron: Neutron, collection: str, record: Any, user: str = "demo", **fields: Any) -> Any:
    kind = collection.removesuffix("s")
    return neutron.expect(200, "PUT", f"/{collection}/{record['id']}", {kind: fields}, user)[kind]


def update(neutron: Neutron, policy: Any, **fields: Any) -> Any:
    return neutron.expect(200, "PUT", f"{POLICIES}/{policy['id']}", {"policy": fields}, "admin")["policy"]


# -- policies


def test_a_new_policy_looks_as_documented(neutron: Neutron, policy: Any) -> None:
    assert policy | {"id": 0} == {
        "id": 0,
        "name": "slow",
        "shared": False,
        "is_default": False,
        "rules": [],
        "tenant_id": "admin",
        "project_id": "admin",
        "description": "",
        "tags": [],
        "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z",
        "revision_number": 0,
    }
    assert show(neutron, policy) == policy


def test_a_policy_is_changed_and_deleted(neutron: Neutron, policy: Any) -> None:
    changed = update(neutron, policy, name="slower", description="x", shared=True, is_default=True)
    wanted = {"name": "slower", "description": "x", "shared": True, "is_default": True, "revision_number": 1}
    assert changed == {**policy, **wanted}
    assert update(neutron, policy) == changed
    neutron.expect(204, "DELETE", f"{POLICIES}/{policy['id']}", user="admin")
    for method in ("GET", "DELETE"):
        neutron.refused(404, "QosPolicyNotFound", method, f"{POLICIES}/{policy['id']}", user="admin")


def test_only_the_revision_that_the_client_knows_is_changed(neutron: Neutron, policy: Any) -> None:
    path = f"{POLICIES}/{policy['id']}"
    for method, body in (("PUT", {"policy": {"name": "x"}}), ("DELETE", None)):
        neutron.expect(412, method, path, body, "admin", If_Match="revision_number=7")
    neutron.expect(204, "DELETE", path, None, "admin", If_Match="revision_number=0")


def test_several_policies_are_made_at_once_or_none(neutron: Neutron) -> None:
    names = [{"name": "a", "tags": ["x"]}, {"name": "b"}]
    made = neutron.expect(201, "POST", POLICIES, {"policies": names}, "admin")["policies"]
    assert [(each["name"], each["tags"]) for each in made] == [("a", ["x"]), ("b", [])]
    twice = {"policies": [{"name": "c", "is_default": True}, {"name": "d", "is_default": True}]}
    neutron.refused(409, "QoSPolicyDefaultAlreadyExists", "POST", POLICIES, twice, "admin")
    assert neutron.get(f"{POLICIES}?name=c", "admin")["policies"] == []


def test_policies_are_filtered_sorted_and_paged(neutron: Neutron) -> None:
    for name, shared in (("a", True), ("b", False), ("c", True)):
        create(neutron, name=name, shared=shared)
    create(neutron, name="d", is_default=True, project_id="demo")

    def names(query: str) -> list[str]:
        return [
            each["name"] for each in neutron.get(f"{POLICIES}?sort_key=name&sort_dir=asc&{query}", "admin")["policies"]
        ]

    assert names("shared=true") == ["a", "c"]
    assert names("is_default=1") == ["d"]
    assert names("project_id=demo") == ["d"]
    assert names("name=a&name=b") == ["a", "b"]
    first = neutron.get(f"{POLICIES}?sort_key=name&sort_dir=desc&limit=3", "admin")
    (next_one, _) = sorted(first["policies_links"], key=lambda link: link["rel"])
    following = neutron.get(next_one["href"].removeprefix("http://cloud.example.com"), "admin")
    assert [each["name"] for each in following["policies"]] == ["a"]
    assert neutron.get(f"{POLICIES}?name=a&fields=name", "admin")["policies"] == [{"name": "a"}]
    neutron.refused(400, "HTTPBadRequest", "GET", f"{POLICIES}?rules=x", user="admin")
    neutron.refused(404, "QosPolicyNotFound", "GET", f"{POLICIES}?marker={uuid4()}", user="admin")


@pytest.mark.parametrize(
    "fields",
    [{}, {"name": ""}, {"name": None}, {"name": "x" * 256}, {"name": "x", "rules": []}, {"name": "x", "shared": "x"}],
)
def test_a_bad_policy_is_refused(neutron: Neutron, fields: Any) -> None:
    neutron.refused(400, "HTTPBadRequest", "POST", POLICIES, {"policy": fields}, "admin")


def test_a_project_has_one_default_policy(neutron: Neutron) -> None:
    first, other = create(neutron, is_default=True), create(neutron)
    body = {"policy": {"name": "x", "is_default": True}}
    neutron.refused(409, "QoSPolicyDefaultAlreadyExists", "POST", POLICIES, body, "admin")
    path = f"{POLICIES}/{other['id']}"
    neutron.refused(409, "QoSPolicyDefaultAlreadyExists", "PUT", path, {"policy": {"is_default": True}}, "admin")
    assert create(neutron, is_default=True, project_id="demo")["is_default"]
    assert update(neutron, first, is_default=True)["is_default"]
    update(neutron, first, is_default=False)
    assert update(neutron, other, is_default=True)["is_default"]


# -- rules


def test_a_rule_is_made_shown_changed_and_deleted(neutron: Neutron, policy: Any) -> None:
    made = limit(neutron, policy, 10_000)
    assert made | {"id": 0} == {"id": 0, "max_kbps": 10_000, "max_burst_kbps": 0, "direction": "egress"}
    path = f"{rules(policy)}/{made['id']}"
    assert neutron.get(path, "admin") == {"bandwidth_limit_rule": made}
    in_policy = {**made, "qos_policy_id": policy["id"], "type": "bandwidth_limit"}
    seen = show(neutron, policy)
    assert (seen["rules"], seen["revision_number"]) == ([in_policy], 1)
    wanted = {"max_kbps": "5", "max_burst_kbps": 6, "direction": "ingress"}
    changed = neutron.expect(200, "PUT", path, {"bandwidth_limit_rule": wanted}, "admin")["bandwidth_limit_rule"]
    assert changed == {"id": made["id"], "max_kbps": 5, "max_burst_kbps": 6, "direction": "ingress"}
    assert neutron.expect(200, "PUT", path, {"bandwidth_limit_rule": {}}, "admin")["bandwidth_limit_rule"] == changed
    assert show(neutron, policy)["revision_number"] == 2
    neutron.expect(204, "DELETE", path, user="admin")
    neutron.refused(404, "QosRuleNotFound", "DELETE", path, user="admin")
    assert show(neutron, policy)["rules"] == []


def test_a_rule_is_reached_without_its_policy(neutron: Neutron, policy: Any) -> None:
    made = limit(neutron, policy)
    path = f"/qos/alias_bandwidth_limit_rules/{made['id']}"
    assert neutron.get(path, "admin") == {"bandwidth_limit_rule": made}
    changed = neutron.expect(200, "PUT", path, {"bandwidth_limit_rule": {"max_kbps": 7}}, "admin")
    assert changed == {"bandwidth_limit_rule": {**made, "max_kbps": 7}}
    neutron.expect(204, "DELETE", path, user="admin")
    neutron.refused(404, "QosRuleNotFound", "GET", path, user="admin")


def test_a_policy_has_one_rule_a_direction(neutron: Neutron, policy: Any) -> None:
    egress, ingress = limit(neutron, policy), limit(neutron, policy, direction="ingress")
    again = {"bandwidth_limit_rule": {"max_kbps": 1}}
    assert egress["id"] in neutron.refused(409, "QoSRulesConflict", "POST", rules(policy), again, "admin")
    turned = {"bandwidth_limit_rule": {"direction": "egress"}}
    neutron.refused(409, "QoSRulesConflict", "PUT", f"{rules(policy)}/{ingress['id']}", turned, "admin")
    key = "bandwidth_limit_rules"
    assert neutron.get(f"{rules(policy)}?direction=ingress", "admin")[key] == [ingress]
    assert neutron.get(f"{rules(policy)}?sort_key=direction&sort_dir=asc", "admin")[key] == [egress, ingress]
    assert neutron.get(f"{rules(create(neutron))}", "admin")[key] == []


def test_a_rule_of_another_policy_is_none_of_this_one(neutron: Neutron, policy: Any) -> None:
    made = limit(neutron, create(neutron))
    body: Any
    for method, body in (("GET", None), ("PUT", {"bandwidth_limit_rule": {}}), ("DELETE", None)):
        neutron.refused(404, "QosRuleNotFound", method, f"{rules(policy)}/{made['id']}", body, "admin")
    unknown = {"id": str(uuid4())}
    neutron.refused(404, "QosPolicyNotFound", "GET", rules(unknown), user="admin")
    body = {"bandwidth_limit_rule": {"max_kbps": 1}}
    neutron.refused(404, "QosPolicyNotFound", "POST", rules(unknown), body, "admin")


@pytest.mark.parametrize(
    "fields",
    [{}, {"max_kbps": -1}, {"max_kbps": 2**31}, {"max_kbps": None}, {"max_kbps": 1, "max_burst_kbps": -1},
     {"max_kbps": 1, "direction": "any"}, {"max_kbps": 1, "dscp_mark": 8}],
)  # fmt: skip
def test_a_bad_rule_is_refused(neutron: Neutron, policy: Any, fields: Any) -> None:
    body = {"bandwidth_limit_rule": fields}
    neutron.refused(400, "HTTPBadRequest", "POST", rules(policy), body, "admin")


def test_rule_types(neutron: Neutron) -> None:
    assert neutron.get("/qos/rule-types?type=bandwidth_limit") == {"rule_types": [{"type": "bandwidth_limit"}]}
    assert {each["type"] for each in neutron.get("/qos/rule-types")["rule_types"]} == {
        "bandwidth_limit", "dscp_marking", "minimum_bandwidth", "packet_rate_limit", "minimum_packet_rate",
    }  # fmt: skip
    assert neutron.get("/qos/rule-types?type=nothing") == {"rule_types": []}
    neutron.refused(400, "HTTPBadRequest", "GET", "/qos/rule-types?x=1")
    (driver,) = neutron.get("/qos/rule-types/bandwidth_limit", "admin")["rule_type"]["drivers"]
    assert driver["name"] == "fake"
    names = {each["parameter_name"]: each["parameter_type"] for each in driver["supported_parameters"]}
    assert names == {"max_kbps": "range", "max_burst_kbps": "range", "direction": "choices"}
    neutron.refused(404, "HTTPNotFound", "GET", "/qos/rule-types/nothing", user="admin")
    neutron.refused(403, "PolicyNotAuthorized", "GET", "/qos/rule-types/bandwidth_limit")


# -- who may what


def test_only_administrators_list_and_write(neutron: Neutron) -> None:
    own = create(neutron, project_id="demo", shared=True)
    rule = limit(neutron, own)
    path, body = f"{POLICIES}/{own['id']}", {"bandwidth_limit_rule": {"max_kbps": 1}}
    sent: Any
    for method, at, sent in [
        ("GET", POLICIES, None), ("POST", POLICIES, {"policy": {"name": "x"}}), ("PUT", path, {"policy": {}}),
        ("DELETE", path, None), ("POST", rules(own), body), ("PUT", f"{rules(own)}/{rule['id']}", body),
        ("DELETE", f"{rules(own)}/{rule['id']}", None),
        ("PUT", f"/qos/alias_bandwidth_limit_rules/{rule['id']}", body),
    ]:  # fmt: skip
        neutron.refused(403, "PolicyNotAuthorized", method, at, sent)


@pytest.mark.parametrize("fields", [{"project_id": "demo"}, {"shared": True}])
def test_own_and_shared_policies_are_seen_and_used(neutron: Neutron, fields: Any) -> None:
    seen = create(neutron, **fields)
    rule = limit(neutron, seen)
    for user in ("demo", "reader"):
        assert show(neutron, seen, user)["rules"][0]["id"] == rule["id"]
        assert neutron.get(f"{rules(seen)}/{rule['id']}", user)["bandwidth_limit_rule"] == rule
        assert neutron.get(f"/qos/alias_bandwidth_limit_rules/{rule['id']}", user)
    network = neutron.network(qos_policy_id=seen["id"])
    assert neutron.create("port", network_id=network["id"], qos_policy_id=seen["id"])["qos_policy_id"] == seen["id"]


def test_a_policy_of_others_is_not_there(neutron: Neutron) -> None:
    theirs = create(neutron, project_id="other")
    rule = limit(neutron, theirs)
    network = neutron.network()
    port = neutron.create("port", network_id=network["id"])
    unknown = {"id": str(uuid4())}
    for at in (
        f"{POLICIES}/%s",
        f"{POLICIES}/%s/bandwidth_limit_rules",
        f"{POLICIES}/%s/bandwidth_limit_rules/{rule['id']}",
    ):
        messages = {neutron.refused(404, "QosPolicyNotFound", "GET", at % each["id"]).replace(each["id"], "ID")
                    for each in (theirs, unknown)}  # fmt: skip
        assert len(messages) == 1
    told = neutron.refused(404, "QosRuleNotFound", "GET", f"/qos/alias_bandwidth_limit_rules/{rule['id']}")
    assert theirs["id"] not in told
    for method, path, body in [
        ("POST", "/networks", {"network": {"qos_policy_id": theirs["id"]}}),
        ("PUT", f"/networks/{network['id']}", {"network": {"qos_policy_id": theirs["id"]}}),
        ("POST", "/ports", {"port": {"network_id": network["id"], "qos_policy_id": theirs["id"]}}),
        ("PUT", f"/ports/{port['id']}", {"port": {"qos_policy_id": theirs["id"]}}),
    ]:
        neutron.refused(404, "QosPolicyNotFound", method, path, body)
    for path in (f"/policies/{theirs['id']}/tags", f"{POLICIES}/{theirs['id']}/tags"):
        neutron.refused(404, "TagResourceNotFound", "GET", path)
        neutron.refused(404, "TagResourceNotFound", "PUT", path, {"tags": ["x"]})


@pytest.mark.parametrize("prefix", ["", "/qos"])
def test_tags_are_at_both_paths(neutron: Neutron, policy: Any, prefix: str) -> None:
    tags, one = f"{prefix}/policies/{policy['id']}/tags", f"{prefix}/policies/{policy['id']}/tags/a"
    assert neutron.expect(200, "PUT", tags, {"tags": ["a", "b"]}, "admin") == {"tags": ["a", "b"]}
    assert show(neutron, policy)["tags"] == ["a", "b"]
    neutron.expect(204, "GET", one, user="admin")
    neutron.expect(204, "DELETE", one, user="admin")
    neutron.refused(404, "TagNotFound", "GET", one, user="admin")
    assert neutron.expect(201, "POST", tags, {"tags": ["c"]}, "admin") == {"tags": ["b", "c"]}
    neutron.expect(201, "PUT", one, user="admin")
    assert [each["id"] for each in neutron.get(f"{POLICIES}?tags=a,b", "admin")["policies"]] == [policy["id"]]
    neutron.expect(204, "DELETE", tags, user="admin")
    assert neutron.get(tags, "admin") == {"tags": []}


def test_what_an_administrator_limits_its_owner_cannot_free(neutron: Neutron, policy: Any) -> None:
    network = neutron.network()
    port = neutron.create("port", network_id=network["id"])
    mine = create(neutron, project_id="demo")
    for kind, record in (("networks", network), ("ports", port)):
        put(neutron, kind, record, "admin", qos_policy_id=policy["id"])
        for wanted in (None, mine["id"]):
            body = {kind.removesuffix("s"): {"qos_policy_id": wanted}}
            neutron.refused(403, "PolicyRemoveAuthorizationError", "PUT", f"/{kind}/{record['id']}", body)
        assert put(neutron, kind, record, qos_policy_id=policy["id"], name="n")["name"] == "n"
        assert put(neutron, kind, record, "admin", qos_policy_id=None)["qos_policy_id"] is None


# -- on networks and ports


def test_new_networks_get_the_default_policy_of_their_project(neutron: Neutron) -> None:
    default, other = create(neutron, is_default=True, project_id="demo"), create(neutron, shared=True)
    assert neutron.network()["qos_policy_id"] == default["id"]
    assert neutron.network(qos_policy_id=None)["qos_policy_id"] == default["id"]
    assert neutron.network(qos_policy_id=other["id"])["qos_policy_id"] == other["id"]
    assert neutron.network(user="other")["qos_policy_id"] is None


def test_networks_and_ports_are_found_by_policy(neutron: Neutron) -> None:
    own, other = create(neutron, project_id="demo"), create(neutron, project_id="demo")
    network = neutron.network(qos_policy_id=own["id"])
    port = neutron.create("port", network_id=network["id"], qos_policy_id=other["id"])
    assert (port["qos_policy_id"], port["qos_network_policy_id"]) == (other["id"], own["id"])
    assert [each["id"] for each in neutron.get(f"/networks?qos_policy_id={own['id']}")["networks"]] == [network["id"]]
    assert [each["id"] for each in neutron.get(f"/ports?qos_policy_id={other['id']}")["ports"]] == [port["id"]]
    assert neutron.get(f"/ports?qos_policy_id={own['id']}")["ports"] == []


def test_a_policy_in_use_stays(neutron: Neutron) -> None:
    own = create(neutron, project_id="demo")
    limit(neutron, own)
    path = f"{POLICIES}/{own['id']}"
    network = neutron.network(qos_policy_id=own["id"])
    message = neutron.refused(409, "QosPolicyInUse", "DELETE", path, user="admin")
    assert f"is used by network {network['id']}" in message
    put(neutron, "networks", network, qos_policy_id=None)
    port = neutron.create("port", network_id=network["id"], qos_policy_id=own["id"])
    assert f"is used by port {port['id']}" in neutron.refused(409, "QosPolicyInUse", "DELETE", path, user="admin")
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    neutron.expect(204, "DELETE", path, user="admin")


def test_sharing_ends_only_when_no_other_project_uses_the_policy(neutron: Neutron) -> None:
    shared = create(neutron, shared=True)
    network = neutron.network(qos_policy_id=shared["id"])
    path, body = f"{POLICIES}/{shared['id']}", {"policy": {"shared": False}}
    neutron.refused(409, "InvalidSharedSetting", "PUT", path, body, "admin")
    put(neutron, "networks", network, qos_policy_id=None)
    assert not update(neutron, shared, shared=False)["shared"]
    neutron.refused(404, "QosPolicyNotFound", "GET", path)


# -- the driver


def bound(neutron: Neutron, network: Any, **fields: Any) -> Any:
    """A port that the driver holds."""
    port = neutron.create("port", "admin", network_id=network["id"], binding__host_id="fake-1", **fields)
    neutron.settle()
    return port


def held(neutron: Neutron, port: Any) -> tuple[BandwidthLimit, ...]:
    """The limits that the driver holds a port to."""
    neutron.settle()
    limits: tuple[BandwidthLimit, ...] = neutron.driver.ports.get(port["id"]).spec.limits
    return limits


def test_a_plugged_port_is_held_to_the_rules_of_its_policy(neutron: Neutron, policy: Any) -> None:
    rule = limit(neutron, policy, 800, max_burst_kbps=100)
    port = bound(neutron, neutron.network(), qos_policy_id=policy["id"])
    egress = BandwidthLimit("egress", 800, 100)
    assert held(neutron, port) == (egress,)
    limit(neutron, policy, 900, direction="ingress")
    assert held(neutron, port) == (egress, BandwidthLimit("ingress", 900))
    path = f"{rules(policy)}/{rule['id']}"
    neutron.expect(200, "PUT", path, {"bandwidth_limit_rule": {"max_kbps": 5}}, "admin")
    assert held(neutron, port) == (BandwidthLimit("egress", 5, 100), BandwidthLimit("ingress", 900))
    neutron.expect(204, "DELETE", path, user="admin")
    assert held(neutron, port) == (BandwidthLimit("ingress", 900),)
    put(neutron, "ports", port, "admin", qos_policy_id=None)
    assert held(neutron, port) == ()


def test_a_port_without_a_policy_follows_its_network(neutron: Neutron, policy: Any) -> None:
    own = create(neutron, name="own")
    rule = limit(neutron, policy, 800)
    limit(neutron, own, 50)
    network = neutron.network()
    follower, free = bound(neutron, network), bound(neutron, network, qos_policy_id=own["id"])
    assert (held(neutron, follower), held(neutron, free)) == ((), (BandwidthLimit("egress", 50),))
    put(neutron, "networks", network, "admin", qos_policy_id=policy["id"])
    assert held(neutron, follower) == (BandwidthLimit("egress", 800),)
    path = f"{rules(policy)}/{rule['id']}"
    neutron.expect(200, "PUT", path, {"bandwidth_limit_rule": {"max_kbps": 7}}, "admin")
    assert held(neutron, follower) == (BandwidthLimit("egress", 7),)
    assert held(neutron, free) == (BandwidthLimit("egress", 50),)
    put(neutron, "networks", network, "admin", qos_policy_id=None)
    assert held(neutron, follower) == ()


def test_the_policy_of_a_network_is_not_for_its_own_devices(neutron: Neutron, policy: Any) -> None:
    limit(neutron, policy)
    network = neutron.network(user="admin", qos_policy_id=policy["id"])
    device = bound(neutron, network, device_owner="network:dhcp")
    assert held(neutron, device) == ()
    put(neutron, "ports", device, "admin", qos_policy_id=policy["id"])
    assert held(neutron, device) == (BandwidthLimit("egress", 1000),)


def test_a_limit_of_nothing_is_none(neutron: Neutron, policy: Any) -> None:
    limit(neutron, policy, 0, max_burst_kbps=10)
    assert held(neutron, bound(neutron, neutron.network(), qos_policy_id=policy["id"])) == ()


# -- what is said to whom the rules refuse


def test_whom_the_rules_refuse_is_told_of_his_body_first(neutron: Neutron, policy: Any) -> None:
    mine = create(neutron, project_id="demo")
    for method, path in (("POST", POLICIES), ("PUT", f"{POLICIES}/{mine['id']}")):
        neutron.refused(400, "HTTPBadRequest", method, path, {"policy": {"name": "x" * 256}})
        neutron.refused(403, "PolicyNotAuthorized", method, path, {"policy": {"name": "x"}})
        neutron.refused(403, "PolicyNotAuthorized", method, path, {"policy": {"name": "x" * 256}}, "reader")
    assert [each["name"] for each in neutron.get(POLICIES, "admin")["policies"]] == ["slow"] * 2


def test_what_is_not_seen_is_not_there_for_whom_the_rules_refuse(neutron: Neutron, policy: Any) -> None:
    rule, shared = limit(neutron, policy), create(neutron, shared=True)
    path, new = f"{POLICIES}/{policy['id']}", {"bandwidth_limit_rule": {"max_kbps": 2}}
    neutron.refused(404, "QosPolicyNotFound", "PUT", path, {"policy": {"description": "d"}})
    neutron.refused(404, "QosPolicyNotFound", "DELETE", path)
    neutron.refused(403, "PolicyNotAuthorized", "POST", rules(policy), new)  # as in neutron
    neutron.refused(404, "QosPolicyNotFound", "PUT", f"{rules(policy)}/{rule['id']}", new)
    neutron.refused(404, "QosPolicyNotFound", "DELETE", f"{rules(policy)}/{rule['id']}")
    assert show(neutron, policy)["rules"][0]["max_kbps"] == 1000
    path = f"{POLICIES}/{shared['id']}"
    neutron.refused(403, "PolicyNotAuthorized", "PUT", path, {"policy": {"description": "d"}})
    neutron.refused(403, "PolicyNotAuthorized", "DELETE", path)
    neutron.refused(403, "PolicyNotAuthorized", "POST", rules(shared), new)
