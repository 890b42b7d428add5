"""Segments, hosts and notifications as clients see them. Reference: instance-ha.md, sections 1 to 5."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import refusal
from tests.instance_ha.asking import STOPPED, Ha

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"
WRAPPED = {
    "type": "COMPUTE_HOST",
    "hostname": "fake-1",
    "generated_time": "2027-01-15 08:00:00",
    "payload": {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"},
}


@pytest.fixture
def segment(ha: Ha) -> str:
    return ha.segment()


@pytest.fixture
def host(ha: Ha, segment: str) -> str:
    return ha.host(segment, "fake-1")


# -- who may


def test_a_bearer_decides_and_an_administrator_is_needed(cloud: MemoryCloud, ha: Ha) -> None:
    demo, admin = cloud.client("demo").token, cloud.client("admin").token
    bearer = {"Authorization": f"Bearer {admin}"}
    assert Ha(cloud.anonymous()).ask("GET", "/segments", **bearer).status == 200
    assert Ha(cloud.client("demo")).ask("GET", "/segments", **bearer).status == 200
    assert refusal(ha.ask("GET", "/segments", Authorization=f"Bearer {demo}"))[:2] == (403, "forbidden")
    refused = Ha(cloud.anonymous()).report()
    assert refusal(refused)[:2] == (401, "unauthorized")
    assert refused.headers.get_all("WWW-Authenticate") == [
        'Keystone uri="http://cloud.example.com/identity/v3"',
        'Bearer realm="instance-ha"',
    ]
    assert refusal(Ha(cloud.client("demo")).report())[:2] == (403, "forbidden")


def test_the_catalog_says_where_the_listener_is() -> None:
    cloud = MemoryCloud({"server": {"ha_listen": ["tcp:15999:interface=127.0.0.1"]}})
    catalog = cloud.client("demo").get("/identity/v3/auth/catalog").json()["catalog"]
    (found,) = (each for each in catalog if each["type"] == "instance-ha")
    assert {each["url"] for each in found["endpoints"]} == {"http://cloud.example.com:15999/v1"}


# -- segments


def test_a_segment_has_its_fields_and_ends(ha: Ha) -> None:
    made = ha.make("/segments", "segment", name="rack-1", recovery_method="auto", service_type="COMPUTE")
    times = {name: made.pop(name) for name in ("created_at", "updated_at")}
    assert times["created_at"].startswith("2027-01-15T08:00:00.") and times["updated_at"] is None
    assert made == {
        "id": 1,
        "uuid": made["uuid"],
        "name": "rack-1",
        "description": None,
        "recovery_method": "auto",
        "service_type": "COMPUTE",
        "enabled": True,
        "deleted_at": None,
        "deleted": False,
    }
    path = f"/segments/{made['uuid']}"
    assert "enabled" not in ha.get(path, None)["segment"]
    changed = ha.ask("PUT", path, {"segment": {"enabled": "false", "description": "the first"}})
    assert (changed.json()["segment"]["enabled"], changed.json()["segment"]["description"]) == (False, "the first")
    assert ha.ask("DELETE", path).status == 204
    assert refusal(ha.ask("GET", path))[:2] == (404, "itemNotFound")


@pytest.mark.parametrize(
    ("fields", "version", "status"),
    [
        ({"recovery_method": "never"}, "1.3", 400),
        ({"enabled": False}, "1.1", 400),
        ({"enabled": "perhaps"}, "1.2", 400),
        ({"name": " edge"}, "1.3", 400),
        ({"name": "edge\n"}, "1.3", 400),
        ({"name": ""}, "1.3", 400),
        ({"surplus": 1}, "1.3", 400),
        ({"service_type": "COMPUTE "}, "1.3", 400),
        ({"service_type": "COM\nPUTE"}, "1.3", 400),
        ({"description": None}, "1.0", 201),
        ({"name": "taken"}, "1.0", 409),
    ],
)
def test_a_wrong_segment_is_refused(ha: Ha, fields: dict[str, Any], version: str, status: int) -> None:
    ha.segment("taken")
    body = {"name": "other", "recovery_method": "auto", "service_type": "COMPUTE", **fields}
    assert ha.ask("POST", "/segments", {"segment": body}, version).status == status


def test_lists_are_filtered_sorted_and_paged(ha: Ha) -> None:
    ids = [ha.segment(name, method) for name, method in (("a", "auto"), ("b", "rh_priority"), ("c", "auto"))]

    def names(query: str) -> list[str]:
        return [each["name"] for each in ha.get(f"/segments?{query}")["segments"]]

    assert names("sort_key=name&sort_dir=asc") == ["a", "b", "c"]
    assert names("recovery_method=auto&sort_key=name&sort_dir=desc") == ["c", "a"]
    assert names(f"sort_key=id&sort_dir=asc&limit=1&marker={ids[0]}") == ["b"]
    assert names("enabled=False") == []
    assert ha.ask("PUT", f"/segments/{ids[1]}", {"segment": {"description": "the second"}}).status == 200
    for key in ("updated_at", "description"):  # what has none comes first
        assert names(f"sort_key={key}&sort_dir=asc&sort_key=name&sort_dir=asc") == ["a", "c", "b"], key
        assert sorted(names(f"sort_key={key}&sort_dir=desc&marker={ids[1]}")) == ["a", "c"], key
    for wrong in ("recovery_method=x", "sort_key=x", "sort_dir=x", f"marker={UNKNOWN}", "limit=x", "enabled=x"):
        assert refusal(ha.ask("GET", f"/segments?{wrong}"))[:2] == (400, "badRequest"), wrong


# -- hosts


def test_a_host_has_its_fields(ha: Ha, segment: str, host: str) -> None:
    found = ha.get(f"/segments/{segment}/hosts/{host}")["host"]
    inner = found.pop("failover_segment")
    assert (inner["uuid"], inner["name"]) == (segment, "rack-1")
    assert {name: found[name] for name in ("id", "uuid", "name", "type", "control_attributes")} == {
        "id": 1,
        "uuid": host,
        "name": "fake-1",
        "type": "COMPUTE",
        "control_attributes": "SSH",
    }
    assert (found["reserved"], found["on_maintenance"], found["failover_segment_id"]) == (False, False, segment)
    changed = ha.ask("PUT", f"/segments/{segment}/hosts/{host}", {"host": {"reserved": "True"}})
    assert changed.json()["host"]["reserved"] is True
    assert len(ha.get(f"/segments/{segment}/hosts?reserved=true&type=COMPUTE")["hosts"]) == 1
    assert ha.ask("GET", f"/segments/{segment}/hosts?reserved=perhaps").status == 400


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "nowhere"}, 400),
        ({"type": "a b"}, 400),
        ({"reserved": "x"}, 400),
        ({"type": "", "control_attributes": ""}, 201),
        ({"name": "fake-1"}, 409),
        ({}, 201),
    ],
)
def test_a_wrong_host_is_refused(ha: Ha, segment: str, host: str, fields: dict[str, Any], status: int) -> None:
    body = {"name": "fake-2", "type": "COMPUTE", "control_attributes": "SSH", **fields}
    assert ha.ask("POST", f"/segments/{ha.segment('rack-2')}/hosts", {"host": body}).status == status


def test_a_host_is_known_in_its_own_segment_only(ha: Ha, segment: str, host: str) -> None:
    other = ha.segment("rack-2")
    assert ha.ask("GET", f"/segments/{other}/hosts/{host}").status == 404
    assert ha.ask("GET", f"/segments/{UNKNOWN}/hosts").status == 404
    assert ha.ask("PUT", f"/segments/{segment}/hosts/{host}", {"host": {}}).status == 400
    assert ha.ask("DELETE", f"/segments/{segment}/hosts/{host}").status == 204
    assert ha.get(f"/segments/{segment}/hosts") == {"hosts": []}


# -- notifications


def test_both_forms_are_taken(ha: Ha, host: str, segment: str) -> None:
    plain = ha.report(event="STARTED", cluster_status="ONLINE", host_status="NORMAL")
    assert plain.status == 202
    made = plain.json()["notification"]
    assert (made["status"], made["type"], made["hostname"]) == ("new", "COMPUTE_HOST", "fake-1")
    assert (made["source_host_uuid"], made["failover_segment_uuid"], made["message"]) == (host, segment, None)
    assert made["payload"] == {"event": "STARTED", "cluster_status": "ONLINE", "host_status": "NORMAL"}
    assert "recovery_workflow_details" not in made
    wrapped = ha.ask("POST", "/notifications", {"notification": WRAPPED}, None)
    assert wrapped.status == 202
    assert wrapped.json()["notification"]["generated_time"] == "2027-01-15T08:00:00.000000"


@pytest.mark.parametrize(
    "body",
    [
        {"hostname": "fake-1", "type": "COMPUTE_HOST"},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": {}},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": {"event": "LIFECYCLE"}},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": {**STOPPED, "host_status": "DEAD"}},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": {**STOPPED, "surplus": "x"}},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": {**STOPPED, "process_name": "x"}},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": STOPPED, "surplus": 1},
        {"hostname": "nowhere", "type": "COMPUTE_HOST", "payload": STOPPED},
        {"hostname": "a b", "type": "COMPUTE_HOST", "payload": STOPPED},
        {"hostname": "fake-1", "type": "OTHER", "payload": STOPPED},
        {"hostname": "fake-1", "type": "VM", "payload": {"event": "LIFECYCLE", "instance_uuid": "x"}},
        {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": STOPPED, "generated_time": "yesterday"},
        {"notification": {**WRAPPED, "type": "VM"}},
        {"notification": {**WRAPPED, "type": "PROCESS"}},
        {"notification": {**WRAPPED, "generated_time": None}},
        {"notification": WRAPPED, "hostname": "fake-1"},
        {"notification": {"type": "COMPUTE_HOST"}},
        [],
        None,
    ],
)
def test_a_wrong_notification_is_refused(ha: Ha, host: str, body: Any) -> None:
    assert refusal(ha.ask("POST", "/notifications", body))[:2] == (400, "badRequest")
    assert ha.get("/notifications") == {"notifications": []}


def test_what_was_said_already_is_refused(ha: Ha, host: str) -> None:
    payload = {"event": "STARTED", "host_status": "NORMAL"}
    ha.reported(**payload)
    refused = refusal(ha.report(**payload))
    assert refused == (
        409,
        "conflictingRequest",
        "Notification received from host fake-1 of type COMPUTE_HOST is duplicate.",
    )
    ha.reported(**payload, cluster_status="ONLINE")
    ha.cloud.advance(181)
    ha.reported(**payload)


def test_the_oldest_time_is_one(ha: Ha, host: str) -> None:
    answer = ha.ask("POST", "/notifications", {"notification": {**WRAPPED, "generated_time": "0001-01-01T00:00:00"}})
    assert answer.status == 202, answer
    assert answer.json()["notification"]["generated_time"] == "0001-01-01T00:00:00.000000"


def test_a_report_from_the_future_is_repeated_for_as_long_as_any_other(ha: Ha, host: str) -> None:
    dead = {**WRAPPED, "type": "PROCESS", "payload": {"event": "STOPPED", "process_name": "libvirtd"}}
    ahead = {"notification": {**dead, "generated_time": "2099-01-01T00:00:00"}}
    found = [ha.ask("POST", "/notifications", ahead).status]
    ha.cloud.settle()
    found.append(ha.ask("POST", "/notifications", ahead).status)
    ha.cloud.advance(200)
    now = {"notification": {**dead, "generated_time": "2027-01-15T08:03:20"}}
    found.append(ha.ask("POST", "/notifications", now).status)
    assert found == [202, 409, 202]


def test_notifications_are_listed(ha: Ha, host: str) -> None:
    first = ha.reported(event="STARTED")
    ha.cloud.advance(10)
    second = ha.reported(type="PROCESS", event="started", process_name="nova-compute")

    def found(query: str) -> list[str]:
        return [each["notification_uuid"] for each in ha.get(f"/notifications?{query}")["notifications"]]

    assert found("") == [second, first]
    assert found("type=COMPUTE_PROCESS") == found("type=PROCESS") == [second]
    assert found("generated-since=2027-01-15T08:00:05") == [second]
    assert found(f"limit=1&marker={second}&source_host_uuid={host}") == [first]
    for key in ("payload", "message", "failover_segment_uuid"):
        assert sorted(found(f"sort_key={key}")) == sorted([first, second]), key
        # Whichever of them comes first, a page goes on after it.
        (one,) = found(f"sort_key={key}&limit=1")
        assert found(f"sort_key={key}&limit=1&marker={one}") == [second if one == first else first], key
    for wrong in ("type=x", "status=x", "generated-since=x", "sort_key=uuid"):
        assert refusal(ha.ask("GET", f"/notifications?{wrong}"))[:2] == (400, "badRequest"), wrong
    assert ha.ask("DELETE", f"/notifications/{first}").status == 405
    assert ha.ask("GET", f"/notifications/{UNKNOWN}").status == 404
    assert ha.notification(first)["recovery_workflow_details"] == []
    assert "recovery_workflow_details" not in ha.get(f"/notifications/{first}", "1.0")["notification"]


def test_alerts_of_a_webhook_are_taken_one_by_one(ha: Ha, host: str) -> None:
    alert = {"status": "resolved", "labels": {"instance": "fake-1:9100"}, "annotations": {}, "startsAt": "2027-01-15"}
    lost = {**alert, "labels": {"host": "nowhere"}}
    body = {"version": "4", "status": "resolved", "receiver": "ha", "alerts": [alert, lost, alert]}
    answer = ha.ask("POST", "/notifications", body, None)
    assert answer.status == 202
    told = answer.json()
    (made,) = told["notifications"]
    assert (made["hostname"], made["type"], made["payload"]["event"]) == ("fake-1", "COMPUTE_HOST", "STARTED")
    assert [each["hostname"] for each in told["ignored"]] == ["nowhere", "fake-1"]


def test_a_firing_alert_does_not_say_that_the_host_is_dead(ha: Ha, host: str) -> None:
    alert = {"status": "firing", "labels": {"nodename": "fake-1"}}
    made = ha.ask("POST", "/notifications", {"alerts": [alert]}).json()["notifications"][0]
    assert made["payload"] == {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "UNKNOWN"}


def test_labels_of_an_alert_are_held_to_what_the_payload_is(ha: Ha, host: str) -> None:
    """A UUID in capitals was taken as it came, and its server was not found and not recovered."""
    instance = {"host": "fake-1", "ha_type": "COMPUTE_INSTANCE"}
    process = {"host": "fake-1", "ha_type": "COMPUTE_PROCESS"}
    labels = (
        {**instance, "instance_uuid": UNKNOWN.upper()},
        {**instance, "instance_uuid": "vm"},
        {**process, "process_name": "p" * 4097},
    )
    told = ha.ask(
        "POST", "/notifications", {"alerts": [{"status": "firing", "labels": each} for each in labels]}
    ).json()
    assert [each["payload"]["instance_uuid"] for each in told["notifications"]] == [UNKNOWN]
    assert ["uuid" in each["reason"] for each in told["ignored"]] == [True, False]


def test_vmoves_are_of_hosts_and_come_with_their_version(ha: Ha, host: str) -> None:
    of_process = ha.reported(type="PROCESS", event="STARTED", process_name="x")
    assert refusal(ha.ask("GET", f"/notifications/{of_process}/vmoves"))[:2] == (400, "badRequest")
    of_host = ha.reported(event="STARTED")
    assert ha.get(f"/notifications/{of_host}/vmoves?type=evacuation&status=pending") == {"vmoves": []}
    assert ha.get(f"/notifications/{of_host}/vmoves?sort_key=start_time&sort_key=updated_at") == {"vmoves": []}
    assert ha.ask("GET", f"/notifications/{of_host}/vmoves?status=x").status == 400
    assert ha.ask("GET", f"/notifications/{of_host}/vmoves", version="1.2").status == 404
    assert ha.ask("GET", "/segments", version="1.4").status == 406
