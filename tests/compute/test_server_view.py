"""The record of a server in each microversion. Reference: compute.md, section 6; compute-microversions.md."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from cloudctl.testing.cloud import Client
from tests.compute.asking import LATEST, Asking

BASE = {
    "id",
    "name",
    "status",
    "tenant_id",
    "user_id",
    "metadata",
    "hostId",
    "image",
    "flavor",
    "created",
    "updated",
    "addresses",
    "accessIPv4",
    "accessIPv6",
    "links",
    "progress",
    "key_name",
    "config_drive",
    "OS-DCF:diskConfig",
    "OS-EXT-AZ:availability_zone",
    "OS-EXT-STS:vm_state",
    "OS-EXT-STS:task_state",
    "OS-EXT-STS:power_state",
    "OS-SRV-USG:launched_at",
    "OS-SRV-USG:terminated_at",
    "os-extended-volumes:volumes_attached",
    "security_groups",
}
SINCE = {
    "2.9": {"locked"},
    "2.19": {"description"},
    "2.26": {"tags"},
    "2.63": {"trusted_image_certificates"},
    "2.71": {"server_groups"},
    "2.73": {"locked_reason"},
    "2.90": {"OS-EXT-SRV-ATTR:hostname"},
    "2.96": {"pinned_availability_zone"},
    "2.100": {"scheduler_hints"},
}
ATTR = "OS-EXT-SRV-ATTR:"
ADMINS = {
    "2.1": {f"{ATTR}{name}" for name in ("host", "hypervisor_hostname", "instance_name")},
    "2.3": {
        f"{ATTR}{name}"
        for name in (
            "reservation_id",
            "launch_index",
            "hostname",
            "kernel_id",
            "ramdisk_id",
            "root_device_name",
            "user_data",
        )
    },
    "2.16": {"host_status"},
}


def expected(version: str, *tables: dict[str, set[str]]) -> set[str]:
    minor = int(version.split(".")[1])
    return BASE.union(*(names for table in tables for since, names in table.items() if int(since[2:]) <= minor))


VERSIONS = sorted(
    {"2.1", "2.2", "2.8", "2.15", "2.18", "2.25", "2.62", "2.70", "2.72", "2.89", LATEST, *SINCE, *ADMINS}
)


@pytest.fixture(scope="module")
def shown() -> dict[str, tuple[set[str], set[str], set[str]]]:
    """Microversion → the keys that a member is shown, in a list, and an administrator."""
    from cloudctl.testing.cloud import MemoryCloud

    cloud = MemoryCloud()
    demo, admin = Asking(cloud.client("demo")), Asking(cloud.client("admin"))
    server_id = demo.boot()
    found = {
        version: (
            set(demo.server(server_id, version)),
            set(demo.get("/servers/detail", version).json()["servers"][0]),
            set(admin.server(server_id, version)),
        )
        for version in VERSIONS
    }
    cloud.close()
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_shows_what_its_microversion_has(
    shown: dict[str, tuple[set[str], set[str], set[str]]], version: str
) -> None:
    member, listed, admin = shown[version]
    assert member == expected(version, SINCE)
    assert listed == expected(version, SINCE) - {"server_groups"}
    assert admin == expected(version, SINCE, ADMINS)


def test_who_may_only_read_all_of_the_cloud_is_not_shown_what_guests_are_told(cloud: Any, demo: Asking) -> None:
    """User data is where passwords are written."""
    server_id = demo.boot(user_data=base64.b64encode(b"secret").decode())
    boss = cloud.client("admin")
    user = boss.post("/identity/v3/users", {"user": {"name": "auditor", "password": "auditor-secret"}}).json()["user"]
    role = boss.get("/identity/v3/roles?name=reader").json()["roles"][0]
    assert boss.put(f"/identity/v3/system/users/{user['id']}/roles/{role['id']}").status == 204
    auditor = Asking(Client(cloud, cloud.login("auditor", "auditor-secret", {"system": {"all": True}})))
    key = f"{ATTR}user_data"
    assert auditor.server(server_id, "2.90").get(f"{ATTR}host") is not None
    assert key not in auditor.server(server_id, "2.90")
    listed = auditor.get("/servers/detail?all_tenants=1", "2.90").json()["servers"]
    assert [each["id"] for each in listed] == [server_id] and key not in listed[0]
    assert Asking(boss).server(server_id, "2.90")[key]


def test_the_flavor_is_embedded_from_2_47_on(demo: Asking) -> None:
    server_id = demo.boot()
    assert demo.server(server_id, "2.46")["flavor"].keys() == {"id", "links"}
    assert demo.server(server_id, "2.47")["flavor"] == {
        "original_name": "m1.tiny",
        "vcpus": 1,
        "ram": 512,
        "disk": 1,
        "ephemeral": 0,
        "swap": 0,
        "extra_specs": {},
    }


def test_times_are_written_as_the_reference_says(demo: Asking) -> None:
    found = demo.server(demo.boot())
    assert found["created"] == "2027-01-15T08:00:00Z"
    assert found["OS-SRV-USG:launched_at"].startswith("2027-01-15T08:00:0")
    assert len(found["OS-SRV-USG:launched_at"]) == 26


def test_the_host_is_hidden_behind_a_hash_of_the_project(demo: Asking, admin: Asking) -> None:
    one, two = demo.boot(), demo.boot()
    hosts = {server_id: admin.server(server_id)["OS-EXT-SRV-ATTR:host"] for server_id in (one, two)}
    ids = {server_id: demo.server(server_id)["hostId"] for server_id in (one, two)}
    assert (ids[one] == ids[two]) is (hosts[one] == hosts[two])
    assert len(ids[one]) == 56
    assert hosts[one] not in ids[one]
