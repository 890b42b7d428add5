"""Volume types over HTTP. Reference: volume.md, section 7."""

from __future__ import annotations

from typing import Any

import pytest

from tests.volume.asking import LATEST, V3, at, volume

URL = f"{V3}/types"


@pytest.fixture
def ssd(admin: Any) -> dict[str, Any]:
    """A type that no volume has."""
    specs = {"volume_backend_name": "fast", "multiattach": "<is> False"}
    answer = admin.post(URL, {"volume_type": {"name": "ssd", "description": "fast", "extra_specs": specs}})
    assert answer.status == 200
    found: dict[str, Any] = answer.json()["volume_type"]
    return found


def test_members_see_types_without_what_tells_how_the_cloud_is_built(demo: Any, admin: Any, ssd: Any) -> None:
    assert ssd == {
        "id": ssd["id"], "name": "ssd", "description": "fast", "is_public": True,
        "os-volume-type-access:is_public": True,
        "extra_specs": {"volume_backend_name": "fast", "multiattach": "<is> False"},
    }  # fmt: skip
    assert admin.get(f"{URL}/{ssd['id']}").json()["volume_type"] == {**ssd, "qos_specs_id": None}
    seen = demo.get(f"{URL}/{ssd['id']}").json()["volume_type"]
    assert "qos_specs_id" not in seen
    assert seen["extra_specs"] == {"multiattach": "<is> False"}
    assert demo.get(f"{URL}/{ssd['id']}/extra_specs").json() == {"extra_specs": {"multiattach": "<is> False"}}
    assert demo.get(f"{URL}/{ssd['id']}/extra_specs/volume_backend_name").status == 404
    assert admin.get(f"{URL}/{ssd['id']}/extra_specs/volume_backend_name").json() == {"volume_backend_name": "fast"}
    assert {each["name"] for each in demo.get(URL).json()["volume_types"]} == {"ssd", "__DEFAULT__"}


def test_members_change_no_type(demo: Any, ssd: Any) -> None:
    one = f"{URL}/{ssd['id']}"
    answers = [
        demo.post(URL, {"volume_type": {"name": "x"}}),
        demo.put(one, {"volume_type": {"name": "x"}}),
        demo.delete(one),
        demo.post(f"{one}/extra_specs", {"extra_specs": {}}),
        demo.delete(f"{one}/extra_specs/multiattach"),
        demo.get(f"{one}/os-volume-type-access"),
        demo.post(f"{one}/action", {"addProjectAccess": {"project": "x"}}),
        demo.get(f"{V3}/default-types", headers=LATEST),
    ]
    assert [answer.status for answer in answers] == [403] * len(answers)


def test_a_type_is_changed_and_deleted(admin: Any, ssd: Any) -> None:
    one = f"{URL}/{ssd['id']}"
    changed = admin.put(one, {"volume_type": {"name": "nvme"}}).json()["volume_type"]
    # That somebody may use it is told by one name only.
    assert changed == {key: value for key, value in ssd.items() if ":" not in key} | {"name": "nvme"}
    assert admin.put(one, {"volume_type": {}}).status == 400
    assert admin.put(one, {"volume_type": {"name": "__DEFAULT__"}}).status == 409
    assert admin.post(URL, {"volume_type": {"name": "nvme"}}).status == 409
    assert admin.delete(one).status == 202
    assert admin.get(one).status == 404
    assert admin.delete(one).status == 404


def test_null_leaves_a_type_as_it_is(admin: Any, ssd: Any) -> None:
    """The stock client sends both, and null for the one that it does not change."""
    one = f"{URL}/{ssd['id']}"
    renamed = admin.put(one, {"volume_type": {"name": "nvme", "description": None}})
    assert (renamed.status, renamed.json()["volume_type"]["description"]) == (200, "fast")
    described = admin.put(one, {"volume_type": {"name": None, "description": "faster", "is_public": True}})
    assert described.status == 200, described
    assert (described.json()["volume_type"]["name"], described.json()["volume_type"]["description"]) == (
        "nvme",
        "faster",
    )
    assert admin.put(one, {"volume_type": {"name": None, "description": None}}).status == 400


