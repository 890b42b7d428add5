"""Address groups, and rules that name them. Reference: network.md, section 5."""

from __future__ import annotations

from typing import Any

from tests.network.conftest import Neutron


def group(neutron: Neutron, *addresses: str, user: str = "demo", **fields: Any) -> Any:
    body = {"address_group": {"name": "g", "addresses": addresses, **fields}}
    return neutron.expect(201, "POST", "/address-groups", body, user)["address_group"]


def test_their_addresses_are_added_and_removed(neutron: Neutron) -> None:
    made = group(neutron, "10.0.1.34/32", "192.168.100.0/24", description="offices")
    assert made == {
        "id": made["id"], "name": "g", "description": "offices", "addresses": ["10.0.1.34/32", "192.168.100.0/24"],
        "shared": False, "project_id": "demo", "tenant_id": "demo",
    }  # fmt: skip
    path = f"/address-groups/{made['id']}"
    for body in ({"address_group": {"addresses": ["2001:db8::1/128"]}}, {"addresses": ["10.9.0.0/16"]}):
        changed = neutron.expect(200, "PUT", f"{path}/add_addresses", body)["address_group"]
    assert changed["addresses"] == ["10.0.1.34/32", "192.168.100.0/24", "2001:db8::1/128", "10.9.0.0/16"]
    neutron.refused(400, "AddressesAlreadyExist", "PUT", f"{path}/add_addresses", {"addresses": ["10.0.1.34/32"]})
    neutron.refused(404, "AddressesNotFound", "PUT", f"{path}/remove_addresses", {"addresses": ["10.0.1.35/32"]})
    changed = neutron.expect(200, "PUT", f"{path}/remove_addresses", {"addresses": ["10.0.1.34", "10.9.0.0/16"]})
    assert changed["address_group"]["addresses"] == ["192.168.100.0/24", "2001:db8::1/128"]
    assert group(neutron, addresses=None)["addresses"] == []
    bad: dict[str, Any]
    for bad in (
        {"addresses": ["x"]},
        {"addresses": ["10.1.2.3", "10.1.2.3/32"]},
        {"addresses": ["10.1.0.0/16"] * 2},
        {},
        {"address_group": {}},
    ):
        neutron.refused(400, "HTTPBadRequest", "PUT", f"{path}/add_addresses", bad)
    neutron.expect(404, "PUT", f"{path}/add_addresses", {"addresses": []}, "other")


def test_a_new_one_is_given_networks(neutron: Neutron) -> None:
    for bare in ("10.20.30.40", "2001:db8::1", "x"):
        body = {"address_group": {"name": "g", "addresses": ["10.0.0.0/8", bare]}}
        neutron.refused(400, "HTTPBadRequest", "POST", "/address-groups", body)


def test_the_driver_lets_their_addresses_through(neutron: Neutron) -> None:
    made = group(neutron, "10.0.1.34/32", "2001:db8::/64")
    security = neutron.create("security_group", name="s")
    rule = {"security_group_id": security["id"], "direction": "ingress", "protocol": "tcp"}
    shown = neutron.create("security_group_rule", **rule, remote_address_group_id=made["id"])
    assert shown["remote_address_group_id"] == made["id"]
    port = neutron.create("port", network_id=neutron.network()["id"], security_groups=[security["id"]])
    neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"binding:host_id": "h"}}, "admin")
    neutron.settle()

    def let_in() -> list[str | None]:
        rules = neutron.driver.groups.get(security["id"]).rules
        return [each.remote_prefix for each in rules if each.direction == "ingress"]

    assert let_in() == ["10.0.1.34/32"]
    neutron.expect(200, "PUT", f"/address-groups/{made['id']}/add_addresses", {"addresses": ["10.0.2.0/24"]})
    neutron.settle()
    assert let_in() == ["10.0.1.34/32", "10.0.2.0/24"]
    neutron.refused(409, "AddressGroupInUse", "DELETE", f"/address-groups/{made['id']}")
    neutron.expect(204, "DELETE", f"/security-group-rules/{shown['id']}")
    neutron.expect(204, "DELETE", f"/address-groups/{made['id']}")


def test_a_rule_has_one_remote_and_sees_it(neutron: Neutron) -> None:
    theirs, security = group(neutron, user="other"), neutron.create("security_group", name="s")
    rule = {"security_group_id": security["id"], "direction": "ingress"}
    body = {"security_group_rule": {**rule, "remote_address_group_id": theirs["id"]}}
    neutron.refused(404, "AddressGroupNotFound", "POST", "/security-group-rules", body)
    mine = group(neutron)
    both = {**rule, "remote_address_group_id": mine["id"], "remote_ip_prefix": "10.0.0.0/8"}
    neutron.refused(
        400, "SecurityGroupMultipleRemoteEntites", "POST", "/security-group-rules", {"security_group_rule": both}
    )


def test_who_only_shares_one_is_not_told_that_it_cannot_be_changed(neutron: Neutron) -> None:
    """As neutron has it, where other shared records are 403."""
    path = f"/address-groups/{(made := group(neutron))['id']}"
    policy = {"object_type": "address_group", "object_id": made["id"], "action": "access_as_shared"}
    neutron.expect(201, "POST", "/rbac-policies", {"rbac_policy": {**policy, "target_tenant": "other"}})
    assert neutron.get(path, "other")["address_group"]["shared"] is True
    for method, at, body in (
        ("PUT", path, {"address_group": {"name": "mine"}}),
        ("PUT", f"{path}/add_addresses", {"addresses": ["10.0.0.0/8"]}),
        ("DELETE", path, None),
    ):
        neutron.refused(404, "AddressGroupNotFound", method, at, body, "other")
    neutron.expect(403, "DELETE", path, user="reader")
