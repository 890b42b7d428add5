"""Groups of volumes, their types and their snapshots, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, InUse
from tests.statements import asked
from tests.volume.asking import LATEST, V3, at, volume

TYPES, GROUPS, SNAPSHOTS = f"{V3}/group_types", f"{V3}/groups", f"{V3}/group_snapshots"


def ask(client: Any, method: str, url: str, body: Any = None, version: str = "3.71") -> Any:
    return client.request(method, url, body, headers=at(version))


@pytest.fixture
def together(admin: Any) -> str:
    """A group type."""
    wish = {"name": "together", "group_specs": {"a": "b"}}
    return str(ask(admin, "POST", TYPES, {"group_type": wish}).json()["group_type"]["id"])


@pytest.fixture
def group(demo: Any, together: str) -> str:
    default = demo.get(f"{V3}/types/default").json()["volume_type"]["id"]
    wish = {"name": "g", "group_type": together, "volume_types": [default]}
    answer = ask(demo, "POST", GROUPS, {"group": wish})
    assert answer.status == 202 and set(answer.json()["group"]) == {"id", "name"}, answer
    return str(answer.json()["group"]["id"])


@pytest.fixture
def member(demo: Any, cloud: Any, group: str) -> Callable[[], str]:
    def made() -> str:
        wish = {"size": 1, "volume_type": "__DEFAULT__", "group_id": group}
        answer = ask(demo, "POST", f"{V3}/volumes", {"volume": wish})
        assert answer.status == 202 and answer.json()["volume"]["group_id"] == group, answer
        cloud.settle()
        return str(answer.json()["volume"]["id"])

    return made


def test_group_types_live_and_go(admin: Any, demo: Any, together: str) -> None:
    one = f"{TYPES}/{together}"
    shown = {"id": together, "name": "together", "description": None, "is_public": True}
    assert ask(admin, "GET", one).json() == {"group_type": {**shown, "group_specs": {"a": "b"}}}
    assert ask(demo, "GET", one).json() == {"group_type": shown}
    listed = ask(demo, "GET", TYPES).json()["group_types"]
    assert [each for each in listed if each["name"] != "default_cgsnapshot_type"] == [shown]
    assert ask(admin, "POST", TYPES, {"group_type": {"name": "together"}}).status == 409
    assert ask(admin, "PUT", one, {"group_type": {"is_public": False}}).json()["group_type"]["is_public"] is False
    assert ask(admin, "PUT", one, {"group_type": {}}).status == 400
    assert ask(demo, "GET", one).status == 404
    assert ask(demo, "POST", TYPES, {"group_type": {"name": "x"}}).status == 403
    for query, there in (("", False), ("?is_public=true", False), ("?is_public=none", True)):
        listed = ask(admin, "GET", f"{TYPES}{query}").json()["group_types"]
        assert (together in [each["id"] for each in listed]) is there
    assert ask(admin, "GET", f"{TYPES}/default").status == 404
    assert ask(admin, "GET", TYPES, version="3.10").status == 404
    assert ask(admin, "DELETE", one).status == 202
    assert ask(admin, "GET", one).status == 404


def test_null_leaves_a_group_type_as_it_is(admin: Any, together: str) -> None:
    """The stock client sends both, and null for the one that it does not change."""
    one = f"{TYPES}/{together}"
    for sent in ({"name": None, "description": "near"}, {"name": "beside", "description": None, "is_public": True}):
        answer = ask(admin, "PUT", one, {"group_type": sent})
        assert answer.status == 200, answer
    shown = ask(admin, "GET", one).json()["group_type"]
    assert (shown["name"], shown["description"]) == ("beside", "near")
    assert ask(admin, "PUT", one, {"group_type": {"name": None, "description": None}}).status == 400


def test_specs_of_group_types(admin: Any, together: str) -> None:
    every = f"{TYPES}/{together}/group_specs"
    assert ask(admin, "POST", every, {"group_specs": {"c": "d"}}).json() == {"group_specs": {"c": "d"}}
    assert ask(admin, "GET", every).json() == {"group_specs": {"a": "b", "c": "d"}}
    assert ask(admin, "PUT", f"{every}/c", {"c": "e"}).json() == {"c": "e"}
    assert ask(admin, "PUT", f"{every}/c", {"x": "e"}).status == 400
    assert ask(admin, "GET", f"{every}/c").json() == {"c": "e"}
    assert ask(admin, "DELETE", f"{every}/c").status == 202
    assert [ask(admin, method, f"{every}/c").status for method in ("GET", "DELETE")] == [404, 404]


def test_a_group_is_shown_by_versions(admin: Any, demo: Any, stranger: Any, group: str, member: Any) -> None:
    id, one = member(), f"{GROUPS}/{group}"
    first = ask(demo, "GET", one, version="3.13").json()["group"]
    assert set(first) == {
        "id", "status", "availability_zone", "created_at", "group_type", "name", "description", "volume_types",
    }  # fmt: skip
    newest = ask(demo, "GET", f"{one}?list_volume=true").json()["group"]
    assert set(newest) - set(first) == {
        "volumes", "group_snapshot_id", "source_group_id", "replication_status",
    }  # fmt: skip
    assert newest["volumes"] == [id] and "volumes" not in ask(demo, "GET", one).json()["group"]
    assert ask(demo, "GET", GROUPS).json() == {"groups": [{"id": group, "name": "g"}]}
    assert [each["id"] for each in ask(demo, "GET", f"{GROUPS}/detail").json()["groups"]] == [group]
    assert [each["id"] for each in ask(demo, "GET", f"{V3}/volumes?group_id={group}").json()["volumes"]] == [id]
    other = f"{V3}/volumes?group_id=11111111-1111-1111-1111-111111111111"
    assert [len(ask(demo, "GET", other, version=v).json()["volumes"]) for v in ("3.9", "3.10")] == [1, 0]
    assert ask(stranger, "GET", one).status == 404
    assert ask(admin, "GET", f"{GROUPS}?all_tenants=1").json()["groups"][0]["id"] == group
    assert ask(admin, "DELETE", f"{TYPES}/{first['group_type']}").status == 409


def test_a_list_of_groups_has_their_volumes_where_that_is_asked(demo: Any, admin: Any, group: str, member: Any) -> None:
    wish = {key: ask(demo, "GET", f"{GROUPS}/{group}").json()["group"][key] for key in ("group_type", "volume_types")}
    empty = ask(demo, "POST", GROUPS, {"group": {"name": "empty", **wish}}).json()["group"]["id"]
    inside = [member(), member()]
    url = f"{GROUPS}/detail?list_volume=true"
    for client in (demo, admin):
        with asked() as statements:
            found = ask(client, "GET", f"{url}&all_tenants=1").json()["groups"]
        assert {each["id"]: each["volumes"] for each in found} == {empty: [], group: inside}
        assert len([text for text, _ in statements if "volumes.group_id" in text]) == 1
    assert all("volumes" not in each for each in ask(demo, "GET", url, version="3.24").json()["groups"])
    assert len(ask(demo, "GET", f"{GROUPS}?list_volume=true").json()["groups"]) == 2


def test_volumes_come_and_go(demo: Any, make: Any, stranger: Any, group: str) -> None:
    one, id, theirs = f"{GROUPS}/{group}", make()["id"], make(client=stranger)["id"]
    change = {"group": {"name": "new", "add_volumes": id}}
    assert ask(demo, "PUT", one, change).status == 202
    assert volume(demo, id, **LATEST)["group_id"] == group
    assert ask(demo, "GET", one).json()["group"]["name"] == "new"
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    assert [ask(demo, "PUT", one, {"group": {"add_volumes": each}}).status for each in (id, theirs)] == [400, 404]
    assert ask(demo, "PUT", one, {"group": {"remove_volumes": id}}).status == 202
    assert [ask(demo, "PUT", one, {"group": {"remove_volumes": each}}).status for each in (id, theirs)] == [400, 404]
    assert ask(demo, "PUT", one, {"group": {}}).status == 400
    assert volume(demo, id, **LATEST)["group_id"] is None


def test_a_volume_of_a_group_has_one_of_its_types(demo: Any, admin: Any, group: str) -> None:
    admin.post(f"{V3}/types", {"volume_type": {"name": "other"}})
    for more in ({}, {"volume_type": "other"}):
        wish = {"size": 1, "group_id": group, **more}
        assert ask(demo, "POST", f"{V3}/volumes", {"volume": wish}).status == 400


def test_a_group_goes_with_its_volumes_or_not_at_all(demo: Any, cloud: Any, group: str, member: Any) -> None:
    id, one = member(), f"{GROUPS}/{group}"
    assert ask(demo, "POST", f"{one}/action", {"delete": {"delete-volumes": False}}).status == 409
    assert ask(demo, "POST", f"{one}/action", {"delete": {"delete-volumes": True}}).status == 202
    assert ask(demo, "GET", one).json()["group"]["status"] == "deleting"
    assert (volume(demo, id, **LATEST)["status"], volume(demo, id, **LATEST)["group_id"]) == ("deleting", group)
    assert ask(demo, "POST", f"{one}/action", {"delete": {"delete-volumes": True}}).status == 409
    cloud.settle()
    assert [ask(demo, "GET", url).status for url in (one, f"{V3}/volumes/{id}")] == [404, 404]


def test_a_group_of_which_a_volume_stays_is_in_error_and_deleted_again(
    demo: Any, cloud: Any, backend: Any, group: str, member: Any
) -> None:
    member(), member()
    backend.behaviour.fail("ensure_absent", error=DriverError("it is broken"))
    one, deletion = f"{GROUPS}/{group}", {"delete": {"delete-volumes": True}}
    assert ask(demo, "POST", f"{one}/action", deletion).status == 202
    cloud.settle()
    assert ask(demo, "GET", one).json()["group"]["status"] == "error"
    (left,) = ask(demo, "GET", f"{V3}/volumes/detail?group_id={group}").json()["volumes"]
    assert left["status"] == "error_deleting"
    assert ask(demo, "DELETE", f"{V3}/volumes/{left['id']}").status == 409
    assert ask(demo, "POST", f"{one}/action", deletion).status == 202
    cloud.settle()
    assert [ask(demo, "GET", url).status for url in (one, f"{V3}/volumes/{left['id']}")] == [404, 404]


def test_a_group_is_frozen_and_copied(demo: Any, cloud: Any, group: str, member: Any) -> None:
    ids = {member(), member()}
    made = ask(demo, "POST", SNAPSHOTS, {"group_snapshot": {"group_id": group, "name": "s"}})
    assert made.status == 202 and set(made.json()["group_snapshot"]) == {"id", "name", "group_type_id"}, made
    one = f"{SNAPSHOTS}/{made.json()['group_snapshot']['id']}"
    assert ask(demo, "GET", one).json()["group_snapshot"]["status"] == "creating"
    assert ask(demo, "DELETE", one).status == 409
    cloud.settle()
    assert ask(demo, "GET", one).json()["group_snapshot"]["status"] == "available"
    frozen = ask(demo, "GET", f"{V3}/snapshots/detail").json()["snapshots"]
    assert {each["volume_id"] for each in frozen} == ids
    assert {each["group_snapshot_id"] for each in frozen} == {one.rpartition("/")[2]}
    assert demo.delete(f"{V3}/snapshots/{frozen[0]['id']}").status == 409
    assert ask(demo, "POST", f"{GROUPS}/{group}/action", {"delete": {"delete-volumes": True}}).status == 409
    for source in ({"group_snapshot_id": one.rpartition("/")[2]}, {"source_group_id": group}):
        copy = ask(demo, "POST", f"{GROUPS}/action", {"create-from-src": {"name": "copy", **source}})
        assert copy.status == 202, copy
        cloud.settle()
        found = ask(demo, "GET", f"{V3}/volumes/detail?group_id={copy.json()['group']['id']}").json()["volumes"]
        assert [each["status"] for each in found] == ["available", "available"]
    assert ask(demo, "POST", f"{GROUPS}/action", {"create-from-src": {}}).status == 400
    assert ask(demo, "DELETE", one).status == 202
    cloud.settle()
    assert ask(demo, "GET", one).status == 404
    assert ask(demo, "GET", f"{V3}/snapshots").json()["snapshots"] == []


def test_one_failure_is_that_of_the_whole(demo: Any, cloud: Any, backend: Any, group: str, member: Any) -> None:
    member(), member()
    backend.behaviour.fail("ensure_snapshot", error=DriverError("it is broken"))
    made = ask(demo, "POST", SNAPSHOTS, {"group_snapshot": {"group_id": group}}).json()["group_snapshot"]["id"]
    cloud.settle()
    assert ask(demo, "GET", f"{SNAPSHOTS}/{made}").json()["group_snapshot"]["status"] == "error"
    assert ask(demo, "DELETE", f"{SNAPSHOTS}/{made}").status == 202
    cloud.settle()
    assert ask(demo, "GET", f"{SNAPSHOTS}/{made}").status == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [(InUse("a volume depends on it"), "available"), (DriverError("it is broken"), "error_deleting")],
)
def test_a_group_snapshot_of_which_one_stays_is_deleted_again(
    demo: Any, cloud: Any, backend: Any, group: str, member: Any, error: DriverError, status: str
) -> None:
    member(), member()
    made = ask(demo, "POST", SNAPSHOTS, {"group_snapshot": {"group_id": group}}).json()["group_snapshot"]["id"]
    url = f"{SNAPSHOTS}/{made}"
    cloud.settle()
    backend.behaviour.fail("ensure_snapshot_absent", error=error)
    assert ask(demo, "DELETE", url).status == 202
    cloud.settle()
    assert ask(demo, "GET", url).json()["group_snapshot"]["status"] == "error_deleting"
    (left,) = demo.get(f"{V3}/snapshots/detail").json()["snapshots"]
    assert left["status"] == status
    assert ask(demo, "DELETE", url).status == 202
    cloud.settle()
    assert ask(demo, "GET", url).status == 404


def test_what_no_backend_can_do_is_refused(admin: Any, demo: Any, group: str) -> None:
    for action in ("enable_replication", "disable_replication", "list_replication_targets"):
        assert ask(admin, "POST", f"{GROUPS}/{group}/action", {action: None}).status == 400
    assert ask(admin, "POST", f"{GROUPS}/{group}/action", {"failover_replication": {}}).status == 400
    assert ask(demo, "POST", SNAPSHOTS, {"group_snapshot": {"group_id": group}}).status == 400  # it is empty


def test_statuses_are_set_by_hand(admin: Any, demo: Any, group: str) -> None:
    action = f"{GROUPS}/{group}/action"
    assert ask(demo, "POST", action, {"reset_status": {"status": "error"}}).status == 403
    assert ask(admin, "POST", action, {"reset_status": {"status": "x"}}).status == 400
    assert ask(admin, "POST", action, {"reset_status": {"status": "error"}}).status == 202
    assert ask(demo, "GET", f"{GROUPS}/{group}").json()["group"]["status"] == "error"


def test_whose_a_group_is_only_administrators_see(admin: Any, demo: Any, group: str, member: Any) -> None:
    member()
    wish = {"group_snapshot": {"group_id": group}}
    snapshot = ask(demo, "POST", SNAPSHOTS, wish).json()["group_snapshot"]["id"]
    for key, one in (("group", f"{GROUPS}/{group}"), ("group_snapshot", f"{SNAPSHOTS}/{snapshot}")):
        assert "project_id" not in ask(demo, "GET", one).json()[key]
        assert "project_id" not in ask(admin, "GET", one, version="3.57").json()[key]
        assert ask(admin, "GET", one, version="3.58").json()[key]["project_id"]


def test_groups_have_a_quota(admin: Any, demo: Any, group: str) -> None:
    project = ask(admin, "GET", f"{GROUPS}/{group}").json()["group"]["project_id"]
    admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": {"groups": 1}})
    used = demo.get(f"{V3}/os-quota-sets/{project}?usage=true").json()["quota_set"]["groups"]
    assert used == {"limit": 1, "in_use": 1, "reserved": 0}
    wish = {"group_type": ask(demo, "GET", f"{GROUPS}/{group}").json()["group"]["group_type"]}
    answer = ask(demo, "POST", GROUPS, {"group": {**wish, "volume_types": ["__DEFAULT__"]}})
    assert answer.status == 413 and "exceed" in answer.json()["overLimit"]["message"]