def test_quotas_of_a_type_follow_its_name(admin: Any, ssd: Any) -> None:
    sets = f"{V3}/os-quota-sets/someone"
    admin.put(sets, {"quota_set": {"volumes_ssd": 3}})
    admin.put(f"{URL}/{ssd['id']}", {"volume_type": {"name": "nvme"}})
    found = admin.get(sets).json()["quota_set"]
    assert found["volumes_nvme"] == 3 and "volumes_ssd" not in found
    admin.delete(f"{URL}/{ssd['id']}")
    assert "volumes_nvme" not in admin.get(sets).json()["quota_set"]


def test_a_default_type_stays(admin: Any) -> None:
    default = admin.get(f"{URL}/default").json()["volume_type"]
    assert default["name"] == "__DEFAULT__"
    one = f"{URL}/{default['id']}"
    assert admin.delete(one).status == 400
    assert admin.put(one, {"volume_type": {"name": "x"}}).status == 400


def test_a_type_in_use_keeps_its_extra_specs(make: Any, cloud: Any, demo: Any, admin: Any, ssd: Any) -> None:
    one, id = f"{URL}/{ssd['id']}", make(volume_type="ssd")["id"]
    assert admin.delete(one).status == 409
    assert admin.post(f"{one}/extra_specs", {"extra_specs": {"a": "b"}}).status == 409
    demo.delete(f"{V3}/volumes/{id}")
    cloud.settle()
    assert admin.post(f"{one}/extra_specs", {"extra_specs": {"a": "b"}}).json() == {"extra_specs": {"a": "b"}}
    assert admin.put(f"{one}/extra_specs/a", {"a": "c"}).json() == {"a": "c"}
    assert admin.put(f"{one}/extra_specs/a", {"b": "c"}).status == 400
    assert admin.put(f"{one}/extra_specs/a", {"a": "c", "b": "c"}).status == 400
    assert admin.delete(f"{one}/extra_specs/a").status == 202
    assert admin.delete(f"{one}/extra_specs/a").status == 404
    assert admin.get(f"{one}/extra_specs").json()["extra_specs"] == ssd["extra_specs"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": ""}, {"name": "  "}, {"name": "n" * 256}, {"name": 1}, {"name": "x", "colour": "red"},
        {"name": "x", "extra_specs": {"a b": "c"}}, {"name": "x", "extra_specs": {"a": 1}},
        {"name": "x", "extra_specs": []}, {"name": "x", "os-volume-type-access:is_public": "perhaps"},
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused(admin: Any, body: Any) -> None:
    assert admin.post(URL, {"volume_type": body}).status == 400


def test_an_administrator_asks_for_the_private_types(admin: Any) -> None:
    private = {"name": "gold", "os-volume-type-access:is_public": False}
    id = admin.post(URL, {"volume_type": private}).json()["volume_type"]["id"]

    def listed(query: str = "") -> list[str]:
        return [each["name"] for each in admin.get(f"{URL}{query}").json()["volume_types"]]

    public = listed("?is_public=true")
    assert public and listed() == public
    assert set(listed("?is_public=None")) == {*public, "gold"}
    token = admin.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": admin.token}).json()["token"]
    assert admin.post(f"{URL}/{id}/action", {"addProjectAccess": {"project": token["project"]["id"]}}).status == 202
    assert set(listed()) == {*public, "gold"}


def test_a_private_type_is_for_those_who_have_access(make: Any, demo: Any, stranger: Any, admin: Any) -> None:
    private = {"name": "gold", "os-volume-type-access:is_public": False}
    id = admin.post(URL, {"volume_type": private}).json()["volume_type"]["id"]
    project = make()["os-vol-tenant-attr:tenant_id"]
    assert demo.get(f"{URL}/{id}").status == 404
    assert demo.post(f"{V3}/volumes", {"volume": {"size": 1, "volume_type": "gold"}}).status == 404
    grant = {"addProjectAccess": {"project": project}}
    assert admin.post(f"{URL}/{id}/action", grant).status == 202
    assert admin.post(f"{URL}/{id}/action", grant).status == 409
    access = admin.get(f"{URL}/{id}/os-volume-type-access").json()
    assert access == {"volume_type_access": [{"volume_type_id": id, "project_id": project}]}
    assert volume(demo, make(volume_type=id)["id"])["volume_type"] == "gold"
    assert stranger.get(f"{URL}/{id}").status == 404
    assert [each["name"] for each in admin.get(f"{URL}?is_public=false").json()["volume_types"]] == ["gold"]
    assert admin.post(f"{URL}/{id}/action", {"removeProjectAccess": {"project": project}}).status == 202
    assert admin.post(f"{URL}/{id}/action", {"removeProjectAccess": {"project": project}}).status == 404
    assert demo.get(f"{URL}/{id}").status == 404


def test_a_public_type_has_no_access_list(admin: Any, ssd: Any) -> None:
    one = f"{URL}/{ssd['id']}"
    assert admin.get(f"{one}/os-volume-type-access").status == 404
    assert admin.post(f"{one}/action", {"addProjectAccess": {"project": "x"}}).status == 400


def test_a_project_may_have_a_default_type_of_its_own(make: Any, demo: Any, admin: Any, ssd: Any) -> None:
    project = make()["os-vol-tenant-attr:tenant_id"]
    one, body = f"{V3}/default-types/{project}", {"default_type": {"volume_type": "ssd"}}
    expected = {"project_id": project, "volume_type_id": ssd["id"]}
    assert admin.put(one, body, headers=at("3.61")).status == 404
    assert admin.put(one, body, headers=LATEST).json() == {"default_type": expected}
    assert admin.get(one, headers=LATEST).json() == {"default_type": expected}
    assert admin.get(f"{V3}/default-types", headers=LATEST).json() == {"default_types": [expected]}
    assert demo.get(f"{URL}/default").json()["volume_type"]["name"] == "ssd"
    assert make()["volume_type"] == "ssd"
    assert admin.delete(f"{URL}/{ssd['id']}").status == 400
    assert admin.delete(one, headers=LATEST).status == 204
    assert admin.get(one, headers=LATEST).status == 404
    assert make()["volume_type"] == "__DEFAULT__"
    assert admin.put(f"{V3}/default-types/nobody", body, headers=LATEST).status == 404


def test_extra_specs_bound_the_size(make: Any, demo: Any, admin: Any) -> None:
    bounds = {"provisioning:min_vol_size": "2", "provisioning:max_vol_size": "3"}
    admin.post(URL, {"volume_type": {"name": "bounded", "extra_specs": bounds}})
    for size, status in ((1, 400), (4, 400), (2, 202)):
        answer = demo.post(f"{V3}/volumes", {"volume": {"size": size, "volume_type": "bounded"}})
        assert answer.status == status
    id = make(size=2, volume_type="bounded")["id"]
    assert demo.post(f"{V3}/volumes/{id}/action", {"os-extend": {"new_size": 4}}).status == 400


def test_types_are_paged_and_filtered(admin: Any, demo: Any, ssd: Any) -> None:
    page = demo.get(f"{URL}?limit=1&sort=name:desc").json()
    assert [each["name"] for each in page["volume_types"]] == ["ssd"]
    following = page["volume_type_links"][0]["href"].removeprefix("http://cloud.example.com")
    assert [each["name"] for each in demo.get(following).json()["volume_types"]] == ["__DEFAULT__"]
    query = "extra_specs=%7B'volume_backend_name':'fast'%7D"
    assert len(admin.get(f"{URL}?{query}", headers=at("3.52")).json()["volume_types"]) == 1
    assert demo.get(f"{URL}?{query}", headers=at("3.52")).status == 400
    assert demo.get(f"{URL}?marker=none").status == 404
