"""Boots that fail, move on and are interrupted; the audit of guests. Reference: compute-states.md, sections 4 and 5."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import text, update

from cloudctl.compute import audit
from cloudctl.compute.tables import Server
from cloudctl.drivers.errors import Busy, DriverError, HostDown, NoCapacity, Unfit, Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking
from tests.there import there


def nothing_is_left(asking: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend) -> None:
    assert list(hypervisor.guests.values()) == []
    assert list(network.ports.values()) == []
    assert asking.ports == []
    used = admin.get("/os-hypervisors/statistics").json()["hypervisor_statistics"]
    assert (used["vcpus_used"], used["memory_mb_used"], used["local_gb_used"]) == (0, 0, 0)


def test_a_host_without_room_is_left_for_another(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_defined", error=NoCapacity("out of memory"), times=2)
    server_id = demo.boot()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "fake-3")
    (guest,) = hypervisor.guests.values()
    assert guest.spec.host == "fake-3"
    used = {
        h["hypervisor_hostname"]: h["vcpus_used"] for h in admin.get("/os-hypervisors/detail").json()["hypervisors"]
    }
    assert used == {"fake-1": 0, "fake-2": 0, "fake-3": 1}


def test_a_failed_host_is_the_last_choice_until_a_build_succeeds(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("ensure_running", error=NoCapacity("no"), times=1)
    hosts = [admin.server(demo.boot())["OS-EXT-SRV-ATTR:host"] for _ in range(4)]
    assert "fake-1" not in hosts


def test_a_boot_that_fails_everywhere_is_an_error_and_leaves_nothing(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    hypervisor.behaviour.fail("ensure_running", error=NoCapacity("out of memory"), times=None)
    server_id = demo.boot()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-SRV-ATTR:host"], found["hostId"]) == ("ERROR", None, "")
    message = found["fault"]["message"]
    assert message.startswith(
        "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance "
        f"{server_id}."
    )
    assert message.endswith("out of memory")
    nothing_is_left(demo, admin, hypervisor, network)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


@pytest.mark.parametrize("method", ["ensure_defined", "ensure_running"])
def test_a_guest_that_cannot_be_is_not_tried_elsewhere(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend, method: str
) -> None:
    hypervisor.behaviour.fail(method, error=Unfit("the image is no disk"))
    found = demo.server(demo.boot())
    assert (found["status"], found["fault"]["message"]) == ("ERROR", "the image is no disk")
    assert hypervisor.behaviour.calls[method] == 1
    nothing_is_left(demo, admin, hypervisor, network)


@pytest.mark.parametrize("error", [Unreachable("no answer"), Busy("wait")])
def test_what_passes_is_waited_for(demo: Asking, hypervisor: FakeHypervisor, error: Exception) -> None:
    hypervisor.behaviour.fail("ensure_running", error=error, times=3)
    assert demo.status(demo.boot()) == "ACTIVE"


def test_a_network_that_fails_is_an_error(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    network.behaviour.fail("ensure_port", error=DriverError("no more tags"))
    found = demo.server(demo.boot())
    assert (found["status"], found["fault"]["message"]) == ("ERROR", "no more tags")
    nothing_is_left(demo, admin, hypervisor, network)


def test_no_host_is_large_enough(demo: Asking, admin: Asking) -> None:
    flavor = {"name": "huge", "ram": 2**30, "vcpus": 1, "disk": 1, "id": "huge"}
    admin.post("/flavors", {"flavor": flavor})
    project = demo.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["tenant_id"]
    admin.put(f"/os-quota-sets/{project}", {"quota_set": {"ram": -1}})
    found = demo.server(demo.boot(flavorRef="huge"))
    assert (found["status"], found["fault"]["message"]) == (
        "ERROR",
        "No valid host was found. There are not enough hosts available.",
    )


def test_a_given_port_is_free_again_after_a_failed_boot(demo: Asking, hypervisor: FakeHypervisor) -> None:
    port_id = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}}).json()["port"]["id"]
    hypervisor.behaviour.fail("ensure_running", error=Unfit("no"))
    demo.boot(networks=[{"port": port_id}])
    port = demo.client.get(f"/networking/v2.0/ports/{port_id}").json()["port"]
    assert (port["device_id"], port["device_owner"], port["status"]) == ("", "", "DOWN")
    assert demo.status(demo.boot(networks=[{"port": port_id}])) == "ACTIVE"


def test_a_port_deleted_during_the_boot_is_an_error(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    hypervisor.behaviour.delay("ensure_defined", 5.0)
    server_id = demo.create().json()["server"]["id"]
    demo.cloud.advance(1)
    (port_id,) = demo.ports
    assert demo.client.delete(f"/networking/v2.0/ports/{port_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "ERROR"
    nothing_is_left(demo, admin, hypervisor, network)


# -- delete wins


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 2.5, 3.5, 4.5, 6.0])
def test_a_delete_wins_over_a_boot_at_any_moment(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend, seconds: float
) -> None:
    for driver, method in ((network, "ensure_port"), (hypervisor, "ensure_defined"), (hypervisor, "ensure_running")):
        driver.behaviour.delay(method, 1.0)
    server_id = demo.create().json()["server"]["id"]
    if seconds:
        demo.cloud.advance(seconds)
    assert demo.delete(f"/servers/{server_id}").status == 204
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "deleting"
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"
    nothing_is_left(demo, admin, hypervisor, network)


def test_a_delete_wins_over_the_making_of_a_volume(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend, volumes: FakeVolumeBackend
) -> None:
    volumes.behaviour.delay("ensure_created", 30.0)
    device = {
        "source_type": "image",
        "uuid": demo.image,
        "destination_type": "volume",
        "volume_size": 1,
        "boot_index": 0,
    }
    made = demo.create(imageRef=None, block_device_mapping_v2=[{**device, "delete_on_termination": True}])
    server_id = made.json()["server"]["id"]
    demo.cloud.advance(5)
    assert demo.status(server_id) == "BUILD"
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"
    assert demo.client.get("/volume/v3/volumes").json()["volumes"] == []
    nothing_is_left(demo, admin, hypervisor, network)


def test_a_delete_wins_over_a_stop(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.delay("ensure_stopped", 10.0)
    demo.act(server_id, {"os-stop": None})
    demo.cloud.advance(1)
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_a_delete_that_fails_is_an_error_and_can_be_repeated(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.fail("ensure_absent", error=DriverError("the disk is stuck"))
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert found["fault"]["message"] == "the disk is stuck"
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


def test_a_server_on_a_dead_host_can_be_deleted_and_its_guest_goes_when_the_host_returns(
    cloud: MemoryCloud, demo: Asking, admin: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    hypervisor.fail_host(host)
    demo.delete(f"/servers/{server_id}")
    cloud.settle()
    assert demo.status(server_id) == "gone"
    assert len(list(hypervisor.guests.values())) == 1
    hypervisor.recover_host(host)
    cloud.advance(400)
    cloud.settle()
    assert list(hypervisor.guests.values()) == []


def test_a_dead_host_refuses_a_start_in_the_end(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    hypervisor.fail_host(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])
    demo.act(server_id, {"os-start": None})
    demo.cloud.settle()
    assert (demo.status(server_id), demo.server(server_id)["OS-EXT-STS:task_state"]) == ("SHUTOFF", None)


def test_a_boot_that_hangs_is_given_up() -> None:
    cloud = MemoryCloud({"compute": {"build_timeout": 60.0}})
    demo = Asking(cloud.client("demo"))
    fake: Any = cloud.cloud.drivers.hypervisor
    fake.behaviour.delay("ensure_running", 1e6)
    server_id = demo.boot()
    found = demo.server(server_id)
    assert (found["status"], found["fault"]["message"]) == ("ERROR", "spawn: the deadline has passed")
    cloud.close()


# -- the audit


def audited(cloud: MemoryCloud) -> list[tuple[str, bool]]:
    """(kind, submitted) of what one round finds, once its tasks have ended."""
    cloud.cloud.audit.run()
    found = [(finding.kind, finding.submitted) for finding in cloud.cloud.audit.latest["hypervisor"]]
    cloud.settle()
    return found


def test_nothing_is_found_where_all_is_well(cloud: MemoryCloud, demo: Asking) -> None:
    demo.boot()
    stopped = demo.boot()
    demo.act(stopped, {"os-stop": None})
    cloud.settle()
    assert audited(cloud) == []


def test_servers_that_are_as_they_were_cost_no_query_each(cloud: MemoryCloud, demo: Asking, monkeypatch: Any) -> None:
    demo.boot()
    asked: list[Any] = []
    monkeypatch.setattr("cloudctl.compute.audit.tasks.has_open", lambda *args: asked.append(args))
    cloud.cloud.audit.run()
    assert (cloud.cloud.audit.latest["hypervisor"], asked) == ((), [])


def test_guests_that_were_as_they_shall_be_are_compared_again_once_anything_has_changed(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor, monkeypatch: Any
) -> None:
    server_id = demo.boot()
    assert audited(cloud) == []
    compare, rounds = audit._compare_all, list[Any]()

    def noting(conn: Any, guests: Any, up: Any) -> Any:
        rounds.append(guests)
        return compare(conn, guests, up)

    monkeypatch.setattr(audit, "_compare_all", noting)
    assert (audited(cloud), rounds) == ([], [])
    # A guest that nobody knows, for as long as it is there.
    guest = there(hypervisor.guests.get(server_id))
    hypervisor.guests.put("x", evolve(guest, spec=evolve(guest.spec, id="x")))
    assert [audited(cloud), audited(cloud), len(rounds)] == [[("guest-unknown", False)]] * 2 + [2]
    hypervisor.guests.delete("x")
    assert [audited(cloud), audited(cloud), len(rounds)] == [[], [], 3]
    # What somebody says of a server.
    cloud.transact(lambda conn: conn.execute(update(Server).where(Server.id == server_id).values(vm_state="stopped")))
    assert audited(cloud) == [("guest-on", True)]


def test_more_unknown_guests_than_one_statement_takes(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor, monkeypatch: Any
) -> None:
    from attrs import evolve

    monkeypatch.setattr("cloudctl.compute.audit.BATCH", 2)
    guest = there(hypervisor.guests.get(demo.boot()))
    for id in ("alien-1", "alien-2", "alien-3"):
        hypervisor.guests.put(id, evolve(guest, spec=evolve(guest.spec, id=id)))
    assert audited(cloud) == [("guest-unknown", False)] * 3


def test_a_guest_that_dies_makes_its_server_stop(cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    hypervisor.crash(server_id)
    assert audited(cloud) == [("guest-off", True)]
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:power_state"]) == ("SHUTOFF", 4)
    assert audited(cloud) == []


def test_a_guest_that_runs_by_itself_is_stopped(cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor) -> None:
    from attrs import evolve

    server_id = demo.boot()
    demo.act(server_id, {"os-stop": None})
    cloud.settle()
    hypervisor.guests.put(server_id, evolve(there(hypervisor.guests.get(server_id)), power=Power.RUNNING))
    assert audited(cloud) == [("guest-on", True)]
    assert there(hypervisor.guests.get(server_id)).power is Power.STOPPED


def test_a_missing_guest_is_reported_unless_its_host_is_down(
    cloud: MemoryCloud, demo: Asking, admin: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    guest = there(hypervisor.guests.get(server_id))
    hypervisor.guests.delete(server_id)
    assert audited(cloud) == [("guest-missing", False)]
    assert demo.server(server_id)["OS-EXT-STS:power_state"] == 0
    hypervisor.guests.put(server_id, guest)
    hypervisor.fail_host(host)
    cloud.advance(15)
    assert audited(cloud) == []


def test_an_unknown_guest_is_reported_and_left_alone(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    from attrs import evolve

    guest = there(hypervisor.guests.get(demo.boot()))
    hypervisor.guests.put("alien", evolve(guest, spec=evolve(guest.spec, id="alien")))
    assert audited(cloud) == [("guest-unknown", False)]
    assert hypervisor.guests.get("alien") is not None


def test_a_leaked_share_of_a_host_is_reported(cloud: MemoryCloud, demo: Asking) -> None:
    demo.boot()
    cloud.transact(lambda conn: conn.execute(text("UPDATE consumers SET id = 'nobody'")) and None)
    cloud.transact(lambda conn: conn.execute(text("UPDATE allocations SET consumer_id = 'nobody'")) and None)
    assert audited(cloud) == [("allocation-leaked", False)]


def test_a_host_that_is_down_is_no_reason_to_try_again_there(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("ensure_defined", error=HostDown("fake-1 is down"))
    assert admin.server(demo.boot())["OS-EXT-SRV-ATTR:host"] != "fake-1"
