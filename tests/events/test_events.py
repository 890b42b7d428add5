"""Events reach who wants them: in order, at least once, and whatever dies; nobody pays for what nobody wants."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from attrs import define, field
from sqlalchemy import select
from twisted.internet.task import Clock, deferLater
from twisted.logger import capturedLogs, formatEvent

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.events import outbox, receivers
from cloudctl.events.delivery import Delivery, Ordering
from cloudctl.events.options import WebhookOptions
from cloudctl.events.outbox import NewEvent
from cloudctl.events.tables import Event, Receiver
from cloudctl.events.webhooks import Webhook
from cloudctl.rest.outgoing import FetchError
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking
from tests.events.conftest import SECRET


@define(eq=False)
class Internet:
    """Where webhooks are sent: remembers what came, and answers as it is told."""

    got: list[dict[str, Any]] = field(factory=list)
    headers: list[Mapping[str, str]] = field(factory=list)
    bodies: list[bytes] = field(factory=list)
    down: bool = False
    refuses: str = ""  # events of this type are answered 400
    takes: float = 0.0  # seconds before each answer
    clock: Clock | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        if self.down:
            raise FetchError("nobody answers")
        if self.clock is not None and self.takes:
            await deferLater(self.clock, self.takes, lambda: None)
        event = json.loads(body)
        if event["event_type"] == self.refuses:
            return 400
        self.got.append(event)
        self.headers.append(headers)
        self.bodies.append(body)
        return 204

    @property
    def types(self) -> list[str]:
        return [each["event_type"] for each in self.got]


def deliveries(cloud: MemoryCloud) -> list[Delivery]:
    return [each for each in cloud.cloud if isinstance(each, Delivery)]


@pytest.fixture
def internet(cloud: MemoryCloud) -> Internet:
    made = Internet(clock=cloud.clock)
    (delivery,) = deliveries(cloud)
    delivery.send = Webhook(HOOK, cloud.clock, made.post).send
    return made


HOOK = WebhookOptions("http://ops.example/hook", SECRET)


def tell(cloud: MemoryCloud, number: int, resource: str = "server/1") -> None:
    def write(conn: Connection) -> None:
        new = NewEvent(f"test.{number}", resource, {"number": number}, "test:here")
        outbox.tell(conn, new, utc(cloud.clock.seconds()))

    cloud.transact(write)


def receiver(cloud: MemoryCloud, name: str = "webhook ops") -> Receiver:
    found: Receiver | None = cloud.transact(receivers.find, name)
    assert found is not None
    return found


# -- what is told


def test_the_life_of_a_server_is_told_in_order_with_what_it_was_then(cloud: MemoryCloud, internet: Internet) -> None:
    demo = Asking(cloud.client("demo"))
    server = demo.boot(metadata={"a": "1"})
    demo.post(f"/servers/{server}/action", {"os-stop": None})
    cloud.settle()
    cloud.client("demo").delete(f"/compute/v2.1/servers/{server}")
    cloud.settle()
    assert internet.types == [
        f"instance.{what}.{phase}" for what in ("create", "power_off", "delete") for phase in ("start", "end")
    ]
    data = [each["payload"]["nova_object.data"] for each in internet.got]
    assert {each["uuid"] for each in data} == {server}
    assert [each["state"] for each in data] == ["building", "active", "active", "stopped", "stopped", "deleted"]
    made = data[1]
    assert made["metadata"] == {"a": "1"} and made["host"].startswith("fake-") and made["launched_at"]
    assert made["flavor"]["nova_object.data"]["vcpus"] and made["fault"] is None
    assert made["ip_addresses"][0]["nova_object.data"]["version"] == 4
    assert made["action_initiator_user"] == made["user_id"] and made["request_id"].startswith("req-")
    assert internet.got[1]["publisher_id"] == f"nova-compute:{made['host']}"
    assert len({each["message_id"] for each in internet.got}) == len(internet.got)


def test_a_boot_that_fails_is_an_error_with_its_reason_and_is_told_to_be_asked_for(
    cloud: MemoryCloud, internet: Internet
) -> None:
    demo = Asking(cloud.client("demo"))
    cloud.cloud.drivers.hypervisor.behaviour.fail("ensure_running", times=None)  # type: ignore[attr-defined]  # a fake
    assert demo.create().status == 202
    cloud.settle()
    assert internet.types == ["instance.create.start", "instance.create.error", "compute.instance.error"]
    assert internet.got[1]["priority"] == "ERROR"
    fault = internet.got[1]["payload"]["nova_object.data"]["fault"]
    assert fault["nova_object.data"]["exception_message"]
    assert internet.got[2]["payload"]["nova_object.data"]["asked_for"] is True


def test_a_guest_that_crashes_and_one_that_shuts_itself_down_are_told_apart(
    cloud: MemoryCloud, internet: Internet
) -> None:
    server = Asking(cloud.client("demo")).boot()
    internet.got.clear()
    cloud.cloud.drivers.hypervisor.crash(server)  # type: ignore[attr-defined]  # a fake
    cloud.advance(5)
    cloud.settle()
    (error,) = [each for each in internet.got if each["event_type"] == "compute.instance.error"]
    data = error["payload"]["nova_object.data"]
    assert (data["vir_domain_event"], data["asked_for"], data["instance_uuid"]) == ("STOPPED_FAILED", False, server)


def test_a_host_that_goes_down_is_told_once_an_outage(cloud: MemoryCloud, internet: Internet) -> None:
    cloud.advance(15)
    cloud.cloud.drivers.hypervisor.fail_host("fake-1")  # type: ignore[attr-defined]  # a fake
    cloud.advance(60)
    cloud.advance(60)
    (told,) = [each for each in internet.got if each["event_type"] == "compute.host.error"]
    assert told["payload"]["nova_object.data"]["host_status"] == "UNKNOWN"


def test_nobody_pays_for_what_nobody_wants() -> None:
    cloud = MemoryCloud()
    try:
        written = []
        cloud.db.on_commit(outbox.WRITTEN, lambda: written.append(1))
        Asking(cloud.client("demo")).boot()
        assert written == [] and cloud.transact(lambda conn: conn.execute(select(Event)).all()) == []
    finally:
        cloud.close()


# -- how it is delivered


def test_a_webhook_is_signed_as_stock_libraries_verify_it(cloud: MemoryCloud, internet: Internet) -> None:
    tell(cloud, 1)
    (headers,), (body,) = internet.headers, internet.bodies
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(SECRET.encode(), signed, "sha256").digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert json.loads(body)["message_id"] == headers["webhook-id"]


def test_a_receiver_that_is_down_for_a_minute_gets_everything_in_order(cloud: MemoryCloud, internet: Internet) -> None:
    tell(cloud, 0)
    internet.down = True
    for number in range(1, 121):
        tell(cloud, number)
        cloud.advance(0.5)
    stuck = receiver(cloud)
    assert stuck.failures > 3 and stuck.error == "nobody answers" and stuck.stuck_since is not None
    internet.down = False
    for _ in range(80):
        cloud.advance(1)
    assert internet.types == [f"test.{number}" for number in range(121)]
    well = receiver(cloud)
    assert (well.failures, well.error, well.stuck_since) == (0, None, None)


def test_a_receiver_that_answers_slowly_gets_each_event_once(cloud: MemoryCloud, internet: Internet) -> None:
    internet.takes = 12.0  # longer than a period
    for number in range(3):
        tell(cloud, number)
        cloud.advance(1)
    for _ in range(60):
        cloud.advance(1)
    assert internet.types == ["test.0", "test.1", "test.2"]


def test_pauses_grow_while_nobody_answers(cloud: MemoryCloud, internet: Internet) -> None:
    internet.down = True
    tell(cloud, 1)
    asked = []
    for _ in range(1000):
        before = receiver(cloud).failures
        cloud.advance(1)
        if receiver(cloud).failures > before:
            asked.append(cloud.clock.seconds())
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert len(asked) < 14 and pauses[-1] > 100


def test_an_event_that_is_refused_for_ever_keeps_no_other_from_going(cloud: MemoryCloud, internet: Internet) -> None:
    internet.refuses = "test.2"
    for number in range(1, 4):
        tell(cloud, number)
    assert internet.types == ["test.1", "test.3"]
    assert receiver(cloud).refused == 1


def test_a_crash_between_delivery_and_commit_delivers_again_and_loses_nothing(
    cloud: MemoryCloud, internet: Internet, monkeypatch: pytest.MonkeyPatch, logged_failures: Any
) -> None:
    advance = receivers.advance
    crashes = [True, False, True, False]

    def crash(*args: Any) -> bool:
        if crashes and crashes.pop(0):
            raise ConnectionError("killed")
        return advance(*args)

    monkeypatch.setattr(receivers, "advance", crash)
    for number in range(1, 6):
        tell(cloud, number)
    for _ in range(200):
        cloud.advance(1)
    assert len(internet.got) > 5
    seen: dict[str, str] = {each["message_id"]: each["event_type"] for each in internet.got}
    assert list(seen.values()) == [f"test.{number}" for number in range(1, 6)]
    assert logged_failures.flush(ConnectionError)


def test_a_crash_before_events_are_in_order_loses_none(cloud: MemoryCloud, internet: Internet) -> None:
    ordering = next(each for each in cloud.cloud if isinstance(each, Ordering))
    ordering.stopService()
    for number in range(1, 4):
        tell(cloud, number)
    assert internet.got == []
    ordering.startService()
    assert internet.types == ["test.1", "test.2", "test.3"]


def test_another_process_delivers_once_the_first_is_gone_and_not_before(cloud: MemoryCloud, internet: Internet) -> None:
    (first,) = deliveries(cloud)
    first.stopService()

    def taken(conn: Connection) -> None:
        assert receivers.take(conn, first.receiver, "another", utc(cloud.clock.seconds()), 120.0) is not None

    cloud.transact(taken)
    first.startService()
    tell(cloud, 1)
    cloud.advance(60)
    assert internet.got == []
    cloud.advance(70)
    assert internet.types == ["test.1"]


def test_another_process_does_not_take_over_a_receiver_that_is_only_slow(
    cloud: MemoryCloud, internet: Internet
) -> None:
    internet.takes = 10.0
    (first,) = deliveries(cloud)
    second = Delivery(cloud.clock, cloud.db, first.receiver, ("*",), "another", first.send)
    tell(cloud, 0)
    first.stopService()
    for number in range(1, 30):
        tell(cloud, number)
    cloud.advance(10)
    first.startService()
    second.startService()
    for _ in range(400):
        cloud.advance(1)
    second.stopService()
    assert internet.types == [f"test.{number}" for number in range(30)]


def test_an_event_that_takes_longer_than_the_lease_is_given_up_before_another_process_sends_it(
    cloud: MemoryCloud, internet: Internet
) -> None:
    """As one to a bus may take: two processes sent it at the same time."""
    under_way, most = 0, 0

    async def send(_: Event) -> bool:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await deferLater(cloud.clock, 1000.0, lambda: None)
        finally:
            under_way -= 1
        return True

    both = [Delivery(cloud.clock, cloud.db, "bus", ("*",), owner, send) for owner in ("one", "another")]
    for each in both:
        each.startService()
    tell(cloud, 1)
    for _ in range(300):
        cloud.advance(1)
    (found,) = cloud.transact(lambda conn: [each for each in receivers.every(conn) if each.name == "bus"])
    assert (most, found.error) == (1, "it took no event within 60 seconds")
    for each in both:
        each.stopService()


def test_another_process_need_not_wait_for_one_that_has_delivered_everything(
    cloud: MemoryCloud, internet: Internet
) -> None:
    (first,) = deliveries(cloud)
    second = Delivery(cloud.clock, cloud.db, first.receiver, ("*",), "another", first.send)
    tell(cloud, 1)
    cloud.advance(2)
    assert internet.types == ["test.1"]
    first.stopService()
    tell(cloud, 2)
    second.startService()
    cloud.advance(2)
    second.stopService()
    assert internet.types == ["test.1", "test.2"]


def test_what_was_passed_over_during_a_delivery_is_not_gone_back_to(cloud: MemoryCloud, internet: Internet) -> None:
    internet.takes = 10.0
    for number in range(3):
        tell(cloud, number)
    now = utc(cloud.clock.seconds())
    end = cloud.transact(lambda conn: outbox.overdue(conn, now, 1e9, 0))
    assert cloud.transact(receivers.pass_over, end, now, {}) == [("webhook ops", 3)]
    cloud.transact(outbox.forget, end)
    for _ in range(30):
        cloud.advance(1)
    assert (receiver(cloud).position, receiver(cloud).lost) == (3, 3)


def test_what_is_too_old_is_forgotten_and_counted_as_lost(cloud: MemoryCloud, internet: Internet) -> None:
    tell(cloud, 0)
    internet.down = True
    for number in range(1, 4):
        tell(cloud, number)
    cloud.advance(86_400 + 120)
    assert cloud.transact(lambda conn: conn.execute(select(Event)).all()) == []
    assert receiver(cloud).lost == 3
    internet.down = False
    tell(cloud, 4)
    cloud.advance(400)
    assert internet.types == ["test.0", "test.4"]


def test_a_receiver_loses_what_it_wanted_and_nothing_else() -> None:
    few = {"url": "http://hooks.example/ops", "secret": SECRET, "types": ["test.1*"]}
    # It is not reached: a cloud in memory has no network.
    cloud = MemoryCloud({"events": {"keep": 30.0, "stream": True, "webhooks": {"ops": few}}})
    cloud.advance(1)
    for number in range(20):
        tell(cloud, number)
    cloud.advance(10)
    with capturedLogs() as lines:
        for _ in range(10):
            cloud.advance(10)
    assert receiver(cloud).lost == 11
    told = [formatEvent(line) for line in lines if "expired" in line.get("log_format", "")]
    assert told == ["11 events expired before webhook ops accepted them"]
    cloud.close()


def test_a_receiver_that_is_not_configured_any_more_is_forgotten(cloud: MemoryCloud, internet: Internet) -> None:
    def once(conn: Connection) -> None:
        assert receivers.take(conn, "webhook gone", "a process of before", utc(cloud.clock.seconds()), 120.0)
        receivers.ensure(conn, "a part of the cloud")

    cloud.transact(once)
    internet.down = True
    tell(cloud, 1)
    cloud.advance(43_200)
    tell(cloud, 2)
    for _ in range(50):
        cloud.advance(1800)
    assert cloud.transact(receivers.find, "webhook gone") is None
    assert (receiver(cloud).lost, receiver(cloud, "a part of the cloud").lost) == (2, 2)


def test_positions_go_on_after_everything_was_forgotten(cloud: MemoryCloud, internet: Internet) -> None:
    tell(cloud, 1)
    before = cloud.transact(outbox.last)
    cloud.advance(86_400 + 120)
    tell(cloud, 2)
    assert cloud.transact(outbox.last) == before + 1 and internet.types == ["test.1", "test.2"]
