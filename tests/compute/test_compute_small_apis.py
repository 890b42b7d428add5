"""Version documents, server groups, the images proxy, extensions. Reference: compute.md, sections 2, 12 and 17."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, V21, Asking, refusal

# -- versions


def test_the_version_documents_need_no_token(cloud: MemoryCloud) -> None:
    nobody = cloud.anonymous()
    listed = nobody.get("/compute")
    version = {
        "id": "v2.1",
        "status": "CURRENT",
        "version": LATEST,
        "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": "http://cloud.example.com/compute/v2.1/"}],
    }
    old, present = listed.json()["versions"]
    assert (listed.status, present) == (200, version)
    assert (old["id"], old["status"], old["version"], old["min_version"]) == ("v2.0", "SUPPORTED", "", "")
    assert (
        nobody.get(old["links"][0]["href"].removeprefix("http://cloud.example.com")).json()["version"]["id"] == "v2.0"
    )
    assert nobody.get("/compute/").json() == listed.json()
    for path in (V21, f"{V21}/"):
        shown = nobody.get(path)
        assert shown.status == 200
        assert shown.json()["version"].keys() == {*version, "media-types"}
    assert nobody.post("/compute", {}).status == 405


def test_paths_of_old_have_no_microversions(demo: Asking) -> None:
    newest, server_id = {"OpenStack-API-Version": f"compute {LATEST}"}, demo.boot()
    project = demo.server(server_id)["tenant_id"]
    for path in (f"/compute/v2/servers/{server_id}", f"/compute/v2/{project}/servers/{server_id}"):
        found = demo.client.get(path, headers=newest)
        assert (found.status, "openstack-api-version" in found.headers) == (200, False)
        assert found.json()["server"].keys() == demo.server(server_id, "2.1").keys()
    assert demo.client.get("/compute/v2/servers/", headers=newest).status == 404


def test_paths_of_old_do_not_mind_what_they_do_not_know(demo: Asking) -> None:
    """Nor what only later microversions know: none of it has an effect."""
    body = {**demo.body(tags=["later"], networks=[{"uuid": demo.network, "colour": "red"}]), "more": 1}
    made = demo.client.post("/compute/v2/servers", body)
    assert made.status == 202
    demo.cloud.settle()
    path = f"/servers/{made.json()['server']['id']}"
    assert demo.get(path, LATEST).json()["server"]["tags"] == []
    reboot = {"reboot": {"type": "HARD", "colour": "red"}}
    assert demo.client.post(f"/compute/v2{path}/action", reboot).status == 202
    assert demo.client.post("/compute/v2/servers", demo.body(name="")).status == 400
    assert demo.post("/servers", body).status == 400


def test_the_highest_microversion_can_be_lowered() -> None:
    cloud = MemoryCloud({"compute": {"max_microversion": "2.60"}})
    assert cloud.anonymous().get("/compute").json()["versions"][1]["version"] == "2.60"
    assert Asking(cloud.client("demo")).get("/servers", "2.61").status == 406
    cloud.close()


@pytest.mark.parametrize(
    ("headers", "used"),
    [
        ({}, "2.1"),
        ({"X-Platform-Compute-Microversion": "2.10"}, "2.10"),
        ({"OpenStack-API-Version": "compute 2.20"}, "2.20"),
        ({"OpenStack-API-Version": "volume 3.1, compute 2.20"}, "2.20"),
        ({"X-OpenStack-Nova-API-Version": "2.30"}, "2.30"),
        ({"X-Platform-Compute-Microversion": "2.10", "OpenStack-API-Version": "compute 2.20"}, "2.10"),
        ({"OpenStack-API-Version": "compute latest"}, LATEST),
    ],
)
def test_the_microversion_is_found_and_told(demo: Asking, headers: dict[str, str], used: str) -> None:
    answer = demo.client.get(f"{V21}/servers", headers=headers)
    assert answer.headers["x-platform-compute-microversion"] == used
    assert answer.headers["x-openstack-nova-api-version"] == used
    assert answer.headers["openstack-api-version"] == f"compute {used}"
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]


@pytest.mark.parametrize(("version", "status", "key"), [("2.500", 406, "computeFault"), ("two", 400, "badRequest")])
def test_a_microversion_that_is_not_offered_is_refused(demo: Asking, version: str, status: int, key: str) -> None:
    assert refusal(demo.get("/servers", version))[:2] == (status, key)


def test_the_project_may_be_in_the_path(demo: Asking, stranger: Asking) -> None:
    project = demo.server(demo.boot())["tenant_id"]
    assert demo.get(f"/{project}/servers").json() == demo.get("/servers").json()
    assert stranger.get(f"/{project}/servers").status == 400


@pytest.mark.parametrize("path", ["/os-volume-types", "/nonsense", "/servers/", "/os-simple-tenant-usage/"])
def test_what_is_not_offered_is_not_there(demo: Asking, path: str) -> None:
    assert refusal(demo.get(path))[:2] == (404, "itemNotFound")


# -- server groups


def group(demo: Asking, version: str | None = None, **body: Any) -> Any:
    return demo.post("/os-server-groups", {"server_group": {"name": "ha", **body}}, version)


def test_a_group_is_made_shown_and_deleted(demo: Asking) -> None:
    made = group(demo, "2.64", policy="anti-affinity", rules={"max_server_per_host": "2"})
    assert made.status == 200
    shown = made.json()["server_group"]
    assert shown.keys() == {"id", "name", "policy", "rules", "members", "project_id", "user_id"}
    assert shown["rules"] == {"max_server_per_host": 2}
    path = f"/os-server-groups/{shown['id']}"
    assert demo.get(path, "2.64").json()["server_group"] == shown
    assert demo.get("/os-server-groups", "2.64").json() == {"server_groups": [shown]}
    old = demo.get(path, "2.12").json()["server_group"]
    assert old == {
        "id": shown["id"],
        "name": "ha",
        "policies": ["anti-affinity"],
        "metadata": {},
        "members": [],
    }
    assert demo.delete(path).status == 204
    assert demo.get(path).status == 404


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (None, {}),
        (None, {"policies": []}),
        (None, {"policies": ["affinity", "anti-affinity"]}),
        (None, {"policies": ["together"]}),
        ("2.14", {"policies": ["soft-affinity"]}),
        ("2.63", {"policy": "affinity"}),
        ("2.64", {"policies": ["affinity"]}),
        ("2.64", {"policy": "affinity", "rules": {"max_server_per_host": 2}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"colour": 1}}),
        (None, {"policies": ["affinity"], "name": ""}),
    ],
)
def test_a_wrong_group_is_refused(demo: Asking, version: str | None, body: dict[str, Any]) -> None:
    assert group(demo, version, **body).status == 400


def test_members_of_a_group_are_kept_apart_or_together(demo: Asking, admin: Asking) -> None:
    for policy, hosts in (("anti-affinity", 3), ("affinity", 1)):
        group_id = group(demo, "2.64", policy=policy).json()["server_group"]["id"]
        ids = []
        for number in range(3):
            body = {**demo.body(name=f"{policy}{number}"), "os:scheduler_hints": {"group": group_id}}
            ids.append(demo.post("/servers", body).json()["server"]["id"])
        demo.cloud.settle()
        assert len({admin.server(server_id)["OS-EXT-SRV-ATTR:host"] for server_id in ids}) == hosts
        assert demo.get(f"/os-server-groups/{group_id}").json()["server_group"]["members"] == ids
        assert demo.server(ids[0], "2.71")["server_groups"] == [group_id]


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
def test_a_member_that_is_being_moved_counts_where_it_goes(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, policy: str
) -> None:
    """Only where it was counted, so that others came to the very host that it was on its way to, or had left."""
    group_id = group(demo, "2.64", policy=policy).json()["server_group"]["id"]

    def member() -> str:
        body = {**demo.body(), "os:scheduler_hints": {"group": group_id}}
        return str(demo.post("/servers", body).json()["server"]["id"])

    def host(server_id: str) -> Any:
        return admin.server(server_id)["OS-EXT-SRV-ATTR:host"]

    first = member()
    demo.cloud.settle()
    goal, closed = sorted({"fake-1", "fake-2", "fake-3"} - {host(first)})
    assert admin.put("/os-services/disable", {"host": closed, "binary": "nova-compute"}).status == 200
    hypervisor.behaviour.delay("ensure_migrated", 60.0)
    body = {"os-migrateLive": {"host": goal, "block_migration": "auto"}}
    assert admin.act(first, body, LATEST).status == 202
    demo.cloud.advance(5.0)
    second = member()
    demo.cloud.settle()
    assert host(first) == goal
    assert host(second) == (goal if policy == "affinity" else None)


def test_members_stay_apart_from_where_a_resize_may_be_reverted_to(demo: Asking, admin: Asking) -> None:
    """The revert would bring two members to one host."""
    group_id = group(demo, "2.64", policy="anti-affinity").json()["server_group"]["id"]

    def member() -> str:
        body = {**demo.body(), "os:scheduler_hints": {"group": group_id}}
        made = str(demo.post("/servers", body).json()["server"]["id"])
        demo.cloud.settle()
        return made

    def host(server_id: str) -> Any:
        return admin.server(server_id)["OS-EXT-SRV-ATTR:host"]

    first = member()
    source = host(first)
    assert admin.act(first, {"migrate": None}, LATEST).status == 202
    demo.cloud.settle()
    assert demo.server(first)["status"] == "VERIFY_RESIZE" and host(first) != source
    for closed in {"fake-1", "fake-2", "fake-3"} - {source}:
        assert admin.put("/os-services/disable", {"host": closed, "binary": "nova-compute"}).status == 200
    assert host(member()) is None
    assert demo.act(first, {"confirmResize": None}).status == 204
    demo.cloud.settle()
    assert host(member()) == source


def test_a_member_that_fits_nowhere_is_an_error(demo: Asking) -> None:
    group_id = group(demo, "2.64", policy="anti-affinity").json()["server_group"]["id"]
    body = {**demo.body(min_count=4), "OS-SCH-HNT:scheduler_hints": {"group": group_id}}
    assert demo.post("/servers", body).status == 202
    demo.cloud.settle()
    servers = demo.get("/servers/detail", LATEST).json()["servers"]
    assert sorted(server["status"] for server in servers) == ["ACTIVE", "ACTIVE", "ACTIVE", "ERROR"]
    (failed,) = [server for server in servers if server["status"] == "ERROR"]
    assert failed["fault"]["message"] == "No valid host was found. There are not enough hosts available."
    demo.delete(f"/servers/{failed['id']}")
    demo.cloud.settle()
    assert failed["id"] not in demo.get(f"/os-server-groups/{group_id}").json()["server_group"]["members"]


def test_a_group_has_quotas(demo: Asking, admin: Asking) -> None:
    group_id = group(demo, policies=["affinity"]).json()["server_group"]["id"]
    project = demo.get(f"/os-server-groups/{group_id}", LATEST).json()["server_group"]["project_id"]
    admin.put(f"/os-quota-sets/{project}", {"quota_set": {"server_groups": 1, "server_group_members": 1}})
    assert group(demo, policies=["affinity"]).status == 413
    body = {**demo.body(min_count=2), "os:scheduler_hints": {"group": group_id}}
    assert refusal(demo.post("/servers", body)) == (413, "entityTooLarge", "Quota exceeded, too many servers in group")


OTHERS = ("same_host", "different_host")
WRONG_OTHERS: list[Any] = [{hint: other} for hint in OTHERS for other in ("vm", ["vm"], [1], 1)]
WRONG_HINTS: list[Any] = [{"group": "11111111-1111-4111-8111-111111111111"}, {"group": "x"}, {"group": 1}, []]


@pytest.mark.parametrize("hints", [*WRONG_HINTS, *WRONG_OTHERS])
def test_a_wrong_hint_is_refused(demo: Asking, hints: Any) -> None:
    assert demo.post("/servers", {**demo.body(), "os:scheduler_hints": hints}).status == 400


def test_other_servers_are_followed_or_avoided(demo: Asking, admin: Asking) -> None:
    first = demo.boot()
    host = admin.server(first)["OS-EXT-SRV-ATTR:host"]
    for hint, same in (("same_host", True), ("different_host", False)):
        body = {**demo.body(), "os:scheduler_hints": {hint: [first.upper()]}}
        server_id = demo.post("/servers", body).json()["server"]["id"]
        demo.cloud.settle()
        assert (admin.server(server_id)["OS-EXT-SRV-ATTR:host"] == host) is same


def test_nobody_gets_beside_another_projects_server(demo: Asking, stranger: Asking) -> None:
    body = {"server": {**demo.body()["server"], "networks": "none"}, "os:scheduler_hints": {"same_host": demo.boot()}}
    server_id = stranger.post("/servers", body, LATEST).json()["server"]["id"]
    demo.cloud.settle()
    assert stranger.status(server_id) == "ERROR"


# -- the images proxy, extensions


def test_images_are_shown_up_to_2_35(demo: Asking) -> None:
    (image,) = demo.get("/images").json()["images"]
    assert (image["id"], image["name"]) == (demo.image, "tiny")
    assert image["links"][2]["href"] == f"http://cloud.example.com/image/v2/images/{image['id']}"
    (detail,) = demo.get("/images/detail", "2.35").json()["images"]
    assert (detail["status"], detail["progress"]) == ("ACTIVE", 100)
    assert demo.get(f"/images/{image['id']}").json()["image"] == detail
    assert demo.get("/images/none").status == 404
    assert demo.get("/images?name=other").json() == {"images": []}
    assert demo.get("/images?status=SAVING").json() == {"images": []}
    assert demo.get("/images?limit=0").json() == {"images": []}
    for path in ("/images", "/images/detail", f"/images/{image['id']}"):
        assert demo.get(path, "2.36").status == 404


def test_extensions_are_listed(demo: Asking) -> None:
    aliases = [extension["alias"] for extension in demo.get("/extensions").json()["extensions"]]
    assert {"os-volumes", "os-shelve", "os-evacuate", "os-server-password", "os-admin-actions", "NMN"} <= set(aliases)
    # Not offered: removed long ago, or never there.
    assert not {"os-cells", "os-fixed-ips", "os-virtual-interfaces", "os-assisted-volume-snapshots"} & set(aliases)
    assert aliases == sorted(aliases, key=str.lower)
    assert demo.get("/extensions/os-volumes").json()["extension"]["alias"] == "os-volumes"
    assert demo.get("/extensions/os-nonsense").status == 404
    assert "updated" not in aliases and demo.get("/extensions/updated").status == 404
