"""Networks that nobody has made, and how many addresses networks have. Reference: network.md, sections 13 and 14."""

from __future__ import annotations

from typing import Any

from tests.network.conftest import Neutron

PATH = "/auto-allocated-topology"


def prepare(neutron: Neutron) -> Any:
    external = neutron.external(is_default=True)
    for prefix, length in (("10.10.0.0/16", 24), ("2001:db8::/48", 64)):
        fields = {"name": "p", "prefixes": [prefix], "default_prefixlen": length, "is_default": True, "shared": True}
        neutron.create("subnetpool", "admin", **fields)
    return external


def named(neutron: Neutron, collection: str) -> list[str]:
    found = neutron.get(f"/{collection}")[collection]
    return sorted(each["name"] for each in found if each["name"].startswith("auto_allocated_"))


def test_it_is_made_once(neutron: Neutron) -> None:
    external = prepare(neutron)
    made = neutron.get(f"{PATH}/null")["auto_allocated_topology"]
    assert made == neutron.get(f"{PATH}/demo")["auto_allocated_topology"]
    assert (made["project_id"], made["tenant_id"]) == ("demo", "demo")
    assert neutron.get(f"/networks/{made['id']}")["network"]["name"] == "auto_allocated_network"
    assert named(neutron, "subnets") == ["auto_allocated_subnet_v4", "auto_allocated_subnet_v6"]
    (router,) = neutron.get("/routers")["routers"]
    assert router["external_gateway_info"]["network_id"] == external["id"]
    assert neutron.get(f"{PATH}/None", "other")["auto_allocated_topology"]["id"] != made["id"]


def test_it_goes_as_a_whole(neutron: Neutron) -> None:
    prepare(neutron)
    network = neutron.get(f"{PATH}/null")["auto_allocated_topology"]["id"]
    port = neutron.create("port", network_id=network)
    neutron.refused(409, "NetworkInUse", "DELETE", f"{PATH}/demo")
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    neutron.expect(204, "DELETE", f"{PATH}/null")
    assert [named(neutron, each) for each in ("networks", "subnets", "routers")] == [[], [], []]
    neutron.refused(404, "AutoAllocatedTopologyNotFound", "DELETE", f"{PATH}/null")
    assert neutron.get(f"{PATH}/null")["auto_allocated_topology"]["id"] != network


def test_it_needs_a_pool_and_a_way_out(neutron: Neutron) -> None:
    for query in ("", "?fields=dry-run"):
        neutron.refused(409, "AutoAllocationFailure", "GET", f"{PATH}/null{query}")
    prepare(neutron)
    told = neutron.get(f"{PATH}/null?fields=dry-run")["auto_allocated_topology"]
    assert told == {"id": "dry-run=pass", "project_id": "demo", "tenant_id": "demo"}
    assert named(neutron, "networks") == []
    neutron.expect(404, "GET", f"{PATH}/other")
    neutron.expect(403, "GET", f"{PATH}/null", user="reader")


def test_it_needs_what_is_shared_with_the_project(neutron: Neutron) -> None:
    external = prepare(neutron)
    for pool in neutron.get("/subnetpools", "admin")["subnetpools"]:
        (share,) = neutron.get(f"/rbac-policies?object_id={pool['id']}", "admin")["rbac_policies"]
        neutron.expect(204, "DELETE", f"/rbac-policies/{share['id']}", user="admin")
    for query in ("", "?fields=dry-run"):
        neutron.refused(409, "AutoAllocationFailure", "GET", f"{PATH}/null{query}")
    body = {"subnet": {"network_id": neutron.network(None)["id"], "ip_version": 4, "use_default_subnetpool": True}}
    neutron.refused(400, "BadRequest", "POST", "/subnets", body)
    (pool,) = neutron.get("/subnetpools?ip_version=4", "admin")["subnetpools"]
    fields = {"object_type": "subnetpool", "object_id": pool["id"], "action": "access_as_shared"}
    share = {"rbac_policy": {**fields, "target_tenant": "demo"}}
    neutron.expect(201, "POST", "/rbac-policies", share, "admin")
    made = neutron.get(f"{PATH}/null")["auto_allocated_topology"]["id"]
    assert len(neutron.get(f"/subnets?network_id={made}")["subnets"]) == 1
    neutron.expect(204, "DELETE", f"{PATH}/null")
    query = f"/rbac-policies?object_id={external['id']}&action=access_as_external"
    (share,) = neutron.get(query, "admin")["rbac_policies"]
    neutron.expect(200, "PUT", f"/rbac-policies/{share['id']}", {"rbac_policy": {"target_tenant": "other"}}, "admin")
    neutron.refused(409, "AutoAllocationFailure", "GET", f"{PATH}/null?fields=dry-run")
    neutron.refused(409, "AutoAllocationFailure", "GET", f"{PATH}/null")


def test_no_project_has_a_longer_id_than_can_be_stored(neutron: Neutron) -> None:
    prepare(neutron)
    neutron.expect(200, "GET", f"{PATH}/{'x' * 64}", user="admin")
    neutron.expect(404, "GET", f"{PATH}/{'x' * 65}", user="admin")


def test_how_many_addresses_there_are(neutron: Neutron) -> None:
    network = neutron.network("10.0.0.0/24", name="n")
    neutron.create("subnet", network_id=network["id"], ip_version=6, cidr="2001:db8::/120", name="six")
    neutron.create("port", network_id=network["id"])
    neutron.network(None, name="empty")
    shown = neutron.get(f"/network-ip-availabilities/{network['id']}", "admin")["network_ip_availability"]
    # The port that gives out the addresses has one of each subnet.
    assert {name: shown[name] for name in ("network_id", "network_name", "total_ips", "used_ips", "project_id")} == {
        "network_id": network["id"], "network_name": "n", "total_ips": 253 + 254, "used_ips": 4, "project_id": "demo",
    }  # fmt: skip
    details = [(each["subnet_name"], each["total_ips"], each["used_ips"]) for each in shown["subnet_ip_availability"]]
    assert sorted(details) == [("", 253, 2), ("six", 254, 2)]
    # With one in the pool, and one beside it.
    neutron.create("port", network_id=network["id"], fixed_ips=[{"ip_address": "10.0.0.1"}])
    counts = neutron.get(f"/network-ip-availabilities/{network['id']}", "admin")["network_ip_availability"]
    names = ("total_ips_in_subnet", "total_ips_in_allocation_pool", "used_ips_in_subnet", "used_ips_in_allocation_pool")
    assert [counts["ip_availability_details"][name] for name in names] == [254 + 255, 253 + 254, 5, 4]
    within = {each["subnet_name"]: each["ip_availability_details"] for each in counts["subnet_ip_availability"]}
    assert [within[""][name] for name in names] == [254, 253, 3, 2]
    key = "network_ip_availabilities"
    assert len(neutron.get("/network-ip-availabilities", "admin")[key]) == 2
    (six,) = neutron.get("/network-ip-availabilities?ip_version=6&network_name=n", "admin")[key]
    assert (six["total_ips"], len(six["subnet_ip_availability"])) == (254, 1)
    (empty,) = neutron.get("/network-ip-availabilities?network_name=empty", "admin")[key]
    assert (empty["total_ips"], empty["used_ips"], empty["subnet_ip_availability"]) == (0, 0, [])
    neutron.expect(404, "GET", "/network-ip-availabilities/2f32f072-4d17-4811-b619-3623d018bd40", user="admin")
