"""What compute tells by its own outbox, and what others tell by a bus."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field
from twisted.internet.defer import ensureDeferred
from zope.interface import implementer

from cloudctl.db import Connection
from cloudctl.drivers.bus_interface import BusMessage, Hear
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.interfaces import IBus, IBusListening
from cloudctl.instance_ha.bus import Message
from cloudctl.instance_ha.intake import BusIntake, message_of
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha
from tests.statements import asked


@implementer(IBus, IBusListening)
@define(eq=False)
class OneBus:
    """Gives on what a test says."""

    hear: Hear | None = None
    done: list[str] = field(factory=list)

    async def check(self) -> None: ...

    async def close(self) -> None: ...

    async def listen(self, hear: Hear) -> None:
        self.hear = hear

    def say(self, type: str, id: str = "m-1", at: str = "2027-01-15 08:00:00.000000", **data: Any) -> None:
        assert self.hear is not None
        body = {
            "event_type": type,
            "publisher_id": "nova-compute:fake-1",
            "timestamp": at,
            "payload": {"nova_object.data": data},
        }
        _result(self.hear(BusMessage(id, "error", body)))
        self.done.append(id)


@pytest.fixture
def bus(cloud: MemoryCloud) -> OneBus:
    made = OneBus()
    BusIntake(cloud.db, made, InstanceHaOptions()).startService()
    return made


def reported(ha: Ha) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ha.get("/notifications?sort_key=id&sort_dir=asc")["notifications"]
    return found


def test_a_guest_that_crashes_by_itself_is_started_again(
    cloud: MemoryCloud, ha: Ha, hypervisor: FakeHypervisor
) -> None:
    server = ha.compute.boot(metadata={"HA_Enabled": "True"})
    host = ha.compute.server(server)["OS-EXT-SRV-ATTR:host"]
    ha.host(ha.segment(), host)
    hypervisor.crash(server)
    cloud.advance(5)
    cloud.settle()
    (found,) = reported(ha)
    assert (found["type"], found["hostname"], found["status"]) == ("COMPUTE_INSTANCE", host, "finished")
    assert found["payload"]["instance_uuid"] == server
    assert ha.compute.server(server)["status"] == "ACTIVE"


def test_a_guest_that_crashes_once_more_is_started_once_more_but_not_for_ever(
    cloud: MemoryCloud, ha: Ha, hypervisor: FakeHypervisor
) -> None:
    """Its crashes say the same, and are within the time in which a monitor that says the same is not heard."""
    server = ha.compute.boot(metadata={"HA_Enabled": "True"})
    ha.host(ha.segment(), ha.compute.server(server)["OS-EXT-SRV-ATTR:host"])

    def after_a_crash() -> str:
        hypervisor.crash(server)
        cloud.advance(5)
        cloud.settle()
        return ha.compute.status(server)

    assert [after_a_crash() for _ in range(4)] == ["ACTIVE", "ACTIVE", "ACTIVE", "SHUTOFF"]
    assert [each["status"] for each in reported(ha)] == ["finished"] * 3
    assert ha.compute.act(server, {"os-start": None}).status == 202
    cloud.advance(InstanceHaOptions().duplicate_notification_detection_interval)
    assert after_a_crash() == "ACTIVE"


def test_a_recovery_that_fails_does_not_call_for_another_one(
    cloud: MemoryCloud, ha: Ha, hypervisor: FakeHypervisor
) -> None:
    server = ha.compute.boot(metadata={"HA_Enabled": "True"})
    segment = ha.segment()
    for name in ("fake-1", "fake-2", "fake-3"):
        ha.host(segment, name)
    hypervisor.behaviour.fail("ensure_running", times=None, error=DriverError("it does not start"))
    hypervisor.crash(server)
    for _ in range(45):
        cloud.advance(60)
    assert [each["status"] for each in reported(ha)] == ["failed"]


def test_what_a_user_did_that_failed_is_no_fault_to_recover_from(
    cloud: MemoryCloud, ha: Ha, hypervisor: FakeHypervisor
) -> None:
    segment = ha.segment()
    for name in ("fake-1", "fake-2", "fake-3"):
        ha.host(segment, name)
    hypervisor.behaviour.fail("ensure_running", times=None, error=DriverError("it does not start"))
    assert ha.compute.create(metadata={"HA_Enabled": "True"}).status == 202
    cloud.settle()
    cloud.advance(60)
    assert reported(ha) == []


def test_a_message_of_a_bus_is_a_notification_and_is_done_with_after_its_commit(
    cloud: MemoryCloud, ha: Ha, bus: OneBus
) -> None:
    ha.host(ha.segment(), "fake-1")
    bus.say("compute.host.error", host="fake-1", forced_down=True)
    assert bus.done == ["m-1"] and [each["payload"]["host_status"] for each in reported(ha)] == ["NORMAL"]
    bus.say("compute.host.error", host="fake-1", forced_down=True)
    assert bus.done == ["m-1", "m-1"] and len(reported(ha)) == 1


def test_a_crash_before_the_commit_leaves_a_message_to_come_again(
    cloud: MemoryCloud, ha: Ha, bus: OneBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    ha.host(ha.segment(), "fake-1")
    with monkeypatch.context() as patched:
        patched.setattr("cloudctl.instance_ha.bus.take", _killed)
        with pytest.raises(ConnectionError):
            assert bus.hear is not None
            _result(bus.hear(BusMessage("m-1", "error", _host_error())))
    assert reported(ha) == []
    assert bus.hear is not None
    _result(bus.hear(BusMessage("m-1", "error", _host_error())))
    assert len(reported(ha)) == 1


def _host_error() -> dict[str, Any]:
    payload = {"nova_object.data": {"host": "fake-1", "forced_down": True}}
    return {"event_type": "compute.host.error", "timestamp": "2027-01-15 08:00:00", "payload": payload}


def _killed(*_: Any) -> None:
    raise ConnectionError("killed")


def _result(work: Any) -> None:
    found: list[Any] = []
    ensureDeferred(work).addBoth(found.append)
    if found and hasattr(found[0], "raiseException"):
        found[0].raiseException()


def test_a_stock_compute_service_that_is_said_to_be_down_is_a_dead_host(
    cloud: MemoryCloud, ha: Ha, bus: OneBus
) -> None:
    ha.host(ha.segment(), "fake-1")
    bus.say("service.update", id="a", host="fake-1", binary="nova-compute", forced_down=False)
    bus.say("service.update", id="b", host="fake-1", binary="nova-scheduler", forced_down=True)
    assert reported(ha) == []
    bus.say("service.update", id="c", host="fake-1", binary="nova-compute", forced_down=True)
    assert len(reported(ha)) == 1


@pytest.mark.parametrize(
    ("at", "status", "message"),
    [
        ("2027-01-14 09:00:00", "finished", None),
        ("2027-01-14 07:00:00", "ignored", "it came more than 86400 s after what it reports"),
    ],
)
def test_a_message_that_waited_longer_than_a_recovery_may_is_not_acted_upon(
    cloud: MemoryCloud, ha: Ha, bus: OneBus, at: str, status: str, message: str | None
) -> None:
    """Its queue outlives our processes, and the host has power again since."""
    segment = ha.segment()
    host = ha.host(segment, "fake-1")
    bus.say("service.update", at=at, host="fake-1", binary="nova-compute", forced_down=True)
    cloud.settle()
    (found,) = reported(ha)
    assert (found["status"], found["message"]) == (status, message)
    assert ha.get(f"/segments/{segment}/hosts/{host}")["host"]["on_maintenance"] is (status == "finished")


@pytest.mark.parametrize("wrong", [{"host": "fake-1\0"}, {"uuid": "\0"}, {"message": "m-\0"}])
def test_a_message_that_cannot_be_stored_does_not_come_for_ever(wrong: dict[str, str]) -> None:
    def made(message: str = "m-1", host: str = "fake-1", uuid: str = "u-1") -> Message | None:
        payload = {"nova_object.data": {"host": host, "uuid": uuid}}
        body = {"event_type": "compute.instance.error", "timestamp": "2027-01-15 08:00:00", "payload": payload}
        return message_of(BusMessage(message, "error", body))

    assert made() is not None and made(**wrong) is None


def test_what_is_no_event_of_interest_is_done_with_too(cloud: MemoryCloud, ha: Ha, bus: OneBus) -> None:
    ha.host(ha.segment(), "fake-1")
    bus.say("instance.create.error", id="a", uuid="x")
    bus.say("compute.host.error", id="b", host="nobody", forced_down=True)
    assert bus.hear is not None
    _result(bus.hear(BusMessage("c", "error", {"event_type": "compute.host.error", "payload": {}, "timestamp": 7})))
    _result(bus.hear(BusMessage("d", "error", {"event_type": ["x"], "payload": None})))
    assert bus.done == ["a", "b"] and reported(ha) == []


def test_what_is_looked_for_again_and_again_is_found_by_an_index(cloud: MemoryCloud, ha: Ha, bus: OneBus) -> None:
    ha.host(ha.segment(), "fake-1")
    with asked() as seen:
        bus.say("compute.host.error", host="fake-1", forced_down=True)
        cloud.advance(60)
        cloud.settle()
    assert len(reported(ha)) == 1
    looks = [(text, values) for text, values in seen if text.startswith("SELECT")]

    def plans(conn: Connection) -> list[str]:
        return [
            f"{row[-1]} of {text}"
            for text, values in looks
            for row in conn.driver.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()
        ]

    steps = cloud.db.transact(True, plans)
    assert any("SEARCH ha_notifications" in step for step in steps) and any("SEARCH events" in step for step in steps)
    assert not [step for step in steps if "SCAN ha_notifications" in step or "SCAN events" in step]
