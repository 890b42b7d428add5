"""Consistency groups and their snapshots: the older paths of groups of one type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete

from cloudctl.volume.tables import GroupType
from tests.statements import asked
from tests.volume.asking import LATEST, V3, at, volume

GROUPS, SNAPSHOTS = f"{V3}/consistencygroups", f"{V3}/cgsnapshots"
UNKNOWN = "3a81fdac-e8ae-4e61-b6a2-2e14ff316f19"
# What stock clients send besides.
SENT: dict[str, Any] = {"user_id": None, "project_id": None, "status": "creating"}


def ask(client: Any, method: str, url: str, body: Any = None) -> Any:
    return client.request(method, url, body, headers=at("3.0"))


@pytest.fixture
def group(demo: Any) -> str:
    wish = {"name": "g", "description": None, "volume_types": "__DEFAULT__", "availability_zone": None, **SENT}
    answer = ask(demo, "POST", GROUPS, {"consistencygroup": wish})
    assert answer.status == 202 and set(answer.json()["consistencygroup"]) == {"id", "name"}, answer
    return str(answer.json()["consistencygroup"]["id"])


@pytest.fixture
def other(admin: Any, demo: Any) -> str:
    """A group of another type."""
    type_ = admin.post(f"{V3}/group_types", {"group_type": {"name": "other"}}, headers=LATEST).json()["group_type"]
    wish = {"group_type": type_["id"], "volume_types": ["__DEFAULT__"]}
    return str(demo.post(f"{V3}/groups", {"group": wish}, headers=LATEST).json()["group"]["id"])


@pytest.fixture
def member(demo: Any, cloud: Any, group: str) -> Callable[[], str]:
    def made() -> str:
        wish = {"size": 1, "volume_type": "__DEFAULT__", "consistencygroup_id": group}
        answer = ask(demo, "POST", f"{V3}/volumes", {"volume": wish})
        assert answer.status == 202 and answer.json()["volume"]["consistencygroup_id"] == group, answer
        cloud.settle()
        return str(answer.json()["volume"]["id"])

    return made


@pytest.fixture
def frozen(demo: Any, cloud: Any, group: str, member: Callable[[], str]) -> str:
    """The snapshot of a group with two volumes."""
    member(), member()
    wish = {"consistencygroup_id": group, "name": "s", "description": None, **SENT}
    answer = ask(demo, "POST", SNAPSHOTS, {"cgsnapshot": wish})
    assert answer.status == 202 and set(answer.json()["cgsnapshot"]) == {"id", "name"}, answer
    cloud.settle()
    return str(answer.json()["cgsnapshot"]["id"])


def test_a_group_is_shown_and_listed(demo: Any, stranger: Any, group: str, other: str) -> None:
    default = demo.get(f"{V3}/types/default").json()["volume_type"]["id"]
    shown = ask(demo, "GET", f"{GROUPS}/{group}").json()["consistencygroup"]
    assert shown.pop("created_at")
    assert shown == {
        "id": group, "status": "available", "availability_zone": "nova", "name": "g", "description": None,
        "volume_types": [default],
    }  # fmt: skip
    assert ask(demo, "GET", GROUPS).json() == {"consistencygroups": [{"id": group, "name": "g"}]}
    (detailed,) = ask(demo, "GET", f"{GROUPS}/detail?name=g&status=available").json()["consistencygroups"]
    assert detailed["volume_types"] == [default]
    page = ask(demo, "GET", f"{GROUPS}?limit=1").json()
    assert [each["rel"] for each in page["consistencygroup_links"]] == ["next"]
    assert {each["id"] for each in demo.get(f"{V3}/groups", headers=LATEST).json()["groups"]} == {group, other}
    for client, id in ((demo, UNKNOWN), (demo, other), (stranger, group)):
        answer = ask(client, "GET", f"{GROUPS}/{id}")
        assert answer.json()["itemNotFound"]["message"] == f"ConsistencyGroup {id} could not be found."


def test_types_are_named_or_refused(demo: Any, admin: Any) -> None:
    one, two = (
        admin.post(f"{V3}/types", {"volume_type": {"name": name}}).json()["volume_type"]["id"]
        for name in ("one", "two")
    )
    made = ask(demo, "POST", GROUPS, {"consistencygroup": {"volume_types": f"one, {two},one"}}).json()
    shown = ask(demo, "GET", f"{GROUPS}/{made['consistencygroup']['id']}").json()["consistencygroup"]
    assert shown["volume_types"] == [one, two]
    for wish, status in (({}, 400), ({"volume_types": " "}, 400), ({"volume_types": ","}, 400)):
        assert ask(demo, "POST", GROUPS, {"consistencygroup": wish}).status == status
    assert ask(demo, "POST", GROUPS, {"consistencygroup": {"volume_types": "none such"}}).status == 404


def test_volumes_come_and_go(demo: Any, make: Any, group: str, other: str, member: Callable[[], str]) -> None:
    inside, id = member(), make()["id"]
    one = f"{GROUPS}/{group}"
    for url, wish in (
        (f"{one}/update", {"name": "new", "description": "d", "add_volumes": id, "remove_volumes": inside}),
        (one, {"add_volumes": inside, "remove_volumes": None}),  # as the library of the stock client does it
    ):
        answer = ask(demo, "PUT", url, {"consistencygroup": wish})
        assert (answer.status, answer.body) == (202, b""), answer
    assert ask(demo, "GET", one).json()["consistencygroup"]["name"] == "new"
    elsewhere = make()["id"]
    wish = {"group": {"add_volumes": elsewhere}}
    assert demo.put(f"{V3}/groups/{other}", wish, headers=LATEST).status == 202
    with asked() as statements:
        found = ask(demo, "GET", f"{V3}/volumes/detail").json()["volumes"]
    assert {each["id"]: each["consistencygroup_id"] for each in found} == {id: group, inside: group, elsewhere: None}
    assert len([text for text, _ in statements if "volume_group_types" in text]) == 1
    assert [volume(demo, each)["consistencygroup_id"] for each in (id, elsewhere)] == [group, None]
    for url, wish in ((one, {}), (one, {"remove_volumes": elsewhere})):
        assert ask(demo, "PUT", f"{url}/update", {"consistencygroup": wish}).status == 400
    assert ask(demo, "PUT", f"{GROUPS}/{other}/update", {"consistencygroup": {"name": "x"}}).status == 404


def test_a_volume_asks_for_one_group_of_that_kind(demo: Any, group: str, other: str) -> None:
    wish = {"size": 1, "volume_type": "__DEFAULT__"}
    for more, status in (
        ({"consistencygroup_id": other}, 404),
        ({"consistencygroup_id": group, "group_id": group}, 400),
        ({"consistencygroup_id": group, "volume_type": None}, 400),
    ):
        assert demo.post(f"{V3}/volumes", {"volume": {**wish, **more}}, headers=LATEST).status == status


@pytest.mark.parametrize("key", ["consistencygroup", "consistency_group"])  # as cinderclient and openstacksdk call it
def test_a_group_goes_with_its_volumes_only_by_force(
    demo: Any, stranger: Any, cloud: Any, group: str, other: str, member: Callable[[], str], key: str
) -> None:
    id, body = member(), {key: {"force": False}}
    assert ask(demo, "POST", f"{GROUPS}/{group}/delete", body).status == 409
    assert ask(stranger, "POST", f"{GROUPS}/{group}/delete", body).status == 404
    assert ask(demo, "POST", f"{GROUPS}/{other}/delete", body).status == 404
    assert ask(demo, "POST", f"{GROUPS}/{group}/delete", {key: {"force": "True"}}).status == 202
    cloud.settle()
    assert [ask(demo, "GET", url).status for url in (f"{GROUPS}/{group}", f"{V3}/volumes/{id}")] == [404, 404]


def test_a_snapshot_is_of_one_moment(
    demo: Any, stranger: Any, cloud: Any, backend: Any, group: str, other: str, frozen: str, make: Any
) -> None:
    assert (backend.behaviour.calls["ensure_snapshots"], backend.behaviour.calls["ensure_snapshot"]) == (1, 0)
    one = f"{SNAPSHOTS}/{frozen}"
    shown = ask(demo, "GET", one).json()["cgsnapshot"]
    assert shown.pop("created_at")
    assert shown == {
        "id": frozen, "consistencygroup_id": group, "status": "available", "name": "s", "description": None,
    }  # fmt: skip
    elsewhere = make()["id"]
    demo.put(f"{V3}/groups/{other}", {"group": {"add_volumes": elsewhere}}, headers=LATEST)
    wish = {"group_snapshot": {"group_id": other}}
    foreign = demo.post(f"{V3}/group_snapshots", wish, headers=LATEST).json()["group_snapshot"]["id"]
    assert ask(demo, "GET", SNAPSHOTS).json() == {"cgsnapshots": [{"id": frozen, "name": "s"}]}
    (detailed,) = ask(demo, "GET", f"{SNAPSHOTS}/detail?consistencygroup_id={group}").json()["cgsnapshots"]
    assert detailed["status"] == "available"
    assert ask(demo, "GET", f"{SNAPSHOTS}/detail?consistencygroup_id={other}").json()["cgsnapshots"] == []
    assert "cgsnapshot_links" in ask(demo, "GET", f"{SNAPSHOTS}?limit=1").json()
    for client, id in ((demo, UNKNOWN), (demo, foreign), (stranger, frozen)):
        for method in ("GET", "DELETE"):
            answer = ask(client, method, f"{SNAPSHOTS}/{id}")
            assert answer.json()["itemNotFound"]["message"] == f"CgSnapshot {id} could not be found."
    refused = ask(demo, "POST", SNAPSHOTS, {"cgsnapshot": {"consistencygroup_id": other}})
    assert refused.json()["itemNotFound"]["message"] == f"ConsistencyGroup {other} could not be found."
    assert ask(demo, "POST", f"{GROUPS}/{group}/delete", {"consistencygroup": {"force": True}}).status == 409
    assert ask(demo, "DELETE", one).status == 202
    cloud.settle()
    assert (ask(demo, "GET", one).status, backend.frozen.get(frozen)) == (404, None)


def test_a_group_is_copied(demo: Any, cloud: Any, group: str, other: str, frozen: str) -> None:
    url, key = f"{GROUPS}/create_from_src", "consistencygroup-from-src"
    for source in ({"cgsnapshot_id": frozen, "source_cgid": None}, {"cgsnapshot_id": None, "source_cgid": group}):
        made = ask(demo, "POST", url, {key: {"name": "copy", "description": None, **source, **SENT}})
        assert made.status == 202, made
        id = made.json()["consistencygroup"]["id"]
        assert made.json() == {"consistencygroup": {"id": id, "name": "copy"}}
        cloud.settle()
        found = ask(demo, "GET", f"{V3}/volumes/detail").json()["volumes"]
        assert [each["status"] for each in found if each["consistencygroup_id"] == id] == ["available"] * 2
    both = {"cgsnapshot_id": frozen, "source_cgid": group}
    for wish, status in (({}, 400), (both, 400), ({"source_cgid": other}, 404), ({"cgsnapshot_id": UNKNOWN}, 404)):
        assert ask(demo, "POST", url, {key: wish}).status == status


def test_a_cloud_that_is_older_than_the_type_gets_it(admin: Any, demo: Any, cloud: Any) -> None:
    types = f"{V3}/group_types"
    assert [each["name"] for each in demo.get(types, headers=LATEST).json()["group_types"]] == [
        "default_cgsnapshot_type"
    ]
    cloud.transact(lambda conn: conn.execute(delete(GroupType)))
    assert ask(demo, "GET", GROUPS).json() == {"consistencygroups": []}
    for _ in range(2):
        assert ask(demo, "POST", GROUPS, {"consistencygroup": {"volume_types": "__DEFAULT__"}}).status == 202
    (made,) = admin.get(types, headers=LATEST).json()["group_types"]
    assert (made["name"], made["is_public"]) == ("default_cgsnapshot_type", True)
    assert made["group_specs"] == {"consistent_group_snapshot_enabled": "<is> True"}
