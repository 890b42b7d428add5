"""Who is taken for dead, what is held back, and what operators say. Reference: instance-ha.md, section 7."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cloudctl import cli
from cloudctl.compute.host_watch import HostWatch
from cloudctl.db import Connection
from cloudctl.db.database import Database
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.instance_ha import bus, fencing, notifications
from cloudctl.instance_ha.bus import HOST_ERROR, INSTANCE_ERROR, Message
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.tasks import Unasked
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import STOPPED, Ha

AT = datetime(2027, 1, 15, 8)


@pytest.fixture
def network(cloud: MemoryCloud) -> FakeNetworkBackend:
    found = cloud.cloud.drivers.network
    assert isinstance(found, FakeNetworkBackend)
    return found


@pytest.fixture
def hosts(ha: Ha) -> list[str]:
    segment = ha.segment()
    return [ha.host(segment, f"fake-{number}") for number in (1, 2, 3)]


def pass_time(ha: Ha, seconds: int) -> None:
    for _ in range(seconds // 5):
        ha.cloud.advance(5)


def let_return(ha: Ha, host_id: str) -> None:
    (segment,) = ha.get("/segments")["segments"]
    path = f"/segments/{segment['uuid']}/hosts/{host_id}"
    assert ha.ask("PUT", path, {"host": {"on_maintenance": False}}).status == 200
    ha.cloud.advance(0.1)


def statuses(ha: Ha) -> list[tuple[str, str]]:
    found = ha.get("/notifications?sort_key=id&sort_dir=asc")["notifications"]
    return [(each["hostname"], each["status"]) for each in found]


def test_a_host_that_both_channels_miss_is_recovered_from(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    server = ha.compute.boot(availability_zone="nova:fake-1")
    hypervisor.fail_host("fake-1")
    pass_time(ha, 120)
    assert statuses(ha) == []
    network.silent.add("fake-1")
    pass_time(ha, 20)
    ha.cloud.settle()
    assert statuses(ha) == [("fake-1", "finished")] and fencer.fenced == {"fake-1"}
    assert ha.compute.server(server)["OS-EXT-SRV-ATTR:host"] != "fake-1"
    pass_time(ha, 300)
    assert len(statuses(ha)) == 1


def test_a_host_that_starts_for_minutes_once_it_has_its_power_again_is_not_fenced_anew(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    hypervisor.fail_host("fake-1")
    network.silent.add("fake-1")
    pass_time(ha, 150)
    assert fencer.fenced == {"fake-1"}
    fencer.starts = lambda _host: None
    let_return(ha, hosts[0])
    assert fencer.fenced == set()
    pass_time(ha, 900)
    assert len(statuses(ha)) == 1 and fencer.fenced == set()
    hypervisor.recover_host("fake-1")
    network.silent.clear()
    pass_time(ha, 60)
    assert ha.compute.get("/os-services?host=fake-1").json()["services"][0]["status"] == "enabled"
    # From then on it can be lost again.
    hypervisor.fail_host("fake-1")
    network.silent.add("fake-1")
    pass_time(ha, 150)
    assert len(statuses(ha)) == 2 and fencer.fenced == {"fake-1"}


def test_who_is_not_sure_of_a_host_that_is_starting_waits_until_it_is_there(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    fencer.starts = lambda _host: None
    hypervisor.fail_host("fake-1")
    network.silent.add("fake-1")
    pass_time(ha, 150)
    assert fencer.fenced == {"fake-1"}
    let_return(ha, hosts[0])
    told = ha.reported("fake-1", event="STOPPED", host_status="UNKNOWN")
    pass_time(ha, 300)
    assert fencer.fenced == set()
    (waiting,) = ha.cloud.transact(notifications.held)
    assert waiting.id == told and "may still be starting" in waiting.message
    hypervisor.recover_host("fake-1")
    network.silent.clear()
    pass_time(ha, 60)
    assert ha.status(told) == "ignored" and fencer.fenced == set()


def test_a_host_that_its_hypervisor_has_again_is_not_missed_before_others_see_it_too(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    hypervisor.fail_host("fake-1")
    network.silent.add("fake-1")
    pass_time(ha, 150)
    assert fencer.fenced == {"fake-1"}
    pass_time(ha, 300)

    async def nothing(_self: HostWatch) -> None:
        """Its round comes later."""

    monkeypatch.setattr(HostWatch, "look", nothing)
    let_return(ha, hosts[0])
    pass_time(ha, 30)
    monkeypatch.undo()
    pass_time(ha, 30)
    assert fencer.fenced == set() and len(statuses(ha)) == 1


def test_a_host_whose_recovery_was_given_up_before_there_was_a_proof_is_used_again_once_it_may_return(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    fencer.behaviour.fail("ensure_fenced", times=None, error=Unreachable("no answer"))
    hypervisor.fail_host("fake-1")
    told = ha.reported("fake-1", event="STOPPED", host_status="NORMAL")
    pass_time(ha, 60)
    ha.cloud.advance(86_400)
    pass_time(ha, 60)
    # A token lives for an hour.
    ha.cloud._tokens.clear()
    ha = Ha(ha.cloud.client("admin"))
    assert ha.status(told) == "failed"
    hypervisor.recover_host("fake-1")
    let_return(ha, hosts[0])
    service = ha.compute.get("/os-services?host=fake-1").json()["services"][0]
    assert service["status"] == "enabled"


def test_one_channel_alone_takes_nobody_for_dead(
    ha: Ha, hosts: list[str], network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    network.silent.add("fake-1")
    pass_time(ha, 200)
    assert statuses(ha) == [] and not fencer.fenced


def test_a_cliff_is_held_and_ends_when_the_hosts_answer(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    for name in ("fake-1", "fake-2", "fake-3"):
        hypervisor.fail_host(name)
        network.silent.add(name)
    pass_time(ha, 120)
    assert statuses(ha) == [("fake-1", "running"), ("fake-2", "running"), ("fake-3", "running")]
    assert not fencer.fenced
    for each in ha.get("/notifications")["notifications"]:
        assert "3 hosts vanished at once, and 2 may" in each["message"]
    for name in ("fake-1", "fake-2", "fake-3"):
        hypervisor.recover_host(name)
    network.silent.clear()
    ha.cloud.settle()
    assert {status for _, status in statuses(ha)} == {"ignored"} and not fencer.fenced


def test_those_of_a_cliff_count_of_which_nobody_has_told_yet(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    for name in ("fake-1", "fake-2", "fake-3"):
        hypervisor.fail_host(name)
    network.silent |= {"fake-1", "fake-2"}
    pass_time(ha, 120)
    assert statuses(ha) == [("fake-1", "running"), ("fake-2", "running")] and not fencer.fenced
    for each in ha.get("/notifications")["notifications"]:
        assert "3 hosts vanished at once, and 2 may" in each["message"]
    hypervisor.recover_host("fake-3")
    pass_time(ha, 60)
    assert fencer.fenced == {"fake-1", "fake-2"}


def test_a_host_is_not_taken_to_answer_for_what_it_did_before_it_was_reported(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    pass_time(ha, 15)
    for name in ("fake-1", "fake-2", "fake-3"):
        hypervisor.fail_host(name)
    unsure = ha.reported("fake-1", event="STOPPED", host_status="UNKNOWN")
    ha.cloud.advance(1)
    assert "has not been looked at" in ha.notification(unsure)["message"]
    for name in ("fake-2", "fake-3", "fake-1"):
        ha.reported(name)
    pass_time(ha, 60)
    assert statuses(ha) == [("fake-1", "ignored"), ("fake-2", "running"), ("fake-3", "running"), ("fake-1", "running")]
    waiting = {each.message.partition(";")[0] for each in ha.cloud.transact(notifications.held)}
    assert waiting == {"3 hosts vanished at once, and 2 may: it looks as if the network were broken, not the hosts"}


def test_hosts_that_are_being_fenced_count_among_those_of_an_hour() -> None:
    few = {"cliff_share": 1.0, "segment_share": 1.0, "fences_per_hour": 2}
    slow = {"fencer": {"fake": {"delays": {"ensure_fenced": 5.0}}}}
    ha = Ha(MemoryCloud({"instance_ha": few, "driver": slow}).client("admin"))
    segment = ha.segment()
    for number in (1, 2, 3):
        ha.host(segment, f"fake-{number}")
        ha.reported(f"fake-{number}")
    pass_time(ha, 60)
    # It answers, so it is not kept waiting.
    assert statuses(ha) == [("fake-1", "finished"), ("fake-2", "finished"), ("fake-3", "ignored")]
    last = ha.get("/notifications?status=ignored")["notifications"][0]
    assert "2 hosts were fenced within an hour" in last["message"]
    ha.cloud.close()


def test_a_share_is_as_large_as_it_is_written() -> None:
    """As floats, 0.58 * 50 is 28.999999999999996."""
    written = {"cliff_share": 0.58, "segment_share": 0.58, "fences_per_hour": 50}
    ha = Ha(MemoryCloud({"instance_ha": written, "driver": {"hypervisor": {"fake": {"hosts": 50}}}}).client("admin"))
    segment = ha.segment()
    for number in range(1, 51):
        ha.host(segment, f"fake-{number}")
    for number in range(1, 30):
        ha.reported(f"fake-{number}")
    pass_time(ha, 60)
    assert {status for _, status in statuses(ha)} == {"finished"}
    ha.cloud.close()


def test_an_operator_lets_one_of_a_cliff_go_on(
    ha: Ha, hosts: list[str], hypervisor: FakeHypervisor, network: FakeNetworkBackend, fencer: FakeFencer
) -> None:
    for name in ("fake-1", "fake-2", "fake-3"):
        hypervisor.fail_host(name)
        network.silent.add(name)
    pass_time(ha, 120)
    ha.cloud.transact(fencing.let_go_on, "fake-2", AT)
    pass_time(ha, 60)
    assert fencer.fenced == {"fake-2"}


# -- the bus


def message(id: str, type: str = HOST_ERROR, **data: Any) -> Message:
    return Message(id, type, "nova-compute:fake-1", {"nova_object.name": "X", "nova_object.data": data}, AT)


def take(ha: Ha, *messages: Message) -> list[str | None]:
    def taken(conn: Connection) -> list[str | None]:
        return [bus.take(conn, each, InstanceHaOptions(engine_enabled=False), AT) for each in messages]

    found: list[str | None] = ha.cloud.transact(taken)
    return found


def test_a_message_becomes_one_notification_however_often_it_comes(ha: Ha, hosts: list[str]) -> None:
    first, again, other = take(
        ha, message("a", host="fake-1", forced_down=True), message("a", host="fake-1"), message("b", forced_down=True)
    )
    assert first is not None and (again, other) == (None, None)
    found = ha.notification(first)
    assert (found["type"], found["hostname"], found["status"]) == ("COMPUTE_HOST", "fake-1", "new")
    assert found["payload"] == {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"}


def test_events_of_instances_and_flat_ones_are_taken_and_useless_ones_dropped(ha: Ha, hosts: list[str]) -> None:
    server = ha.compute.boot(availability_zone="nova:fake-1")
    flat = Message("c", INSTANCE_ERROR, "", {"host": "fake-1", "instance_uuid": server}, AT)
    found = take(ha, flat, message("d", host="nowhere"), Message("e", "compute.other", "", {}, AT))
    assert [each is not None for each in found] == [True, False, False]
    assert ha.notification(str(found[0]))["payload"]["instance_uuid"] == server


def test_what_was_stored_while_the_engine_was_off_is_picked_up(ha: Ha, hosts: list[str]) -> None:
    (uuid,) = take(ha, message("a", host="fake-1", forced_down=True))
    ha.cloud.advance(61)
    pass_time(ha, 10)
    ha.cloud.settle()
    assert ha.status(str(uuid)) == "finished"


def test_what_has_expired_while_the_engine_was_off_is_not_acted_upon(
    ha: Ha, hosts: list[str], fencer: FakeFencer
) -> None:
    off = InstanceHaOptions(engine_enabled=False)
    new = notifications.NewNotification("fake-1", "COMPUTE_HOST", STOPPED, AT)
    told = ha.cloud.transact(notifications.create, Unasked(), new, off, AT - timedelta(days=2)).id
    pass_time(ha, 60)
    found = ha.notification(told)
    assert (found["status"], fencer.fenced) == ("failed", set()), found
    assert found["message"] == "it was not acted upon within 86400 s"


def test_a_network_that_cannot_tell_keeps_nothing_else_from_being_done(
    ha: Ha, hosts: list[str], network: FakeNetworkBackend
) -> None:
    network.behaviour.fail("silent_hosts", times=None)
    (uuid,) = take(ha, message("a", host="fake-1", forced_down=True))
    ha.cloud.advance(61)
    pass_time(ha, 10)
    ha.cloud.settle()
    assert ha.status(str(uuid)) == "finished"


# -- the command line


def test_operators_see_what_waits_and_vouch_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = MemoryCloud()
    ha = Ha(cloud.client("admin"))
    ha.host(ha.segment(), "fake-1")
    fencer = cloud.cloud.drivers.fencers["fake"]
    assert isinstance(fencer, FakeFencer)
    fencer.behaviour.fail("ensure_fenced", times=None)
    uuid = ha.reported()
    cloud.advance(5)

    def database(_made: Any) -> Database:
        return cloud.db

    monkeypatch.setattr(cli, "database", database)

    def run(*words: str) -> tuple[int, str]:
        answer = CliRunner().invoke(cli.main, ["--state-dir", str(tmp_path), "hosts", *words])
        return answer.exit_code, answer.output

    code, told = run("waiting")
    assert code == 0 and uuid in told and "no proof that host fake-1 is fenced" in told
    assert run("fenced", "fake-2", "--reason", "x") == (
        1,
        "Error: No notification that host fake-2 is dead is open.\n",
    )
    assert run("fenced", "fake-1", "--reason", "its plugs are in my hand") == (0, f"notification {uuid} goes on\n")
    assert run("approve", "fake-1") == (0, f"notification {uuid} goes on\n")
    cloud.settle()
    assert ha.status(uuid) == "finished" and run("waiting") == (0, "")
    cloud.close()
