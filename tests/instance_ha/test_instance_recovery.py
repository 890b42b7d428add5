"""A server dies by itself: it is started where it is, or else elsewhere. Reference: instance-ha.md, section 6."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha
from tests.there import there

IMPORTANT: dict[str, Any] = {"metadata": {"HA_Enabled": "True"}}
FAILED = {"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED"}


@pytest.fixture
def server(ha: Ha) -> str:
    ha.host(ha.segment(), "fake-1")
    return ha.compute.boot(availability_zone="nova:fake-1", **IMPORTANT)


def reported(ha: Ha, server: str, **said: str) -> str:
    return ha.reported(type="VM", **{**FAILED, **said}, instance_uuid=server)


def test_it_is_started_where_it_is(ha: Ha, server: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.guests.put(server, _crashed(hypervisor, server))
    uuid = reported(ha, server)
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert (found["status"], found["type"]) == ("finished", "VM"), found
    assert [each["name"] for each in found["recovery_workflow_details"]] == [
        "StopInstanceTask",
        "StartInstanceTask",
        "MoveInstanceTask",
        "ConfirmInstanceActiveTask",
    ]
    guest = there(hypervisor.guests.get(server))
    assert (guest.power, guest.spec.host, ha.compute.status(server)) == (Power.RUNNING, "fake-1", "ACTIVE")


def _crashed(hypervisor: FakeHypervisor, server: str) -> Any:
    return evolve(there(hypervisor.guests.get(server)), power=Power.CRASHED)


def test_one_that_does_not_start_there_goes_elsewhere(ha: Ha, server: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_running", error=DriverError("the disk of this host is broken"))
    uuid = reported(ha, server)
    ha.cloud.settle()
    assert ha.status(uuid) == "finished", ha.notification(uuid)
    guest = there(hypervisor.guests.get(server))
    assert guest.power is Power.RUNNING and guest.spec.host != "fake-1"
    assert ha.compute.status(server) == "ACTIVE"


@pytest.mark.parametrize("dies", ["the host", "the server"])
def test_one_that_was_made_smaller_counts_as_what_it_is(ha: Ha, dies: str) -> None:
    """Its resize can no longer be reverted, but the project went on using what it had before."""
    less = {"name": "less", "id": "less", "ram": 1024, "vcpus": 1, "disk": 20}
    assert ha.compute.post("/flavors", {"flavor": less}).status == 200
    server = ha.compute.boot(flavorRef="2", **IMPORTANT)
    assert ha.compute.act(server, {"resize": {"flavorRef": "less"}}).status == 202
    ha.cloud.settle()
    host = ha.compute.server(server)["OS-EXT-SRV-ATTR:host"]
    ha.host(ha.segment(), host)
    uuid = reported(ha, server, hostname=host) if dies == "the server" else ha.reported(host)
    ha.cloud.settle()
    assert (ha.status(uuid), ha.compute.status(server)) == ("finished", "ACTIVE")
    assert ha.compute.get("/limits").json()["limits"]["absolute"]["totalRAMUsed"] == 1024


def test_one_that_starts_nowhere_fails(ha: Ha, server: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_running", times=None, error=DriverError("it is broken"))
    uuid = reported(ha, server)
    ha.cloud.settle()
    assert ha.status(uuid) == "failed" and "starts nowhere" in ha.notification(uuid)["message"]


def test_one_that_does_not_stop_is_stopped_again(ha: Ha, server: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_stopped", error=DriverError("it does not listen"))
    uuid = reported(ha, server)
    ha.cloud.settle()
    assert ha.status(uuid) == "finished", ha.notification(uuid)
    assert hypervisor.behaviour.calls["ensure_stopped"] == 2
    assert there(hypervisor.guests.get(server)).power is Power.RUNNING and ha.compute.status(server) == "ACTIVE"


def test_one_that_a_recovery_of_its_host_has_moved_meanwhile_is_not_started_again(
    ha: Ha, server: str, hypervisor: FakeHypervisor
) -> None:
    hypervisor.fail_host("fake-1")
    uuid = reported(ha, server)
    ha.cloud.advance(12)
    dead = ha.reported()
    for _ in range(30):
        ha.cloud.advance(1)
    place = ha.compute.server(server)["OS-EXT-SRV-ATTR:host"]
    assert (ha.status(dead), ha.compute.status(server)) == ("finished", "ACTIVE") and place != "fake-1"
    log = there(hypervisor.guests.get(server)).log
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert (found["status"], found["message"]) == ("finished", f"it was moved to {place} meanwhile")
    assert there(hypervisor.guests.get(server)).log == log


def test_what_a_host_says_late_of_one_that_has_left_it_changes_nothing(
    ha: Ha, server: str, hypervisor: FakeHypervisor
) -> None:
    live = {"os-migrateLive": {"host": None, "block_migration": False, "disk_over_commit": False}}
    assert ha.compute.act(server, live).status == 202
    ha.cloud.settle()
    host = ha.compute.server(server)["OS-EXT-SRV-ATTR:host"]
    log = there(hypervisor.guests.get(server)).log
    uuid = reported(ha, server)
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert there(hypervisor.guests.get(server)).log == log
    assert host != "fake-1" and (found["status"], found["message"]) == ("finished", f"it is on {host} by now")


def test_a_retry_waits_as_long_as_the_first_try_for_a_server_to_be_active() -> None:
    cloud = MemoryCloud({"instance_ha": {"instance_tasks": ["confirm_instance_active"]}})
    try:
        ha = Ha(cloud.client("admin"))
        ha.host(ha.segment(), "fake-1")
        server = ha.compute.boot(availability_zone="nova:fake-1", **IMPORTANT)
        ha.compute.act(server, {"os-stop": None})
        uuid = reported(ha, server)
        while ha.status(uuid) != "error":
            cloud.clock.advance(1)
        while ha.status(uuid) != "running":
            cloud.clock.advance(1)
        cloud.clock.advance(30)
        ha.compute.act(server, {"os-start": None})
        cloud.settle()
        assert ha.status(uuid) == "finished", ha.notification(uuid)
    finally:
        cloud.close()


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        ({"event": "LIFECYCLE", "vir_domain_event": "SHUTDOWN_FINISHED"}, "ignored", "is not a failure"),
        ({"event": "STOPPED"}, "finished", None),
    ],
)
def test_events_that_are_faults_are_acted_upon(
    ha: Ha, server: str, said: dict[str, str], status: str, message: str | None
) -> None:
    uuid = ha.reported(type="COMPUTE_INSTANCE", **said, instance_uuid=server)
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert found["status"] == status and (message is None or message in found["message"])


def test_who_is_paused_or_not_named_or_not_important_is_left_alone(ha: Ha, server: str) -> None:
    ha.compute.act(server, {"pause": None})
    plain = ha.compute.boot(availability_zone="nova:fake-1")
    paused, unknown = reported(ha, server), ha.reported(type="COMPUTE_INSTANCE", event="STOPPED")
    other = reported(ha, plain)
    ha.cloud.settle()
    assert (ha.status(paused), ha.compute.status(server)) == ("ignored", "PAUSED")
    assert ha.status(unknown) == "ignored"
    assert (ha.status(other), ha.notification(other)["message"]) == ("finished", f"instance {plain} is not HA_Enabled")


def test_one_fault_of_a_server_is_open_at_a_time_and_two_servers_are_two(ha: Ha, server: str) -> None:
    other = ha.compute.boot(availability_zone="nova:fake-1", **IMPORTANT)
    reported(ha, server)
    refused = ha.report(type="VM", event="IO_ERROR", vir_domain_event="IO_ERROR_REPORT", instance_uuid=server)
    assert refused.status == 409
    reported(ha, other)
    ha.cloud.settle()


@pytest.mark.parametrize(("crashes", "status"), [(1, "finished"), (100, "failed")])
def test_one_that_goes_off_again_before_it_was_seen_to_be_on_is_not_waited_for(
    ha: Ha, server: str, hypervisor: FakeHypervisor, monkeypatch: pytest.MonkeyPatch, crashes: int, status: str
) -> None:
    hypervisor.guests.put(server, _crashed(hypervisor, server))
    # As if the engine had much else to do: a recovery looks only when it would have done so anyway.
    monkeypatch.setattr("cloudctl.tasks.children.wake_parent", lambda *_: None)
    uuid = reported(ha, server)
    ha.cloud.advance(1)
    for _ in range(1000):
        if crashes and ha.compute.status(server) == "ACTIVE":
            hypervisor.crash(server)
            crashes -= 1
        ha.cloud.advance(0.5)
    assert ha.status(uuid) == status, ha.notification(uuid)
    if status == "finished":
        place = ha.compute.server(server)["OS-EXT-SRV-ATTR:host"]
        assert (ha.compute.status(server), place == "fake-1") == ("ACTIVE", False)
