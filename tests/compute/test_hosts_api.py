"""Zones, hypervisors and services. Reference: compute.md, sections 11, 13 and 14."""

from __future__ import annotations

import pytest

from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal
from tests.work import counted

AMOUNTS = {
    "vcpus",
    "vcpus_used",
    "memory_mb",
    "memory_mb_used",
    "local_gb",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "current_workload",
    "running_vms",
    "cpu_info",
}


@pytest.fixture
def zoned() -> Asking:
    """An administrator of a cloud with two zones."""
    cloud = MemoryCloud({"compute": {"zones": {"east": ["fake-1"], "west": ["fake-2", "fake-3"]}}})
    return Asking(cloud.client("admin"))


def test_a_zone_is_available_while_a_host_of_it_is_enabled(demo: Asking, admin: Asking) -> None:
    shown = [{"zoneName": "nova", "zoneState": {"available": True}, "hosts": None}]
    assert demo.get("/os-availability-zone").json() == {"availabilityZoneInfo": shown}
    for number in (1, 2, 3):
        admin.put("/os-services/disable", {"host": f"fake-{number}", "binary": "nova-compute"})
    assert demo.get("/os-availability-zone").json()["availabilityZoneInfo"][0]["zoneState"] == {"available": False}
    assert refusal(demo.create(availability_zone="nova"))[2] == "The requested availability zone is not available"


def test_the_hosts_of_zones_are_shown_to_administrators(zoned: Asking, demo: Asking) -> None:
    shown = zoned.get("/os-availability-zone/detail").json()["availabilityZoneInfo"]
    assert {zone["zoneName"]: sorted(zone["hosts"]) for zone in shown} == {
        "east": ["fake-1"],
        "west": ["fake-2", "fake-3"],
        "internal": ["cloudctl"],  # it runs no servers
    }
    assert demo.get("/os-availability-zone/detail").status == 403


def test_a_server_is_put_into_its_zone(zoned: Asking) -> None:
    server_id = zoned.boot("2.37", availability_zone="east", networks="none")
    found = zoned.server(server_id)
    assert (found["OS-EXT-AZ:availability_zone"], found["OS-EXT-SRV-ATTR:host"]) == ("east", "fake-1")
    assert found["pinned_availability_zone"] == "east"
    free = zoned.server(zoned.boot("2.37", networks="none"))
    assert free["pinned_availability_zone"] is None
    assert free["OS-EXT-AZ:availability_zone"] in ("east", "west")


@pytest.mark.parametrize(("version", "extra"), [("2.1", AMOUNTS), ("2.87", AMOUNTS), ("2.88", {"uptime"})])
def test_a_hypervisor_shows_what_its_microversion_has(admin: Asking, version: str, extra: set[str]) -> None:
    found = admin.get("/os-hypervisors/detail", version).json()["hypervisors"][0]
    assert found.keys() == extra | {
        "id",
        "hypervisor_hostname",
        "state",
        "status",
        "hypervisor_type",
        "hypervisor_version",
        "host_ip",
        "service",
    }
    assert isinstance(found["id"], int) is (version == "2.1")
    assert (found["hypervisor_hostname"], found["state"], found["status"]) == ("fake-1", "up", "enabled")


def test_a_hypervisor_counts_what_it_promised(admin: Asking, demo: Asking) -> None:
    demo.boot(flavorRef="3")
    statistics = admin.get("/os-hypervisors/statistics").json()["hypervisor_statistics"]
    assert (statistics["count"], statistics["vcpus_used"], statistics["memory_mb_used"]) == (3, 2, 4096)
    assert (statistics["local_gb_used"], statistics["running_vms"]) == (40, 1)
    assert admin.get("/os-hypervisors/statistics", "2.88").status in (400, 404)


def test_a_server_runs_once_also_while_it_holds_two_hosts(demo: Asking, admin: Asking, cloud: MemoryCloud) -> None:
    server_id = demo.boot()

    def running() -> list[int]:
        shown = admin.get("/os-hypervisors/detail").json()["hypervisors"]
        return sorted(each["running_vms"] for each in shown)

    assert running() == [0, 0, 1]
    assert demo.act(server_id, {"resize": {"flavorRef": "2"}}).status == 202
    cloud.settle()
    assert demo.status(server_id) == "VERIFY_RESIZE"
    assert running() == [0, 0, 1]
    demo.act(server_id, {"confirmResize": None})
    cloud.settle()
    assert running() == [0, 0, 1]
    demo.delete(f"/servers/{server_id}")
    cloud.settle()
    assert running() == [0, 0, 0]


