"""Several backends in one cloud: types choose, and each call goes to where the volume is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cloudctl.drivers.backends import Backends
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.errors import ConfigError
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.volume.asking import LATEST, V3, volume

TABLES = {
    "drivers": {"volume": {"fast": "fake", "large": "fake"}},
    "driver": {"volume": {"fast": {"total_gib": 10}, "large": {"total_gib": 100}}},
}
FAST, LARGE = "cloudctl@fast#fast", "cloudctl@large#large"


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud(TABLES)
    yield made
    made.close()


@pytest.fixture
def at(cloud: MemoryCloud) -> dict[str, FakeVolumeBackend]:
    """Pool → its driver."""
    found = cloud.cloud.drivers.volume
    assert isinstance(found, Backends)
    return {name: each for name, each in found.at.items() if isinstance(each, FakeVolumeBackend)}


def type_of(admin: Client, name: str, **specs: str) -> str:
    wish = {"name": name, "extra_specs": {key.replace("__", ":"): value for key, value in specs.items()}}
    return str(admin.post(f"{V3}/types", {"volume_type": wish}).json()["volume_type"]["id"])


def host(admin: Client, volume_id: str) -> str:
    return str(volume(admin, volume_id)["os-vol-host-attr:host"])


Make = Callable[..., dict[str, Any]]


def test_a_type_chooses_the_backend(admin: Client, make: Make, at: dict[str, FakeVolumeBackend]) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    type_of(admin, "small", capabilities__total_capacity_gb="<= 50")
    chosen = {name: make(volume_type=name)["id"] for name in ("fast", "small", "__DEFAULT__")}
    # Where there is most room, if the type leaves the choice.
    assert [host(admin, id) for id in chosen.values()] == [FAST, FAST, LARGE]
    assert {each.id for each in at[FAST].volumes.values()} == {chosen["fast"], chosen["small"]}
    assert {each.id for each in at[LARGE].volumes.values()} == {chosen["__DEFAULT__"]}


def test_what_no_backend_takes_is_an_error_with_a_message(admin: Client, demo: Client, make: Make) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    type_of(admin, "nowhere", volume_backend_name="nowhere")
    for wish in ({"volume_type": "nowhere"}, {"volume_type": "fast", "size": 11}):
        id = make(**wish)["id"]
        assert volume(demo, id)["status"] == "error"
        told = demo.get(f"{V3}/messages?resource_uuid={id}", headers=LATEST).json()["messages"]
        assert [each["event_id"] for each in told] == ["VOLUME_VOLUME_001_003"]
    assert host(admin, id) == "None"


def test_a_disabled_or_silent_backend_gets_no_volumes(
    admin: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    service = {"host": "cloudctl@large", "binary": "cinder-volume"}
    assert admin.put(f"{V3}/os-services/disable", service).status == 200
    assert host(admin, make()["id"]) == FAST
    admin.put(f"{V3}/os-services/enable", service)
    at[LARGE].behaviour.fail("capacity")
    assert host(admin, make()["id"]) == FAST
    assert host(admin, make()["id"]) == LARGE


def test_what_is_made_of_a_volume_is_where_it_is(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    origin = make(volume_type="fast")["id"]
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": origin}}).json()["snapshot"]["id"]
    cloud.settle()
    assert [each.state.id for each in at[FAST].frozen.values()] == [snapshot]
    for source in ({"source_volid": origin}, {"snapshot_id": snapshot}):
        assert host(admin, make(**source)["id"]) == FAST
    backup = demo.post(f"{V3}/backups", {"backup": {"volume_id": origin}}).json()["backup"]["id"]
    cloud.settle()
    # A backup is nowhere; what is restored goes where there is room.
    restored = demo.post(f"{V3}/backups/{backup}/restore", {"restore": {}}).json()["restore"]["volume_id"]
    cloud.settle()
    assert (volume(demo, restored)["status"], host(admin, restored)) == ("available", LARGE)
    type_of(admin, "large", volume_backend_name="large")
    assert make(source_volid=origin, volume_type="large")["status"] == "error"


def test_each_call_goes_to_the_backend_of_its_volume(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    id = make(volume_type="fast")["id"]
    connect = {"os-initialize_connection": {"connector": {"host": "h1"}}}
    assert demo.post(f"{V3}/volumes/{id}/action", connect).status == 200
    (disk,) = at[FAST].volumes.values()
    assert disk.hosts == ("h1",)
    demo.post(f"{V3}/volumes/{id}/action", {"os-terminate_connection": {"connector": {"host": "h1"}}})
    demo.post(f"{V3}/volumes/{id}/action", {"os-extend": {"new_size": 2}})
    cloud.settle()
    (disk,) = at[FAST].volumes.values()
    assert (disk.hosts, disk.size_gib) == ((), 2)
    demo.delete(f"{V3}/volumes/{id}")
    cloud.settle()
    assert not at[FAST].volumes.values()


def test_administrators_see_all_of_them(admin: Client) -> None:
    found = admin.get(f"{V3}/os-services?binary=cinder-volume").json()["services"]
    assert [each["host"] for each in found] == ["cloudctl@fast", "cloudctl@large"]
    assert admin.get(f"{V3}/scheduler-stats/get_pools").json() == {"pools": [{"name": FAST}, {"name": LARGE}]}
    detail = admin.get(f"{V3}/scheduler-stats/get_pools?detail=true&name={FAST}", headers=LATEST).json()["pools"]
    assert [each["capabilities"]["total_capacity_gb"] for each in detail] == [10]
    type_of(admin, "large", volume_backend_name="large")
    pools = admin.get(f"{V3}/scheduler-stats/get_pools?volume_type=large", headers=LATEST).json()["pools"]
    assert pools == [{"name": LARGE}]
    told = admin.get(f"{V3}/capabilities/cloudctl@fast").json()
    assert (told["volume_backend_name"], told["pool_name"]) == ("fast", "fast")
    assert admin.get(f"{V3}/capabilities/cloudctl@none").status == 404


@pytest.mark.parametrize("names", [{}, {"a@b": "fake"}, {"": "fake"}, {"a": "no such driver"}, {"a": 1}])
def test_wrong_tables_of_backends_are_refused(names: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        MemoryCloud({"drivers": {"volume": names}})
