"""Unified limits and stored policies: identity.md, sections 9 and 10."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.identity import limits


@pytest.fixture
def admin(keystone: Any) -> str:
    token: str = keystone.admin()
    return token


@pytest.fixture
def service(keystone: Any, admin: str) -> str:
    found: str = keystone.ask("GET", "/services?type=compute", token=admin).json()["services"][0]["id"]
    return found


def post(keystone: Any, token: str, collection: str, *items: Any) -> Any:
    return keystone.ask("POST", f"/{collection}", {collection: list(items)}, token)


@pytest.fixture
def registered(keystone: Any, admin: str, service: str) -> Any:
    item = {"service_id": service, "resource_name": "cores", "default_limit": 20}
    response = post(keystone, admin, "registered_limits", item)
    assert response.status == 201, response
    return response.json()["registered_limits"][0]


@pytest.mark.parametrize("one", [True, False])
def test_a_limit_that_goes_while_it_is_read_is_not_shown(
    keystone: Any, admin: str, service: str, registered: Any, monkeypatch: pytest.MonkeyPatch, one: bool
) -> None:
    """With PostgreSQL each read sees what is there by then."""
    limit = {"service_id": service, "resource_name": "cores", "resource_limit": 1}
    limit["project_id"] = keystone.made.demo_project_id
    made = post(keystone, admin, "limits", limit).json()["limits"][0]
    # As if both had been deleted after the first read.
    monkeypatch.setattr(limits, "registered_of", lambda conn, rows: {})
    answer = keystone.ask("GET", f"/limits/{made['id']}" if one else "/limits", token=admin)
    assert (answer.status, answer.json().get("limits")) == ((404, None) if one else (200, []))


def test_registered_limits_are_made_together_or_not_at_all(keystone: Any, admin: str, service: str) -> None:
    good = {"service_id": service, "resource_name": "cores", "default_limit": -1, "region_id": "RegionOne"}
    for bad, status in (
        (good, 409),
        ({**good, "service_id": "unknown", "resource_name": "x"}, 400),
        ({**good, "region_id": "unknown", "resource_name": "x"}, 400),
        ({**good, "default_limit": -2}, 400),
        ({**good, "default_limit": 2**31}, 400),
        ({**good, "resource_name": ""}, 400),
    ):
        assert post(keystone, admin, "registered_limits", good, bad).status == status
        assert keystone.ask("GET", "/registered_limits", token=admin).json()["registered_limits"] == []
    assert post(keystone, admin, "registered_limits").status == 400
    (made,) = post(keystone, admin, "registered_limits", good).json()["registered_limits"]
    assert (made["region_id"], made["default_limit"], made["description"]) == ("RegionOne", -1, None)


def test_a_registered_limit_is_changed_and_while_in_use_only_its_default(
    keystone: Any, admin: str, service: str, registered: Any
) -> None:
    path = f"/registered_limits/{registered['id']}"
    change = {"registered_limit": {"default_limit": 5, "resource_name": "ram"}}
    assert keystone.ask("PATCH", path, change, admin).json()["registered_limit"]["resource_name"] == "ram"
    limit = {"service_id": service, "resource_name": "ram", "resource_limit": 1}
    limit["project_id"] = keystone.made.demo_project_id
    made = post(keystone, admin, "limits", limit).json()["limits"][0]
    assert keystone.ask("PATCH", path, change, admin).status == 403
    assert keystone.ask("PATCH", path, {"registered_limit": {"default_limit": 6}}, admin).status == 200
    assert keystone.ask("DELETE", path, token=admin).status == 403
    assert keystone.ask("DELETE", f"/limits/{made['id']}", token=admin).status == 204
    assert keystone.ask("DELETE", path, token=admin).status == 204


def test_a_registered_limit_outlives_its_service(keystone: Any, admin: str) -> None:
    service = keystone.make(admin, "services", "service", type="test", name="test")["id"]
    item = {"service_id": service, "resource_name": "x", "default_limit": 1}
    (made,) = post(keystone, admin, "registered_limits", item).json()["registered_limits"]
    assert keystone.ask("DELETE", f"/services/{service}", token=admin).status == 204
    path = f"/registered_limits/{made['id']}"
    assert keystone.ask("GET", path, token=admin).json()["registered_limit"] == made
    assert keystone.ask("DELETE", path, token=admin).status == 204


def test_a_limit_is_for_a_project_or_a_domain_and_needs_a_registered_one(
    keystone: Any, admin: str, service: str, registered: Any
) -> None:
    good = {"service_id": service, "resource_name": "cores", "resource_limit": 10}
    project = {"project_id": keystone.made.demo_project_id}
    for bad, status in (
        (good, 400),
        ({**good, **project, "domain_id": "default"}, 400),
        ({**good, "project_id": "unknown"}, 404),
        ({**good, "project_id": "default"}, 404),
        ({**good, "domain_id": keystone.made.demo_project_id}, 404),
        ({**good, **project, "resource_name": "other"}, 403),
        ({**good, **project, "region_id": "RegionOne"}, 403),
    ):
        assert post(keystone, admin, "limits", bad).status == status
    (made,) = post(keystone, admin, "limits", {**good, **project}).json()["limits"]
    assert (made["project_id"], made["domain_id"], made["resource_limit"]) == (project["project_id"], None, 10)
    assert post(keystone, admin, "limits", {**good, **project}).status == 409
    path = f"/limits/{made['id']}"
    updated = keystone.ask("PATCH", path, {"limit": {"resource_limit": 11}}, admin).json()["limit"]
    assert updated["resource_limit"] == 11


def test_a_project_sees_its_own_limits(keystone: Any, admin: str, service: str, registered: Any) -> None:
    good = {"service_id": service, "resource_name": "cores", "resource_limit": 10}
    ids = (keystone.made.demo_project_id, keystone.made.admin_project_id)
    made = post(keystone, admin, "limits", *({**good, "project_id": id} for id in ids)).json()["limits"]
    demo = keystone.login("demo", scope="demo")
    assert keystone.ask("GET", "/limits", token=demo).json()["limits"] == [made[0]]
    assert keystone.ask("GET", f"/limits?project_id={ids[1]}", token=demo).json()["limits"] == []
    assert len(keystone.ask("GET", "/limits?resource_name=cores", token=admin).json()["limits"]) == 2
    assert keystone.ask("GET", "/limits?resource_name=x", token=admin).json()["limits"] == []
    assert [keystone.ask("GET", f"/limits/{one['id']}", token=demo).status for one in made] == [200, 403]
    assert keystone.ask("GET", "/limits", token=keystone.login("demo")).json()["limits"] == []
    assert keystone.ask("GET", "/limits/model", token=demo).json()["model"]["name"] == "flat"
    assert post(keystone, demo, "limits", {**good, "project_id": ids[0]}).status == 403


def test_a_domain_sees_the_limits_of_its_projects(keystone: Any, admin: str, service: str, registered: Any) -> None:
    good = {"service_id": service, "resource_name": "cores", "resource_limit": 10}
    domain = keystone.make(admin, "domains", "domain", name="other")["id"]
    project = keystone.make(admin, "projects", "project", name="p", domain_id=domain)["id"]
    owners = ({"domain_id": domain}, {"project_id": project}, {"project_id": keystone.made.demo_project_id})
    made = post(keystone, admin, "limits", *({**good, **owner} for owner in owners)).json()["limits"]
    keystone.make_user("reads", "reader", "domains", domain)
    token = keystone.login("reads", scope={"domain": {"id": domain}})
    seen = keystone.ask("GET", "/limits", token=token).json()["limits"]
    assert sorted(one["id"] for one in seen) == sorted(one["id"] for one in made[:2])
    assert keystone.ask("GET", f"/limits?project_id={project}", token=token).json()["limits"] == [made[1]]
    assert [keystone.ask("GET", f"/limits/{one['id']}", token=token).status for one in made] == [200, 200, 403]


def test_policies_are_kept_as_they_are(keystone: Any, admin: str) -> None:
    made = keystone.make(admin, "policies", "policy", type="application/json", blob='{"a": "b"}', note=1)
    path = f"/policies/{made['id']}"
    assert keystone.ask("GET", path, token=admin).json()["policy"] == made
    assert keystone.ask("GET", "/policies?type=application/json", token=admin).json()["policies"] == [made]
    updated = keystone.ask("PATCH", path, {"policy": {"type": "text/plain"}}, admin).json()["policy"]
    assert (updated["type"], updated["blob"], updated["note"]) == ("text/plain", '{"a": "b"}', 1)
    assert keystone.ask("DELETE", path, token=admin).status == 204
    assert keystone.ask("GET", path, token=admin).status == 404
