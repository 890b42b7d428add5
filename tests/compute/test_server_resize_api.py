"""Resize, cold migration, confirm and revert. Reference: compute-states.md, section 4.4."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cloudctl.compute import kinds, migrations, overdue
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import RESIZED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from cloudctl.tasks import Kind, queue
from cloudctl.tasks.tables import OPEN
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def resize(demo: Asking, server_id: str, flavor: str = "2") -> None:
    answer = demo.act(server_id, {"resize": {"flavorRef": flavor}})
    assert answer.status == 202, answer
    demo.cloud.settle()


def used(admin: Asking) -> tuple[int, int]:
    """(vCPUs, MiB) that are promised on all hosts."""
    found = admin.get("/os-hypervisors/detail").json()["hypervisors"]
    return sum(each["vcpus_used"] for each in found), sum(each["memory_mb_used"] for each in found)


def counted(demo: Asking) -> tuple[int, int]:
    found = demo.get("/limits").json()["limits"]["absolute"]
    return found["totalCoresUsed"], found["totalRAMUsed"]


def host_of(admin: Asking, server_id: str) -> str:
    return str(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])


def test_a_server_is_resized_and_confirmed(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    reserved = used(admin)
    assert demo.act(server_id, {"resize": {"flavorRef": "2"}}).status == 202
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("RESIZE", "resize_prep")
    assert found["flavor"]["original_name"] == "m1.tiny"
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["flavor"]["original_name"]) == ("VERIFY_RESIZE", "m1.small")
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.memory_mib, guest.spec.disk_gib) == (Power.RUNNING, 2048, 20)
    # Both places are held until somebody decides.
    assert used(admin) == (reserved[0] + 1, reserved[1] + 2048)
    answer = demo.act(server_id, {"confirmResize": None})
    assert (answer.status, answer.body) == (204, b"")
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
    assert used(admin) == (reserved[0], reserved[1] + 2048 - 512)
    assert counted(demo) == (1, 2048)
    actions = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert [each["action"] for each in actions] == ["confirmResize", "resize", "create"]


def test_a_resize_is_reverted(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    before, host = used(admin), host_of(admin, server_id)
    resize(demo, server_id)
    assert demo.act(server_id, {"revertResize": None}).status == 202
    assert demo.status(server_id) == "REVERT_RESIZE"
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["flavor"]["original_name"]) == ("ACTIVE", "m1.tiny")
    assert (used(admin), counted(demo)) == (before, (1, 512))
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.host, guest.spec.memory_mib) == (Power.RUNNING, host, 512)
    held = [
        set(each.hosts) for each in network.ports.values() if each.spec.id in {port.id for port in guest.spec.ports}
    ]
    assert held == [{host}]


def test_a_server_that_is_off_stays_off(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    resize(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:power_state"]) == ("VERIFY_RESIZE", 4)
    assert there(hypervisor.guests.get(server_id)).power is Power.STOPPED
    demo.act(server_id, {"revertResize": None})
    demo.cloud.settle()
    assert demo.status(server_id) == "SHUTOFF"
    resize(demo, server_id)
    demo.act(server_id, {"confirmResize": None})
    demo.cloud.settle()
    assert demo.status(server_id) == "SHUTOFF" and there(hypervisor.guests.get(server_id)).power is Power.STOPPED


def test_a_migration_takes_everything_along(
    demo: Asking, admin: Asking, server_id: str,
    hypervisor: FakeHypervisor, volumes: FakeVolumeBackend, network: FakeNetworkBackend,
) -> None:  # fmt: skip
    volume_id, source = demo.volume(), host_of(admin, server_id)
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}})
    demo.cloud.settle()
    addresses = demo.server(server_id)["addresses"]
    assert admin.act(server_id, {"migrate": None}).status == 202
    demo.cloud.settle()
    target = host_of(admin, server_id)
    assert target != source and demo.status(server_id) == "VERIFY_RESIZE"
    assert demo.volume_status(volume_id) == "in-use" and demo.server(server_id)["addresses"] == addresses
    assert there(volumes.volumes.get(volume_id)).hosts == (target,)
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.spec.host, guest.power) == (target, Power.RUNNING)
    assert [each.volume_id for each in guest.spec.volumes] == [volume_id]
    demo.act(server_id, {"revertResize": None})
    demo.cloud.settle()
    assert (host_of(admin, server_id), there(hypervisor.guests.get(server_id)).spec.host) == (source, source)
    assert there(volumes.volumes.get(volume_id)).hosts == (source,)


def test_an_administrator_names_the_host(demo: Asking, admin: Asking, server_id: str) -> None:
    (target, *_) = {"fake-1", "fake-2", "fake-3"} - {host_of(admin, server_id)}
    assert refusal(demo.act(server_id, {"migrate": None}))[:2] == (403, "forbidden")
    for name in ("nowhere", host_of(admin, server_id)):
        assert refusal(admin.act(server_id, {"migrate": {"host": name}}, LATEST))[:2] == (400, "badRequest")
    assert admin.act(server_id, {"migrate": {"host": target}}, LATEST).status == 202
    demo.cloud.settle()
    assert host_of(admin, server_id) == target


def test_without_leave_to_stay_a_resize_goes_to_another_host() -> None:
    cloud = MemoryCloud({"compute": {"allow_resize_to_same_host": False}})
    demo, admin = Asking(cloud.client("demo")), Asking(cloud.client("admin"))
    server_id = demo.boot()
    source = host_of(admin, server_id)
    resize(demo, server_id)
    assert host_of(admin, server_id) != source
    cloud.close()


def test_on_the_only_host_without_leave_to_stay_there_is_none() -> None:
    tables = {"compute": {"allow_resize_to_same_host": False}, "driver": {"hypervisor": {"fake": {"hosts": 1}}}}
    cloud = MemoryCloud(tables)
    demo, admin = Asking(cloud.client("demo")), Asking(cloud.client("admin"))
    server_id = demo.boot()
    before = used(admin), counted(demo)
    resize(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["flavor"]["original_name"]) == ("ACTIVE", "m1.tiny")
    assert (used(admin), counted(demo)) == before
    action = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"][0]
    assert (action["action"], action["message"]) == ("resize", "Error")
    cloud.close()


@pytest.mark.parametrize("method", ["ensure_stopped", "ensure_defined", "ensure_running"])
def test_a_resize_that_fails_is_taken_back(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor, method: str
) -> None:
    before, host = (used(admin), counted(demo)), host_of(admin, server_id)
    hypervisor.behaviour.fail(method, times=1, error=DriverError("it is broken"))
    resize(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert found["flavor"]["original_name"] == "m1.tiny"
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.memory_mib, guest.spec.host) == (Power.RUNNING, 512, host)
    assert (used(admin), counted(demo)) == before


def test_a_revert_that_fails_is_an_error(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    resize(demo, server_id)
    hypervisor.behaviour.fail("ensure_defined", times=None, error=DriverError("it is broken"))
    demo.act(server_id, {"revertResize": None})
    demo.cloud.settle()
    assert demo.status(server_id) == "ERROR"
    assert counted(demo) == (1, 512), "the flavor that it has counts, and not the larger of both"


def test_a_root_disk_does_not_shrink(demo: Asking) -> None:
    server_id = demo.boot(flavorRef="2")
    resize(demo, server_id, "1")
    found = demo.server(server_id)
    assert (found["status"], found["flavor"]["original_name"]) == ("ACTIVE", "m1.small")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"flavorRef": "1"}, "When resizing, instances must change flavor!"),
        ({"flavorRef": "99"}, "Flavor 99 could not be found."),
        ({}, None),
        ({"flavorRef": None}, None),
        (None, None),
    ],
)
def test_a_wrong_resize_is_refused(demo: Asking, server_id: str, body: Any, said: str | None) -> None:
    status, key, message = refusal(demo.act(server_id, {"resize": body}))
    assert (status, key) == (400, "badRequest") and said in (None, message)
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


def test_growth_counts_for_the_quota_at_once(demo: Asking, admin: Asking, server_id: str) -> None:
    other = demo.boot()
    project = demo.server(server_id)["tenant_id"]
    admin.put(f"/os-quota-sets/{project}", {"quota_set": {"ram": 3000}})
    assert demo.act(server_id, {"resize": {"flavorRef": "2"}}).status == 202
    said = "Quota exceeded for ram: Requested 1536, but already used 2560 of 3000 ram"
    assert refusal(demo.act(other, {"resize": {"flavorRef": "2"}})) == (413, "entityTooLarge", said)
    demo.cloud.settle()
    demo.act(server_id, {"revertResize": None})
    demo.cloud.settle()
    assert counted(demo) == (2, 1024)


def test_nothing_is_left_of_a_resized_server_that_is_deleted(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    resize(demo, server_id)
    plugs = {each.id for each in there(hypervisor.guests.get(server_id)).spec.ports}
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone" and not hypervisor.guests.values()
    assert not {each.spec.id for each in network.ports.values()} & plugs
    assert used(admin)[0] == 0 and counted(demo) == (0, 0)
    demo.cloud.cloud.audit.run()
    assert demo.cloud.cloud.audit.latest["hypervisor"] == ()


def test_a_server_whose_guest_does_not_come_back_can_be_deleted(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("ensure_defined", times=None, error=DriverError("its disk is damaged"))
    assert demo.act(server_id, {"resize": {"flavorRef": "2"}}).status == 202
    demo.cloud.advance(300)
    demo.delete(f"/servers/{server_id}")
    demo.cloud.advance(300)
    assert demo.status(server_id) == "gone" and not hypervisor.guests.values()
    assert counted(demo) == (0, 0)


def test_the_audit_finds_no_fault_with_a_resized_server(demo: Asking, server_id: str) -> None:
    resize(demo, server_id)
    demo.cloud.cloud.audit.run()
    assert demo.cloud.cloud.audit.latest["hypervisor"] == ()


def test_of_confirm_and_revert_only_one_is_taken(demo: Asking, server_id: str) -> None:
    resize(demo, server_id)
    assert demo.act(server_id, {"confirmResize": None}).status == 204
    assert refusal(demo.act(server_id, {"revertResize": None}))[0] == 409
    assert refusal(demo.act(server_id, {"confirmResize": None}))[0] == 409
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"


@pytest.mark.parametrize("state", ["active", "error"])
def test_a_resize_is_over_once_an_administrator_resets_the_state(
    demo: Asking, admin: Asking, server_id: str, state: str
) -> None:
    """Neither confirm nor revert is possible then; the old place was held until the server was deleted."""
    resize(demo, server_id)
    assert admin.act(server_id, {"os-resetState": {"state": state}}).status == 202
    assert (used(admin), counted(demo)) == ((1, 2048), (1, 2048))
    (migration,) = admin.get("/os-migrations").json()["migrations"]
    assert migration["status"] == "confirmed"
    assert refusal(demo.act(server_id, {"revertResize": None}))[0] == 409
    demo.cloud.settle()
    assert demo.status(server_id) == state.upper()


def test_of_a_revert_that_an_operator_cancels_nothing_is_held(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    """The server is in error, and nothing but its deletion would have ended the migration."""
    resize(demo, server_id)
    hypervisor.behaviour.delay("ensure_stopped", 5.0)
    assert demo.act(server_id, {"revertResize": None}).status == 202
    demo.cloud.advance(1)
    demo.cloud.transact(cancel, kinds.REVERT_RESIZE)
    demo.cloud.settle()
    assert demo.status(server_id) == "ERROR"
    assert used(admin)[0] == 1 and used(admin) == counted(demo)


def cancel(conn: Connection, kind: Kind) -> None:
    (task,) = queue.listing(conn, kinds=(kind,), states=OPEN)
    assert queue.cancel(conn, task.id)


@pytest.mark.parametrize(("then", "flavor"), [("confirmResize", "m1.small"), ("revertResize", "m1.tiny")])
def test_what_an_operator_cancels_can_be_confirmed_or_reverted_again(
    demo: Asking, server_id: str, then: str, flavor: str
) -> None:
    resize(demo, server_id)
    assert demo.act(server_id, {"confirmResize": None}).status == 204
    demo.cloud.transact(cancel, kinds.CONFIRM_RESIZE)
    demo.cloud.settle()
    assert demo.status(server_id) == "VERIFY_RESIZE"
    assert demo.act(server_id, {then: None}).status in (202, 204)
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["flavor"]["original_name"]) == ("ACTIVE", flavor)


def test_a_server_whose_host_is_silent_is_not_resized(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    hypervisor.fail_host(host_of(admin, server_id))
    demo.cloud.advance(30)
    said = (409, "conflictingRequest", "Service is unavailable at this time.")
    assert refusal(demo.act(server_id, {"resize": {"flavorRef": "2"}})) == said


def test_a_server_is_resized_though_its_image_and_its_port_are_gone(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    (port,) = demo.client.get(f"/networking/v2.0/ports?device_id={server_id}").json()["ports"]
    assert demo.client.delete(f"/networking/v2.0/ports/{port['id']}").status == 204
    assert admin.client.delete(f"/image/v2/images/{demo.image}").status == 204
    demo.cloud.settle()
    assert admin.act(server_id, {"migrate": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "VERIFY_RESIZE"
    hypervisor.behaviour.fail("ensure_running", times=1, error=DriverError("it is broken"))
    demo.act(server_id, {"confirmResize": None})
    demo.cloud.settle()
    assert admin.act(server_id, {"migrate": None}).status == 202
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


# -- the list of migrations


def test_migrations_are_listed_newest_first(demo: Asking, admin: Asking, server_id: str) -> None:
    source = host_of(admin, server_id)
    resize(demo, server_id)
    demo.act(server_id, {"revertResize": None})
    demo.cloud.settle()
    demo.cloud.advance(1)
    admin.act(server_id, {"migrate": None})
    demo.cloud.settle()
    target = host_of(admin, server_id)
    found = admin.get("/os-migrations", LATEST).json()["migrations"]
    told = [(each["migration_type"], each["status"], each["source_compute"], each["dest_compute"]) for each in found]
    assert told[0] == ("migration", "finished", source, target)
    assert told[1][:3] == ("resize", "reverted", source)
    assert [each["new_instance_type_id"] for each in found] == [1, 2]
    for query, number in (
        ("status=finished", 1),
        ("status=error", 0),
        (f"instance_uuid={server_id}", 2),
        ("host=nowhere", 0),
        (f"host={target}&migration_type=migration", 1),
        ("migration_type=resize", 1),
        ("source_compute=nowhere", 0),
        ("project_id=x", 0),
        ("limit=1", 1),
        ("changes-since=2099-01-01T00:00:00Z", 0),
    ):
        assert len(admin.get(f"/os-migrations?{query}", LATEST).json()["migrations"]) == number, query
    page = admin.get("/os-migrations?limit=1", LATEST).json()
    assert page["migrations_links"][0]["rel"] == "next"
    rest = admin.get(f"/os-migrations?marker={found[0]['uuid']}", LATEST).json()["migrations"]
    assert [each["uuid"] for each in rest] == [found[1]["uuid"]]
    assert refusal(admin.get("/os-migrations?marker=x", LATEST))[:2] == (400, "badRequest")
    for name, version, status in (
        ("colour", "2.58", 200),
        ("colour", "2.59", 400),
        ("changes-before", "2.65", 400),
        ("user_id", "2.79", 400),
        ("user_id", "2.80", 200),
    ):
        assert admin.get(f"/os-migrations?{name}=x", version).status == status, name
    assert {"uuid", "migration_type", "project_id"} & admin.get("/os-migrations").json()["migrations"][
        0
    ].keys() == set()


def test_migrations_are_an_affair_of_administrators(demo: Asking) -> None:
    assert refusal(demo.get("/os-migrations", LATEST))[:2] == (403, "forbidden")


def test_a_resize_is_confirmed_by_itself_after_a_while() -> None:
    cloud = MemoryCloud({"compute": {"resize_confirm_window": 300}})
    demo = Asking(cloud.client("demo"))
    server_id = demo.boot()
    demo.act(server_id, {"resize": {"flavorRef": "2"}})
    cloud.settle()
    cloud.advance(200)
    assert demo.status(server_id) == "VERIFY_RESIZE"
    cloud.advance(200)
    cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
    cloud.close()


def test_one_resize_that_cannot_be_confirmed_does_not_keep_others_from_it() -> None:
    cloud = MemoryCloud({"compute": {"resize_confirm_window": 300}})
    demo = Asking(cloud.client("demo"))
    held, other = demo.boot(), demo.boot()
    for server_id in (held, other):
        resize(demo, server_id)
    cloud.transact(lambda conn: migrations.take(conn, held, utc(conn.now()), "confirm"))
    cloud.advance(400)
    cloud.settle()
    assert (demo.status(held), demo.status(other)) == ("VERIFY_RESIZE", "ACTIVE")
    cloud.close()


async def test_a_round_looks_at_each_server_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing can be done yet for more of them than are looked at together."""
    cloud = MemoryCloud({"compute": {"resize_confirm_window": 300}})
    demo = Asking(cloud.client("demo"))
    seen = [demo.boot() for _ in range(4)]
    for server_id in seen:
        resize(demo, server_id)
    cloud.clock.rightNow += 400
    monkeypatch.setattr(overdue, "BATCH", 2)

    def due(_conn: Connection, server: Server, _now: datetime) -> None:
        seen.remove(server.id)

    rounds = overdue.Overdue(cloud.clock, cloud.db, cloud.config.section(ComputeOptions))
    rounds.limits[RESIZED] = (300, due)
    await rounds.look()
    assert not seen
    cloud.close()


def test_a_smaller_flavor_counts_once_it_is_confirmed(demo: Asking, admin: Asking, server_id: str) -> None:
    """And until then the larger one, once."""
    admin.post("/flavors", {"flavor": {"name": "less", "id": "less", "ram": 1024, "vcpus": 1, "disk": 20}})

    def ram() -> int:
        return int(demo.get("/limits").json()["limits"]["absolute"]["totalRAMUsed"])

    demo.act(server_id, {"resize": {"flavorRef": "2"}})
    demo.cloud.settle()
    demo.act(server_id, {"confirmResize": None})
    demo.cloud.settle()
    assert ram() == 2048
    demo.act(server_id, {"resize": {"flavorRef": "less"}})
    assert ram() == 2048
    demo.cloud.settle()
    assert (demo.status(server_id), ram()) == ("VERIFY_RESIZE", 2048)
    demo.act(server_id, {"confirmResize": None})
    demo.cloud.settle()
    assert (demo.status(server_id), ram()) == ("ACTIVE", 1024)
