"""Attachments over HTTP, and those of the compute service. Reference: volume-states.md, section 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.db.columns import utc
from cloudctl.drivers.errors import DriverError
from cloudctl.errors import Conflict, NotFound
from cloudctl.volume import attachments
from cloudctl.volume.api.attaching import MOST_HOSTS
from tests.volume.asking import LATEST, V3, act, at, volume

SERVER = "1f2d3c4b-5a69-4788-9a0b-1c2d3e4f5061"
OTHER = "2f2d3c4b-5a69-4788-9a0b-1c2d3e4f5062"
URL = f"{V3}/attachments"


def reserve(client: Any, volume_id: str, version: str = "3.71", **fields: Any) -> Any:
    asked = {"volume_uuid": volume_id, "instance_uuid": SERVER, **fields}
    return client.post(URL, {"attachment": asked}, headers=at(version))


def test_from_a_reservation_to_the_end(make: Any, cloud: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    answer = reserve(demo, id)
    assert answer.status == 200
    made = answer.json()["attachment"]
    assert made == {
        "id": made["id"], "status": "reserved", "instance": SERVER, "volume_id": id, "attached_at": "",
        "detached_at": "", "attach_mode": "rw", "connection_info": {},
    }  # fmt: skip
    assert volume(demo, id)["status"] == "reserved" and volume(demo, id)["attachments"] == []

    one = f"{URL}/{made['id']}"
    connector = {"host": "h1", "mountpoint": "/dev/vdb", "mode": "rw"}
    assert demo.post(f"{one}/action", {"os-complete": None}, headers=LATEST).status == 409
    answer = demo.put(one, {"attachment": {"connector": connector}}, headers=LATEST)
    info = answer.json()["attachment"]["connection_info"]
    assert (answer.status, info["driver_volume_type"], info["attachment_id"]) == (200, "fake", made["id"])
    assert backend.volumes.get(id).hosts == ("h1",)
    assert volume(demo, id)["status"] == "attaching"

    assert demo.post(f"{one}/action", {"os-complete": None}, headers=at("3.43")).status == 404
    assert demo.post(f"{one}/action", {"os-complete": None}, headers=at("3.44")).status == 204
    (attached,) = volume(demo, id)["attachments"]
    assert (volume(demo, id)["status"], attached["attachment_id"]) == ("in-use", made["id"])
    assert (attached["device"], attached["server_id"]) == ("/dev/vdb", SERVER)
    assert demo.get(one, headers=LATEST).json()["attachment"]["status"] == "attached"

    answer = demo.delete(one, headers=LATEST)
    assert (answer.status, answer.json()) == (200, {"attachments": []})
    cloud.settle()
    assert volume(demo, id)["status"] == "available"
    assert backend.volumes.get(id).hosts == ()
    missing = demo.get(one, headers=LATEST)
    assert missing.status == 404
    assert f"attachment_id = {made['id']}" in missing.json()["itemNotFound"]["message"]


def test_attachments_came_with_3_27_and_their_mode_with_3_54(make: Any, demo: Any) -> None:
    id = make()["id"]
    assert reserve(demo, id, "3.26").status == 404
    assert reserve(demo, id, "3.53", mode="ro").status == 400
    assert reserve(demo, id, "3.54", mode="ro").json()["attachment"]["attach_mode"] == "ro"


def test_a_reserved_volume_is_not_reserved_for_another_server(make: Any, demo: Any) -> None:
    id = make()["id"]
    reserve(demo, id)
    refused = reserve(demo, id, instance_uuid=OTHER)
    assert refused.status == 409
    assert "must be available or downloading to reserve" in refused.json()["conflictingRequest"]["message"]
    assert demo.delete(f"{V3}/volumes/{id}").status == 409


def test_a_reservation_without_a_host_ends_at_once(make: Any, demo: Any) -> None:
    id = make()["id"]
    made = reserve(demo, id).json()["attachment"]["id"]
    assert demo.delete(f"{URL}/{made}", headers=LATEST).status == 200
    assert volume(demo, id)["status"] == "available"


def test_a_connection_that_fails_leaves_the_volume_free(make: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("connect", error=DriverError("no"))
    assert reserve(demo, id, connector={"host": "h1"}).status == 503
    assert volume(demo, id)["status"] == "available"
    (left,) = demo.get(URL, headers=LATEST).json()["attachments"]
    assert left["status"] == "error_attaching"
    assert reserve(demo, id, connector={"host": "h1"}).status == 200


def test_an_attachment_that_failed_keeps_no_other_server_from_the_volume(make: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("connect")
    assert reserve(demo, id, connector={"host": "h1"}).status == 503
    other = reserve(demo, id, instance_uuid=OTHER).json()["attachment"]["id"]
    body = {"attachment": {"connector": {"host": "h2"}}}
    assert demo.put(f"{URL}/{other}", body, headers=LATEST).status == 200
    assert (backend.volumes.get(id).hosts, volume(demo, id)["status"]) == (("h2",), "attaching")


def test_a_connection_that_failed_is_tried_again_with_the_same_host(make: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    one = f"{URL}/{reserve(demo, id).json()['attachment']['id']}"
    mine, others = ({"attachment": {"connector": {"host": host}}} for host in ("h1", "h2"))
    # The backend's answer is lost: the host may be connected.
    backend.behaviour.fail("connect", after=True)
    answer = demo.put(one, mine, headers=LATEST)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert demo.put(one, others, headers=LATEST).status == 409
    assert demo.put(one, mine, headers=LATEST).json()["attachment"]["connection_info"] != {}
    assert demo.post(f"{one}/action", {"os-complete": None}, headers=LATEST).status == 204
    assert (backend.volumes.get(id).hosts, volume(demo, id)["status"]) == (("h1",), "in-use")


def test_a_connection_that_failed_is_not_tried_again_once_another_server_has_the_volume(
    make: Any, cloud: Any, demo: Any, backend: Any
) -> None:
    id = make()["id"]
    one = f"{URL}/{reserve(demo, id).json()['attachment']['id']}"
    body = {"attachment": {"connector": {"host": "h1"}}}
    backend.behaviour.fail("connect", after=True)
    demo.put(one, body, headers=LATEST)
    reserve(demo, id, instance_uuid=OTHER)
    assert demo.put(one, body, headers=LATEST).status == 409
    # It ends like any other, and its host with it.
    assert demo.delete(one, headers=LATEST).status == 200
    cloud.settle()
    assert (backend.volumes.get(id).hosts, volume(demo, id)["status"]) == ((), "reserved")


@pytest.fixture
def meanwhile(backend: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`meanwhile(fn)`: `fn()` is done once the backend was asked to connect a host, before it does."""

    def set_up(fn: Callable[[], Any]) -> None:
        connect = type(backend).connect

        async def late(self: Any, *args: str) -> Any:
            monkeypatch.undo()
            fn()
            return await connect(self, *args)

        monkeypatch.setattr(type(backend), "connect", late)

    return set_up


