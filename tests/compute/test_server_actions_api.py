"""Start, stop, reboot, console, update and delete. Reference: compute.md, sections 6.2 and 7; compute-states.md."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def test_a_stopped_server_is_off_and_can_be_started(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    assert demo.act(server_id, {"os-stop": None}).status == 202
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "powering-off"
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:power_state"]) == ("SHUTOFF", 4)
    assert there(hypervisor.guests.get(server_id)).power is Power.STOPPED
    assert demo.act(server_id, {"os-start": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
    assert there(hypervisor.guests.get(server_id)).power is Power.RUNNING


@pytest.mark.parametrize(("kind", "status"), [("SOFT", "REBOOT"), ("hard", "HARD_REBOOT")])
def test_a_reboot_is_seen_and_ends(demo: Asking, server_id: str, kind: str, status: str) -> None:
    assert demo.act(server_id, {"reboot": {"type": kind}}).status == 202
    assert demo.status(server_id) == status
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
    output = demo.act(server_id, {"os-getConsoleOutput": {}}).json()["output"]
    assert output.count("login:") == 2


WRONG_STATES: list[tuple[Any, str]] = [
    ({"os-start": None}, "Cannot 'start' instance {} while it is in vm_state active"),
    ({"os-stop": None}, "Cannot 'stop' instance {} while it is in task_state rebooting_hard"),
    ({"reboot": {"type": "SOFT"}}, "Cannot 'reboot' instance {} while it is in task_state rebooting_hard"),
]


@pytest.mark.parametrize(("action", "said"), WRONG_STATES)
def test_an_action_that_the_state_forbids_is_a_conflict(demo: Asking, server_id: str, action: Any, said: str) -> None:
    demo.act(server_id, {"reboot": {"type": "HARD"}})
    assert refusal(demo.act(server_id, action)) == (409, "conflictingRequest", said.format(server_id))


def test_a_hard_reboot_may_follow_a_soft_one(demo: Asking, server_id: str) -> None:
    demo.act(server_id, {"reboot": {"type": "SOFT"}})
    assert demo.act(server_id, {"reboot": {"type": "HARD"}}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"


def test_nothing_can_be_done_to_a_server_that_builds(demo: Asking) -> None:
    server_id = demo.create().json()["server"]["id"]
    said = f"Cannot 'stop' instance {server_id} while it is in vm_state building"
    assert refusal(demo.act(server_id, {"os-stop": None})) == (409, "conflictingRequest", said)
    said = f"Instance {server_id} is not ready"
    assert refusal(demo.act(server_id, {"os-getConsoleOutput": {}})) == (409, "conflictingRequest", said)


@pytest.mark.parametrize(
    "action",
    [{"reboot": {}}, {"reboot": {"type": "WARM"}}, {"reboot": None}, {"reboot": {"type": "SOFT", "x": 1}}, {}, []],
)
def test_a_wrong_action_body_is_refused(demo: Asking, server_id: str, action: Any) -> None:
    assert refusal(demo.act(server_id, action))[:2] == (400, "badRequest")


def test_two_actions_at_once_are_refused(demo: Asking, server_id: str) -> None:
    assert demo.act(server_id, {"os-stop": None, "os-start": None}).status == 400


def test_an_action_that_is_not_offered_is_not_there(demo: Asking, server_id: str) -> None:
    assert refusal(demo.act(server_id, {"dance": None})) == (400, "badRequest", "There is no such action: dance")


def test_an_action_of_another_version_is_not_found(demo: Asking, server_id: str) -> None:
    assert refusal(demo.act(server_id, {"trigger_crash_dump": None}, "2.16"))[:2] == (404, "itemNotFound")


def test_a_reader_does_nothing(demo: Asking, reader: Asking, server_id: str) -> None:
    action: Any
    for action in ({"os-stop": None}, {"reboot": {"type": "SOFT"}}, {"os-getConsoleOutput": {}}):
        assert refusal(reader.act(server_id, action))[:2] == (403, "forbidden")
    assert reader.delete(f"/servers/{server_id}").status == 403
    assert reader.get(f"/servers/{server_id}").status == 200


def test_a_failed_start_leaves_the_server_off_and_says_why(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    hypervisor.behaviour.fail("ensure_running", error=DriverError("no electricity"))
    demo.act(server_id, {"os-start": None})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHUTOFF", None)
    action = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"][0]
    assert (action["action"], action["message"]) == ("start", "Error")


def test_a_failed_hard_reboot_is_an_error_that_a_hard_reboot_can_end(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("ensure_rebooted", error=DriverError("it is stuck"))
    demo.act(server_id, {"reboot": {"type": "HARD"}})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["fault"]["code"], found["fault"]["message"]) == ("ERROR", 500, "it is stuck")
    demo.act(server_id, {"reboot": {"type": "HARD"}})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], "fault" in found) == ("ACTIVE", False)


# -- console


def test_the_last_lines_of_the_console_can_be_asked_for(demo: Asking, server_id: str) -> None:
    full = demo.act(server_id, {"os-getConsoleOutput": {"length": None}}).json()["output"]
    assert len(full.splitlines()) > 2
    for length in (2, "2"):
        answer = demo.act(server_id, {"os-getConsoleOutput": {"length": length}})
        assert answer.status == 200
        assert answer.json()["output"].splitlines() == full.splitlines()[-2:]
    assert demo.act(server_id, {"os-getConsoleOutput": {"length": -1}}).json()["output"] == full
    assert demo.act(server_id, {"os-getConsoleOutput": {"length": -2}}).status == 400
    assert demo.act(server_id, {"os-getConsoleOutput": {"length": "many"}}).status == 400


@pytest.mark.parametrize(
    ("error", "status"), [(UnknownGuest("x"), 404), (HostDown("it is down"), 503), (DriverError("no console"), 409)]
)
def test_a_console_that_cannot_be_read_is_told(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor, error: Exception, status: int
) -> None:
    hypervisor.behaviour.fail("console_output", error=error)
    assert demo.act(server_id, {"os-getConsoleOutput": {}}).status == status


# -- update


def test_a_server_can_be_renamed(demo: Asking, server_id: str) -> None:
    answer = demo.put(f"/servers/{server_id}", {"server": {"name": "new", "accessIPv4": "192.0.2.1"}})
    assert answer.status == 200
    shown = answer.json()["server"]
    assert (shown["name"], shown["accessIPv4"]) == ("new", "192.0.2.1")
    assert "OS-EXT-STS:vm_state" not in shown
    assert demo.server(server_id)["name"] == "new"


def test_an_update_answers_the_whole_record_from_2_75_on(demo: Asking, server_id: str) -> None:
    shown = demo.put(f"/servers/{server_id}", {"server": {"description": "mine"}}, "2.75").json()["server"]
    assert shown == demo.server(server_id, "2.75")
    assert shown["description"] == "mine"


def test_an_address_is_shown_in_its_shortest_form(demo: Asking, server_id: str) -> None:
    given = {"accessIPv6": "0000:0000:0000:0000:0000:babe:220.12.22.2"}
    assert demo.put(f"/servers/{server_id}", {"server": given}).json()["server"]["accessIPv6"] == "::babe:dc0c:1602"


@pytest.mark.parametrize(
    ("version", "body"),
    [
        ("2.18", {"description": "x"}),
        ("2.89", {"hostname": "a-host"}),
        ("2.90", {"hostname": "a.host"}),
        (None, {"name": ""}),
        (None, {"name": None}),
        (None, {"status": "ACTIVE"}),
        (None, {"accessIPv6": "192.0.2.1"}),
        (None, {"accessIPv6": "fe80::1%eth0"}),
    ],
)
def test_a_wrong_update_is_refused(demo: Asking, server_id: str, version: str | None, body: Any) -> None:
    assert demo.put(f"/servers/{server_id}", {"server": body}, version).status == 400


def test_a_wrong_host_name_is_shown_where_it_was_sent(demo: Asking, server_id: str) -> None:
    update = demo.put(f"/servers/{server_id}", {"server": {"hostname": "a.host"}}, "2.90")
    rebuild = demo.act(server_id, {"rebuild": {"imageRef": demo.image, "hostname": "a.host"}}, "2.90")
    for answer, key in ((update, "server"), (rebuild, "rebuild")):
        assert answer.status == 400 and f"$.{key}.hostname" in refusal(answer)[2]


# -- delete


def test_a_deleted_server_leaves_nothing(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    assert demo.delete(f"/servers/{server_id}").status == 204
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "deleting"
    demo.cloud.settle()
    assert refusal(demo.get(f"/servers/{server_id}")) == (
        404,
        "itemNotFound",
        f"Instance {server_id} could not be found.",
    )
    assert list(hypervisor.guests.values()) == []
    assert admin.get("/os-hypervisors/statistics").json()["hypervisor_statistics"]["vcpus_used"] == 0
    assert demo.get("/limits").json()["limits"]["absolute"]["totalInstancesUsed"] == 0


def test_a_second_delete_is_no_new_work(demo: Asking, server_id: str, cloud: MemoryCloud) -> None:
    demo.delete(f"/servers/{server_id}")
    assert demo.delete(f"/servers/{server_id}").status == 204
    kinds = cloud.db.transact(
        True,
        lambda conn: conn.execute(text("SELECT kind FROM tasks WHERE kind = 'compute.server.delete'")).scalars().all(),
    )
    assert len(kinds) == 1
    cloud.settle()
    assert demo.delete(f"/servers/{server_id}").status == 404


def test_a_locked_server_is_deleted_by_an_administrator_alone(
    demo: Asking, admin: Asking, server_id: str, cloud: MemoryCloud
) -> None:
    cloud.transact(lambda conn: conn.execute(text("UPDATE servers SET locked_by = 'owner'")) and None)
    said = f"Instance {server_id} is locked"
    assert refusal(demo.delete(f"/servers/{server_id}")) == (409, "conflictingRequest", said)
    assert refusal(demo.act(server_id, {"os-stop": None})) == (409, "conflictingRequest", said)
    assert admin.act(server_id, {"os-stop": None}).status == 202
    cloud.settle()
    assert admin.delete(f"/servers/{server_id}").status == 204


# -- the action log


def test_every_action_is_logged_once_with_its_request(demo: Asking, server_id: str) -> None:
    stopped = demo.act(server_id, {"os-stop": None}).headers["x-openstack-request-id"]
    demo.cloud.settle()
    actions = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert [action["action"] for action in actions] == ["stop", "create"]
    assert actions[0]["request_id"] == stopped
    shown = demo.get(f"/servers/{server_id}/os-instance-actions/{stopped}", "2.51").json()["instanceAction"]
    (event,) = shown["events"]
    assert (event["event"], event["result"]) == ("compute_stop_instance", "Success")
    assert "traceback" not in event
    assert "host" not in event


def test_events_are_an_administrators_affair_before_2_51(demo: Asking, admin: Asking, server_id: str) -> None:
    request_id = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"][0]["request_id"]
    path = f"/servers/{server_id}/os-instance-actions/{request_id}"
    assert "events" not in demo.get(path, "2.50").json()["instanceAction"]
    assert "events" in admin.get(path, "2.50").json()["instanceAction"]
    assert admin.get(path, LATEST).json()["instanceAction"]["events"][0]["host"].startswith("fake-")


def test_actions_come_in_pages_from_2_58_on(demo: Asking, server_id: str) -> None:
    for _ in range(2):
        demo.act(server_id, {"reboot": {"type": "HARD"}})
        demo.cloud.settle()
        demo.cloud.advance(10)
    path = f"/servers/{server_id}/os-instance-actions"
    first = demo.get(f"{path}?limit=2", "2.58").json()
    assert [action["action"] for action in first["instanceActions"]] == ["reboot", "reboot"]
    marker = first["instanceActions"][-1]["request_id"]
    assert f"marker={marker}" in first["links"][0]["href"]
    rest = demo.get(f"{path}?marker={marker}", "2.58").json()
    assert [action["action"] for action in rest["instanceActions"]] == ["create"]
    assert demo.get(f"{path}?marker=req-none", "2.58").status == 400
    assert "updated_at" in rest["instanceActions"][0]


def test_actions_of_a_deleted_server_are_readable_from_2_21_on(demo: Asking, server_id: str) -> None:
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    path = f"/servers/{server_id}/os-instance-actions"
    assert demo.get(path, "2.20").status == 404
    assert [a["action"] for a in demo.get(path, "2.21").json()["instanceActions"]] == ["delete", "create"]
    assert demo.get(f"{path}/req-none", "2.21").status == 404
