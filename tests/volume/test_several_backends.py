"""Several backends in one cloud: types choose, and each call goes to where the volume is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import evolve
from sqlalchemy import func, select, update

from cloudctl.db import Connection
from cloudctl.drivers.backends import Backends
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.errors import ConfigError
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.volume import kinds
from cloudctl.volume.lifecycle.move import PLACE
from cloudctl.volume.tables import Volume
from tests.there import there
from tests.volume.asking import LATEST, V3, act, volume

TABLES: dict[str, Any] = {
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


@pytest.mark.parametrize("driver", ["", "file"])
def test_they_are_found_where_data_of_images_is_brought_to_them(driver: str, tmp_path: Path) -> None:
    stores = {"default": {"driver": driver}} if driver else {}
    objects = {"file": {"directory": str(tmp_path / "contents")}}
    made = MemoryCloud(
        {
            "drivers": TABLES["drivers"],
            "driver": {**TABLES["driver"], "objects": objects},
            "image": {"stores": stores, "web_store": not driver},
        }
    )
    demo, admin = made.client("demo"), made.client("admin")
    volume_id = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    made.settle()
    assert (volume(demo, volume_id)["status"], host(admin, volume_id)) == ("available", LARGE)
    made.close()


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


def test_what_a_node_had_before_it_was_renamed_is_where_it_was(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    type_of(admin, "fast", volume_backend_name="fast", storage_protocol="iSCSI")
    id = make(volume_type="fast")["id"]
    cloud.transact(lambda conn: conn.execute(update(Volume).values(host="older@fast#fast")))
    assert act(demo, id, "os-initialize_connection", {"connector": {"host": "h"}}).status == 200
    assert there(at[FAST].volumes.get(id)).hosts == ("h",)
    act(demo, id, "os-terminate_connection", {"connector": {"host": "h"}})
    copy = make(source_volid=id)["id"]
    assert volume(demo, copy)["status"] == "available" and copy in {each.id for each in at[FAST].volumes.values()}
    stays = act(admin, id, "os-migrate_volume", {"host": FAST})
    assert stays.status == 400 and b"must be different" in stays.body
    type_of(admin, "fake", storage_protocol="iSCSI")
    assert act(demo, id, "os-retype", {"new_type": "fake"}).status == 202
    assert volume(demo, id)["volume_type"] == "fake"
    assert act(admin, id, "os-migrate_volume", {"host": LARGE}).status == 202
    cloud.settle()
    assert (host(admin, id), [id in {each.id for each in at[pool].volumes.values()} for pool in (FAST, LARGE)]) == (
        LARGE,
        [False, True],
    )


@pytest.mark.parametrize(
    ("pool", "method"), [(FAST, "ensure_created"), (FAST, "ensure_imported"), (LARGE, "ensure_absent")]
)
def test_a_volume_arrives_that_was_on_its_way_when_the_node_was_renamed(
    cloud: MemoryCloud, admin: Client, make: Make, at: dict[str, FakeVolumeBackend], pool: str, method: str
) -> None:
    id = make()["id"]
    fill(at[LARGE], id, "content")
    at[pool].behaviour.delay(method, 60)
    assert act(admin, id, "os-migrate_volume", {"host": FAST}).status == 202
    cloud.clock.advance(10)
    at[pool].behaviour.clear()
    cloud.transact(named_otherwise)
    cloud.settle()
    found = volume(admin, id)
    assert (found["status"], found["migration_status"]) == ("available", "success")
    assert (held(at[FAST], id), held(at[LARGE], id)) == ("content", None)


def named_otherwise(conn: Connection) -> None:
    """As the rows are once the node has been renamed, and started anew in the midst of a move."""
    move = conn.execute(select(TaskRow).where(TaskRow.kind == kinds.MOVE_VOLUME.name)).one()
    assert PLACE in move.memo
    former = orjson.loads(orjson.dumps(move.memo).replace(b"cloudctl@", b"older@"))
    again = {"owner": None, "lease_until": None, "fence": move.fence + 1, "not_before": move.submitted_at}
    conn.execute(update(TaskRow).where(TaskRow.id == move.id).values(memo=former, **again))
    conn.execute(update(Volume).values(host=func.replace(Volume.host, "cloudctl@", "older@")))


def test_a_volume_of_a_backend_that_is_there_no_more_is_not_moved(
    cloud: MemoryCloud, admin: Client, make: Make
) -> None:
    id = make()["id"]
    cloud.transact(lambda conn: conn.execute(update(Volume).values(host="cloudctl@gone#gone")))
    assert act(admin, id, "os-migrate_volume", {"host": FAST}).status == 202
    cloud.settle()
    assert (volume(admin, id)["status"], volume(admin, id)["migration_status"]) == ("available", "error")


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


# -- other types, other places


def fill(backend: FakeVolumeBackend, id: str, text: str) -> None:
    found = backend.volumes.get(id)
    assert found is not None
    backend.volumes.put(id, evolve(found, head=text))


def held(backend: FakeVolumeBackend, id: str) -> str | None:
    found = backend.volumes.get(id)
    return None if found is None else found.head


def test_a_type_that_allows_the_place_takes_effect_at_once(admin: Client, demo: Client, make: Make) -> None:
    type_of(admin, "large", volume_backend_name="large")
    id = make()["id"]
    assert act(demo, id, "os-retype", {"new_type": "large"}).status == 202
    assert (volume(demo, id)["volume_type"], volume(demo, id)["status"]) == ("large", "available")
    assert act(demo, id, "os-retype", {"new_type": "large"}).status == 409
    assert act(demo, id, "os-retype", {"new_type": "none"}).status == 404


def test_never_is_never(cloud: MemoryCloud, admin: Client, demo: Client, make: Make) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    id = make()["id"]
    assert act(demo, id, "os-retype", {"new_type": "fast", "migration_policy": "never"}).status == 202
    cloud.settle()
    found = volume(admin, id)
    assert (found["status"], found["volume_type"], host(admin, id)) == ("available", "__DEFAULT__", LARGE)
    told = demo.get(f"{V3}/messages?resource_uuid={id}", headers=LATEST).json()["messages"]
    assert "migration policy" in told[0]["user_message"]


def test_a_type_that_asks_for_what_the_place_is_not_needs_another(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    type_of(admin, "roomy", capabilities__total_capacity_gb=">= 100")
    type_of(admin, "small", capabilities__total_capacity_gb="<= 10")
    id = make()["id"]
    assert act(demo, id, "os-retype", {"new_type": "roomy"}).status == 202
    assert (volume(demo, id)["volume_type"], host(admin, id)) == ("roomy", LARGE)
    assert act(demo, id, "os-retype", {"new_type": "small"}).status == 202
    cloud.settle()
    assert (volume(demo, id)["volume_type"], host(admin, id)) == ("roomy", LARGE)
    on_demand = {"new_type": "small", "migration_policy": "on-demand"}
    at[LARGE].behaviour.fail("capacity", error=DriverError("it is away"))
    assert act(demo, id, "os-retype", on_demand).status == 503
    assert act(demo, id, "os-retype", on_demand).status == 202
    cloud.settle()
    assert (volume(demo, id)["volume_type"], host(admin, id)) == ("small", FAST)


def test_a_volume_is_moved_for_its_type_with_its_bytes(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    id = make()["id"]
    fill(at[LARGE], id, "content")
    wish = {"new_type": "fast", "migration_policy": "on-demand"}
    assert act(demo, id, "os-retype", wish).status == 202
    assert volume(demo, id)["status"] == "retyping"
    assert act(demo, id, "os-reserve").status == 409
    cloud.settle()
    found = volume(admin, id)
    assert (found["status"], found["volume_type"], host(admin, id)) == ("available", "fast", FAST)
    assert found["migration_status"] == "success"
    assert (held(at[FAST], id), held(at[LARGE], id)) == ("content", None)


def test_a_volume_is_moved_to_another_host_and_stays_if_that_fails(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make, at: dict[str, FakeVolumeBackend]
) -> None:
    id = make()["id"]
    fill(at[LARGE], id, "content")
    at[FAST].behaviour.fail("ensure_imported", error=DriverError("it is broken"))
    assert act(demo, id, "os-migrate_volume", {"host": FAST}).status == 403
    assert act(admin, id, "os-migrate_volume", {"host": FAST}).status == 202
    assert volume(admin, id)["status"] == "maintenance"
    cloud.settle()
    assert (volume(admin, id)["status"], volume(admin, id)["migration_status"]) == ("available", "error")
    assert (held(at[LARGE], id), held(at[FAST], id), host(admin, id)) == ("content", None, LARGE)
    assert act(admin, id, "os-migrate_volume", {"host": "cloudctl@fast", "lock_volume": True}).status == 202
    cloud.settle()
    assert (volume(admin, id)["status"], volume(admin, id)["migration_status"]) == ("available", "success")
    assert (held(at[LARGE], id), held(at[FAST], id), host(admin, id)) == (None, "content", FAST)
    for wrong in (FAST, "none", "cloudctl@none"):
        assert act(admin, id, "os-migrate_volume", {"host": wrong}).status == 400


def test_what_is_held_where_it_is_is_not_moved(cloud: MemoryCloud, admin: Client, demo: Client, make: Make) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    wish = {"new_type": "fast", "migration_policy": "on-demand"}
    used, copied = make()["id"], make()["id"]
    act(demo, used, "os-attach", {"instance_uuid": "1f2d3c4b-5a69-4788-9a0b-1c2d3e4f5061", "mountpoint": "/dev/vdb"})
    demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": copied}})
    cloud.settle()
    for id in (used, copied):
        assert act(demo, id, "os-retype", wish).status == 409
        assert act(admin, id, "os-migrate_volume", {"host": FAST}).status == 409


def test_what_other_services_say_of_moves(admin: Client, make: Make) -> None:
    one, other = make()["id"], make()["id"]
    answer = act(admin, one, "os-migrate_volume_completion", {"new_volume": other})
    assert (answer.status, answer.json()) == (200, {"save_volume_id": other})
    assert act(admin, one, "os-extend_volume_completion", {}).status == 409


def test_the_quota_of_the_new_type_counts(admin: Client, demo: Client, make: Make) -> None:
    type_of(admin, "large", volume_backend_name="large")
    made = make()
    sets = f"{V3}/os-quota-sets/{made['os-vol-tenant-attr:tenant_id']}"
    admin.put(sets, {"quota_set": {"volumes": 1, "volumes_large": 0}})
    assert act(demo, made["id"], "os-retype", {"new_type": "large"}).status == 413
    admin.put(sets, {"quota_set": {"volumes_large": 1}})
    assert act(demo, made["id"], "os-retype", {"new_type": "large"}).status == 202


def test_the_snapshots_of_a_volume_count_for_its_new_type(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make
) -> None:
    type_of(admin, "other")
    made = make()
    demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": made["id"]}})
    cloud.settle()
    sets = f"{V3}/os-quota-sets/{made['os-vol-tenant-attr:tenant_id']}"
    for too_few in ({"snapshots_other": 0}, {"snapshots_other": 1, "gigabytes_other": 1}):
        admin.put(sets, {"quota_set": too_few})
        assert act(demo, made["id"], "os-retype", {"new_type": "other"}).status == 413
    admin.put(sets, {"quota_set": {"gigabytes_other": 2}})
    assert act(demo, made["id"], "os-retype", {"new_type": "other"}).status == 202


def test_a_volume_on_its_way_to_a_type_counts_for_it(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make
) -> None:
    type_of(admin, "fast", volume_backend_name="fast")
    one, other = make(), make()
    sets = f"{V3}/os-quota-sets/{one['os-vol-tenant-attr:tenant_id']}"
    admin.put(sets, {"quota_set": {"volumes_fast": 1}})
    on_demand = {"new_type": "fast", "migration_policy": "on-demand"}
    assert act(demo, one["id"], "os-retype", on_demand).status == 202
    assert act(demo, other["id"], "os-retype", on_demand).status == 413
    assert demo.post(f"{V3}/volumes", {"volume": {"size": 1, "volume_type": "fast"}}).status == 413
    cloud.settle()
    assert [volume(demo, each["id"])["volume_type"] for each in (one, other)] == ["fast", "__DEFAULT__"]
    assert act(demo, other["id"], "os-retype", on_demand).status == 413


def test_a_type_that_a_volume_is_on_its_way_to_stays_as_it_is(
    cloud: MemoryCloud, admin: Client, demo: Client, make: Make
) -> None:
    fast = f"{V3}/types/{type_of(admin, 'fast', volume_backend_name='fast')}"
    id = make()["id"]
    assert act(demo, id, "os-retype", {"new_type": "fast", "migration_policy": "on-demand"}).status == 202
    assert admin.delete(fast).status == 409
    encryption = {"provider": "luks", "control_location": "front-end"}
    assert admin.post(f"{fast}/encryption", {"encryption": encryption}).status == 409
    assert admin.post(f"{fast}/extra_specs", {"extra_specs": {"volume_backend_name": "large"}}).status == 409
    cloud.settle()
    assert (volume(demo, id)["volume_type"], host(admin, id)) == ("fast", FAST)
