"""A host dies: it is fenced, its guests run elsewhere, it comes back. Reference: instance-ha.md, sections 3 and 6."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking
from tests.instance_ha.asking import Ha
from tests.there import there

HOSTS = ("fake-1", "fake-2", "fake-3")


def on(ha: Ha, host: str, **wishes: Any) -> str:
    """A server of project admin on this host."""
    return ha.compute.boot(availability_zone=f"nova:{host}", **wishes)


def place(ha: Ha, server: str) -> tuple[str, str]:
    found = ha.compute.server(server)
    return found["OS-EXT-SRV-ATTR:host"], found["status"]


def service(ha: Ha, host: str) -> dict[str, Any]:
    found = ha.compute.get(f"/os-services?host={host}&binary=nova-compute", "2.53").json()["services"]
    return {name: found[0][name] for name in ("status", "state", "forced_down", "disabled_reason")}


def is_reserved(ha: Ha, segment: str, host: str) -> bool:
    return bool(ha.get(f"/segments/{segment}/hosts/{host}")["host"]["reserved"])


@pytest.fixture
def segment(ha: Ha) -> str:
    return ha.segment()


@pytest.fixture
def host(ha: Ha, segment: str) -> str:
    return ha.host(segment, "fake-1")


def test_its_guests_run_elsewhere_once_it_is_fenced(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    plain, stopped = on(ha, "fake-1"), on(ha, "fake-1")
    ha.compute.act(stopped, {"os-stop": None})
    important = on(ha, "fake-1", metadata={"HA_Enabled": "True"})
    elsewhere = on(ha, "fake-2")
    uuid = ha.reported()
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert (found["status"], found["message"]) == ("finished", None)
    assert [(each["name"], each["state"], each["progress"]) for each in found["recovery_workflow_details"]] == [
        ("DisableComputeServiceTask", "SUCCESS", 1.0),
        ("FenceHostTask", "SUCCESS", 1.0),
        ("PrepareHAEnabledInstancesTask", "SUCCESS", 1.0),
        ("EvacuateInstancesTask", "SUCCESS", 1.0),
    ]
    assert found["recovery_workflow_details"][0]["progress_details"][0]["progress"] == "0.0"
    moves = ha.vmoves(uuid)
    assert [each["instance_uuid"] for each in moves] == [important, plain, stopped]
    for each in moves:
        assert (each["type"], each["status"], each["source_host"]) == ("evacuation", "succeeded", "fake-1")
        assert each["start_time"] <= each["end_time"] and each["dest_host"] in HOSTS[1:]
        assert place(ha, each["instance_uuid"])[0] == each["dest_host"]
    assert [place(ha, each)[1] for each in (important, plain, stopped)] == ["ACTIVE", "ACTIVE", "SHUTOFF"]
    assert place(ha, elsewhere) == ("fake-2", "ACTIVE")
    assert fencer.fenced == {"fake-1"} and not hypervisor.machines["fake-1"].up
    assert service(ha, "fake-1") == {
        "status": "disabled",
        "state": "down",
        "forced_down": True,
        "disabled_reason": "instance HA: the host is broken",
    }
    member = ha.get(f"/segments/{segment}/hosts/{host}")["host"]
    assert (member["on_maintenance"], member["reserved"]) == (True, False)
    assert ha.report(event="STOPPED", host_status="NORMAL").status == 409


def test_without_a_proof_nothing_moves_until_an_operator_says_so(
    ha: Ha, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    server = on(ha, "fake-1")
    fencer.behaviour.fail("ensure_fenced", times=None, error=Unreachable("the controller does not answer"))
    uuid = ha.reported()
    ha.cloud.advance(600)
    found = ha.notification(uuid)
    assert found["status"] == "running"
    assert found["message"] == (
        "no proof that host fake-1 is fenced (fake: the controller does not answer); "
        "an operator may say so: cloudctl hosts fenced"
    )
    assert place(ha, server) == ("fake-1", "ACTIVE") and ha.vmoves(uuid) == []
    assert service(ha, "fake-1")["forced_down"] is False
    hypervisor.fail_host("fake-1")
    vouched = ha.ask("POST", f"/notifications/{uuid}/fenced", {"fenced": {"reason": "I pulled the plug"}})
    assert vouched.status == 202
    ha.cloud.settle()
    assert ha.status(uuid) == "finished" and place(ha, server)[0] != "fake-1"
    assert ha.ask("POST", f"/notifications/{uuid}/fenced", {"fenced": {"reason": "again"}}).status == 409


def test_it_goes_on_when_a_proof_comes(ha: Ha, host: str, fencer: FakeFencer) -> None:
    server = on(ha, "fake-1")
    fencer.behaviour.fail("ensure_fenced", times=5)
    uuid = ha.reported()
    ha.cloud.settle()
    assert ha.status(uuid) == "finished" and place(ha, server)[0] != "fake-1"


def test_a_retry_takes_those_that_have_not_arrived(ha: Ha, host: str, hypervisor: FakeHypervisor) -> None:
    first, second = on(ha, "fake-1"), on(ha, "fake-1")
    hypervisor.behaviour.fail("ensure_running", error=DriverError("it does not start"), id=second)
    uuid = ha.reported()
    ha.cloud.advance(1)
    for _ in range(40):
        ha.cloud.advance(1)
    found = ha.notification(uuid)
    assert found["status"] == "error"
    assert found["message"] == f"1 instances of host fake-1 are not elsewhere: {second}: it does not start"
    assert [each["status"] for each in ha.vmoves(uuid)] == ["succeeded", "failed"]
    log = there(hypervisor.guests.get(first)).log
    ha.cloud.settle()
    assert ha.status(uuid) == "finished"
    assert [each["status"] for each in ha.vmoves(uuid)] == ["succeeded", "succeeded"]
    assert there(hypervisor.guests.get(first)).log == log
    assert {place(ha, each)[1] for each in (first, second)} == {"ACTIVE"}


def test_what_cannot_be_done_twice_fails(ha: Ha, host: str, hypervisor: FakeHypervisor) -> None:
    server = on(ha, "fake-1")
    hypervisor.behaviour.fail("ensure_running", times=None, error=DriverError("it does not start"), id=server)
    uuid = ha.reported()
    ha.cloud.settle()
    assert (ha.status(uuid), ha.vmoves(uuid)[0]["status"]) == ("failed", "failed")
    assert place(ha, server)[1] == "ERROR"


def test_who_finds_no_room_waits_and_is_told(small: Ha) -> None:
    ha = small
    segment = ha.segment()
    ha.host(segment, "fake-1")
    server, other = on(ha, "fake-1", flavorRef="2"), on(ha, "fake-2", flavorRef="2")
    uuid = ha.reported()
    ha.cloud.advance(1)
    for _ in range(1000):
        ha.cloud.advance(1)
    found = ha.notification(uuid)
    assert found["status"] == "error" and "No valid host" in found["message"], found
    assert ha.vmoves(uuid)[0]["status"] == "failed"
    ha.compute.delete(f"/servers/{other}")
    ha.cloud.settle()
    assert (ha.status(uuid), place(ha, server)) == ("finished", ("fake-2", "ACTIVE"))


@pytest.fixture
def small() -> Iterator[Ha]:
    """Two hosts, with room for one server each."""
    cloud = MemoryCloud({"driver": {"hypervisor": {"fake": {"hosts": 2, "memory_mib": 3000}}}})
    yield Ha(cloud.client("admin"))
    cloud.close()


@pytest.mark.parametrize("method", ["reserved_host", "rh_priority"])
def test_a_reserve_is_used_up_when_guests_are_there(ha: Ha, method: str) -> None:
    segment = ha.segment("rack-2", method)
    ha.host(segment, "fake-1")
    reserve = ha.host(segment, "fake-3", reserved=True)
    ha.compute.put("/os-services/disable", {"host": "fake-3", "binary": "nova-compute"})
    server = on(ha, "fake-1")
    uuid = ha.reported()
    ha.cloud.settle()
    assert (ha.status(uuid), place(ha, server)) == ("finished", ("fake-3", "ACTIVE"))
    assert not is_reserved(ha, segment, reserve) and service(ha, "fake-3")["status"] == "enabled"


def test_a_reserve_that_gets_no_guest_is_given_back(ha: Ha, hypervisor: FakeHypervisor) -> None:
    segment = ha.segment("rack-2", "reserved_host")
    ha.host(segment, "fake-1")
    reserve = ha.host(segment, "fake-3", reserved=True)
    ha.compute.put("/os-services/disable", {"host": "fake-3", "binary": "nova-compute"})
    server = on(ha, "fake-1")
    hypervisor.behaviour.fail("ensure_running", times=None, error=DriverError("it does not start"), id=server)
    uuid = ha.reported()
    ha.cloud.settle()
    assert ha.status(uuid) == "failed"
    assert is_reserved(ha, segment, reserve) and service(ha, "fake-3")["status"] == "disabled"


def test_auto_comes_first_and_the_reserve_is_left(ha: Ha) -> None:
    segment = ha.segment("rack-2", "auto_priority")
    ha.host(segment, "fake-1")
    reserve = ha.host(segment, "fake-3", reserved=True)
    ha.compute.put("/os-services/disable", {"host": "fake-3", "binary": "nova-compute"})
    server = on(ha, "fake-1")
    ha.reported()
    ha.cloud.settle()
    assert place(ha, server) == ("fake-2", "ACTIVE") and is_reserved(ha, segment, reserve)


def test_without_a_reserve_there_is_an_error(ha: Ha) -> None:
    segment = ha.segment("rack-2", "reserved_host")
    ha.host(segment, "fake-1")
    server = on(ha, "fake-1")
    uuid = ha.reported()
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert found["status"] == "failed" and "there is no reserved host" in found["message"]
    assert place(ha, server)[0] == "fake-1"


# -- what is not acted upon


def test_a_disabled_segment_is_left_alone(ha: Ha, segment: str, host: str) -> None:
    ha.ask("PUT", f"/segments/{segment}", {"segment": {"enabled": False}})
    uuid = ha.reported()
    ha.cloud.settle()
    found = ha.notification(uuid)
    assert (found["status"], found["message"]) == ("ignored", "segment HA is disabled")


def test_a_host_that_started_is_no_fault(ha: Ha, host: str) -> None:
    uuid = ha.reported(event="STARTED", host_status="NORMAL")
    ha.cloud.settle()
    assert ha.status(uuid) == "finished"


def test_a_host_of_unknown_status_that_answers_is_left_alone(ha: Ha, host: str, fencer: FakeFencer) -> None:
    uuid = ha.reported(event="STOPPED", host_status="UNKNOWN")
    ha.cloud.settle()
    assert ha.status(uuid) == "ignored" and not fencer.fenced
    assert ha.report(event="STOPPED", host_status="NORMAL").status == 202


def test_a_host_of_unknown_status_is_looked_at_again(
    ha: Ha, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    server = on(ha, "fake-1")
    hypervisor.fail_host("fake-1")
    ha.cloud.advance(11)
    uuid = ha.reported(event="STOPPED", host_status="UNKNOWN")
    ha.cloud.advance(2)
    assert "was heard of" in ha.notification(uuid)["message"] and not fencer.fenced
    assert ha.report(event="STOPPED", cluster_status="OFFLINE").status == 409
    ha.cloud.settle()
    assert ha.status(uuid) == "finished" and place(ha, server)[0] != "fake-1"


def test_who_is_sure_wins_over_who_is_not(ha: Ha, host: str, hypervisor: FakeHypervisor) -> None:
    server = on(ha, "fake-1")
    hypervisor.fail_host("fake-1")
    ha.cloud.advance(11)
    unsure = ha.reported(event="STOPPED", host_status="UNKNOWN")
    ha.cloud.advance(2)
    sure = ha.reported()
    ha.cloud.settle()
    assert (ha.status(unsure), ha.status(sure)) == ("ignored", "finished") and place(ha, server)[0] != "fake-1"


def test_what_is_expired_fails_and_says_what_it_waited_for() -> None:
    cloud = MemoryCloud({"instance_ha": {"notifications_expired_interval": 600.0}})
    ha = Ha(cloud.client("admin"))
    ha.host(ha.segment(), "fake-1")
    fencer = cloud.cloud.drivers.fencers["fake"]
    assert isinstance(fencer, FakeFencer)
    fencer.behaviour.fail("ensure_fenced", times=None)
    uuid = ha.reported()
    cloud.settle()
    found = ha.notification(uuid)
    cloud.close()
    assert found["status"] == "failed" and "the deadline has passed; it waited: no proof" in found["message"]


# -- processes, and the way back


def test_a_dead_process_disables_the_service_and_does_not_block_the_host(ha: Ha, host: str) -> None:
    server = on(ha, "fake-1")
    process = ha.reported(type="PROCESS", event="STOPPED", process_name="nova-compute")
    other = ha.reported(type="COMPUTE_PROCESS", event="STOPPED", process_name="libvirtd")
    dead = ha.report()
    assert dead.status == 202
    ha.cloud.settle()
    assert (ha.status(process), ha.status(other)) == ("finished", "finished")
    assert ha.notification(other)["message"] == "nothing depends on libvirtd"
    assert place(ha, server)[0] != "fake-1"


def test_a_retry_takes_the_only_host_that_is_left_although_the_first_one_failed_there(
    ha: Ha, host: str, hypervisor: FakeHypervisor
) -> None:
    ha.compute.put("/os-services/disable", {"host": "fake-3", "binary": "nova-compute"})
    device = {"source_type": "image", "uuid": ha.compute.image, "destination_type": "volume", "boot_index": 0}
    server = on(ha, "fake-1", imageRef=None, block_device_mapping_v2=[{**device, "volume_size": 1}])
    hypervisor.behaviour.fail("ensure_running", error=DriverError("it does not start"), id=server)
    uuid = ha.reported()
    ha.cloud.settle()
    assert ha.status(uuid) == "finished" and place(ha, server) == ("fake-2", "ACTIVE")
    guest = there(hypervisor.guests.get(server))
    assert (guest.spec.host, guest.power) == ("fake-2", Power.RUNNING)
    found = ha.compute.get("/os-hypervisors/detail").json()["hypervisors"]
    assert {each["hypervisor_hostname"]: each["vcpus_used"] for each in found if each["vcpus_used"]} == {"fake-2": 1}
    volumes = ha.cloud.cloud.drivers.volume
    assert isinstance(volumes, FakeVolumeBackend)
    assert [each.hosts for each in volumes.volumes.values()] == [("fake-2",)]
    network = ha.cloud.cloud.drivers.network
    assert isinstance(network, FakeNetworkBackend)
    assert [each.hosts for each in network.ports.values()] == [("fake-2",)]


def test_a_dead_process_leaves_its_guests_alone(ha: Ha, segment: str, host: str) -> None:
    server = on(ha, "fake-1")
    ha.reported(type="PROCESS", event="stopped", process_name="nova-compute")
    ha.cloud.settle()
    assert service(ha, "fake-1")["status"] == "disabled" and service(ha, "fake-1")["state"] == "up"
    assert place(ha, server) == ("fake-1", "ACTIVE")


def test_a_host_that_returns_is_used_again_once_it_agrees(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    server = on(ha, "fake-1")
    ha.reported()
    ha.cloud.settle()
    hypervisor.recover_host("fake-1")
    ha.cloud.advance(11)
    assert service(ha, "fake-1")["status"] == "disabled"
    assert place(ha, server)[0] != "fake-1"
    assert hypervisor.guests.get(server) is not None
    guest = there(hypervisor.guests.get(server))
    assert guest.spec.host != "fake-1" and guest.power is Power.RUNNING
    done = ha.ask("PUT", f"/segments/{segment}/hosts/{host}", {"host": {"on_maintenance": False}})
    assert done.status == 200
    ha.cloud.settle()
    assert fencer.fenced == set()
    assert service(ha, "fake-1") == {
        "status": "enabled",
        "state": "up",
        "forced_down": False,
        "disabled_reason": None,
    }
    ha.cloud.advance(200)
    assert ha.report().status == 202


def test_a_host_with_a_stale_copy_is_not_used(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, demo: Asking
) -> None:
    ha.reported()
    ha.cloud.settle()
    on(ha, "fake-2")
    ha.ask("PUT", f"/segments/{segment}/hosts/{host}", {"host": {"on_maintenance": False}})
    (guest,) = hypervisor.guests.values()
    hypervisor.guests.put("copy", evolve(guest, spec=evolve(guest.spec, id="copy", host="fake-1")))
    ha.cloud.advance(1)
    for _ in range(60):
        ha.cloud.advance(1)
    assert service(ha, "fake-1")["status"] == "disabled"
    hypervisor.guests.delete("copy")
    ha.cloud.settle()
    assert service(ha, "fake-1")["status"] == "enabled"


def test_what_is_being_deleted_stays_so() -> None:
    cloud = MemoryCloud({"compute": {"reclaim_instance_interval": 600}})
    ha = Ha(cloud.client("admin"))
    ha.host(ha.segment(), "fake-1")
    frozen, server = on(ha, "fake-1"), on(ha, "fake-1")
    ha.compute.act(frozen, {"pause": None})
    cloud.settle()
    hypervisor = cloud.cloud.drivers.hypervisor
    assert isinstance(hypervisor, FakeHypervisor)
    hypervisor.behaviour.fail("ensure_stopped", times=None)
    for each in (frozen, server):
        assert ha.compute.delete(f"/servers/{each}").status == 204
    uuid = ha.reported()
    cloud.advance(60)
    said = [(each["status"], each["message"]) for each in ha.vmoves(uuid)]
    assert said == [("ignored", "it is being deleted")] * 2
    assert {ha.compute.server(each)["OS-EXT-STS:task_state"] for each in (frozen, server)} == {"soft-deleting"}
    cloud.close()