def test_statistics_read_no_servers(demo: Asking, admin: Asking, cloud: MemoryCloud) -> None:
    demo.boot()
    admin.get("/os-hypervisors")
    with counted(cloud) as work:
        admin.get("/os-hypervisors/statistics")
    assert not [statement for statement in work.statements if "servers" in statement]


def test_the_servers_of_a_hypervisor_are_shown(admin: Asking, demo: Asking) -> None:
    server_id = demo.boot()
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    shown = admin.get("/os-hypervisors/detail?with_servers=true", LATEST).json()["hypervisors"]
    found = next(item for item in shown if item["hypervisor_hostname"] == host)
    assert found["servers"] == [{"uuid": server_id, "name": "vm"}]
    one = admin.get(f"/os-hypervisors/{found['id']}?with_servers=true", LATEST).json()["hypervisor"]
    assert one["servers"] == found["servers"]
    assert admin.get(f"/os-hypervisors/{host}/servers").json()["hypervisors"][0]["servers"] == found["servers"]
    assert admin.get(f"/os-hypervisors/{host}/servers", "2.53").status == 404


def test_the_servers_of_a_hypervisor_are_shown_only_if_they_are_asked_for(admin: Asking, demo: Asking) -> None:
    """None is no answer to «which»: a host that runs some would be taken for an empty one."""
    demo.boot()

    def shown(path: str, version: str) -> list[int | None]:
        found = admin.get(f"/os-hypervisors{path}", version).json()["hypervisors"]
        return sorted((len(each["servers"]) if "servers" in each else None for each in found), key=str)

    for path in ("", "/detail"):
        assert shown(path, LATEST) == [None, None, None]
        assert shown(f"{path}?with_servers=true", "2.74") == [1, None, None]
        assert shown(f"{path}?with_servers=true", "2.75") == [0, 0, 1]
    assert shown("/fake/servers", "2.1") == [1, None, None]


def test_hypervisors_are_found_by_name_and_paged(admin: Asking) -> None:
    def names(path: str, version: str) -> list[str]:
        return [h["hypervisor_hostname"] for h in admin.get(f"/os-hypervisors{path}", version).json()["hypervisors"]]

    assert names("?hypervisor_hostname_pattern=-2", "2.53") == ["fake-2"]
    assert names("/fake/search", "2.52") == ["fake-1", "fake-2", "fake-3"]
    assert admin.get("/os-hypervisors?hypervisor_hostname_pattern=none", "2.53").status == 404
    assert admin.get("/os-hypervisors?hypervisor_hostname_pattern=a&limit=1", "2.53").status == 400
    first = admin.get("/os-hypervisors?limit=2", "2.53").json()
    assert [h["hypervisor_hostname"] for h in first["hypervisors"]] == ["fake-1", "fake-2"]
    assert f"marker={first['hypervisors'][1]['id']}" in first["hypervisors_links"][0]["href"]
    assert names(f"?marker={first['hypervisors'][1]['id']}", "2.53") == ["fake-3"]
    assert admin.get("/os-hypervisors?marker=none", "2.53").status == 400


@pytest.mark.parametrize(("path", "version", "status"), [("9", "2.1", 404), ("x", "2.1", 404), ("9", "2.53", 400)])
def test_an_unknown_hypervisor_is_not_there(admin: Asking, path: str, version: str, status: int) -> None:
    assert admin.get(f"/os-hypervisors/{path}", version).status == status


def test_members_see_no_hosts(demo: Asking) -> None:
    for path in ("/os-hypervisors", "/os-hypervisors/detail", "/os-hypervisors/1", "/os-services"):
        assert refusal(demo.get(path))[:2] == (403, "forbidden")