@pytest.mark.parametrize("has_left", [True, False])
def test_an_attachment_that_ends_while_its_host_is_being_connected_leaves_no_connection(
    make: Any, cloud: Any, demo: Any, backend: Any, meanwhile: Any, has_left: bool
) -> None:
    id = make()["id"]
    one = f"{URL}/{reserve(demo, id).json()['attachment']['id']}"

    def end() -> None:
        assert demo.delete(one, headers=LATEST).status == 200
        if has_left:
            cloud.settle()

    meanwhile(end)
    answer = demo.put(one, {"attachment": {"connector": {"host": "h1"}}}, headers=LATEST)
    assert answer.status == (404 if has_left else 200)
    assert backend.volumes.get(id).hosts == ()
    cloud.settle()
    assert backend.volumes.get(id).hosts == () and volume(demo, id)["status"] == "available"


def test_an_attachment_that_is_ended_stays_detaching_whatever_comes_of_its_connection(
    make: Any, cloud: Any, demo: Any, backend: Any, meanwhile: Any, do: Any
) -> None:
    id = make()["id"]
    made = reserve(demo, id).json()["attachment"]["id"]

    def end() -> None:
        assert demo.delete(f"{URL}/{made}", headers=LATEST).status == 200
        backend.behaviour.fail("connect", error=DriverError("no"))

    meanwhile(end)
    answer = demo.put(f"{URL}/{made}", {"attachment": {"connector": {"host": "h1"}}}, headers=LATEST)
    assert (answer.status, volume(demo, id)["status"]) == (503, "detaching")
    do(attachments.complete, made, None, None)
    assert demo.get(f"{URL}/{made}", headers=LATEST).json()["attachment"]["status"] == "detaching"
    cloud.settle()
    assert volume(demo, id)["status"] == "available"


