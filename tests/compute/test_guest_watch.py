"""Guests that go off by themselves are noticed at once, without the audit."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from sqlalchemy.exc import OperationalError
from twisted.logger import capturedLogs, formatEvent

from cloudctl.compute import audit
from cloudctl.compute.guest_watch import AGAIN, SOON, GuestWatch
from cloudctl.db import Connection
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking


def status(demo: Asking, server_id: str) -> tuple[str, int]:
    found = demo.server(server_id)
    return found["status"], found["OS-EXT-STS:power_state"]


def test_a_server_whose_guest_dies_is_soon_off(cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.crash(server_id)
    cloud.advance(SOON)
    cloud.settle()
    assert status(demo, server_id) == ("SHUTOFF", 4)
    assert cloud.cloud.audit.latest == {}, "the audit has not run"


def test_what_the_cloud_does_by_itself_is_found_in_the_log_as_what_users_ask_for(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    """Such actions had no request id, so that none could be shown, and a page that ended with one began anew."""
    server_id = demo.boot()
    for _ in range(2):
        hypervisor.crash(server_id)
        cloud.advance(SOON)
        cloud.settle()
        demo.act(server_id, {"os-start": None})
        cloud.settle()
    path = f"/servers/{server_id}/os-instance-actions"
    actions = demo.get(path).json()["instanceActions"]
    assert [each["action"] for each in actions] == ["start", "stop", "start", "stop", "create"]
    for number, each in enumerate(actions):
        assert demo.get(f"{path}/{each['request_id']}").json()["instanceAction"]["action"] == each["action"]
        rest = demo.get(f"{path}?marker={each['request_id']}", LATEST).json()["instanceActions"]
        assert len(rest) == len(actions) - number - 1


def test_guests_that_die_together_are_compared_in_pieces(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor, monkeypatch: Any
) -> None:
    monkeypatch.setattr("cloudctl.compute.guest_watch.BATCH", 1)
    sizes: list[int] = []
    compare = audit.compare_these

    def counted(conn: Connection, some: Any) -> Any:
        sizes.append(len(some))
        return compare(conn, some)

    monkeypatch.setattr(audit, "compare_these", counted)
    both = [demo.boot(), demo.boot()]
    for server_id in both:
        hypervisor.crash(server_id)
    cloud.advance(SOON)
    cloud.settle()
    assert [status(demo, server_id) for server_id in both] == [("SHUTOFF", 4)] * 2
    assert max(sizes) == 1


def test_a_guest_that_dies_in_the_hands_of_a_task_is_left_to_the_task(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.delay("ensure_rebooted", 30.0)
    demo.act(server_id, {"reboot": {"type": "HARD"}})
    cloud.advance(1.0)
    hypervisor.crash(server_id)
    cloud.advance(10.0)
    assert demo.server(server_id)["status"] == "HARD_REBOOT"
    cloud.settle()
    assert status(demo, server_id) == ("ACTIVE", 1), "the reboot has started it again"


def test_what_died_while_no_cloud_ran_is_seen_at_its_start(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    guest = hypervisor.guests.get(server_id)
    assert guest is not None
    hypervisor.guests.put(server_id, evolve(guest, power=Power.CRASHED))
    cloud.advance(10 * AGAIN)
    assert status(demo, server_id) == ("ACTIVE", 1), "nobody has told"
    watch = GuestWatch(cloud.clock, cloud.db, hypervisor)
    watch.startService()
    cloud.advance(AGAIN)
    cloud.settle()
    watch.stopService()
    assert status(demo, server_id) == ("SHUTOFF", 4)


def test_a_hypervisor_that_does_not_answer_at_the_start_is_watched_once_it_does(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    hypervisor.changed = None
    hypervisor.behaviour.fail("watch_guests", times=2, error=Unreachable("it hangs"))
    watch = GuestWatch(cloud.clock, cloud.db, hypervisor)
    with capturedLogs() as lines:
        watch.startService()
        for _ in range(3):
            cloud.advance(AGAIN)
    told = [formatEvent(line) for line in lines if line["log_namespace"] == "cloudctl.compute.guest_watch"]
    assert told == [
        "guests that go off by themselves may be noticed by the audit only: it hangs",
        "all guests that go off by themselves are noticed at once again",
    ]
    hypervisor.crash(server_id)
    cloud.advance(SOON)
    cloud.settle()
    watch.stopService()
    assert status(demo, server_id) == ("SHUTOFF", 4)


def test_a_guest_that_cannot_be_seen_is_looked_at_again(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.fail("observe", error=Unreachable("it hangs"), id=server_id)
    hypervisor.crash(server_id)
    cloud.advance(SOON)
    assert status(demo, server_id) == ("ACTIVE", 1)
    cloud.advance(AGAIN)
    cloud.settle()
    assert status(demo, server_id) == ("SHUTOFF", 4)


def test_a_database_that_is_away_is_told_once(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor, monkeypatch: Any, logged_failures: Any
) -> None:
    server_id = demo.boot()

    def away(*_args: Any) -> Any:
        raise OperationalError(None, None, Exception("connection refused"))

    with capturedLogs() as lines:
        with monkeypatch.context() as patched:
            patched.setattr(audit, "compare_these", away)
            hypervisor.crash(server_id)
            for _ in range(5):
                cloud.advance(AGAIN)
        cloud.advance(AGAIN)
    told = [formatEvent(line) for line in lines if line["log_namespace"] == "cloudctl.db.absence"]
    away_, back = "the database is unavailable: connection refused", "no more, the database is available again"
    assert told == [f"comparing the guests failed: {each}" for each in (away_, back)]
    assert logged_failures.flush() == []
    assert status(demo, server_id) == ("SHUTOFF", 4)


def test_a_deleted_guest_is_forgotten(cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.crash(server_id)
    hypervisor.guests.delete(server_id)
    calls = hypervisor.behaviour.calls["observe"]
    cloud.advance(SOON)
    cloud.advance(AGAIN)
    cloud.advance(AGAIN)
    assert hypervisor.behaviour.calls["observe"] == calls + 1
