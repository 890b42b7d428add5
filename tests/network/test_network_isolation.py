"""Another project's records are not there: by id, filter, marker, count, tag or error. Reference: network.md, 1.3."""

from __future__ import annotations

from typing import Any

import pytest

from tests.network.conftest import Neutron

COLLECTIONS = {
    "networks": "network",
    "subnets": "subnet",
    "ports": "port",
    "routers": "router",
    "floatingips": "floatingip",
    "security-groups": "security_group",
    "security-group-rules": "security_group_rule",
}


@pytest.fixture
def theirs(neutron: Neutron) -> dict[str, Any]:
    """Collection → the id of a record of project `other`."""
    network = neutron.network(user="other", name="secret")
    port = neutron.create("port", "other", network_id=network["id"], name="secret")
    group = neutron.create("security_group", "other", name="secret")
    rule = neutron.create("security_group_rule", "other", security_group_id=group["id"], direction="ingress")
    floating = neutron.create("floatingip", "other", floating_network_id=neutron.external()["id"])
    found = {"networks": network["id"], "subnets": network["subnets"][0], "ports": port["id"]}
    found |= {"routers": neutron.router(user="other")["id"], "floatingips": floating["id"]}
    return {**found, "security-groups": group["id"], "security-group-rules": rule["id"]}


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_by_id(neutron: Neutron, theirs: Any, collection: str) -> None:
    path = f"/{collection}/{theirs[collection]}"
    body = {COLLECTIONS[collection]: {"description": "x"}}
    unknown = neutron.ask("GET", f"/{collection}/{'0' * 36}").body.replace(b"0" * 36, b"ID")
    for method in ("GET", "DELETE", "PUT"):
        if (collection, method) == ("security-group-rules", "PUT"):
            continue
        response = neutron.ask(method, path, body if method == "PUT" else None)
        assert (response.status, response.body.replace(theirs[collection].encode(), b"ID")) == (404, unknown)
    assert neutron.get(path, "other")


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_in_lists(neutron: Neutron, theirs: Any, collection: str) -> None:
    key, id = collection.replace("-", "_"), theirs[collection]
    for query in ("", f"id={id}", "project_id=other", "tenant_id=other", "limit=100"):
        listed = neutron.get(f"/{collection}?{query}")
        assert id not in [each["id"] for each in listed[key]]
        assert not listed.get(f"{key}_links") or id not in str(listed[f"{key}_links"])
    neutron.expect(404, "GET", f"/{collection}?marker={id}")
    assert id in [each["id"] for each in neutron.get(f"/{collection}", "admin")[key]]
    assert id in [each["id"] for each in neutron.get(f"/{collection}", "service")[key]]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_their_tags(neutron: Neutron, theirs: Any, collection: str) -> None:
    path = f"/{collection}/{theirs[collection]}/tags"
    for method, at, body in [
        ("GET", path, None),
        ("PUT", path, {"tags": ["x"]}),
        ("POST", path, {"tags": ["x"]}),
        ("DELETE", path, None),
        ("GET", f"{path}/x", None),
        ("PUT", f"{path}/x", None),
        ("DELETE", f"{path}/x", None),
    ]:
        neutron.refused(404, "TagResourceNotFound", method, at, body)


def test_what_refers_to_them(neutron: Neutron, theirs: Any) -> None:
    own = neutron.network()
    neutron.refused(404, "NetworkNotFound", "POST", "/ports", {"port": {"network_id": theirs["networks"]}})
    subnet = {"network_id": theirs["networks"], "ip_version": 4, "cidr": "10.9.0.0/24"}
    neutron.refused(404, "NetworkNotFound", "POST", "/subnets", {"subnet": subnet})
    group = {"network_id": own["id"], "security_groups": [theirs["security-groups"]]}
    neutron.refused(404, "SecurityGroupNotFound", "POST", "/ports", {"port": group})
    address = {"network_id": own["id"], "fixed_ips": [{"subnet_id": theirs["subnets"]}]}
    neutron.refused(404, "SubnetNotFound", "POST", "/ports", {"port": address})
    port = neutron.create("port", network_id=own["id"])
    neutron.refused(404, "SubnetNotFound", "PUT", f"/ports/{port['id']}", {"port": {"fixed_ips": address["fixed_ips"]}})
    floating = {"floating_network_id": neutron.external()["id"], "subnet_id": theirs["subnets"]}
    neutron.refused(404, "SubnetNotFound", "POST", "/floatingips", {"floatingip": floating})


