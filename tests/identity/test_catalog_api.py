"""The catalog, and the services, endpoints and regions behind it: discovery.md, section 3; identity.md, section 9."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import update
from twisted.web.resource import Resource

from cloudctl.app import SERVICES
from cloudctl.identity import catalog
from cloudctl.identity.tables import Endpoint
from cloudctl.rest.site import CloudSite
from cloudctl.testing.http import request

# Entries of the first catalog, each with a public, an internal and an administrators' endpoint.
OFFERED = sum(len(each.catalog) for each in SERVICES)


@pytest.fixture
def admin(keystone: Any) -> str:
    token: str = keystone.admin()
    return token


def read(keystone: Any, token: str) -> Any:
    return keystone.ask("GET", "/auth/catalog", token=token).json()["catalog"]


def test_the_first_catalog_is_the_one_that_every_stock_client_works_with(keystone: Any) -> None:
    found = read(keystone, keystone.login("demo", scope="demo"))
    assert [(one["type"], one["endpoints"][0]["url"]) for one in found] == [
        ("identity", "http://cloud.example.com/identity"),
        ("object-store", f"http://cloud.example.com/object-store/v1/AUTH_{keystone.made.demo_project_id}"),
        ("s3", "http://cloud.example.com/s3"),
        ("image", "http://cloud.example.com/image"),
        ("placement", "http://cloud.example.com/placement"),
        ("network", "http://cloud.example.com/networking"),
        ("block-storage", "http://cloud.example.com/volume/v3"),
        ("volumev3", "http://cloud.example.com/volume/v3"),
        ("compute", "http://cloud.example.com/compute/v2.1"),
        ("instance-ha", "http://cloud.example.com:15868/v1"),
    ]
    for one in found:
        assert [endpoint["interface"] for endpoint in one["endpoints"]] == ["public", "internal", "admin"]
        assert {(endpoint["region"], endpoint["region_id"]) for endpoint in one["endpoints"]} == {("RegionOne",) * 2}


def test_the_catalog_needs_a_project(keystone: Any) -> None:
    for scope in (None, {"system": {"all": True}}):
        assert keystone.ask("GET", "/auth/catalog", token=keystone.login("admin", scope=scope)).status == 403


def test_the_catalog_speaks_of_the_host_that_was_asked(keystone: Any) -> None:
    tree, cloud = Resource(), Resource()
    tree.putChild(b"cloud", cloud)
    cloud.putChild(b"identity", keystone.app.resource())
    token = keystone.login("demo", scope="demo")
    headers = {"X-Auth-Token": token, "Host": "[2001:db8::1]:99"}
    site = CloudSite(tree, keystone.clock, None)
    found = request(site, "GET", "/cloud/identity/v3/auth/catalog", headers=headers).json()["catalog"]
    urls = {each["type"]: each["endpoints"][0]["url"] for each in found}
    assert urls["identity"] == "http://[2001:db8::1]:99/cloud/identity"
    assert urls["instance-ha"] == "http://[2001:db8::1]:15868/v1"


@pytest.mark.parametrize(
    ("base_url", "configured", "url"),
    [
        ("https://cloud.example.com/prefix", "{scheme}://{host}:15868", "https://cloud.example.com:15868"),
        ("http://127.0.0.1:8780", "{scheme}://{host}:99", "http://127.0.0.1:99"),
        ("http://[::1]:8780", "https://{host}:99", "https://[::1]:99"),
        ("http://127.0.0.1:8780", "https://ha.example.com", "https://ha.example.com"),
    ],
)
def test_where_instance_ha_is(base_url: str, configured: str, url: str) -> None:
    assert catalog.instance_ha_url(base_url, configured) == url


def test_what_is_disabled_or_needs_a_project_or_is_malformed_is_left_out(keystone: Any, admin: str) -> None:
    service = keystone.make(admin, "services", "service", type="key-manager", name="barbican")["id"]
    fields = {"interface": "public", "service_id": service, "region_id": "RegionOne"}
    url = "http://o.example.com/AUTH_$(project_id)s/%(tenant_id)s/%(user_id)s"
    made = keystone.make(admin, "endpoints", "endpoint", url=url, **fields)
    found = read(keystone, admin)[-1]
    ids = keystone.made.admin_project_id, keystone.made.admin_project_id, keystone.made.admin_user_id
    assert found["endpoints"][0]["url"] == "http://o.example.com/AUTH_{}/{}/{}".format(*ids)
    password = {"user": {"id": keystone.made.admin_user_id, "password": "secret"}}
    system = {"identity": {"methods": ["password"], "password": password}, "scope": {"system": {"all": True}}}
    without = keystone.ask("POST", "/auth/tokens", {"auth": system}).json()["token"]["catalog"]
    assert "key-manager" not in [one["type"] for one in without if one["endpoints"]]
    broken = update(Endpoint).where(Endpoint.service_id == service).values(url="$(nonsense)s")
    keystone.db.transact(False, lambda conn: conn.execute(broken) and None)
    assert "key-manager" not in [one["type"] for one in read(keystone, admin) if one["endpoints"]]
    for path, kind in ((f"/endpoints/{made['id']}", "endpoint"), (f"/services/{service}", "service")):
        keystone.ask("PATCH", path, {kind: {"enabled": False}}, admin)
        assert "key-manager" not in [one["type"] for one in read(keystone, admin) if one["endpoints"]]


def test_a_service_without_endpoints_is_in_the_catalog(keystone: Any, admin: str) -> None:
    service = keystone.make(admin, "services", "service", type="dns", name="designate")["id"]
    assert {"id": service, "type": "dns", "name": "designate", "endpoints": []} in read(keystone, admin)


def test_administrators_see_urls_and_not_what_they_are_made_of(keystone: Any, admin: str) -> None:
    found = keystone.ask("GET", "/endpoints", token=admin).json()["endpoints"]
    assert len(found) == 3 * OFFERED
    assert not [one for one in found if "{" in one["url"]]


# -- services and endpoints


def test_a_service_is_made_changed_filtered_and_deleted_with_its_endpoints(keystone: Any, admin: str) -> None:
    made = keystone.make(admin, "services", "service", type="dns", name="designate", description="d", colour="red")
    path = f"/services/{made['id']}"
    assert (made["type"], made["name"], made["description"], made["enabled"], made["colour"]) == (
        "dns",
        "designate",
        "d",
        True,
        "red",
    )
    assert keystone.ask("GET", "/services?type=dns", token=admin).json()["services"] == [made]
    assert keystone.ask("GET", "/services?name=nova", token=admin).json()["services"][0]["type"] == "compute"
    updated = keystone.ask("PATCH", path, {"service": {"name": None, "shape": 1}}, admin).json()["service"]
    assert (updated["name"], updated["colour"], updated["shape"]) == ("", "red", 1)
    endpoint = keystone.make(
        admin, "endpoints", "endpoint", interface="public", service_id=made["id"], url="http://dns.example.com"
    )
    assert endpoint["region_id"] is None
    assert keystone.ask("DELETE", path, token=admin).status == 204
    for gone in (path, f"/endpoints/{endpoint['id']}"):
        assert keystone.ask("GET", gone, token=admin).status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"interface": "other"},
        {"interface": None},
        {"service_id": "unknown"},
        {"url": ""},
        {"url": "no scheme"},
        {"url": "http://[::1"},
        {"url": "http://x/$(nonsense)s"},
        {"url": "http://x/%(project_id"},
        {"url": "http://x/{base_url"},
        {"url": "http://x/" + "y" * 2048},
        {"region_id": "unknown"},
        {"region": "a", "region_id": "b"},
        {"enabled": "yes"},
    ],
)
def test_a_malformed_endpoint_is_400(keystone: Any, admin: str, change: Any) -> None:
    service = keystone.ask("GET", "/services?type=compute", token=admin).json()["services"][0]["id"]
    fields = {"interface": "public", "service_id": service, "url": "http://x.example.com", **change}
    assert keystone.ask("POST", "/endpoints", {"endpoint": fields}, admin).status == 400
    made = keystone.ask("GET", "/endpoints", token=admin).json()["endpoints"][0]
    assert keystone.ask("PATCH", f"/endpoints/{made['id']}", {"endpoint": change}, admin).status == 400


def test_the_older_name_of_a_region_makes_it(keystone: Any, admin: str) -> None:
    service = keystone.ask("GET", "/services?type=compute", token=admin).json()["services"][0]["id"]
    fields = {"interface": "public", "service_id": service, "url": "http://x.example.com", "region": "Two"}
    made = keystone.make(admin, "endpoints", "endpoint", **fields)
    assert (made["region"], made["region_id"]) == ("Two", "Two")
    assert keystone.ask("GET", "/regions/Two", token=admin).status == 200
    for query in ("region=Two", "region_id=Two", f"region_id=Two&service_id={service}&interface=public"):
        assert keystone.ask("GET", f"/endpoints?{query}", token=admin).json()["endpoints"] == [made]


# -- regions


def test_regions_form_trees_without_cycles(keystone: Any, admin: str) -> None:
    keystone.make(admin, "regions", "region", id="north", description="N")
    made = keystone.ask("PUT", "/regions/north-1", {"region": {"parent_region_id": "north"}}, admin)
    assert (made.status, made.json()["region"]["parent_region_id"]) == (201, "north")
    assert len(keystone.make(admin, "regions", "region")["id"]) == 32
    assert keystone.ask("PATCH", "/regions/north", {"region": {"parent_region_id": "north-1"}}, admin).status == 400
    assert keystone.ask("POST", "/regions", {"region": {"id": "north"}}, admin).status == 409
    assert keystone.ask("POST", "/regions", {"region": {"parent_region_id": "unknown"}}, admin).status == 404
    assert keystone.ask("PUT", "/regions/x", {"region": {"id": "y"}}, admin).status == 400
    found = keystone.ask("GET", "/regions?parent_region_id=north", token=keystone.login("demo")).json()["regions"]
    assert [one["id"] for one in found] == ["north-1"]
    for region in ("north", "RegionOne"):
        assert keystone.ask("DELETE", f"/regions/{region}", token=admin).status == 403
    for region in ("north-1", "north"):
        assert keystone.ask("DELETE", f"/regions/{region}", token=admin).status == 204


# -- what a project sees


@pytest.mark.parametrize("id", ["a b", "ä", "a?b#c", "100%", "a:b@c"])
def test_the_link_of_a_region_leads_to_it_whatever_its_id_is(keystone: Any, id: str) -> None:
    admin = keystone.admin()
    made = keystone.ask("POST", "/regions", {"region": {"id": id}}, admin).json()["region"]
    there = urlsplit(made["links"]["self"])
    assert not (there.query or there.fragment)
    assert keystone.ask("GET", there.path, token=admin).json() == {"region": made}


def test_a_project_with_endpoints_of_its_own_sees_only_those(keystone: Any, admin: str) -> None:
    demo, project = keystone.login("demo", scope="demo"), keystone.made.demo_project_id
    every = keystone.ask("GET", "/endpoints?interface=public", token=admin).json()["endpoints"]
    path = f"/OS-EP-FILTER/projects/{project}/endpoints"
    one = f"{path}/{every[0]['id']}"
    assert len(keystone.ask("GET", path, token=admin).json()["endpoints"]) == 3 * OFFERED
    assert keystone.ask("HEAD", one, token=admin).status == 404
    assert keystone.ask("PUT", one, token=admin).status == 204
    assert keystone.ask("HEAD", one, token=admin).status == 204
    assert [e["id"] for s in read(keystone, demo) for e in s["endpoints"]] == [every[0]["id"]]
    assert len(read(keystone, admin)) == OFFERED
    back = keystone.ask("GET", f"/OS-EP-FILTER/endpoints/{every[0]['id']}/projects", token=admin).json()["projects"]
    assert [p["name"] for p in back] == ["demo"]
    assert keystone.ask("DELETE", one, token=admin).status == 204
    assert keystone.ask("DELETE", one, token=admin).status == 404
    assert len(read(keystone, demo)) == OFFERED


def test_the_endpoints_of_a_project_and_of_a_group_link_to_the_next_page(keystone: Any, admin: str) -> None:
    fields = {"name": "g", "filters": {"interface": "internal"}}
    group = keystone.make(admin, "OS-EP-FILTER/endpoint_groups", "endpoint_group", **fields)["id"]
    of_project = f"/OS-EP-FILTER/projects/{keystone.made.demo_project_id}/endpoints"
    for path, count in ((of_project, 3 * OFFERED), (f"/OS-EP-FILTER/endpoint_groups/{group}/endpoints", OFFERED)):
        found, following = set(), f"{path}?limit=7"
        while following:
            answer = keystone.ask("GET", following, token=admin).json()
            found |= {endpoint["id"] for endpoint in answer["endpoints"]}
            following = (answer["links"]["next"] or "").removeprefix("http://cloud.example.com")
        assert len(found) == count


def test_an_endpoint_group_gives_a_project_all_that_meet_its_filters(keystone: Any, admin: str) -> None:
    demo, project = keystone.login("demo", scope="demo"), keystone.made.demo_project_id
    fields = {"name": "g", "filters": {"interface": "internal"}}
    group = keystone.make(admin, "OS-EP-FILTER/endpoint_groups", "endpoint_group", **fields)
    path = f"/OS-EP-FILTER/endpoint_groups/{group['id']}"
    assert len(keystone.ask("GET", f"{path}/endpoints", token=admin).json()["endpoints"]) == OFFERED
    member = f"{path}/projects/{project}"
    assert keystone.ask("GET", member, token=admin).status == 404
    assert keystone.ask("PUT", member, token=admin).status == 204
    assert keystone.ask("GET", member, token=admin).json()["endpoint_group"] == group
    assert {e["interface"] for s in read(keystone, demo) for e in s["endpoints"]} == {"internal"}
    groups = keystone.ask("GET", f"/OS-EP-FILTER/projects/{project}/endpoint_groups", token=admin).json()
    assert groups["endpoint_groups"] == [group]
    assert [p["name"] for p in keystone.ask("GET", f"{path}/projects", token=admin).json()["projects"]] == ["demo"]
    change = {"endpoint_group": {"filters": {"interface": "admin"}}}
    assert keystone.ask("PATCH", path, change, admin).status == 200
    assert {e["interface"] for s in read(keystone, demo) for e in s["endpoints"]} == {"admin"}
    bad = {"endpoint_group": {"name": "x", "filters": {"colour": "red"}}}
    assert keystone.ask("POST", "/OS-EP-FILTER/endpoint_groups", bad, admin).status == 400
    assert keystone.ask("DELETE", path, token=admin).status == 204
    assert len(read(keystone, demo)) == OFFERED


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("type=text/plain", 1),
        ("type__contains=application", 2),
        ("type__startswith=text", 1),
        ("type__icontains=JSON", 1),
        ("type__icontains=%25", 1),
        ("type__iendswith=%C3%84/X_%25", 1),
        ("type__equals=json", 0),
    ],
)
def test_policies_are_found_by_parts_of_their_types(keystone: Any, query: str, count: int) -> None:
    admin = keystone.admin()
    for type in ("text/plain", "application/json", "application/xml", "Ä/x_%"):
        keystone.make(admin, "policies", "policy", type=type, blob="x")
    assert len(keystone.ask("GET", f"/policies?{query}", token=admin).json()["policies"]) == count