def test_a_host_that_does_not_answer_is_down_and_gets_nothing(
    cloud: MemoryCloud, admin: Asking, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    hypervisor.fail_host("fake-1")
    hypervisor.fail_host("fake-2")
    cloud.advance(15)
    states = {h["hypervisor_hostname"]: h["state"] for h in admin.get("/os-hypervisors").json()["hypervisors"]}
    assert states == {"fake-1": "down", "fake-2": "down", "fake-3": "up"}
    server_id = demo.boot()
    assert admin.server(server_id)["OS-EXT-SRV-ATTR:host"] == "fake-3"
    hypervisor.fail_host("fake-3")
    cloud.advance(15)
    assert admin.server(server_id)["host_status"] == "UNKNOWN"


def test_services_are_listed_and_filtered(admin: Asking) -> None:
    found = admin.get("/os-services", "2.53").json()["services"]
    first = found[0]
    assert (first["host"], first["binary"], first["zone"], first["state"]) == ("fake-1", "nova-compute", "nova", "up")
    assert [s["host"] for s in admin.get("/os-services?host=fake-2").json()["services"]] == ["fake-2"]
    assert admin.get("/os-services?binary=nova-agent").json() == {"services": []}
    assert "forced_down" not in admin.get("/os-services", "2.10").json()["services"][0]


def test_a_service_is_disabled_with_a_reason(admin: Asking, demo: Asking) -> None:
    services = {s["host"]: s["id"] for s in admin.get("/os-services", "2.53").json()["services"]}
    for host in ("fake-1", "fake-2"):
        body = {"status": "disabled", "disabled_reason": "a new disk"}
        answer = admin.put(f"/os-services/{services[host]}", body, "2.53").json()["service"]
        assert (answer["status"], answer["disabled_reason"]) == ("disabled", "a new disk")
    assert admin.server(demo.boot())["OS-EXT-SRV-ATTR:host"] == "fake-3"
    answer = admin.put(f"/os-services/{services['fake-1']}", {"status": "enabled"}, "2.53").json()["service"]
    assert (answer["status"], answer["disabled_reason"]) == ("enabled", None)


def test_services_are_switched_by_host_before_2_53(admin: Asking) -> None:
    body = {"host": "fake-1", "binary": "nova-compute"}
    assert admin.put("/os-services/disable-log-reason", {**body, "disabled_reason": "x"}).status == 200
    assert admin.get("/os-services?host=fake-1").json()["services"][0]["disabled_reason"] == "x"
    assert admin.put("/os-services/enable", body).json()["service"]["status"] == "enabled"
    assert admin.put("/os-services/force-down", {**body, "forced_down": True}, "2.11").status == 200
    assert admin.get("/os-services?host=fake-1", "2.11").json()["services"][0]["state"] == "down"
    assert admin.put("/os-services/enable", {**body, "host": "nowhere"}).status == 404
    assert admin.put("/os-services/disable-log-reason", body).status == 400
    assert admin.put("/os-services/enable", body, "2.53").status == 404


@pytest.mark.parametrize(
    "body", [{}, {"disabled_reason": "x"}, {"status": "off"}, {"status": "enabled", "disabled_reason": "x"}]
)
def test_a_wrong_change_of_a_service_is_refused(admin: Asking, body: dict[str, str]) -> None:
    service = admin.get("/os-services", "2.53").json()["services"][0]["id"]
    assert admin.put(f"/os-services/{service}", body, "2.53").status == 400


@pytest.mark.parametrize("specs", [{}, {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}])
def test_a_host_is_forgotten_once_it_is_gone_and_empty(
    cloud: MemoryCloud, admin: Asking, demo: Asking, hypervisor: FakeHypervisor, specs: dict[str, str]
) -> None:
    flavor = {"name": "of its own", "ram": 64, "vcpus": 1, "disk": 1}
    flavor_id = admin.post("/flavors", {"flavor": flavor}).json()["flavor"]["id"]
    if specs:
        assert admin.post(f"/flavors/{flavor_id}/os-extra_specs", {"extra_specs": specs}).status == 200
    server_id = demo.boot(flavorRef=flavor_id)
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    service = next(s["id"] for s in admin.get("/os-services", "2.53").json()["services"] if s["host"] == host)
    assert admin.delete(f"/os-services/{service}", "2.53").status == 409
    hypervisor.fail_host(host)
    cloud.advance(15)
    assert admin.delete(f"/os-services/{service}", "2.53").status == 409
    demo.delete(f"/servers/{server_id}")
    cloud.settle()
    del hypervisor.machines[host]
    assert admin.delete(f"/os-services/{service}", "2.53").status == 204
    assert host not in [s["host"] for s in admin.get("/os-services").json()["services"]]
