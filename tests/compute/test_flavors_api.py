"""Flavors, extra specs and access. Reference: compute.md, section 9."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compute.asking import Asking, refusal

SMALL = {"name": "mine", "ram": 256, "vcpus": 1, "disk": 2}


def make(admin: Asking, version: str | None = None, /, **wishes: Any) -> dict[str, Any]:
    answer = admin.post("/flavors", {"flavor": {**SMALL, **wishes}}, version)
    assert answer.status == 200, answer
    made: dict[str, Any] = answer.json()["flavor"]
    return made


def test_a_new_cloud_has_the_usual_flavors(demo: Asking) -> None:
    found = demo.get("/flavors/detail").json()["flavors"]
    assert [(f["id"], f["name"], f["ram"], f["vcpus"], f["disk"]) for f in found] == [
        ("1", "m1.tiny", 512, 1, 1),
        ("2", "m1.small", 2048, 1, 20),
        ("3", "m1.medium", 4096, 2, 40),
        ("4", "m1.large", 8192, 4, 80),
        ("5", "m1.xlarge", 16384, 8, 160),
    ]
    assert demo.get("/flavors").json()["flavors"][0].keys() == {"id", "name", "links"}


@pytest.mark.parametrize(
    ("version", "more", "swap"),
    [
        ("2.1", set(), ""),
        ("2.55", {"description"}, ""),
        ("2.61", {"description", "extra_specs"}, ""),
        ("2.101", {"description", "extra_specs"}, 0),
    ],
)
def test_a_flavor_shows_what_its_microversion_has(demo: Asking, version: str, more: set[str], swap: Any) -> None:
    found = demo.get("/flavors/1", version).json()["flavor"]
    assert found.keys() == more | {
        "id",
        "name",
        "ram",
        "vcpus",
        "disk",
        "swap",
        "OS-FLV-EXT-DATA:ephemeral",
        "rxtx_factor",
        "links",
        "os-flavor-access:is_public",
        "OS-FLV-DISABLED:disabled",
    }
    assert found["swap"] == swap


def test_flavors_are_filtered_sorted_and_paged(demo: Asking) -> None:
    def names(query: str) -> list[str]:
        return [f["name"] for f in demo.get(f"/flavors?{query}").json()["flavors"]]

    assert names("minRam=8192") == ["m1.large", "m1.xlarge"]
    assert names("minDisk=40&minRam=1") == ["m1.medium", "m1.large", "m1.xlarge"]
    assert names("sort_key=memory_mb&sort_dir=desc&limit=2") == ["m1.xlarge", "m1.large"]
    assert names("sort_key=name") == ["m1.large", "m1.medium", "m1.small", "m1.tiny", "m1.xlarge"]
    assert names("marker=4") == ["m1.xlarge"]
    assert "marker=2" in demo.get("/flavors?limit=2").json()["flavors_links"][0]["href"]
    for wrong in ("minRam=x", "marker=none", "sort_key=colour", "limit=-1"):
        assert demo.get(f"/flavors?{wrong}").status == 400


def test_an_administrator_makes_and_deletes_a_flavor(admin: Asking, demo: Asking) -> None:
    made = make(admin, id="auto", swap=512, **{"OS-FLV-EXT-DATA:ephemeral": 3})
    assert (made["swap"], made["OS-FLV-EXT-DATA:ephemeral"], len(made["id"])) == (512, 3, 36)
    assert demo.get(f"/flavors/{made['id']}").status == 200
    assert admin.delete(f"/flavors/{made['id']}").status == 202
    said = f"Flavor {made['id']} could not be found."
    assert refusal(demo.get(f"/flavors/{made['id']}")) == (404, "itemNotFound", said)
    assert admin.delete(f"/flavors/{made['id']}").status == 404


def test_a_server_keeps_the_flavor_it_was_made_with(admin: Asking, demo: Asking) -> None:
    make(admin, id="9")
    server_id = demo.boot(flavorRef="9")
    admin.delete("/flavors/9")
    assert demo.server(server_id)["flavor"]["original_name"] == "mine"
    assert demo.server(server_id, "2.46")["flavor"]["id"] == "9"


@pytest.mark.parametrize(
    ("wishes", "status"),
    [
        ({"id": "1"}, 409),
        ({"name": "m1.tiny"}, 409),
        ({"ram": 0}, 400),
        ({"vcpus": 0}, 400),
        ({"disk": -1}, 400),
        ({"ram": 2**31}, 400),
        ({"ram": "lots"}, 400),
        ({"id": "a/b"}, 400),
        ({"id": ""}, 400),
        ({"id": "1 "}, 400),
        ({"id": " x"}, 400),
        ({"name": ""}, 400),
        ({"rxtx_factor": 0}, 400),
        ({"rxtx_factor": "nan"}, 400),
        ({"description": "x"}, 400),
        ({"colour": "red"}, 400),
    ],
)
def test_a_wrong_flavor_is_refused(admin: Asking, wishes: dict[str, Any], status: int) -> None:
    assert admin.post("/flavors", {"flavor": {**SMALL, **wishes}}).status == status


def test_only_administrators_change_flavors(demo: Asking) -> None:
    assert demo.post("/flavors", {"flavor": SMALL}).status == 403
    assert demo.delete("/flavors/1").status == 403
    assert demo.put("/flavors/1", {"flavor": {"description": "x"}}, "2.55").status == 403
    assert demo.post("/flavors/1/os-extra_specs", {"extra_specs": {"a": "b"}}).status == 403
    assert demo.get("/flavors/1/os-flavor-access").status == 403


def test_the_description_can_be_changed_from_2_55_on(admin: Asking) -> None:
    assert admin.put("/flavors/1", {"flavor": {"description": "x"}}, "2.54").status == 404
    assert admin.put("/flavors/1", {"flavor": {"description": "x"}}, "2.55").json()["flavor"]["description"] == "x"
    assert admin.put("/flavors/1", {"flavor": {"description": None}}, "2.55").json()["flavor"]["description"] is None


def test_extra_specs_are_merged_shown_and_deleted(admin: Asking, demo: Asking) -> None:
    path = "/flavors/1/os-extra_specs"
    assert admin.post(path, {"extra_specs": {"a": "1", "b": 2}}).json() == {"extra_specs": {"a": "1", "b": "2"}}
    assert admin.put(f"{path}/b", {"b": "3"}).json() == {"b": "3"}
    assert demo.get(path).json() == {"extra_specs": {"a": "1", "b": "3"}}
    assert demo.get(f"{path}/a").json() == {"a": "1"}
    assert admin.delete(f"{path}/a").status == 200
    assert demo.get(f"{path}/a").status == 404
    assert admin.delete(f"{path}/a").status == 404
    assert admin.put(f"{path}/x", {"y": "1"}).status == 400
    assert admin.put(f"{path}/x", {"x": ["1"]}).status == 400
    assert admin.post(path, {"extra_specs": {"a b/": "1"}}).status == 400
    assert admin.post(path, {"extra_specs": {"a": "v" * 256}}).status == 400


def test_known_extra_specs_are_checked_from_2_86_on(admin: Asking) -> None:
    wrong = {"extra_specs": {"hw:cpu_policy": "sometimes"}}
    assert admin.post("/flavors/1/os-extra_specs", wrong, "2.85").status == 200
    assert admin.post("/flavors/1/os-extra_specs", wrong, "2.86").status == 400
    right = {"extra_specs": {"hw:cpu_policy": "dedicated", "mine:own": "anything"}}
    assert admin.post("/flavors/1/os-extra_specs", right, "2.86").status == 200


def test_a_private_flavor_is_there_for_those_who_were_let_in(admin: Asking, demo: Asking, stranger: Asking) -> None:
    make(admin, id="private", **{"os-flavor-access:is_public": False})
    project = demo.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["tenant_id"]
    assert demo.get("/flavors/private").status == 404
    assert refusal(demo.create(flavorRef="private"))[0] == 400
    access = {"flavor_access": [{"flavor_id": "private", "tenant_id": project}]}
    assert admin.post("/flavors/private/action", {"addTenantAccess": {"tenant": project}}).json() == access
    assert admin.get("/flavors/private/os-flavor-access").json() == access
    assert admin.post("/flavors/private/action", {"addTenantAccess": {"tenant": project}}).status == 409
    assert admin.post("/flavors/private/action", {"addTenantAccess": {"tenant": "nobody"}}).status == 400
    assert demo.get("/flavors/private").status == 200
    assert "private" in [f["id"] for f in demo.get("/flavors").json()["flavors"]]
    assert demo.create(flavorRef="private").status == 202
    assert stranger.get("/flavors/private").status == 404
    assert "private" not in [f["id"] for f in stranger.get("/flavors").json()["flavors"]]
    assert admin.post("/flavors/private/action", {"removeTenantAccess": {"tenant": project}}).status == 200
    assert admin.post("/flavors/private/action", {"removeTenantAccess": {"tenant": project}}).status == 404
    assert demo.get("/flavors/private").status == 404


def test_a_public_flavor_has_no_access_list(admin: Asking, demo: Asking) -> None:
    project = demo.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["tenant_id"]
    assert admin.get("/flavors/1/os-flavor-access").status == 404
    assert admin.post("/flavors/1/action", {"addTenantAccess": {"tenant": project}}, "2.7").status == 409
    assert admin.post("/flavors/1/action", {"addTenantAccess": {"tenant": project}}, "2.6").status == 200


def test_administrators_list_private_flavors_if_they_ask(admin: Asking) -> None:
    make(admin, id="private", **{"os-flavor-access:is_public": False})

    def ids(query: str) -> list[str]:
        return [f["id"] for f in admin.get(f"/flavors{query}").json()["flavors"]]

    assert ids("") == ["1", "2", "3", "4", "5"]
    assert ids("?is_public=false") == ["private"]
    assert ids("?is_public=None") == ["1", "2", "3", "4", "5", "private"]
    assert admin.get("/flavors?is_public=maybe").status == 400