def test_their_quota(neutron: Neutron, theirs: Any) -> None:
    for path in ("/quotas/other", "/quotas/other/details", "/quotas/other/default"):
        neutron.refused(404, "HTTPNotFound", "GET", path)
    assert neutron.get("/quotas/demo/details")["quota"]["network"]["used"] == 0
    neutron.expect(403, "PUT", "/quotas/demo", {"quota": {"network": 5}})


def test_the_wire_of_a_shared_network_is_not_found_by_filters(neutron: Neutron) -> None:
    """Nor is that of one's own: none is shown to who asks, so none has the one that is looked for."""
    for made in (neutron.network(user="admin", shared=True), neutron.network()):
        id = neutron.get(f"/networks/{made['id']}", "admin")["network"]["provider:segmentation_id"]
        for query in (f"segmentation_id={id}", "network_type=vxlan", "physical_network=", "network_type=x"):
            assert neutron.get(f"/networks?provider:{query}") == {"networks": []}
        found = neutron.get(f"/networks?provider:segmentation_id={id}", "admin")["networks"]
        assert [each["id"] for each in found] == [made["id"]]


OPERATION = {
    "service_profiles": ("service_profile", {"metainfo": "x"}),
    "network_segment_ranges": (
        "network_segment_range",
        {"network_type": "vxlan", "minimum": 9_000, "maximum": 9_001, "shared": False, "project_id": "demo"},
    ),
    "metering/metering-labels": ("metering_label", {"project_id": "demo"}),
    "log/logs": ("log", {"resource_type": "security_group", "project_id": "demo"}),
}


@pytest.mark.parametrize("collection", [*OPERATION, "segments", "network-ip-availabilities"])
def test_what_runs_the_cloud_is_seen_by_who_runs_it(neutron: Neutron, collection: str) -> None:
    """To others there is none of it, as in neutron: lists are empty, and no id is known, even of their own project."""
    neutron.network()
    if collection in OPERATION:
        name, body = OPERATION[collection]
        neutron.expect(201, "POST", f"/{collection}", {name: body}, "admin")
    key = collection.rpartition("/")[2].replace("-", "_")
    seen = neutron.get(f"/{collection}", "admin")[key]
    assert seen
    id = seen[0].get("id") or seen[0]["network_id"]
    for user in ("demo", "reader", "other"):
        assert neutron.get(f"/{collection}", user) == {key: []}
        assert neutron.get(f"/{collection}?id={id}" if "id" in seen[0] else f"/{collection}?network_id={id}", user) == {
            key: []
        }
        neutron.expect(404, "GET", f"/{collection}/{id}", user=user)
        neutron.expect(404, "GET", f"/{collection}?marker={id}", user=user)
        if collection in OPERATION:
            neutron.expect(404, "DELETE", f"/{collection}/{id}", user=user)
    neutron.get(f"/{collection}/{id}", "admin")


def test_subnets_of_shared_and_external_networks_are_seen(neutron: Neutron) -> None:
    shared = neutron.network(user="admin", shared=True)
    external = neutron.network("192.0.2.0/24", user="admin", router__external=True)
    seen = {subnet["id"]: subnet["router:external"] for subnet in neutron.get("/subnets")["subnets"]}
    assert seen == {shared["subnets"][0]: False, external["subnets"][0]: True}
    assert len(neutron.get("/subnets?shared=true")["subnets"]) == 1
    assert len(neutron.get("/subnets?router:external=true")["subnets"]) == 1
    neutron.expect(403, "PUT", f"/subnets/{shared['subnets'][0]}", {"subnet": {"name": "x"}})
    neutron.expect(403, "DELETE", f"/networks/{shared['id']}")


def test_without_a_token_there_is_nothing(neutron: Neutron) -> None:
    for path in ("/networks", "/extensions", "/quotas/demo", "/networks/x/tags"):
        answer = neutron.expect(401, "GET", path, user="")
        assert answer["NeutronError"]["type"] == "HTTPUnauthorized"
