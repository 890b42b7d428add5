"""Shares of records: who sees and uses what, and when a share can go. Reference: network.md, section 11."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from cloudctl.db import Database
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.network.options import NetworkOptions
from cloudctl.testing.cloud import empty_database
from tests.network.conftest import START, Neutron, make_neutron


def share(neutron: Neutron, type: str, id: str, target: str, user: str = "demo", **fields: Any) -> Any:
    body = {"object_type": type, "object_id": id, "action": "access_as_shared", "target_tenant": target, **fields}
    return neutron.expect(201, "POST", "/rbac-policies", {"rbac_policy": body}, user)["rbac_policy"]


def qos_policy(neutron: Neutron, **fields: Any) -> Any:
    return neutron.expect(201, "POST", "/qos/policies", {"policy": {"name": "p", **fields}}, "admin")["policy"]


class TestNetworks:
    def test_the_target_sees_it_and_uses_it(self, neutron: Neutron) -> None:
        network = neutron.network()
        neutron.expect(404, "GET", f"/networks/{network['id']}", user="other")
        made = share(neutron, "network", network["id"], "other")
        assert made == {
            "id": made["id"], "object_type": "network", "object_id": network["id"], "action": "access_as_shared",
            "target_tenant": "other", "project_id": "demo", "tenant_id": "demo",
        }  # fmt: skip
        assert neutron.get(f"/networks/{network['id']}", "other")["network"]["shared"] is True
        assert neutron.get(f"/networks/{network['id']}")["network"]["shared"] is False
        assert neutron.get(f"/subnets/{network['subnets'][0]}", "other")
        for query, there in (("shared=true", True), ("shared=false", False), ("", True)):
            listed = neutron.get(f"/networks?{query}", "other")["networks"]
            assert (network["id"] in [each["id"] for each in listed]) is there
        assert [each["id"] for each in neutron.get("/subnets?shared=true", "other")["subnets"]] == network["subnets"]
        port = neutron.create("port", "other", network_id=network["id"])
        neutron.expect(403, "PUT", f"/networks/{network['id']}", {"network": {"name": "mine"}}, "other")
        assert neutron.get("/rbac-policies", "other") == {"rbac_policies": []}
        neutron.expect(404, "GET", f"/rbac-policies/{made['id']}", user="other")
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{made['id']}")
        neutron.expect(204, "DELETE", f"/ports/{port['id']}", user="other")
        neutron.expect(204, "DELETE", f"/rbac-policies/{made['id']}")
        neutron.expect(404, "GET", f"/networks/{network['id']}", user="other")

    def test_each_share_is_a_change_of_the_network(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        made = share(neutron, "network", network["id"], "other")
        assert neutron.get(f"/networks/{network['id']}")["network"]["revision_number"] > network["revision_number"]
        neutron.expect(204, "DELETE", f"/rbac-policies/{made['id']}")

    def test_shared_is_a_share_with_everybody(self, neutron: Neutron) -> None:
        network = neutron.network(None, "admin", shared=True)
        (policy,) = neutron.get(f"/rbac-policies?object_id={network['id']}", "admin")["rbac_policies"]
        assert (policy["target_tenant"], policy["action"]) == ("*", "access_as_shared")
        neutron.expect(204, "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        assert neutron.get(f"/networks/{network['id']}", "admin")["network"]["shared"] is False
        share(neutron, "network", network["id"], "*", "admin")
        assert neutron.get(f"/networks/{network['id']}")["network"]["shared"] is True
        neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"shared": False}}, "admin")
        assert neutron.get("/rbac-policies", "admin") == {"rbac_policies": []}

    def test_an_external_network_may_be_of_few(self, neutron: Neutron) -> None:
        network = neutron.external()
        (policy,) = neutron.get(f"/rbac-policies?object_id={network['id']}", "admin")["rbac_policies"]
        assert policy["action"] == "access_as_external"
        body = {"rbac_policy": {"target_tenant": "demo"}}
        neutron.expect(200, "PUT", f"/rbac-policies/{policy['id']}", body, "admin")
        neutron.expect(404, "GET", f"/networks/{network['id']}", user="other")
        floating = neutron.create("floatingip", floating_network_id=network["id"])
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        neutron.expect(204, "DELETE", f"/floatingips/{floating['id']}")
        neutron.expect(204, "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        assert neutron.get(f"/networks/{network['id']}", "admin")["network"]["router:external"] is False

    @pytest.mark.parametrize("user", ["admin", "demo"])  # its owner, and somebody whom it is shared with otherwise
    def test_an_external_network_stays_so_while_somebody_uses_it(self, neutron: Neutron, user: str) -> None:
        network = neutron.network(None, "admin")
        policy = share(neutron, "network", network["id"], "other", "admin", action="access_as_external")
        share(neutron, "network", network["id"], "demo", "admin")
        router = neutron.router(external=network, user=user)
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        neutron.expect(204, "DELETE", f"/routers/{router['id']}", user=user)
        neutron.expect(204, "DELETE", f"/rbac-policies/{policy['id']}", user="admin")

    def test_one_that_is_no_longer_external_is_not_the_default_one(self, neutron: Neutron) -> None:
        network = neutron.external(is_default=True)
        (policy,) = neutron.get(f"/rbac-policies?object_id={network['id']}", "admin")["rbac_policies"]
        neutron.expect(204, "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        assert neutron.external("198.51.100.0/24", is_default=True)["is_default"] is True

    def test_who_uses_an_external_network_may_become_the_only_one(self, neutron: Neutron) -> None:
        network = neutron.external()
        (policy,) = neutron.get(f"/rbac-policies?object_id={network['id']}", "admin")["rbac_policies"]
        neutron.router(external=network)
        for target, status in (("other", 409), ("demo", 200), ("*", 200)):
            body = {"rbac_policy": {"target_tenant": target}}
            neutron.expect(status, "PUT", f"/rbac-policies/{policy['id']}", body, "admin")

    def test_a_share_as_external_makes_it_external(self, neutron: Neutron) -> None:
        network = neutron.network(None, "admin")
        share(neutron, "network", network["id"], "demo", "admin", action="access_as_external")
        assert neutron.get(f"/networks/{network['id']}")["network"]["router:external"] is True
        neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"router:external": False}}, "admin")
        neutron.expect(404, "GET", f"/networks/{network['id']}")

    def test_the_driver_is_told_whether_it_is_external(self, neutron: Neutron) -> None:
        network = neutron.network(None, "admin")
        policy = share(neutron, "network", network["id"], "demo", "admin", action="access_as_external")
        neutron.settle()
        assert neutron.driver.networks.get(network["id"]).external
        neutron.expect(204, "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        neutron.settle()
        assert not neutron.driver.networks.get(network["id"]).external

    def test_a_port_keeps_the_only_share_that_it_needs(self, neutron: Neutron) -> None:
        network = neutron.network()
        one = share(neutron, "network", network["id"], "other")
        everybody = share(neutron, "network", network["id"], "*", "admin")
        neutron.create("port", "other", network_id=network["id"])
        neutron.expect(204, "DELETE", f"/rbac-policies/{one['id']}")
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{everybody['id']}", user="admin")
        for target in ("somebody", "other"):
            body = {"rbac_policy": {"target_tenant": target}}
            neutron.refused(409, "RbacPolicyInUse", "PUT", f"/rbac-policies/{everybody['id']}", body, "admin")


class TestOthers:
    def test_what_is_everybodys_stays_so_while_its_owner_uses_it(self, neutron: Neutron) -> None:
        """But for networks, as in OpenStack."""
        policy = qos_policy(neutron, shared=True)
        path, private = f"/qos/policies/{policy['id']}", {"policy": {"shared": False}}
        network = neutron.create("network", "admin", shared=True, qos_policy_id=policy["id"])
        neutron.refused(409, "InvalidSharedSetting", "PUT", path, private, "admin")
        (everybodys,) = neutron.get(f"/rbac-policies?object_id={policy['id']}", "admin")["rbac_policies"]
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{everybodys['id']}", user="admin")
        neutron.create("port", "admin", network_id=network["id"])
        body = {"network": {"shared": False, "qos_policy_id": None}}
        neutron.expect(200, "PUT", f"/networks/{network['id']}", body, "admin")
        neutron.expect(200, "PUT", path, private, "admin")

    def test_a_qos_policy_is_put_on_a_port_of_the_target(self, neutron: Neutron) -> None:
        policy, network = qos_policy(neutron), neutron.network(user="other")
        port = neutron.create("port", "other", network_id=network["id"])
        body = {"port": {"qos_policy_id": policy["id"]}}
        neutron.expect(404, "PUT", f"/ports/{port['id']}", body, "other")
        made = share(neutron, "qos_policy", policy["id"], "other", "admin")
        neutron.expect(200, "PUT", f"/ports/{port['id']}", body, "other")
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{made['id']}", user="admin")

    def test_a_qos_policy_stays_shared_with_who_has_it_on_a_floating_ip_or_a_router(self, neutron: Neutron) -> None:
        policy, external = qos_policy(neutron), neutron.external()
        made = share(neutron, "qos_policy", policy["id"], "other", "admin")
        path = f"/rbac-policies/{made['id']}"
        ip = neutron.create("floatingip", "other", floating_network_id=external["id"], qos_policy_id=policy["id"])
        neutron.refused(409, "RbacPolicyInUse", "DELETE", path, user="admin")
        none: Any = {"floatingip": {"qos_policy_id": None}}
        neutron.expect(200, "PUT", f"/floatingips/{ip['id']}", none, "other")
        gateway = {"network_id": external["id"], "qos_policy_id": policy["id"]}
        router = neutron.create("router", "other", external_gateway_info=gateway)
        neutron.refused(409, "RbacPolicyInUse", "DELETE", path, user="admin")
        neutron.expect(204, "DELETE", f"/routers/{router['id']}", user="other")
        neutron.expect(204, "DELETE", path, user="admin")

    def test_a_security_group_is_used_and_not_changed_by_the_target(self, neutron: Neutron) -> None:
        group, network = neutron.create("security_group", name="g"), neutron.network(user="other")
        wanted = {"port": {"network_id": network["id"], "security_groups": [group["id"]]}}
        neutron.refused(404, "SecurityGroupNotFound", "POST", "/ports", wanted, "other")
        made = share(neutron, "security_group", group["id"], "other")
        assert neutron.get(f"/security-groups/{group['id']}", "other")["security_group"]["shared"] is True
        assert neutron.get("/security-groups?shared=true", "other")["security_groups"][0]["id"] == group["id"]
        port = neutron.expect(201, "POST", "/ports", wanted, "other")["port"]
        rule = {"security_group_rule": {"security_group_id": group["id"], "direction": "ingress"}}
        neutron.expect(403, "POST", "/security-group-rules", rule, "other")
        neutron.expect(403, "DELETE", f"/security-groups/{group['id']}", user="other")
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{made['id']}")
        neutron.expect(204, "DELETE", f"/ports/{port['id']}", user="other")
        neutron.expect(204, "DELETE", f"/security-groups/{group['id']}")
        assert neutron.get("/rbac-policies") == {"rbac_policies": []}


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "status", "type"),
        [
            ({"target_tenant": "*"}, 403, "PolicyNotAuthorized"),
            ({"action": "access"}, 400, "HTTPBadRequest"),
            ({"object_type": "port"}, 400, "HTTPBadRequest"),
            ({"target_tenant": None}, 400, "HTTPBadRequest"),
            ({"target_tenant": "1234" * 100}, 400, "HTTPBadRequest"),
            ({"object_id": "2f32f072-4d17-4811-b619-3623d018bd40"}, 404, "NetworkNotFound"),
        ],
    )
    def test_bodies(self, neutron: Neutron, fields: dict[str, Any], status: int, type: str) -> None:
        network = neutron.network(None)
        wanted = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}
        body = {"rbac_policy": {**wanted, "target_tenant": "other", **fields}}
        error = neutron.expect(status, "POST", "/rbac-policies", body)["NeutronError"]
        assert status == 403 or error["type"] == type

    def test_others_records_twice_and_too_many(self, neutron: Neutron) -> None:
        network = neutron.network(None, "admin")
        share(neutron, "network", network["id"], "demo", "admin")
        body = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}
        told = neutron.refused(
            400, "InvalidInput", "POST", "/rbac-policies", {"rbac_policy": {**body, "target_tenant": "demo"}}
        )
        assert "Only admins can manipulate policies on objects they do not own" in told
        twice = {"rbac_policy": {**body, "target_tenant": "demo"}}
        neutron.refused(409, "DuplicateRbacPolicy", "POST", "/rbac-policies", twice, "admin")
        own = neutron.network(None)
        for number in range(10):
            share(neutron, "network", own["id"], f"p{number}")
        many = {"rbac_policy": {**body, "object_id": own["id"], "target_tenant": "p"}}
        neutron.refused(409, "OverQuota", "POST", "/rbac-policies", many)

    def test_an_action_of_another_type_of_object(self, neutron: Neutron) -> None:
        group = neutron.create("security_group", "admin", name="g")
        body = {"object_type": "security_group", "object_id": group["id"], "action": "access_as_external"}
        sent = {"rbac_policy": {**body, "target_tenant": "demo"}}
        neutron.refused(400, "RbacPolicyInitError", "POST", "/rbac-policies", sent, "admin")


PROJECTS = ("demo", "other", "admin")
KINDS = {
    "network": "networks", "qos_policy": "qos/policies", "security_group": "security-groups",
    "address_group": "address-groups", "address_scope": "address-scopes", "subnetpool": "subnetpools",
}  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "security_group": {"name": "g"},
    "address_scope": {"ip_version": 4},
    "subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"], "default_prefixlen": 24},
}
# What names an object of another record: (collection, body). "NET" and "GROUP" are the user's own.
USES: dict[str, tuple[str, dict[str, Any]]] = {
    "network": ("ports", {"network_id": "IT"}),
    "qos_policy": ("ports", {"network_id": "NET", "qos_policy_id": "IT"}),
    "security_group": ("ports", {"network_id": "NET", "security_groups": ["IT"]}),
    "address_group": (
        "security-group-rules",
        {"security_group_id": "GROUP", "direction": "ingress", "remote_address_group_id": "IT"},
    ),
    "address_scope": ("subnetpools", {"name": "q", "prefixes": ["10.7.0.0/16"], "address_scope_id": "IT"}),
    "subnetpool": ("subnets", {"network_id": "NET", "ip_version": 4, "subnetpool_id": "IT"}),
}


@frozen
class Shared:
    """One cloud for all examples: they only meet what each has made. `own`: user → what they have themselves."""

    neutron: Neutron
    own: dict[str, dict[str, str]]


@contextmanager
def shared(db: Database, clock: Clock) -> Iterator[Shared]:
    made = make_neutron(db, clock, NetworkOptions())
    limits = dict.fromkeys(("network", "subnet", "port", "security_group", "rbac_policy"), -1)
    for project in PROJECTS:
        made.expect(200, "PUT", f"/quotas/{project}", {"quota": limits}, "admin")
    own = {
        user: {
            "NET": str(made.network(None, user)["id"]),
            "GROUP": str(made.create("security_group", user, name="own")["id"]),
        }
        for user in ("demo", "other")
    }
    yield Shared(made, own)
    made.engine.stopService()


def started() -> Clock:
    clock = Clock()
    clock.rightNow = START
    return clock


@pytest.fixture
def on_sqlite() -> Iterator[Shared]:
    clock = started()
    with shared(empty_database(clock), clock) as found:
        yield found


@pytest.fixture
def on_postgresql(postgresql_with_tables: str) -> Iterator[Shared]:
    clock, inline = started(), cast(Any, Inline())
    db = Database(create(postgresql_with_tables), inline, inline, clock)
    with shared(db, clock) as found:
        yield found
    db.close()


EXTERNAL = "access_as_external"
ACTIONS = ("access_as_shared", EXTERNAL)
SHARED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SHARED
@given(data=st.data())
def test_nobody_sees_more_than_the_shares_say(on_sqlite: Shared, data: st.DataObject) -> None:
    check(on_sqlite.neutron, on_sqlite.own, data)


@SHARED
@given(data=st.data())
def test_nobody_does_on_postgresql(on_postgresql: Shared, data: st.DataObject) -> None:
    check(on_postgresql.neutron, on_postgresql.own, data)


def check(neutron: Neutron, own: dict[str, dict[str, str]], data: st.DataObject) -> None:
    """Whatever is shared and withdrawn: a project sees, by id and in lists, and uses what is its own or shared with it,
    and changes what is its own. Readers use nothing; services see everything.
    """
    type = data.draw(st.sampled_from(sorted(KINDS)))
    owner = data.draw(st.sampled_from(PROJECTS))
    object = _object(neutron, type, owner)
    path = f"/{KINDS[type]}"
    shares: dict[str, str] = {}
    for _ in range(data.draw(st.integers(1, 5))):
        target = data.draw(st.sampled_from((*PROJECTS, "*")))
        if target in shares:
            neutron.expect(204, "DELETE", f"/rbac-policies/{shares.pop(target)}", user="admin")
        else:
            shares[target] = share(neutron, type, object, target, "admin")["id"]
        for user in ("demo", "other", "reader", "service"):
            project = "demo" if user == "reader" else user
            reached = bool({project, "*"} & shares.keys())
            sees = project == owner or reached or user == "service"
            assert neutron.ask("GET", f"{path}/{object}", user=user).status == (200 if sees else 404)
            if type != "qos_policy":
                listed = neutron.get(f"{path}?id={object}", user)[KINDS[type].replace("-", "_")]
                assert [each["shared"] for each in listed] == ([reached] if sees else [])
            if user in own:
                assert _uses(neutron, type, object, user, own[user]) is (project == owner or reached), (user, shares)
            elif user == "reader":
                collection, body = _use(type, object, own["demo"])
                neutron.expect(403, "POST", f"/{collection}", body, user)
            if project != owner:
                changed = neutron.ask("DELETE", f"{path}/{object}", user=user).status
                # Of address groups that are shared with him nobody is told more than that.
                assert changed in ((403,) if sees and type != "address_group" else (403, 404))
    neutron.expect(204, "DELETE", f"{path}/{object}", user="admin")
    assert not neutron.get(f"/rbac-policies?object_id={object}", "admin")["rbac_policies"]


@settings(SHARED, max_examples=20)
@given(data=st.data())
def test_a_network_is_reached_as_the_shares_say(on_sqlite: Shared, data: st.DataObject) -> None:
    check_network(on_sqlite.neutron, data)


@settings(SHARED, max_examples=8)
@given(data=st.data())
def test_it_is_on_postgresql(on_postgresql: Shared, data: st.DataObject) -> None:
    check_network(on_postgresql.neutron, data)


def check_network(neutron: Neutron, data: st.DataObject) -> None:
    """Whoever it is shared with plugs into it, whoever it is external for leads a router there, and both see it with
    its subnet; nobody else sees either, the owner alone changes it, and a port there is seen by who has it or it.
    """
    owner = data.draw(st.sampled_from(PROJECTS))
    network = neutron.network(None, "admin", project_id=owner)
    made = {"network_id": network["id"], "project_id": owner, "ip_version": 4, "cidr": "198.51.100.0/24"}
    subnet, port = neutron.create("subnet", "admin", **made), neutron.create("port", owner, network_id=network["id"])
    path, shares = f"/networks/{network['id']}", cast(dict[tuple[str, str], str], {})
    for _ in range(data.draw(st.integers(1, 5))):
        action, target = data.draw(st.sampled_from(ACTIONS)), data.draw(st.sampled_from((*PROJECTS, "*")))
        if (action, target) in shares:
            neutron.expect(204, "DELETE", f"/rbac-policies/{shares.pop((action, target))}", user="admin")
        else:
            shares[action, target] = share(neutron, "network", network["id"], target, "admin", action=action)["id"]
        for user in ("demo", "other", "reader", "service"):
            project = "demo" if user == "reader" else user
            inside, outside = (bool({(each, project), (each, "*")} & shares.keys()) for each in ACTIONS)
            owns, sees = project == owner, project == owner or inside or outside or user == "service"
            for seen, query in ((path, f"/networks?id={network['id']}"), (f"/subnets/{subnet['id']}", "/subnets?")):
                assert neutron.ask("GET", seen, user=user).status == (200 if sees else 404)
                collection = seen.split("/")[1]
                listed = neutron.get(f"{query}&network_id={network['id']}" if "subnets" in query else query, user)
                assert len(listed[collection]) == sees
            there = neutron.ports(f"?network_id={network['id']}", user)
            assert [each["id"] for each in there] == ([port["id"]] if owns or user == "service" else [])
            renamed = neutron.ask("PUT", path, {"network": {"name": "x"}}, user).status
            assert renamed == (200 if owns and user != "reader" else 403 if sees else 404)
            if user in ("demo", "other"):
                plugged = {"port": {"network_id": network["id"]}}
                assert _made(neutron, "ports", plugged, user) is (owns or inside), (user, owner, shares)
                led = {"router": {"external_gateway_info": {"network_id": network["id"]}}}
                is_external = any(action == EXTERNAL for action, _ in shares)
                assert _made(neutron, "routers", led, user) is (is_external and sees), (user, owner, shares)
    neutron.expect(204, "DELETE", f"/ports/{port['id']}", user="admin")
    neutron.expect(204, "DELETE", path, user="admin")
    assert not neutron.get(f"/rbac-policies?object_id={network['id']}", "admin")["rbac_policies"]


def _use(type: str, object: str, mine: dict[str, str]) -> tuple[str, dict[str, Any]]:
    collection, fields = USES[type]
    names = {**mine, "IT": object}
    said = {
        name: [names.get(each, each) for each in value] if isinstance(value, list) else names.get(str(value), value)
        for name, value in fields.items()
    }
    return collection, {collection[:-1].replace("-", "_"): said}


def _uses(neutron: Neutron, type: str, object: str, user: str, mine: dict[str, str]) -> bool:
    """Whether the user can name it in a record of their own, which goes again."""
    return _made(neutron, *_use(type, object, mine), user)


def _made(neutron: Neutron, collection: str, body: dict[str, Any], user: str) -> bool:
    answer = neutron.ask("POST", f"/{collection}", body, user)
    if answer.status == 201:
        (made,) = answer.json().values()
        neutron.expect(204, "DELETE", f"/{collection}/{made['id']}", user=user)
        return True
    assert answer.status in (400, 403, 404), answer
    return False


def _object(neutron: Neutron, type: str, owner: str) -> str:
    if type == "qos_policy":
        return str(qos_policy(neutron, project_id=owner)["id"])
    return str(neutron.create(type, "admin", project_id=owner, **NEEDED.get(type, {}))["id"])
