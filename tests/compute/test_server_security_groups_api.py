"""The security groups of servers. Reference: compute.md, sections 7 and 8.6."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.fake.network import FakeNetworkBackend
from tests.compute.asking import LATEST, Asking, refusal

GROUPS = "/networking/v2.0/security-groups"


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def group(demo: Asking, name: str = "web", **rule: Any) -> str:
    made = str(demo.client.post(GROUPS, {"security_group": {"name": name}}).json()["security_group"]["id"])
    if rule:
        body = {"security_group_rule": {"security_group_id": made, "direction": "ingress", **rule}}
        assert demo.client.post("/networking/v2.0/security-group-rules", body).status == 201
    return made


def names(demo: Asking, server_id: str) -> list[str]:
    return [each["name"] for each in demo.server(server_id).get("security_groups", [])]


def test_the_groups_of_a_server_are_shown_with_what_they_let_in(demo: Asking, server_id: str) -> None:
    made = group(demo, protocol="tcp", port_range_min=80, port_range_max=81)
    assert demo.act(server_id, {"addSecurityGroup": {"name": made}}).status == 202
    found = demo.get(f"/servers/{server_id}/os-security-groups").json()["security_groups"]
    assert [each["name"] for each in found] == ["default", "web"]
    within, web = found
    (rule,) = web.pop("rules")
    assert web == {"id": made, "name": "web", "description": "", "tenant_id": within["tenant_id"]}
    assert rule.pop("id")
    assert rule == {
        "parent_group_id": made, "ip_protocol": "tcp", "from_port": 80, "to_port": 81, "group": {},
        "ip_range": {"cidr": "0.0.0.0/0"},
    }  # fmt: skip
    assert {each["group"]["name"] for each in within["rules"]} == {"default"}
    assert all(each["ip_range"] == {} and each["ip_protocol"] is None for each in within["rules"])


@pytest.mark.parametrize(("protocol", "ports"), [("udp", (1, 65535)), ("icmp", (-1, -1))])
def test_a_rule_without_ports_shows_them_all(
    demo: Asking, server_id: str, protocol: str, ports: tuple[int, int]
) -> None:
    demo.act(server_id, {"addSecurityGroup": {"name": group(demo, protocol=protocol)}})
    found = demo.get(f"/servers/{server_id}/os-security-groups").json()["security_groups"]
    (rule,) = next(each["rules"] for each in found if each["name"] == "web")
    assert (rule["from_port"], rule["to_port"]) == ports


def test_a_group_comes_and_goes_on_every_port(demo: Asking, server_id: str, network: FakeNetworkBackend) -> None:
    made = group(demo)
    assert demo.post(f"/servers/{server_id}/os-interface", {"interfaceAttachment": {}}).status == 200
    demo.cloud.settle()
    assert demo.act(server_id, {"addSecurityGroup": {"name": "web"}}).status == 202
    demo.cloud.settle()
    assert sorted(names(demo, server_id)) == ["default", "web"]
    assert [made in each.spec.security_groups for each in network.ports.values()] == [True, True]
    assert demo.act(server_id, {"addSecurityGroup": {"name": "web"}}).status == 202
    for name in ("web", "default"):
        assert demo.act(server_id, {"removeSecurityGroup": {"name": name}}).status == 202
    demo.cloud.settle()
    assert "security_groups" not in demo.server(server_id)
    assert [each.spec.security_groups for each in network.ports.values()] == [(), ()]


def test_what_is_not_there_cannot_be_added_or_removed(demo: Asking, server_id: str) -> None:
    for action in ("addSecurityGroup", "removeSecurityGroup"):
        answer = demo.act(server_id, {action: {"name": "nothing"}})
        assert refusal(answer) == (404, "itemNotFound", "Security group nothing not found.")
    group(demo)
    said = f"Security group web not associated with the instance {server_id}"
    assert refusal(demo.act(server_id, {"removeSecurityGroup": {"name": "web"}})) == (404, "itemNotFound", said)


def test_a_name_that_two_groups_have_is_a_conflict(demo: Asking, server_id: str) -> None:
    group(demo), group(demo)
    assert refusal(demo.act(server_id, {"addSecurityGroup": {"name": "web"}}))[0] == 409


def test_a_port_without_security_takes_no_group(demo: Asking, server_id: str) -> None:
    (port,) = demo.ports
    body = {"port": {"security_groups": [], "port_security_enabled": False}}
    assert demo.client.put(f"/networking/v2.0/ports/{port}", body).status == 200
    group(demo)
    assert refusal(demo.act(server_id, {"addSecurityGroup": {"name": "web"}}))[:2] == (400, "badRequest")


def test_a_server_without_ports_has_no_groups(demo: Asking) -> None:
    server_id = demo.boot(LATEST, networks="none")
    assert demo.get(f"/servers/{server_id}/os-security-groups").json() == {"security_groups": []}
    assert refusal(demo.act(server_id, {"addSecurityGroup": {"name": "default"}}))[0] == 404


def test_other_projects_do_not_see_them(demo: Asking, stranger: Asking, reader: Asking, server_id: str) -> None:
    assert stranger.get(f"/servers/{server_id}/os-security-groups").status == 404
    assert stranger.act(server_id, {"addSecurityGroup": {"name": "default"}}).status == 404
    assert reader.act(server_id, {"addSecurityGroup": {"name": "default"}}).status == 403
    assert reader.get(f"/servers/{server_id}/os-security-groups").status == 200
