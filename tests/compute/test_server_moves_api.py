"""Live migration and evacuation. Reference: compute.md, sections 7 and 8.9; compute-states.md, sections 3 and 4.8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, HostDown
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there

HOSTS = ("fake-1", "fake-2", "fake-3")


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def migrate(asking: Asking, server_id: str, host: str | None = None, version: str = LATEST, **more: Any) -> Any:
    body = {"host": host, "block_migration": "auto", **more}
    return asking.act(server_id, {"os-migrateLive": body}, version)


def host(admin: Asking, server_id: str) -> str:
    return str(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])


def migrations(admin: Asking) -> list[tuple[str, str]]:
    found = admin.get("/os-migrations", "2.23").json()["migrations"]
    return [(each["migration_type"], each["status"]) for each in found]


def used(admin: Asking) -> dict[str, int]:
    found = admin.get("/os-hypervisors/detail").json()["hypervisors"]
    return {each["hypervisor_hostname"]: each["vcpus_used"] for each in found if each["vcpus_used"]}


@pytest.fixture
def on_its_way(admin: Asking, server_id: str, hypervisor: FakeHypervisor) -> str:
    """The path of the migration that a server is on, which takes a minute."""
    hypervisor.behaviour.delay("ensure_migrated", 60.0)
    assert migrate(admin, server_id).status == 202
    for _ in range(3):
        admin.cloud.advance(5)
    (found,) = admin.get(f"/servers/{server_id}/migrations", LATEST).json()["migrations"]
    return f"/servers/{server_id}/migrations/{found['id']}"


# -- live migration


@pytest.mark.parametrize("before", [None, "pause"])
def test_a_server_moves_and_does_not_stop(
    demo: Asking,
    admin: Asking,
    server_id: str,
    hypervisor: FakeHypervisor,
    network: FakeNetworkBackend,
    volumes: FakeVolumeBackend,
    before: str | None,
) -> None:
    volume_id = demo.volume()
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}})
    demo.cloud.settle()
    if before is not None:
        demo.act(server_id, {before: None})
        demo.cloud.settle()
    source, status, log = host(admin, server_id), demo.status(server_id), there(hypervisor.guests.get(server_id)).log
    assert migrate(admin, server_id).status == 202
    assert demo.status(server_id) == "MIGRATING"
    demo.cloud.settle()
    found = host(admin, server_id)
    assert found != source and demo.status(server_id) == status
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.spec.host, guest.log) == (found, log)
    assert [each.hosts for each in network.ports.values()] == [(found,)]
    assert there(volumes.volumes.get(volume_id)).hosts == (found,)
    assert [each.info["data"]["host"] for each in guest.spec.volumes] == [found]
    assert demo.volume_status(volume_id) == "in-use"
    assert (used(admin), migrations(admin)) == ({found: 1}, [("live-migration", "completed")])
    actions = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert actions[0]["action"] == "live-migration"


def test_a_server_goes_where_it_is_told_to(admin: Asking, server_id: str) -> None:
    wanted = next(each for each in HOSTS if each != host(admin, server_id))
    assert migrate(admin, server_id, wanted).status == 202
    admin.cloud.settle()
    assert host(admin, server_id) == wanted


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (None, {"host": None, "block_migration": False, "disk_over_commit": False}),
        ("2.24", {"host": None, "block_migration": "true", "disk_over_commit": "0"}),
        ("2.25", {"host": None, "block_migration": True}),
        ("2.30", {"host": None, "block_migration": "auto", "force": False}),
        ("2.68", {"host": None, "block_migration": "auto"}),
    ],
)
def test_each_version_has_its_body(admin: Asking, server_id: str, version: str | None, body: dict[str, Any]) -> None:
    before = host(admin, server_id)
    assert admin.act(server_id, {"os-migrateLive": body}, version).status == 202
    admin.cloud.settle()
    assert host(admin, server_id) != before


@pytest.mark.parametrize(
    ("version", "body"),
    [
        ("2.24", {"host": None, "block_migration": False}),
        ("2.24", {"host": None, "block_migration": "auto", "disk_over_commit": False}),
        ("2.25", {"host": None, "block_migration": False, "disk_over_commit": False}),
        ("2.25", {"host": None}),
        ("2.29", {"host": None, "block_migration": "auto", "force": True}),
        ("2.30", {"host": None, "block_migration": "auto", "force": True}),
        ("2.68", {"host": "fake-2", "block_migration": "auto", "force": True}),
        ("2.68", {"host": "nowhere", "block_migration": "auto"}),
        ("2.68", {"host": "", "block_migration": "auto"}),
        ("2.68", {"host": None, "block_migration": "perhaps"}),
    ],
)
def test_a_wrong_migration_is_refused(admin: Asking, server_id: str, version: str, body: dict[str, Any]) -> None:
    assert refusal(admin.act(server_id, {"os-migrateLive": body}, version))[:2] == (400, "badRequest")
    assert admin.server(server_id)["OS-EXT-STS:task_state"] is None


def test_a_server_does_not_migrate_to_where_it_is(admin: Asking, server_id: str) -> None:
    here = host(admin, server_id)
    said = f"Unable to migrate instance ({server_id}) to current host ({here})."
    assert refusal(migrate(admin, server_id, here)) == (400, "badRequest", said)


def test_a_dead_host_is_no_destination(admin: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    wanted = next(each for each in HOSTS if each != host(admin, server_id))
    hypervisor.fail_host(wanted)
    admin.cloud.advance(60)
    said = f"Compute service of {wanted} is unavailable at this time."
    assert refusal(migrate(admin, server_id, wanted)) == (400, "badRequest", said)


@pytest.mark.parametrize(("version", "status"), [("2.33", 400), ("2.34", 202)])
def test_that_there_is_no_host_is_told_sooner_or_later(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, version: str, status: int
) -> None:
    for each in HOSTS:
        if each != host(admin, server_id):
            hypervisor.fail_host(each)
    admin.cloud.advance(60)
    before = host(admin, server_id)
    assert migrate(admin, server_id, version=version).status == status
    admin.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert (host(admin, server_id), used(admin)) == (before, {before: 1})
    assert migrations(admin) == ([("live-migration", "failed")] if status == 202 else [])


def test_a_server_that_does_not_arrive_goes_on(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    before = host(admin, server_id)
    hypervisor.behaviour.fail("ensure_migrated", times=None, error=DriverError("it is broken"))
    assert migrate(admin, server_id).status == 202
    demo.cloud.settle()
    assert (host(admin, server_id), demo.status(server_id), used(admin)) == (before, "ACTIVE", {before: 1})
    assert [each.hosts for each in network.ports.values()] == [(before,)]
    assert migrations(admin) == [("live-migration", "failed")]


def test_a_server_whose_arrival_is_not_told_has_arrived(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    before = host(admin, server_id)
    hypervisor.behaviour.fail("ensure_migrated", error=DriverError("the answer is lost"), after=True)
    assert migrate(admin, server_id).status == 202
    admin.cloud.settle()
    assert host(admin, server_id) != before and migrations(admin) == [("live-migration", "completed")]


def test_where_a_server_is_that_nobody_could_ask_for_is_found_before_anything_is_undone(
    demo: Asking,
    admin: Asking,
    server_id: str,
    hypervisor: FakeHypervisor,
    network: FakeNetworkBackend,
) -> None:
    """As after both daemons died at the end of its way: the guest has arrived, and neither host says so for a while."""
    before = host(admin, server_id)
    hypervisor.behaviour.fail("ensure_migrated", error=HostDown("host east does not answer"), after=True)
    hypervisor.behaviour.fail("observe", times=2, error=HostDown("host east does not answer"))
    assert migrate(admin, server_id).status == 202
    admin.cloud.advance(60)
    admin.cloud.settle()
    after, guest = host(admin, server_id), there(hypervisor.guests.get(server_id))
    assert after != before and guest.spec.host == after
    assert (demo.status(server_id), used(admin)) == ("ACTIVE", {after: 1})
    assert [each.hosts for each in network.ports.values()] == [(after,)]
    assert migrations(admin) == [("live-migration", "completed")] and "fault" not in demo.server(server_id)


@pytest.mark.parametrize("before", ["os-stop", "suspend"])
def test_only_what_runs_migrates_live(demo: Asking, admin: Asking, server_id: str, before: str) -> None:
    demo.act(server_id, {before: None})
    demo.cloud.settle()
    state = {"os-stop": "stopped", "suspend": "suspended"}[before]
    said = f"Cannot 'os-migrateLive' instance {server_id} while it is in vm_state {state}"
    assert refusal(migrate(admin, server_id)) == (409, "conflictingRequest", said)


def test_managers_migrate_and_do_not_choose_hosts(
    demo: Asking, admin: Asking, server_id: str, join: Callable[[str, str, str], Asking]
) -> None:
    manager = join("boss", "demo", "manager")
    assert migrate(demo, server_id).status == 403
    wanted = next(each for each in HOSTS if each != host(admin, server_id))
    assert migrate(manager, server_id, wanted).status == 403
    assert migrate(manager, server_id).status == 202
    # Nor do they learn of them.
    places = ("source_compute", "source_node", "dest_compute", "dest_node", "dest_host")
    (shown,) = manager.get(f"/servers/{server_id}/migrations", LATEST).json()["migrations"]
    (listed,) = manager.get(f"/os-migrations?instance_uuid={server_id}", LATEST).json()["migrations"]
    for each in (shown, listed):
        assert [each[name] for name in places] == [None] * 5
    (told,) = admin.get(f"/os-migrations?instance_uuid={server_id}", LATEST).json()["migrations"]
    assert told["source_compute"] == host(admin, server_id)
    for name in ("host", "source_compute"):
        assert manager.get(f"/os-migrations?{name}={HOSTS[0]}", LATEST).status == 403


# -- on its way


def test_how_far_a_server_has_come(admin: Asking, server_id: str, on_its_way: str) -> None:
    shown = admin.get(on_its_way, LATEST).json()["migration"]
    assert (shown["server_uuid"], shown["status"], shown["source_compute"]) == (
        server_id,
        "running",
        host(admin, server_id),
    )
    total, done, left = (shown[f"memory_{part}_bytes"] for part in ("total", "processed", "remaining"))
    assert total == 512 << 20 and 0 < done < total and done + left == total
    assert shown.keys() >= {"uuid", "user_id", "project_id", "disk_remaining_bytes"}
    assert not admin.get(on_its_way, "2.58").json()["migration"].keys() & {"uuid", "user_id", "project_id"}
    assert admin.get(on_its_way, "2.22").status == 404
    admin.cloud.advance(100)
    admin.cloud.settle()
    assert admin.get(f"/servers/{server_id}/migrations", LATEST).json() == {"migrations": []}
    assert admin.get(on_its_way, LATEST).status == 404


def test_a_server_can_be_told_to_stay(
    admin: Asking, server_id: str, on_its_way: str, network: FakeNetworkBackend
) -> None:
    before = host(admin, server_id)
    assert admin.delete(on_its_way, "2.23").status == 404
    assert admin.delete(on_its_way, "2.24").status == 202
    admin.cloud.advance(5)
    admin.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], host(admin, server_id)) == ("ACTIVE", None, before)
    assert (used(admin), migrations(admin)) == ({before: 1}, [("live-migration", "cancelled")])
    assert [each.hosts for each in network.ports.values()] == [(before,)]
    assert "fault" not in found
    assert actions(admin, server_id) == ["live_migration_cancel", "live-migration", "create"]


def actions(asking: Asking, server_id: str) -> list[str]:
    """What the log of a server tells, and each of its pages tells the same."""
    path = f"/servers/{server_id}/os-instance-actions"
    listed = asking.get(path, LATEST).json()["instanceActions"]
    for each in listed:
        shown = asking.get(f"{path}/{each['request_id']}", LATEST).json()["instanceAction"]
        assert (shown["action"], shown["instance_uuid"]) == (each["action"], server_id)
        assert [event["result"] for event in shown["events"]] in (["Success"], ["Error"])
    return [each["action"] for each in listed]


def test_a_server_can_be_told_to_hurry(admin: Asking, server_id: str, on_its_way: str) -> None:
    before = host(admin, server_id)
    assert admin.post(f"{on_its_way}/action", {"force_complete": None}, "2.22").status == 202
    admin.cloud.advance(5)
    admin.cloud.settle()
    assert host(admin, server_id) != before and migrations(admin) == [("live-migration", "completed")]
    assert actions(admin, server_id) == ["live_migration_force_complete", "live-migration", "create"]


def test_a_migration_on_its_way_is_known_by_its_uuid_too(admin: Asking, server_id: str, on_its_way: str) -> None:
    by_number = admin.get(on_its_way, LATEST).json()["migration"]
    path, _, _ = on_its_way.rpartition("/")
    assert admin.get(f"{path}/{by_number['uuid']}", LATEST).json()["migration"] == by_number
    assert admin.post(f"{path}/{by_number['uuid']}/action", {"force_complete": None}, LATEST).status == 202
    assert admin.get(f"{path}/{server_id}", LATEST).status == 404


@pytest.mark.parametrize(("wish", "takes_disks"), [(True, True), (False, False), ("auto", True)])
def test_whether_disks_go_along_is_said(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, wish: Any, takes_disks: bool
) -> None:
    hypervisor.behaviour.delay("ensure_migrated", 60.0)
    assert migrate(admin, server_id, block_migration=wish).status == 202
    for _ in range(3):
        admin.cloud.advance(5)
    (found,) = admin.get(f"/servers/{server_id}/migrations", LATEST).json()["migrations"]
    assert (found["memory_total_bytes"] > 0, found["disk_total_bytes"] > 0) == (True, takes_disks)


def test_nothing_else_is_done_to_a_server_on_its_way(demo: Asking, server_id: str, on_its_way: str) -> None:
    for action in ({"os-stop": None}, {"pause": None}, {"createImage": {"name": "x"}}):
        assert refusal(demo.act(server_id, action))[0] == 409
    assert demo.get(on_its_way, LATEST).status == 403
    assert demo.delete(on_its_way, LATEST).status == 403


def test_a_server_on_its_way_can_be_deleted(
    demo: Asking, admin: Asking, server_id: str, on_its_way: str, hypervisor: FakeHypervisor
) -> None:
    demo.delete(f"/servers/{server_id}")
    demo.cloud.advance(100)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone" and not hypervisor.guests.values() and used(admin) == {}


def test_what_is_not_on_its_way_is_not_stopped(admin: Asking, server_id: str) -> None:
    path = f"/servers/{server_id}/migrations/1"
    assert admin.get(path, LATEST).status == 404
    said = f"Instance {server_id} is in an invalid state for 'abort live migration'"
    assert refusal(admin.delete(path, LATEST))[0] == 409, said
    assert admin.post(f"{path}/action", {"force_complete": None}, LATEST).status == 409


# -- evacuation


@pytest.fixture
def lost(demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor) -> str:
    """The host of the server, which has died."""
    name = host(admin, server_id)
    hypervisor.fail_host(name)
    demo.cloud.advance(60)
    return name


def evacuate(admin: Asking, server_id: str, version: str | None = LATEST, **body: Any) -> Any:
    return admin.act(server_id, {"evacuate": body}, version)


def test_a_server_of_a_dead_host_is_made_anew(
    demo: Asking, admin: Asking, server_id: str, lost: str, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    addresses = demo.server(server_id)["addresses"]
    answer = evacuate(admin, server_id, "2.94", adminPass="secret")
    assert (answer.status, answer.body) == (200, b"")
    assert demo.status(server_id) == "REBUILD"
    demo.cloud.settle()
    found, now_on = demo.server(server_id), host(admin, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], found["addresses"]) == ("ACTIVE", None, addresses)
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.host, guest.spec.admin_password) == (Power.RUNNING, now_on, "secret")
    assert now_on != lost and [each.hosts for each in network.ports.values()] == [(now_on,)]
    assert (used(admin), migrations(admin)) == ({now_on: 1}, [("evacuation", "done")])
    hypervisor.recover_host(lost)
    demo.cloud.advance(60)
    assert host(admin, server_id) == now_on


def test_a_guest_that_goes_on_where_it_is_taken_for_dead_is_ended(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    here = host(admin, server_id)
    admin.put("/os-services/force-down", {"host": here, "binary": "nova-compute", "forced_down": True}, "2.11")
    assert evacuate(admin, server_id, "2.94").status == 200
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE" and host(admin, server_id) != here
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.host) == (Power.RUNNING, host(admin, server_id))
    assert hypervisor.behaviour.calls["ensure_stopped"] == 1


def test_from_2_95_on_it_is_off(demo: Asking, admin: Asking, server_id: str, lost: str) -> None:
    evacuate(admin, server_id, "2.95")
    demo.cloud.settle()
    assert demo.status(server_id) == "SHUTOFF"


def test_one_that_was_off_stays_off(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    hypervisor.fail_host(host(admin, server_id))
    demo.cloud.advance(60)
    assert evacuate(admin, server_id, "2.14").status == 200
    demo.cloud.settle()
    assert demo.status(server_id) == "SHUTOFF"


def test_volumes_go_along(demo: Asking, admin: Asking, hypervisor: FakeHypervisor, volumes: FakeVolumeBackend) -> None:
    device = {"source_type": "image", "uuid": demo.image, "destination_type": "volume", "boot_index": 0}
    server_id = demo.boot(imageRef=None, block_device_mapping_v2=[{**device, "volume_size": 1}])
    (volume,) = demo.server(server_id)["os-extended-volumes:volumes_attached"]
    hypervisor.fail_host(host(admin, server_id))
    demo.cloud.advance(60)
    assert evacuate(admin, server_id, "2.94").status == 200
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
    assert there(volumes.volumes.get(volume["id"])).hosts == (host(admin, server_id),)


def test_old_versions_are_told_the_password(admin: Asking, server_id: str, lost: str) -> None:
    assert refusal(evacuate(admin, server_id, "2.13"))[0] == 400
    answer = evacuate(admin, server_id, "2.13", onSharedStorage=False, adminPass="secret")
    assert (answer.status, answer.json()) == (200, {"adminPass": "secret"})


def test_a_server_goes_to_the_host_that_is_named(admin: Asking, server_id: str, lost: str) -> None:
    wanted = next(each for each in HOSTS if each != lost)
    assert evacuate(admin, server_id, "2.29", host=wanted, force=True).status == 200
    admin.cloud.settle()
    assert host(admin, server_id) == wanted


def test_a_server_of_a_living_host_is_not_evacuated(admin: Asking, demo: Asking, server_id: str) -> None:
    said = f"Compute service of {host(admin, server_id)} is still in use."
    assert refusal(evacuate(admin, server_id)) == (400, "badRequest", said)
    assert refusal(evacuate(demo, server_id))[0] == 403


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"host": "nowhere"}, LATEST, 404),
        ({"onSharedStorage": False}, "2.14", 400),
        ({"force": True}, "2.29", 400),
        ({"host": "fake-2", "force": True}, "2.68", 400),
        ({"x": 1}, LATEST, 400),
    ],
)
def test_a_wrong_evacuation_is_refused(
    admin: Asking, server_id: str, lost: str, body: dict[str, Any], version: str, status: int
) -> None:
    assert refusal(evacuate(admin, server_id, version, **body))[0] == status
    assert refusal(evacuate(admin, server_id, host=lost)) == (
        400,
        "badRequest",
        "The target host can't be the same one.",
    )


def test_without_a_host_it_is_an_error_that_can_be_mended(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    for each in HOSTS:
        hypervisor.fail_host(each)
    demo.cloud.advance(60)
    assert evacuate(admin, server_id).status == 200
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert "No valid host" in found["fault"]["message"] and migrations(admin) == [("evacuation", "failed")]
    hypervisor.recover_host(next(each for each in HOSTS if each != host(admin, server_id)))
    demo.cloud.advance(60)
    assert evacuate(admin, server_id, "2.94").status == 200
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"
