"""Networks, security groups, volumes and metadata of images, as clients of compute 2.35 know them."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking, refusal
from tests.work import counted

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


# -- security groups


def group(demo: Asking, name: str = "web", **wanted: Any) -> dict[str, Any]:
    answer = demo.post("/os-security-groups", {"security_group": {"name": name, **wanted}})
    assert answer.status == 200, answer
    made: dict[str, Any] = answer.json()["security_group"]
    return made


def rule(demo: Asking, parent: str, **wanted: Any) -> Any:
    body = {"parent_group_id": parent, "ip_protocol": "tcp", "from_port": 22, "to_port": 22, **wanted}
    return demo.post(
        "/os-security-group-rules", {"security_group_rule": {k: v for k, v in body.items() if v is not None}}
    )


def test_security_groups_of_old(demo: Asking, stranger: Asking) -> None:
    made = group(demo, description="of the web")
    assert (made["name"], made["description"], made["rules"]) == ("web", "of the web", [])
    assert {each["name"] for each in demo.get("/os-security-groups").json()["security_groups"]} == {"default", "web"}
    path = f"/os-security-groups/{made['id']}"
    renamed = demo.put(path, {"security_group": {"name": "mail", "description": "x"}}).json()["security_group"]
    assert (renamed["id"], renamed["name"]) == (made["id"], "mail")
    assert stranger.get(path).status == 404
    assert demo.delete(path).status == 202
    assert refusal(demo.get(path))[:2] == (404, "itemNotFound")
    assert demo.get("/os-security-groups/x").status == 400
    assert demo.get("/os-security-groups", "2.36").status == 404


def test_a_group_that_cannot_go_stays(demo: Asking) -> None:
    (default,) = demo.get("/os-security-groups").json()["security_groups"]
    assert demo.delete(f"/os-security-groups/{default['id']}").status == 400
    used = group(demo)
    demo.boot(security_groups=[{"name": "web"}])
    assert demo.delete(f"/os-security-groups/{used['id']}").status == 400


def test_a_group_that_is_shared_with_others_is_changed_by_its_owner_alone(demo: Asking, stranger: Asking) -> None:
    made = group(demo)
    allowed = rule(demo, made["id"]).json()["security_group_rule"]["id"]
    share = {"object_type": "security_group", "object_id": made["id"], "action": "access_as_shared"}
    theirs = stranger.client.get("/identity/v3/auth/projects").json()["projects"][0]["id"]
    wanted = {"rbac_policy": {**share, "target_tenant": theirs}}
    assert demo.client.post("/networking/v2.0/rbac-policies", wanted).status == 201
    path = f"/os-security-groups/{made['id']}"
    assert stranger.get(path).status == 200
    assert stranger.put(path, {"security_group": {"name": "theirs", "description": ""}}).status == 403
    assert stranger.delete(path).status == 403
    assert rule(stranger, made["id"], from_port=80, to_port=80).status == 403
    assert stranger.delete(f"/os-security-group-rules/{allowed}").status in (403, 404)
    (kept,) = demo.get(path).json()["security_group"]["rules"]
    assert kept["id"] == allowed


def test_rules_of_old(demo: Asking) -> None:
    web, mail = group(demo)["id"], group(demo, "mail")["id"]
    made = rule(demo, web, cidr="10.0.0.1/8").json()["security_group_rule"]
    shown = {
        "id": made["id"], "parent_group_id": web, "ip_protocol": "tcp", "from_port": 22, "to_port": 22,
        "ip_range": {"cidr": "10.0.0.1/8"}, "group": {},
    }  # fmt: skip
    assert made == shown
    from_group = rule(demo, web, group_id=mail).json()["security_group_rule"]
    assert (from_group["group"]["name"], from_group["ip_range"]) == ("mail", {})
    ping = rule(demo, web, ip_protocol="icmp", from_port=-1, to_port=-1).json()["security_group_rule"]
    assert (ping["from_port"], ping["to_port"], ping["ip_range"]) == (-1, -1, {"cidr": "0.0.0.0/0"})
    found = demo.get(f"/os-security-groups/{web}").json()["security_group"]["rules"]
    assert {each["id"] for each in found} == {made["id"], from_group["id"], ping["id"]}
    assert demo.delete(f"/os-security-group-rules/{made['id']}").status == 202
    assert demo.delete(f"/os-security-group-rules/{made['id']}").status == 404


@pytest.mark.parametrize(
    "wanted",
    [
        {"ip_protocol": "carrier-pigeon"},
        {"from_port": 0},
        {"to_port": 65536},
        {"from_port": 23},
        {"ip_protocol": None},
        {"from_port": None},
        {"cidr": "somewhere"},
        {"parent_group_id": "no-uuid"},
        {"parent_group_id": None},
    ],
)
def test_a_wrong_rule_is_refused(demo: Asking, wanted: dict[str, Any]) -> None:
    assert rule(demo, group(demo)["id"], **wanted).status == 400


@pytest.mark.parametrize(
    "wanted",
    [
        {"from_port": 0},
        {"from_port": 23},
        {"from_port": -1, "to_port": -1},
        {"ip_protocol": "icmp", "from_port": 256, "to_port": -1},
        {"ip_protocol": "icmp", "from_port": -1, "to_port": 0},
        {"ip_protocol": "icmp", "from_port": 3, "to_port": 256},
    ],
)
def test_a_wrong_range_is_told_by_its_names_here(demo: Asking, wanted: dict[str, Any]) -> None:
    status, _, message = refusal(rule(demo, group(demo)["id"], **wanted))
    asked = {"from_port": 22, "to_port": 22, **wanted}
    assert status == 400 and message.startswith(f"Invalid port range {asked['from_port']}:{asked['to_port']}. ")
    assert "port_range" not in message and "port-range" not in message


def test_a_rule_of_group_with_ports_needs_a_protocol(demo: Asking) -> None:
    web = group(demo)["id"]
    status, _, message = refusal(rule(demo, web, group_id=web, ip_protocol=None))
    assert status == 400 and "ip_protocol" in message
    assert rule(demo, web, group_id=web, ip_protocol=None, from_port=None, to_port=None).status == 200


def test_a_rule_of_an_unknown_group_or_a_second_one_alike(demo: Asking) -> None:
    assert rule(demo, UNKNOWN).status == 404
    web = group(demo)["id"]
    assert [rule(demo, web).status for _ in range(2)] == [200, 400]


# -- networks and floating IPs


def test_networks_of_old(demo: Asking, admin: Asking, stranger: Asking) -> None:
    found = demo.get("/os-networks").json()["networks"]
    private = next(each for each in found if each["label"] == "private")
    assert private["id"] == demo.network and "vlan" not in private
    assert "vlan" in admin.get(f"/os-networks/{demo.network}").json()["network"]
    assert stranger.get(f"/os-networks/{demo.network}").status == 404
    short = demo.get(f"/os-tenant-networks/{demo.network}").json()["network"]
    assert short.keys() == {"id", "label", "cidr"} and short["cidr"].endswith("/24")
    assert short in demo.get("/os-tenant-networks").json()["networks"]
    assert demo.get("/os-networks", "2.36").status == 404


def test_networks_in_brief_cost_nothing_for_those_of_others(demo: Asking, cloud: MemoryCloud) -> None:
    for path in ("/os-tenant-networks", f"/os-tenant-networks/{demo.network}"):
        with counted(cloud) as work:
            assert demo.get(path).status == 200
        (asked,) = [statement for statement in work.statements if "FROM subnets" in statement]
        assert "WHERE subnets.network_id IN" in asked


def test_floating_ips_of_old(demo: Asking, stranger: Asking) -> None:
    (pool,) = demo.get("/os-floating-ip-pools").json()["floating_ip_pools"]
    made = demo.post("/os-floating-ips", {"pool": pool["name"]}).json()["floating_ip"]
    assert made.keys() == {"id", "ip", "pool", "fixed_ip", "instance_id"}
    assert (made["pool"], made["fixed_ip"], made["instance_id"]) == (pool["name"], None, None)
    server_id = demo.boot()
    port = demo.get(f"/servers/{server_id}/os-interface").json()["interfaceAttachments"][0]["port_id"]
    led = demo.client.put(f"/networking/v2.0/floatingips/{made['id']}", {"floatingip": {"port_id": port}})
    assert led.status == 200
    shown = demo.get(f"/os-floating-ips/{made['id']}").json()["floating_ip"]
    assert (shown["instance_id"], shown["ip"]) == (server_id, made["ip"]) and shown["fixed_ip"]
    assert demo.get("/os-floating-ips").json()["floating_ips"] == [shown]
    assert stranger.get("/os-floating-ips").json() == {"floating_ips": []}
    assert stranger.delete(f"/os-floating-ips/{made['id']}").status == 404
    assert demo.delete(f"/os-floating-ips/{made['id']}").status == 202
    assert demo.get(f"/os-floating-ips/{made['id']}").status == 404
    assert demo.post("/os-floating-ips", {"pool": "none"}).status == 404
    assert demo.post("/os-floating-ips").status == 200


def test_an_external_network_of_few_is_no_pool_of_others(demo: Asking, admin: Asking) -> None:
    made = admin.client.post("/networking/v2.0/networks", {"network": {"name": "dear"}}).json()["network"]
    subnet = {"network_id": made["id"], "cidr": "198.51.100.0/24", "ip_version": 4}
    assert admin.client.post("/networking/v2.0/subnets", {"subnet": subnet}).status == 201
    share = {"object_type": "network", "object_id": made["id"], "action": "access_as_external"}
    theirs = {"rbac_policy": {**share, "target_tenant": "somebody"}}
    assert admin.client.post("/networking/v2.0/rbac-policies", theirs).status == 201
    assert "dear" in [each["name"] for each in admin.get("/os-floating-ip-pools").json()["floating_ip_pools"]]
    assert "dear" not in [each["name"] for each in demo.get("/os-floating-ip-pools").json()["floating_ip_pools"]]
    assert demo.post("/os-floating-ips", {"pool": "dear"}).status == 404


# -- volumes


def test_volumes_of_old(demo: Asking, stranger: Asking) -> None:
    wanted = {"size": 1, "display_name": "disk", "metadata": {"key": "value"}}
    made = demo.post("/os-volumes", {"volume": wanted}).json()["volume"]
    assert (made["status"], made["displayName"], made["metadata"]) == ("creating", "disk", {"key": "value"})
    demo.cloud.settle()
    path = f"/os-volumes/{made['id']}"
    assert (demo.get(path).json()["volume"]["attachments"], stranger.get(path).status) == ([{}], 404)
    server_id = demo.boot()
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": made["id"]}})
    demo.cloud.settle()
    (attached,) = demo.get("/os-volumes/detail").json()["volumes"][0]["attachments"]
    assert (attached["serverId"], attached["volumeId"]) == (server_id, made["id"])
    assert demo.delete(path).status == 400
    assert demo.post("/os-volumes", {"volume": {"size": 0}}).status == 400
    assert demo.post("/os-volumes", {"volume": {"display_name": "x"}}).status == 400
    assert demo.get("/os-volumes", "2.36").status == 404


def test_snapshots_of_old(demo: Asking) -> None:
    volume_id = demo.volume()
    body = {"volume_id": volume_id, "display_name": "snap"}
    made = demo.post("/os-snapshots", {"snapshot": body}).json()["snapshot"]
    assert (made["volumeId"], made["displayName"], made["size"]) == (volume_id, "snap", 1)
    demo.cloud.settle()
    shown = demo.get(f"/os-snapshots/{made['id']}").json()["snapshot"]
    assert shown["status"] == "available"
    assert demo.get("/os-snapshots/detail").json()["snapshots"] == [shown]
    assert demo.delete(f"/os-volumes/{volume_id}").status == 400
    assert demo.delete(f"/os-snapshots/{made['id']}").status == 202
    demo.cloud.settle()
    assert demo.get(f"/os-snapshots/{made['id']}").status == 404
    assert demo.delete(f"/os-volumes/{volume_id}").status == 202


# -- images


@pytest.fixture
def image(demo: Asking) -> str:
    wanted = {"name": "own", "disk_format": "raw", "container_format": "bare"}
    return str(demo.client.post("/image/v2/images", wanted).json()["id"])


def test_the_metadata_of_images(demo: Asking, image: str) -> None:
    path = f"/images/{image}/metadata"
    assert demo.put(path, {"metadata": {"a": "1", "b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert demo.post(path, {"metadata": {"b": "3", "c": "4"}}).json()["metadata"] == {"a": "1", "b": "3", "c": "4"}
    assert demo.put(path, {"metadata": {"b": "5"}}, "2.38").json()["metadata"] == {"b": "5"}
    assert demo.put(f"{path}/d", {"meta": {"d": "6"}}).json() == {"meta": {"d": "6"}}
    assert demo.put(f"{path}/d", {"meta": {"e": "6"}}).status == 400
    assert demo.get(f"{path}/d").json() == {"meta": {"d": "6"}}
    assert demo.delete(f"{path}/d").status == 204
    assert [demo.get(f"{path}/d").status, demo.delete(f"{path}/d").status] == [404, 404]
    assert demo.client.get(f"/image/v2/images/{image}").json()["b"] == "5"
    assert demo.put(path, {"metadata": {"owner": "somebody"}}).status in (400, 403)
    assert demo.get(path, "2.39").status == 404
    assert demo.get(f"/images/{UNKNOWN}/metadata").status == 404


def test_the_metadata_of_images_of_others_stays(demo: Asking, stranger: Asking, image: str) -> None:
    assert demo.put(f"/images/{demo.image}/metadata", {"metadata": {"a": "1"}}).status == 403
    assert stranger.put(f"/images/{image}/metadata", {"metadata": {"a": "1"}}).status == 404
    assert stranger.delete(f"/images/{image}").status == 404


def test_an_image_is_deleted(demo: Asking, image: str) -> None:
    assert demo.delete(f"/images/{image}", "2.36").status == 404
    assert demo.delete(f"/images/{image}").status == 204
    assert demo.get(f"/images/{image}").status == 404


def test_images_are_found_by_their_server_and_their_type(demo: Asking, image: str) -> None:
    server_id = demo.boot()
    assert demo.act(server_id, {"createImage": {"name": "snap", "metadata": {"colour": "red"}}}).status == 202
    demo.cloud.settle()

    def found(query: str) -> list[str]:
        return [each["name"] for each in demo.get(f"/images?{query}").json()["images"]]

    assert found(f"server={server_id}") == ["snap"]
    assert found(f"server=http://cloud/compute/v2.1/servers/{server_id}") == ["snap"]
    assert found(f"server={UNKNOWN}") == []
    assert found("type=snapshot") == ["snap"]
    assert found("property-colour=red") == ["snap"]
    assert found("property-colour=blue") == []