def test_a_host_that_another_attachment_needs_stays_connected_when_one_ends_meanwhile(
    make: Any, cloud: Any, demo: Any, admin: Any, backend: Any, meanwhile: Any
) -> None:
    admin.post(f"{V3}/types", {"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}})
    id = make(volume_type="shared")["id"]
    other = reserve(demo, id, connector={"host": "h1"}).json()["attachment"]["id"]
    demo.post(f"{URL}/{other}/action", {"os-complete": None}, headers=LATEST)
    one = f"{URL}/{reserve(demo, id, instance_uuid=OTHER).json()['attachment']['id']}"

    def end() -> None:
        demo.delete(one, headers=LATEST)
        cloud.settle()

    meanwhile(end)
    assert demo.put(one, {"attachment": {"connector": {"host": "h1"}}}, headers=LATEST).status == 404
    assert backend.volumes.get(id).hosts == ("h1",)


def test_lists_are_filtered_and_isolated(make: Any, demo: Any, admin: Any, stranger: Any) -> None:
    one, two = make()["id"], make()["id"]
    first = reserve(demo, one).json()["attachment"]["id"]
    reserve(demo, two, instance_uuid=OTHER)

    def found(query: str, who: Any = demo) -> list[str]:
        answer = who.get(f"{URL}?{query}", headers=LATEST).json()
        return [each["volume_id"] for each in answer["attachments"]]

    assert sorted(found("")) == sorted([one, two])
    assert found(f"volume_id={one}") == [one] and found(f"instance_id={OTHER}") == [two]
    assert found("status=attached") == [] and found("", stranger) == [] and found("", admin) == []
    assert len(found("all_tenants=1", admin)) == 2
    assert len(demo.get(f"{URL}/detail", headers=LATEST).json()["attachments"][0]) == 8
    assert stranger.get(f"{URL}/{first}", headers=LATEST).status == 404
    assert stranger.delete(f"{URL}/{first}", headers=LATEST).status == 404
    body = {"attachment": {"connector": {"host": "h"}}}
    assert stranger.put(f"{URL}/{first}", body, headers=LATEST).status == 404
    assert stranger.post(f"{URL}/{first}/action", {"os-complete": None}, headers=LATEST).status == 404
    assert stranger.get(f"{URL}?marker={first}", headers=LATEST).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {}, {"attachment": {}}, {"attachment": {"volume_uuid": "x"}}, {"attachment": {"volume_uuid": 1}},
        {"attachment": {"volume_uuid": SERVER, "connector": []}},
        {"attachment": {"volume_uuid": SERVER, "connector": {"ip": "10.0.0.1"}}},
        {"attachment": {"volume_uuid": SERVER, "connector": {"host": "h" * 256}}},
        {"attachment": {"volume_uuid": SERVER, "colour": "red"}},
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused(demo: Any, body: Any) -> None:
    assert demo.post(URL, body, headers=LATEST).status == 400


# -- those of the compute service: domain functions


@pytest.fixture
def do(cloud: Any) -> Callable[..., Any]:
    """`do(fn, …)` in a transaction, with the time of the cloud as `now`."""

    def done(fn: Any, *args: Any, **kwargs: Any) -> Any:
        return cloud.transact(lambda conn: fn(conn, *args, **kwargs, now=utc(cloud.clock.seconds())))

    return done


def test_compute_attaches_and_detaches(make: Any, demo: Any, do: Any, cloud: Any) -> None:
    made = make()
    id, project = made["id"], made["os-vol-tenant-attr:tenant_id"]
    reserved = do(attachments.reserve, id, SERVER, project_id=project, attachment_id=OTHER)
    assert do(attachments.reserve, id, SERVER, project_id=project, attachment_id=OTHER) == reserved == OTHER
    assert volume(demo, id)["status"] == "reserved"
    do(attachments.connect, reserved, "h1")
    connection = {"driver_volume_type": "fake", "data": {}}
    for _ in range(2):
        do(attachments.complete, reserved, connection, "h1", device="/dev/vdc")
        assert volume(demo, id)["status"] == "in-use"
    found = cloud.transact(attachments.of_server, [SERVER, OTHER])
    assert [(row.volume_id, row.host, row.device) for row in found.pop(SERVER)] == [(id, "h1", "/dev/vdc")]
    assert found == {}
    do(attachments.begin_detach, reserved)
    assert volume(demo, id)["status"] == "detaching" and len(volume(demo, id)["attachments"]) == 1
    with pytest.raises(Conflict):
        do(attachments.begin_detach, reserved)
    do(attachments.roll_detach, reserved)
    assert volume(demo, id)["status"] == "in-use"
    do(attachments.begin_detach, reserved)
    for _ in range(2):
        do(attachments.finish_detach, reserved)
        assert volume(demo, id)["status"] == "available"


def test_compute_cannot_take_what_its_project_does_not_have(make: Any, do: Any) -> None:
    with pytest.raises(NotFound):
        do(attachments.reserve, make()["id"], SERVER, project_id="elsewhere")


def test_an_attachment_of_another_volume_is_no_way_to_detach_this_one(
    make: Any, demo: Any, do: Any, stranger: Any, cloud: Any
) -> None:
    mine, other = make()["id"], make()["id"]
    theirs = make(client=stranger)["id"]
    reserved = do(attachments.reserve, other, SERVER, project_id=None)
    elsewhere = do(attachments.reserve, theirs, SERVER, project_id=None)
    tried = [act(demo, mine, "os-detach", {"attachment_id": each}) for each in (reserved, elsewhere, SERVER)]
    assert [answer.status for answer in tried] == [400, 404, 404]
    assert volume(demo, other)["status"] == "reserved"


def test_a_user_cannot_pull_a_volume_from_under_a_server(
    make: Any, demo: Any, do: Any, admin: Any, backend: Any, join: Any, cloud: Any
) -> None:
    id = make()["id"]
    reserved = do(attachments.reserve, id, SERVER, project_id=None)
    do(attachments.connect, reserved, "h1")
    act(demo, id, "os-initialize_connection", {"connector": {"host": "h1"}})
    do(attachments.complete, reserved, None, "h1")
    attempts = [
        demo.delete(f"{URL}/{reserved}", headers=LATEST),
        act(demo, id, "os-detach", {"attachment_id": reserved}),
        act(demo, id, "os-terminate_connection", {"connector": {"host": "h1"}}),
        act(demo, id, "os-terminate_connection", {"connector": {}}),
        act(admin, id, "os-force_detach", {"connector": {"host": "h1"}}),
    ]
    assert [attempt.status for attempt in attempts] == [409] * 5
    for attempt in attempts:
        assert "ConflictNovaUsingAttachment" in attempt.json()["conflictingRequest"]["message"]
    assert act(demo, id, "os-terminate_connection", {"connector": None}).status == 202
    assert backend.volumes.get(id).hosts == ("h1",) and volume(demo, id)["status"] == "in-use"
    compute = join("nova", "service", "service")
    assert compute.delete(f"{URL}/{reserved}", headers=LATEST).status == 200
    cloud.settle()
    assert backend.volumes.get(id).hosts == () and volume(demo, id)["status"] == "available"


def test_a_user_connects_nothing_for_a_server_that_has_reserved_a_volume(
    make: Any, demo: Any, do: Any, backend: Any, join: Any
) -> None:
    """As that of a shelved server: its host would be refused when it is unshelved."""
    id = make()["id"]
    reserved = do(attachments.reserve, id, SERVER, project_id=None)
    one, connector = f"{URL}/{reserved}", {"attachment": {"connector": {"host": "h1"}}}

    def refused(answer: Any) -> bool:
        return answer.status == 409 and b"ConflictNovaUsingAttachment" in answer.body

    assert refused(demo.put(one, connector, headers=LATEST)) and backend.volumes.get(id).hosts == ()
    do(attachments.connect, reserved, "h2")
    assert refused(demo.post(f"{one}/action", {"os-complete": None}, headers=LATEST))
    do(attachments.fail, reserved)
    assert refused(demo.put(one, {"attachment": {"connector": {"host": "h2"}}}, headers=LATEST))
    compute = join("nova", "service", "service")
    assert compute.put(one, {"attachment": {"connector": {"host": "h2"}}}, headers=LATEST).status == 200
    assert compute.post(f"{one}/action", {"os-complete": None}, headers=LATEST).status == 204


def test_a_live_migration_has_the_volume_twice(make: Any, demo: Any, do: Any) -> None:
    id = make()["id"]
    source = do(attachments.reserve, id, SERVER, project_id=None)
    do(attachments.complete, source, None, "h1")
    target = do(attachments.reserve, id, SERVER, project_id=None)
    assert volume(demo, id)["status"] == "in-use"
    do(attachments.complete, target, None, "h2")
    do(attachments.finish_detach, source)
    assert [each["attachment_id"] for each in volume(demo, id)["attachments"]] == [target]
    with pytest.raises(Conflict):
        do(attachments.reserve, id, OTHER, project_id=None)


def test_a_host_that_two_servers_share_stays_connected(
    make: Any, demo: Any, admin: Any, do: Any, cloud: Any, backend: Any
) -> None:
    admin.post(f"{V3}/types", {"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}})
    id = make(volume_type="shared")["id"]
    made = []
    for server in (SERVER, OTHER):
        made.append(reserve(demo, id, instance_uuid=server, connector={"host": "h1"}).json()["attachment"]["id"])
        demo.post(f"{URL}/{made[-1]}/action", {"os-complete": None}, headers=LATEST)
    one, two = made
    assert demo.delete(f"{URL}/{one}", headers=LATEST).json()["attachments"][0]["id"] == two
    third = do(attachments.reserve, id, SERVER, project_id=None)
    with pytest.raises(attachments.Busy):
        do(attachments.connect, third, "h1")
    do(attachments.finish_detach, third)
    cloud.settle()
    assert backend.volumes.get(id).hosts == ("h1",)
    demo.delete(f"{URL}/{two}", headers=LATEST)
    cloud.settle()
    assert backend.volumes.get(id).hosts == () and volume(demo, id)["status"] == "available"


# -- what others may see and do


def test_a_reader_is_not_told_how_a_volume_is_reached(make: Any, demo: Any, join: Any) -> None:
    id = make()["id"]
    made = reserve(demo, id).json()["attachment"]["id"]
    demo.put(f"{URL}/{made}", {"attachment": {"connector": {"host": "h1"}}}, headers=LATEST)
    reader = join("rita", "demo", "reader")
    (listed,) = reader.get(f"{URL}/detail", headers=LATEST).json()["attachments"]
    shown = reader.get(f"{URL}/{made}", headers=LATEST).json()["attachment"]
    assert (listed["connection_info"], shown["connection_info"]) == ({}, {})
    assert demo.get(f"{URL}/{made}", headers=LATEST).json()["attachment"]["connection_info"]["attachment_id"] == made


def test_a_user_who_names_the_server_of_another_adds_nothing_to_it(
    make: Any, cloud: Any, stranger: Any, do: Any
) -> None:
    mine = do(attachments.reserve, make()["id"], SERVER, project_id=None)
    assert reserve(stranger, make(client=stranger)["id"]).status == 200
    found = cloud.transact(attachments.of_server, [SERVER])
    assert [row.id for row in found[SERVER]] == [mine]


def test_a_volume_is_connected_to_a_bounded_number_of_hosts(make: Any, demo: Any, backend: Any) -> None:
    id = make()["id"]
    ask = "os-initialize_connection"
    told = [act(demo, id, ask, {"connector": {"host": f"h{number}"}}).status for number in range(40)]
    assert told == [200] * MOST_HOSTS + [409] * (40 - MOST_HOSTS)
    assert act(demo, id, ask, {"connector": {"host": "h1"}}).status == 200
    assert len(backend.volumes.get(id).hosts) == MOST_HOSTS
    for host in ("", "a b", "../x", "h\n", "é", "x" * 256, "-x"):
        assert act(demo, id, ask, {"connector": {"host": host}}).status == 400


@pytest.mark.parametrize(
    "query",
    [
        "/networking/v2.0/networks?tags={words}",
        "/networking/v2.0/networks?not-tags-any={words}",
        "/compute/v2.1/servers?tags={words}",
        "/identity/v3/projects?tags={words}",
        "/identity/v3/projects?not-tags={words}",
        "/volume/v3/volumes/detail?created_at={words}",
        "/volume/v3/volumes/detail?metadata={pairs}",
    ],
)
def test_a_filter_of_thousands_of_values_is_400(admin: Any, query: str) -> None:
    words = ",".join(f"t{number}" for number in range(2400))
    pairs = "{" + ",".join(f"'{number}':'1'" for number in range(1200)) + "}"
    headers = {"OpenStack-API-Version": "compute 2.90, volume 3.70"}
    path = query.format(words=words, pairs=pairs)
    assert admin.get(path, headers=headers).status == 400


@pytest.mark.parametrize(("version", "asked"), [("3.44", {}), ("3.54", {}), ("3.54", {"mode": "ro"})])
def test_a_read_only_volume_is_attached_read_only(make: Any, demo: Any, version: str, asked: Any) -> None:
    id = make()["id"]
    assert act(demo, id, "os-update_readonly_flag", {"readonly": True}).status == 202
    if version == "3.54":
        assert reserve(demo, id, version, mode="rw").status == 400
    made = reserve(demo, id, version, connector={"host": "h1"}, **asked)
    assert made.status == 200, made
    told = made.json()["attachment"]
    assert (told["attach_mode"], told["connection_info"]["access_mode"]) == ("ro", "ro")


def test_a_host_is_told_that_a_volume_is_read_only(make: Any, demo: Any) -> None:
    id = make()["id"]
    connect = "os-initialize_connection", {"connector": {"host": "h1"}}

    def mode() -> Any:
        return act(demo, id, *connect).json()["connection_info"]["data"]["access_mode"]

    assert mode() == "rw"
    assert act(demo, id, "os-update_readonly_flag", {"readonly": True}).status == 202
    assert mode() == "ro"
