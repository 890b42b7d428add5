"""Quota sets, limits and usage. Reference: compute.md, section 16."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.compute import usage
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal
from tests.work import counted

ALWAYS = {"instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members", "id"}
FILES = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
NETWORK = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}


@pytest.fixture
def project(demo: Asking) -> str:
    return str(demo.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["tenant_id"])


@pytest.mark.parametrize(
    ("version", "names"), [("2.35", FILES | NETWORK), ("2.36", FILES), ("2.56", FILES), ("2.57", set())]
)
def test_a_quota_set_has_what_its_microversion_has(demo: Asking, project: str, version: str, names: set[str]) -> None:
    found = demo.get(f"/os-quota-sets/{project}", version).json()["quota_set"]
    assert found.keys() == ALWAYS | names
    assert (found["id"], found["instances"], found["cores"], found["ram"]) == (project, 10, 20, 51200)
    assert demo.get(f"/os-quota-sets/{project}/defaults", version).json()["quota_set"] == found


def test_details_show_what_is_in_use(demo: Asking, project: str) -> None:
    demo.boot(flavorRef="3")
    found = demo.get(f"/os-quota-sets/{project}/detail", LATEST).json()["quota_set"]
    assert found["cores"] == {"limit": 20, "in_use": 2, "reserved": 0}
    assert found["ram"]["in_use"] == 4096


def test_limits_are_set_enforced_and_set_back(demo: Asking, admin: Asking, project: str) -> None:
    answer = admin.put(f"/os-quota-sets/{project}", {"quota_set": {"instances": 1, "cores": -1}})
    assert answer.status == 200
    assert "id" not in answer.json()["quota_set"]
    assert (answer.json()["quota_set"]["instances"], answer.json()["quota_set"]["cores"]) == (1, -1)
    demo.boot()
    assert demo.create().status == 413
    assert admin.delete(f"/os-quota-sets/{project}").status == 202
    assert demo.create().status == 202


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({"instances": -2}, None),
        ({"instances": "many"}, None),
        ({"instances": 2**31}, None),
        ({"colour": 1}, None),
        ({"floating_ips": 1}, "2.36"),
        ({"injected_files": 1}, "2.57"),
    ],
)
def test_a_wrong_quota_is_refused(admin: Asking, project: str, body: dict[str, Any], version: str | None) -> None:
    assert admin.put(f"/os-quota-sets/{project}", {"quota_set": body}, version).status == 400


def test_a_limit_below_the_use_needs_force(demo: Asking, admin: Asking, project: str) -> None:
    demo.boot()
    demo.boot(name="two")
    said = "Quota limit 1 for instances must be greater than or equal to already used and reserved 2."
    answer = admin.put(f"/os-quota-sets/{project}", {"quota_set": {"instances": 1}})
    assert refusal(answer) == (400, "badRequest", said)
    assert admin.put(f"/os-quota-sets/{project}", {"quota_set": {"instances": 1, "force": True}}).status == 200


def test_another_projects_quota_is_not_there(demo: Asking, stranger: Asking, project: str) -> None:
    assert refusal(stranger.get(f"/os-quota-sets/{project}"))[:2] == (404, "itemNotFound")
    assert stranger.get(f"/os-quota-sets/{project}/detail").status == 404
    assert stranger.put(f"/os-quota-sets/{project}", {"quota_set": {}}).status == 403


def test_quotas_are_set_for_projects_that_exist(admin: Asking) -> None:
    assert admin.put("/os-quota-sets/nobody", {"quota_set": {"cores": 1}}).status == 400


def test_no_quota_is_set_for_a_user_whose_id_the_database_cannot_store(admin: Asking, project: str) -> None:
    path = f"/os-quota-sets/{project}?user_id="
    assert admin.put(path + 64 * "u", {"quota_set": {"cores": 1}}).status == 200
    assert admin.put(path + 65 * "u", {"quota_set": {"cores": 1}}).status == 400


def test_the_limits_of_users_end_with_those_of_their_project(admin: Asking, project: str) -> None:
    path = f"/os-quota-sets/{project}?user_id=someone"
    admin.put(path, {"quota_set": {"cores": 1}})
    assert admin.delete(f"/os-quota-sets/{project}").status == 202
    assert admin.get(path).json()["quota_set"]["cores"] == 20


def test_the_default_class_shows_the_defaults(admin: Asking, demo: Asking) -> None:
    assert admin.get("/os-quota-class-sets/default").json()["quota_class_set"]["instances"] == 10
    assert "server_groups" not in admin.get("/os-quota-class-sets/default", "2.49").json()["quota_class_set"]
    assert "server_groups" in admin.get("/os-quota-class-sets/default", "2.50").json()["quota_class_set"]
    assert demo.get("/os-quota-class-sets/default").status == 403


def test_quotas_of_networks_left_classes_later_than_projects(admin: Asking, project: str) -> None:
    networks = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}
    for path, key, last in (
        (f"/os-quota-sets/{project}", "quota_set", 35),
        ("/os-quota-class-sets/default", "quota_class_set", 49),
    ):
        assert networks <= set(admin.get(path, f"2.{last}").json()[key])
        assert not networks & set(admin.get(path, f"2.{last + 1}").json()[key])
        assert admin.put(path, {key: {"floating_ips": 10}}, f"2.{last}").status == 200
        assert admin.put(path, {key: {"floating_ips": 10}}, f"2.{last + 1}").status == 400


def test_the_default_class_sets_the_defaults_of_everybody_else(demo: Asking, admin: Asking, project: str) -> None:
    admin.put(f"/os-quota-sets/{project}", {"quota_set": {"cores": 7}})
    changed = admin.put("/os-quota-class-sets/default", {"quota_class_set": {"instances": 0, "cores": 5}}, LATEST)
    assert (changed.status, changed.json()["quota_class_set"]["instances"]) == (200, 0)
    for path in (f"/os-quota-sets/{project}", "/limits"):
        assert demo.get(path).status == 200
    own = demo.get(f"/os-quota-sets/{project}").json()["quota_set"]
    assert (own["instances"], own["cores"]) == (0, 7)
    assert demo.get(f"/os-quota-sets/{project}/defaults").json()["quota_set"]["cores"] == 5
    assert demo.create().status == 413
    for path, body, status in (
        ("default", {"cores": -2}, 400),
        ("default", {"colour": 2}, 400),
        ("default", {"force": True}, 400),
    ):
        assert admin.put(f"/os-quota-class-sets/{path}", {"quota_class_set": body}).status == status
    assert demo.put("/os-quota-class-sets/default", {"quota_class_set": {"cores": 1}}).status == 403


def test_limits_tell_what_is_left(demo: Asking, admin: Asking, project: str) -> None:
    demo.boot()
    found = demo.get("/limits", LATEST).json()["limits"]
    assert found["rate"] == []
    assert found["absolute"] == {
        "maxTotalInstances": 10,
        "maxTotalCores": 20,
        "maxTotalRAMSize": 51200,
        "maxServerMeta": 128,
        "maxTotalKeypairs": 100,
        "maxServerGroups": 10,
        "maxServerGroupMembers": 10,
        "totalInstancesUsed": 1,
        "totalCoresUsed": 1,
        "totalRAMUsed": 512,
        "totalServerGroupsUsed": 0,
    }
    assert "maxImageMeta" in demo.get("/limits", "2.38").json()["limits"]["absolute"]
    assert "maxPersonality" in demo.get("/limits", "2.56").json()["limits"]["absolute"]
    assert "maxSecurityGroups" in demo.get("/limits", "2.35").json()["limits"]["absolute"]
    used = admin.get(f"/limits?tenant_id={project}").json()["limits"]["absolute"]["totalInstancesUsed"]
    assert used == 1
    assert demo.get("/limits?tenant_id=other").status == 403


# -- usage


def test_usage_is_the_time_that_servers_were_there(demo: Asking, admin: Asking, project: str) -> None:
    server_id = demo.boot(flavorRef="3")
    demo.cloud.advance(1200)
    found = demo.get(f"/os-simple-tenant-usage/{project}").json()["tenant_usage"]
    assert found["total_hours"] == pytest.approx(1 / 3, abs=0.01)
    assert found["total_vcpus_usage"] == pytest.approx(2 / 3, abs=0.02)
    (one,) = found["server_usages"]
    assert (one["instance_id"], one["flavor"], one["state"], one["local_gb"]) == (server_id, "m1.medium", "active", 40)
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    demo.cloud.advance(600)
    again = demo.get(f"/os-simple-tenant-usage/{project}").json()["tenant_usage"]
    assert again["server_usages"][0]["state"] == "terminated"
    assert again["total_hours"] == pytest.approx(1 / 3, abs=0.01)
    (of_all,) = admin.get("/os-simple-tenant-usage?detailed=1").json()["tenant_usages"]
    assert of_all == again
    assert "server_usages" not in admin.get("/os-simple-tenant-usage").json()["tenant_usages"][0]


def test_a_period_without_servers_is_empty(demo: Asking, project: str) -> None:
    demo.boot()
    path = f"/os-simple-tenant-usage/{project}?start=2001-01-01T00:00:00&end=2002-01-01T00:00:00"
    assert demo.get(path).json() == {"tenant_usage": {}}


@pytest.mark.parametrize(
    "period", ["start=yesterday", "end=2026-13-01T00:00:00", "start=2026-01-02T00:00:00&end=2026-01-01T00:00:00"]
)
def test_a_wrong_period_is_refused(demo: Asking, project: str, period: str) -> None:
    assert demo.get(f"/os-simple-tenant-usage/{project}?{period}").status == 400


def test_usage_comes_in_pages_from_2_40_on(demo: Asking, admin: Asking, project: str) -> None:
    ids = [demo.boot(name=name) for name in ("one", "two")]
    demo.cloud.advance(60)
    path = f"/os-simple-tenant-usage/{project}"
    first = demo.get(f"{path}?limit=1", "2.40").json()
    assert [s["instance_id"] for s in first["tenant_usage"]["server_usages"]] == ids[:1]
    assert f"marker={ids[0]}" in first["tenant_usage_links"][0]["href"]
    rest = demo.get(f"{path}?marker={ids[0]}", "2.40").json()
    assert [s["instance_id"] for s in rest["tenant_usage"]["server_usages"]] == ids[1:]
    assert demo.get(f"{path}?marker=none", "2.40").status == 400
    assert len(demo.get(f"{path}?limit=1", "2.39").json()["tenant_usage"]["server_usages"]) == 2


def test_another_projects_usage_is_not_there(stranger: Asking, demo: Asking, project: str) -> None:
    assert stranger.get(f"/os-simple-tenant-usage/{project}").status == 404
    assert demo.get("/os-simple-tenant-usage").status == 403


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_usage_is_the_same_however_it_is_read(
    demo: Asking, project: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(usage, "AT_ONCE", at_once)
    ids = [demo.boot(name=f"vm{number}") for number in range(3)]
    demo.cloud.advance(60.0)
    path = f"/os-simple-tenant-usage/{project}"
    whole = demo.get(path, "2.40").json()["tenant_usage"]
    assert [one["instance_id"] for one in whole["server_usages"]] == ids
    assert whole["total_hours"] == pytest.approx(sum(one["hours"] for one in whole["server_usages"]))
    seen, answer = [], demo.get(f"{path}?limit=2", "2.40").json()
    assert "tenant_usage_links" in answer
    seen += [one["instance_id"] for one in answer["tenant_usage"]["server_usages"]]
    answer = demo.get(f"{path}?limit=2&marker={seen[-1]}", "2.40").json()
    assert "tenant_usage_links" not in answer
    assert [*seen, *(one["instance_id"] for one in answer["tenant_usage"]["server_usages"])] == ids
    assert demo.get(f"{path}?marker={project}", "2.40").status == 400
    assert demo.get(f"{path}?limit=0", "2.40").json() == {"tenant_usage": {}}


def test_a_page_of_usage_reads_no_more_than_it_shows(
    demo: Asking, cloud: MemoryCloud, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server more says whether others follow."""
    monkeypatch.setattr(usage, "AT_ONCE", 2)
    for number in range(5):
        demo.boot(name=f"vm{number}")
    cloud.advance(60.0)
    with counted(cloud) as work:
        demo.get(f"/os-simple-tenant-usage/{project}?limit=2", "2.40")
    assert len([statement for statement in work.statements if "FROM servers" in statement]) == 2
