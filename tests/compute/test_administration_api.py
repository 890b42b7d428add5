"""Hosts of old, external events, the audit log, what was removed, and quotas of users."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from attrs import evolve

from cloudctl.compute.api.audit_log import month_before
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there

IN_USE = {"OpenStack-API-Version": "volume 3.42"}


def test_this_process_schedules_and_conducts(admin: Asking, cloud: MemoryCloud) -> None:
    found = {each["binary"]: each for each in admin.get("/os-services", LATEST).json()["services"]}
    assert found.keys() == {"nova-compute", "nova-scheduler", "nova-conductor"}
    conductor = found["nova-conductor"]
    assert (conductor["host"], conductor["zone"], conductor["state"]) == ("cloudctl", "internal", "up")
    before = conductor["updated_at"]
    cloud.advance(30)
    assert admin.get("/os-services?binary=nova-conductor").json()["services"][0]["updated_at"] > before
    path = f"/os-services/{conductor['id']}"
    refused = refusal(admin.put(path, {"status": "disabled"}, LATEST))
    assert refused[0] == 400 and "Only nova-compute services can be updated" in refused[2]
    assert admin.put("/os-services/disable", {"host": "cloudctl", "binary": "nova-conductor"}).status == 400
    assert admin.delete(path, LATEST).status == 409
    inside = admin.get("/os-availability-zone/detail").json()["availabilityZoneInfo"]
    (internal,) = [each["hosts"] for each in inside if each["zoneName"] == "internal"]
    assert internal["cloudctl"].keys() == {"nova-scheduler", "nova-conductor"}


def test_one_that_was_not_heard_of_is_down_and_can_be_forgotten(admin: Asking, cloud: MemoryCloud) -> None:
    watch = next(each for each in cloud.cloud if each.__class__.__name__ == "HostWatch")
    watch.stopService()
    cloud.advance(61)
    found = admin.get("/os-services?host=cloudctl", LATEST).json()["services"]
    assert [each["state"] for each in found] == ["down", "down"]
    for each in found:
        assert admin.delete(f"/os-services/{each['id']}", LATEST).status == 204
    assert admin.get("/os-services?host=cloudctl").json() == {"services": []}


def test_numbers_name_one_service_each(admin: Asking) -> None:
    numbers = [each["id"] for each in admin.get("/os-services").json()["services"]]
    assert len(set(numbers)) == len(numbers) == 5


def test_a_hypervisor_tells_for_how_long_it_is_up(
    admin: Asking, cloud: MemoryCloud, hypervisor: FakeHypervisor
) -> None:
    first = admin.get("/os-hypervisors").json()["hypervisors"][0]
    machine = hypervisor.machines["fake-1"]
    hypervisor.machines["fake-1"] = evolve(machine, up_since=cloud.clock.seconds() - 90_000)
    cloud.advance(15)
    shown = admin.get(f"/os-hypervisors/{first['id']}/uptime").json()["hypervisor"]
    assert shown.keys() == {"id", "hypervisor_hostname", "state", "status", "uptime"}
    assert shown["uptime"].endswith(" up 1 day,  1:00")
    uuid = admin.get("/os-hypervisors", LATEST).json()["hypervisors"][0]["id"]
    assert admin.get(f"/os-hypervisors/{uuid}", LATEST).json()["hypervisor"]["uptime"] == shown["uptime"]
    hypervisor.fail_host("fake-1")
    cloud.advance(15)
    assert admin.get(f"/os-hypervisors/{first['id']}/uptime").status == 400
    assert admin.get(f"/os-hypervisors/{uuid}", LATEST).json()["hypervisor"]["uptime"] is None


def test_hosts_of_old(admin: Asking, demo: Asking) -> None:
    found = admin.get("/os-hosts").json()["hosts"]
    assert {"host_name": "fake-1", "service": "compute", "zone": "nova"} in found
    assert {"host_name": "cloudctl", "service": "scheduler", "zone": "internal"} in found
    assert len(admin.get("/os-hosts?zone=nova").json()["hosts"]) == 3
    assert admin.get("/os-hosts?zone=none").json() == {"hosts": []}
    server = admin.server(demo.boot(flavorRef="3"))
    host = server["OS-EXT-SRV-ATTR:host"]
    shown = [each["resource"] for each in admin.get(f"/os-hosts/{host}").json()["host"]]
    assert [each["project"] for each in shown] == ["(total)", "(used_now)", "(used_max)", server["tenant_id"]]
    amounts = {"host": host, "cpu": 2, "memory_mb": 4096, "disk_gb": 40}
    assert all({**each, "project": ""} == {**amounts, "project": ""} for each in shown[1:])
    assert admin.get("/os-hosts", "2.43").status == 404


def test_hosts_of_old_are_switched(admin: Asking) -> None:
    assert admin.put("/os-hosts/fake-1", {"status": "disable"}).json() == {"host": "fake-1", "status": "disabled"}
    assert admin.get("/os-services?host=fake-1").json()["services"][0]["status"] == "disabled"
    assert admin.put("/os-hosts/fake-1", {"status": "invalid"}).status == 400
    assert admin.put("/os-hosts/fake-1", {}).status == 400
    assert admin.put("/os-hosts/fake-1", {"maintenance_mode": "enable"}).status == 501
    assert admin.put("/os-hosts/none", {"status": "enable"}).status == 404
    assert admin.get("/os-hosts/none").status == 404
    for action in ("startup", "shutdown", "reboot"):
        assert admin.get(f"/os-hosts/none/{action}").status == 404
        assert admin.get(f"/os-hosts/fake-1/{action}").status == 501


def test_external_events_are_answered_one_by_one(admin: Asking, demo: Asking) -> None:
    server_id, nobody = demo.boot(), "6f1d2c3b-0000-4000-8000-000000000000"
    known = {"name": "network-changed", "server_uuid": server_id}

    def ask(*events: dict[str, str], version: str = LATEST) -> tuple[int, list[int]]:
        answer = admin.post("/os-server-external-events", {"events": list(events)}, version)
        return answer.status, [each["code"] for each in answer.json().get("events", [])]

    assert ask(known) == (200, [200])
    assert ask(known, {**known, "server_uuid": nobody}) == (207, [200, 404])
    assert ask({**known, "server_uuid": nobody}) == (404, [])
    assert ask(known, {**known, "name": "volume-extended"}) == (207, [200, 400])
    assert ask({**known, "name": "volume-extended", "tag": nobody}) == (200, [200])
    assert ask({**known, "name": "volume-extended", "tag": nobody}, version="2.50") == (400, [])
    assert ask({**known, "name": "volume-reimaged", "tag": nobody}, version="2.92") == (400, [])
    assert ask({**known, "status": "other"}) == (400, [])
    shown = admin.post("/os-server-external-events", {"events": [{**known, "tag": "x"}]}).json()["events"]
    assert shown == [{**known, "tag": "x", "status": "completed", "code": 200}]
    assert demo.post("/os-server-external-events", {"events": [known]}).status == 403


def test_what_is_told_from_outside_is_looked_up(admin: Asking, demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}})
    demo.cloud.settle()

    def tell(name: str, tag: str = "", status: str = "completed") -> list[str]:
        """What is done about it, as the log of the server says."""
        before = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
        event = {"name": name, "server_uuid": server_id, "tag": tag, "status": status}
        assert admin.post("/os-server-external-events", {"events": [event]}, LATEST).status == 200
        demo.cloud.settle()
        after = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
        return [each["action"] for each in after[: len(after) - len(before)]]

    # A guest that has lost its interface, and one that has gone off, though nobody here has noticed it.
    guest = there(hypervisor.guests.get(server_id))
    hypervisor.guests.put(server_id, evolve(guest, spec=evolve(guest.spec, ports=())))
    assert tell("network-changed", status="failed") == []
    assert there(hypervisor.guests.get(server_id)).spec.ports == ()
    assert tell("network-changed") == []
    assert [each.id for each in there(hypervisor.guests.get(server_id)).spec.ports] == demo.ports
    assert tell("volume-extended", tag=server_id) == []
    assert tell("volume-extended", tag=volume_id) == ["extend_volume"]
    assert f"volume {volume_id}: new size: 1 GiB" in there(hypervisor.guests.get(server_id)).log
    hypervisor.behaviour.fail("ensure_volume_size", error=DriverError("no"))
    assert tell("volume-extended", tag=volume_id) == ["extend_volume"]
    assert demo.status(server_id) == "ACTIVE"
    hypervisor.guests.put(server_id, evolve(there(hypervisor.guests.get(server_id)), power=Power.STOPPED))
    assert tell("power-update", tag="POWER_OFF") == ["stop"]
    assert demo.status(server_id) == "SHUTOFF"


def test_a_server_is_told_that_its_volume_has_grown(admin: Asking, demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}})
    demo.cloud.settle()
    actions = f"/servers/{server_id}/os-instance-actions"

    def extend(size: int) -> tuple[str, str, str]:
        """Whose request the action is, its event and how that ended."""
        path = f"/volume/v3/volumes/{volume_id}/action"
        asked = demo.client.post(path, {"os-extend": {"new_size": size}}, headers=IN_USE)
        assert asked.status == 202
        demo.cloud.settle()
        assert demo.volume_status(volume_id) == "in-use"
        action = demo.get(actions).json()["instanceActions"][0]
        (event,) = admin.get(f"{actions}/{action['request_id']}").json()["instanceAction"]["events"]
        assert action["action"] == "extend_volume"
        assert action["request_id"] == asked.headers["x-openstack-request-id"]
        return event["event"], event["result"], demo.status(server_id)

    assert extend(2) == ("compute_extend_volume", "Success", "ACTIVE")
    assert f"volume {volume_id}: new size: 2 GiB" in there(hypervisor.guests.get(server_id)).log
    # The volume has grown all the same; the guest goes on.
    hypervisor.behaviour.fail("ensure_volume_size", error=DriverError("no"))
    assert extend(3) == ("compute_extend_volume", "Error", "ACTIVE")


def test_no_host_writes_usage_audits(admin: Asking, demo: Asking) -> None:
    found = admin.get("/os-instance_usage_audit_log").json()["instance_usage_audit_logs"]
    assert (found["num_hosts"], found["num_hosts_not_run"], found["log"]) == (3, 3, {})
    one = admin.get("/os-instance_usage_audit_log/2026-03-02%2010:00:00").json()["instance_usage_audit_log"]
    assert (one["period_beginning"], one["period_ending"]) == ("2026-02-01 00:00:00", "2026-03-01 00:00:00")
    assert admin.get("/os-instance_usage_audit_log/never").status == 400
    assert admin.get("/os-instance_usage_audit_log/0001-01-01%2000:00:00").status == 400
    assert demo.get("/os-instance_usage_audit_log").status == 403


def test_the_month_before_january_is_december() -> None:
    assert month_before(datetime(2026, 1, 5)) == (datetime(2025, 12, 1), datetime(2026, 1, 1))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/os-agents"), ("POST", "/os-agents"), ("GET", "/os-cells"), ("GET", "/os-fping"),
     ("GET", "/os-floating-ips-bulk"), ("GET", "/os-security-group-default-rules"), ("POST", "/os-networks"),
     ("DELETE", "/os-tenant-networks/x"), ("GET", "/servers/x/consoles")],
)  # fmt: skip
@pytest.mark.parametrize("version", ["2.1", LATEST])
def test_what_was_removed_is_gone(admin: Asking, method: str, path: str, version: str) -> None:
    headers = {"OpenStack-API-Version": f"compute {version}"}
    assert admin.client.request(method, f"/compute/v2.1{path}", headers=headers).status == 410


# -- quotas of users


@pytest.fixture
def project(demo: Asking) -> str:
    return str(demo.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["tenant_id"])


@pytest.fixture
def user(demo: Asking) -> str:
    mine = {"X-Subject-Token": str(demo.client.token)}
    return str(demo.client.get("/identity/v3/auth/tokens", headers=mine).json()["token"]["user"]["id"])


def test_a_user_has_limits_within_those_of_the_project(
    admin: Asking, demo: Asking, project: str, user: str, join: Callable[[str, str, str], Asking]
) -> None:
    path = f"/os-quota-sets/{project}?user_id={user}"
    answer = admin.put(path, {"quota_set": {"instances": 1, "key_pairs": 0, "server_groups": 0}})
    assert (answer.status, answer.json()["quota_set"]["instances"]) == (200, 1)
    assert demo.get(path).json()["quota_set"]["instances"] == 1
    assert demo.get(f"/os-quota-sets/{project}").json()["quota_set"]["instances"] == 10
    server_id = demo.boot()
    assert refusal(demo.create())[2] == ("Quota exceeded for instances: Requested 1, but already used 1 of 1 instances")
    assert demo.post("/os-keypairs", {"keypair": {"name": "x"}}).status == 413
    assert demo.post("/os-server-groups", {"server_group": {"name": "x", "policies": ["affinity"]}}).status == 413
    colleague = join("colleague", "demo", "member")
    assert colleague.create().status == 202
    detail = demo.get(f"/os-quota-sets/{project}/detail?user_id={user}").json()["quota_set"]
    assert detail["instances"] == {"limit": 1, "in_use": 1, "reserved": 0}
    admin.put(path, {"quota_set": {"instances": 5, "cores": 1}})
    assert demo.act(server_id, {"resize": {"flavorRef": "3"}}).status == 413
    assert admin.delete(path).status == 202
    assert demo.get(path).json()["quota_set"]["instances"] == 10
    assert demo.create().status == 202


def test_a_users_limit_is_not_above_the_projects(admin: Asking, demo: Asking, project: str, user: str) -> None:
    path = f"/os-quota-sets/{project}?user_id={user}"
    said = "Quota limit 11 for instances must be less than or equal to 10."
    assert refusal(admin.put(path, {"quota_set": {"instances": 11}}))[2] == said
    assert admin.put(path, {"quota_set": {"instances": -1}}).status == 400
    demo.boot()
    assert admin.put(path, {"quota_set": {"instances": 0}}).status == 400
    assert admin.put(path, {"quota_set": {"instances": 0, "force": True}}).status == 200


def test_a_class_keeps_limits_of_its_own(admin: Asking, demo: Asking, project: str) -> None:
    path = "/os-quota-class-sets/gold"
    assert admin.get(path).json()["quota_class_set"]["id"] == "gold"
    assert admin.put(path, {"quota_class_set": {"cores": 99}}).json()["quota_class_set"]["cores"] == 99
    assert admin.get(path).json()["quota_class_set"]["cores"] == 99
    assert demo.get(f"/os-quota-sets/{project}").json()["quota_set"]["cores"] == 20
    assert admin.get(f"/os-quota-class-sets/{'x' * 59}").status == 400
