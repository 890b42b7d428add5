"""Deletes that can be taken back for a while. Reference: compute-states.md, section 4.3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cloudctl.compute import kinds
from cloudctl.db import Connection
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from cloudctl.tasks import Kind, queue
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, audited, refusal
from tests.compute.test_dying_hosts import declare_dead
from tests.compute.test_lost_guests import ATTACHING, MOVES, attaching, dies_while_it_works, under_way
from tests.there import there


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud({"compute": {"reclaim_instance_interval": 600}})
    yield made
    made.close()


@pytest.fixture
def server_id(demo: Asking) -> str:
    made = demo.boot()
    assert demo.delete(f"/servers/{made}").status == 204
    demo.cloud.settle()
    return made


def cancel(conn: Connection, kind: Kind) -> None:
    (task,) = queue.listing(conn, kinds=(kind,))
    assert queue.cancel(conn, task.id)


def test_a_deleted_server_is_off_and_hidden(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:vm_state"], found["OS-EXT-STS:task_state"]) == (
        "SOFT_DELETED",
        "soft-delete",
        None,
    )
    assert there(hypervisor.guests.get(server_id)).power is Power.STOPPED
    assert (demo.names(), demo.names("?status=soft_deleted")) == ([], ["vm"])
    assert admin.names("?all_tenants=1&soft_deleted=1") == ["vm"]
    used = demo.get("/limits").json()["limits"]["absolute"]
    assert (used["totalInstancesUsed"], used["totalCoresUsed"]) == (0, 0)


def test_a_deleted_server_can_be_restored(demo: Asking, server_id: str) -> None:
    assert demo.act(server_id, {"restore": None}).status == 202
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "restoring"
    demo.cloud.settle()
    assert (demo.status(server_id), demo.names()) == ("ACTIVE", ["vm"])
    demo.cloud.advance(1000)
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"


def test_a_resized_server_is_restored_as_confirmed(demo: Asking, admin: Asking) -> None:
    def promised() -> int:
        found = admin.get("/os-hypervisors/detail").json()["hypervisors"]
        return sum(each["memory_mb_used"] for each in found)

    server_id, before = demo.boot(), promised()
    demo.act(server_id, {"resize": {"flavorRef": "2"}})
    demo.cloud.settle()
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    assert [each["status"] for each in admin.get("/os-migrations").json()["migrations"]] == ["confirmed"]
    demo.act(server_id, {"restore": None})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["flavor"]["original_name"]) == ("ACTIVE", "m1.small")
    assert promised() == before - 512 + 2048


def test_a_rescued_server_is_restored_to_its_own_disk(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    demo.act(server_id, {"rescue": None})
    demo.cloud.settle()
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    demo.act(server_id, {"restore": None})
    demo.cloud.settle()
    guest = there(hypervisor.guests.get(server_id))
    assert (demo.status(server_id), guest.power, guest.rescued) == ("ACTIVE", Power.RUNNING, False)


def test_a_server_is_restored_without_a_port_that_is_gone(demo: Asking, hypervisor: FakeHypervisor) -> None:
    ports = [demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}}) for _ in range(2)]
    kept, lost = (each.json()["port"]["id"] for each in ports)
    server_id = demo.boot(networks=[{"port": kept}, {"port": lost}])
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.client.delete(f"/networking/v2.0/ports/{lost}").status == 204
    demo.cloud.settle()
    demo.act(server_id, {"restore": None})
    demo.cloud.settle()
    assert (demo.status(server_id), there(hypervisor.guests.get(server_id)).state.port_ids) == ("ACTIVE", (kept,))


def test_a_deleted_server_is_gone_after_a_while(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    demo.cloud.advance(500)
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    demo.cloud.advance(200)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone" and not hypervisor.guests.values() and not demo.ports


@pytest.mark.parametrize("again", ["forceDelete", "DELETE"])
def test_a_deleted_server_can_be_deleted_for_good(demo: Asking, server_id: str, again: str) -> None:
    answer = demo.delete(f"/servers/{server_id}") if again == "DELETE" else demo.act(server_id, {again: None})
    assert answer.status in (202, 204)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_what_does_not_run_is_deleted_at_once(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.create().json()["server"]["id"]
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"
    server_id = demo.boot()
    demo.act(server_id, {"forceDelete": None})
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "deleting"
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_no_server_is_restored_over_the_quota(demo: Asking, admin: Asking, server_id: str) -> None:
    project = demo.server(server_id)["tenant_id"]
    admin.put(f"/os-quota-sets/{project}", {"quota_set": {"instances": 0, "force": True}})
    assert refusal(demo.act(server_id, {"restore": None}))[:2] == (413, "entityTooLarge")
    assert demo.status(server_id) == "SOFT_DELETED"


def test_servers_that_are_restored_at_once_count_for_each_other(demo: Asking, admin: Asking, server_id: str) -> None:
    other = demo.boot()
    demo.delete(f"/servers/{other}")
    demo.cloud.settle()
    project = demo.server(server_id)["tenant_id"]
    admin.put(f"/os-quota-sets/{project}", {"quota_set": {"instances": 1}})
    assert demo.act(server_id, {"restore": None}).status == 202
    assert refusal(demo.act(other, {"restore": None}))[:2] == (413, "entityTooLarge")
    assert refusal(demo.create())[:2] == (413, "entityTooLarge")
    demo.cloud.settle()
    assert (demo.status(server_id), demo.status(other)) == ("ACTIVE", "SOFT_DELETED")


@pytest.mark.parametrize("ended", ["it fails", "an operator cancels it"])
def test_a_server_that_could_not_be_restored_is_gone_after_a_while(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor, ended: str
) -> None:
    hypervisor.behaviour.fail("ensure_running", error=Unfit("it does not") if ended == "it fails" else None)
    assert demo.act(server_id, {"restore": None}).status == 202
    if ended != "it fails":
        demo.cloud.advance(0.1)
        demo.cloud.transact(cancel, kinds.RESTORE)
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SOFT_DELETED", None)
    assert demo.get("/limits").json()["limits"]["absolute"]["totalInstancesUsed"] == 0
    demo.cloud.advance(700)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_only_what_was_deleted_is_restored(demo: Asking) -> None:
    server_id = demo.boot()
    said = f"Cannot 'restore' instance {server_id} while it is in vm_state active"
    assert refusal(demo.act(server_id, {"restore": None})) == (409, "conflictingRequest", said)


def test_a_locked_server_is_not_deleted(demo: Asking) -> None:
    server_id = demo.boot()
    demo.act(server_id, {"lock": None})
    assert demo.delete(f"/servers/{server_id}").status == 409
    assert refusal(demo.act(server_id, {"forceDelete": None}))[0] == 409


def test_a_deletion_outlives_the_work_that_it_supersedes(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.fail("ensure_rebooted", times=None)
    demo.act(server_id, {"reboot": {"type": "SOFT"}})
    demo.cloud.advance(1)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"


@pytest.mark.parametrize("hard", ["SOFT", "HARD"])
def test_a_deletion_outlives_work_that_fails_under_it(demo: Asking, hypervisor: FakeHypervisor, hard: str) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.delay("ensure_rebooted", 5)
    hypervisor.behaviour.fail("ensure_rebooted", error=Unfit("it does not"))
    demo.act(server_id, {"reboot": {"type": hard}})
    demo.cloud.advance(1)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"


def test_a_second_delete_changes_nothing(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.fail("ensure_stopped", times=3)
    for _ in range(2):
        assert demo.delete(f"/servers/{server_id}").status == 204
        demo.cloud.advance(0.1)
        assert demo.server(server_id)["OS-EXT-STS:task_state"] == "soft-deleting"
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"


@pytest.mark.parametrize("ended", ["it fails", "an operator cancels it"])
def test_a_server_that_could_not_be_deleted_is_as_it_was(demo: Asking, hypervisor: FakeHypervisor, ended: str) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.fail("ensure_stopped", error=Unfit("it does not") if ended == "it fails" else None)
    demo.delete(f"/servers/{server_id}")
    if ended != "it fails":
        demo.cloud.advance(0.1)
        demo.cloud.transact(cancel, kinds.SOFT_DELETE)
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"


def state(demo: Asking, server_id: str) -> tuple[str, str, str | None]:
    """(vm_state, flavor, task_state)."""
    found = demo.server(server_id)
    return found["OS-EXT-STS:vm_state"], found["flavor"]["original_name"], found["OS-EXT-STS:task_state"]


def test_a_deletion_waits_for_a_revert(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    demo.act(server_id, {"resize": {"flavorRef": "2"}})
    demo.cloud.settle()
    hypervisor.behaviour.delay("ensure_stopped", 5)
    demo.act(server_id, {"revertResize": None})
    demo.cloud.advance(1)
    assert demo.delete(f"/servers/{server_id}").status == 204
    assert state(demo, server_id) == ("resized", "m1.small", "soft-deleting")
    demo.cloud.settle()
    assert state(demo, server_id) == ("soft-delete", "m1.tiny", None)
    guest = there(hypervisor.guests.get(server_id))
    assert (guest.power, guest.spec.host, guest.spec.memory_mib) == (Power.STOPPED, host, 512)
    assert [each["status"] for each in admin.get("/os-migrations").json()["migrations"]] == ["reverted"]
    assert demo.act(server_id, {"restore": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"


def test_a_server_is_deleted_though_its_host_is_down(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> None:
    """It was there again, active, a moment later."""
    server_id = demo.boot()
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    hypervisor.fail_host(host)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    hypervisor.recover_host(host)
    assert demo.act(server_id, {"restore": None}).status == 202
    demo.cloud.settle()
    assert (demo.status(server_id), there(hypervisor.guests.get(server_id)).power) == ("ACTIVE", Power.RUNNING)
    hypervisor.fail_host(host)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.advance(1)
    demo.cloud.advance(700)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"
    hypervisor.recover_host(host)
    assert audited(demo.cloud) == ["guest-left-behind"]
    demo.cloud.settle()
    assert hypervisor.guests.get(server_id) is None


def test_a_guest_that_a_silent_host_kept_running_is_stopped(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    host, guest = admin.server(server_id)["OS-EXT-SRV-ATTR:host"], there(hypervisor.guests.get(server_id))
    hypervisor.fail_host(host)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    hypervisor.recover_host(host)
    # It was only cut off.
    hypervisor.guests.put(server_id, guest)
    assert audited(demo.cloud) == ["guest-on"]
    demo.cloud.settle()
    assert there(hypervisor.guests.get(server_id)).power is Power.STOPPED
    assert (state(demo, server_id), audited(demo.cloud)) == (("soft-delete", "m1.tiny", None), [])
    demo.cloud.advance(700)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


@pytest.mark.parametrize(
    ("method", "work"), [("ensure_stopped", {"shelve": None}), *((method, None) for method in ATTACHING)]
)
def test_a_deletion_waits_for_no_work_on_a_dead_host(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, method: str, work: Any
) -> None:
    """It waited until the undo of that was given up, after ten minutes. On a host that is only silent it may run on."""
    server_id, volume_id = demo.boot(), demo.volume()
    before = there(hypervisor.guests.get(server_id))
    hypervisor.behaviour.fail(method, after=True)
    path, body = ("action", work) if work else attaching(demo, method, volume_id)
    assert demo.post(f"/servers/{server_id}/{path}", body).status in (200, 202)
    demo.cloud.advance(0.1)
    hypervisor.fail_host(before.spec.host)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.advance(60)
    assert state(demo, server_id) == ("active", "m1.tiny", "soft-deleting")
    declare_dead(admin, before.spec.host)
    demo.cloud.settle()
    assert (demo.status(server_id), demo.cloud.transact(under_way)) == ("SOFT_DELETED", [])
    assert demo.volume_status(volume_id) == "available"
    hypervisor.recover_host(before.spec.host)
    assert demo.act(server_id, {"restore": None}).status == 202
    demo.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (demo.status(server_id), found.power) == ("ACTIVE", Power.RUNNING)
    assert (found.state.port_ids, found.state.volume_ids) == (before.state.port_ids, ())


@pytest.mark.parametrize(("method", "work"), MOVES)
def test_a_deletion_waits_for_a_move_to_be_undone(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, method: str, work: Any
) -> None:
    """Restored, it would be looked for where its guest is not."""
    server_id = demo.boot()
    host = dies_while_it_works(admin, server_id, hypervisor, method, work)
    assert demo.delete(f"/servers/{server_id}").status == 204
    declare_dead(admin, host)
    demo.cloud.advance(30)
    assert state(demo, server_id)[2] == "soft-deleting"
    hypervisor.recover_host(host)
    demo.cloud.settle()
    assert (demo.status(server_id), demo.cloud.transact(under_way)) == ("SOFT_DELETED", [])
    assert demo.act(server_id, {"restore": None}).status == 202
    demo.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (demo.status(server_id), found.power) == ("ACTIVE", Power.RUNNING)
    assert found.spec.host == admin.server(server_id)["OS-EXT-SRV-ATTR:host"]


def test_a_server_whose_guest_is_gone_is_deleted_all_the_same(demo: Asking, hypervisor: FakeHypervisor) -> None:
    """It was ACTIVE again, without a guest."""
    server_id = demo.boot()
    hypervisor.guests.delete(server_id)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    assert demo.act(server_id, {"restore": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    demo.cloud.advance(700)
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_a_deletion_waits_for_a_rebuild(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.delay("ensure_absent", 5)
    demo.act(server_id, {"rebuild": {"imageRef": demo.image}})
    demo.cloud.advance(1)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "SOFT_DELETED"
    assert demo.act(server_id, {"restore": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE"


def test_a_server_that_is_leaving_its_host_is_deleted_for_good(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.delay("ensure_absent", 5)
    demo.act(server_id, {"shelve": None})
    demo.cloud.advance(1)
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "shelving_offloading"
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_a_server_that_is_being_unshelved_is_deleted_for_good(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    demo.act(server_id, {"shelve": None})
    demo.cloud.settle()
    hypervisor.behaviour.delay("ensure_defined", 5)
    demo.act(server_id, {"unshelve": None})
    demo.cloud.advance(1)
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "spawning"
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "gone" and not hypervisor.guests.values()


def test_a_server_that_is_being_deleted_is_not_evacuated(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    hypervisor.fail_host(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])
    demo.cloud.advance(60)
    demo.delete(f"/servers/{server_id}")
    said = f"Cannot 'evacuate' instance {server_id} while it is in task_state soft-deleting"
    assert refusal(admin.act(server_id, {"evacuate": {}}, LATEST)) == (409, "conflictingRequest", said)
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "soft-deleting"
