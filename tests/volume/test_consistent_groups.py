"""Groups whose type asks for snapshots of one moment: one backend has all their volumes and takes them by one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update
from zope.interface import directlyProvides, providedBy

from cloudctl.drivers.backends import Backends
from cloudctl.drivers.boundary import Adapted
from cloudctl.drivers.errors import DriverError, Unfit
from cloudctl.drivers.fake import volume as fake
from cloudctl.drivers.interfaces import IConsistentSnapshots
from cloudctl.drivers.specs import SnapshotSpec
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.volume.tables import Group, Volume
from tests.volume.asking import LATEST, V3, volume

TYPES, GROUPS, SNAPSHOTS = f"{V3}/group_types", f"{V3}/groups", f"{V3}/group_snapshots"
AT_ONCE = {"consistent_group_snapshot_enabled": "<is> True"}
FAST, LARGE = "cloudctl@fast#fast", "cloudctl@large#large"


def ask(client: Client, method: str, url: str, body: Any = None) -> Any:
    return client.request(method, url, body, headers=LATEST)


def group_type(admin: Client, **specs: str) -> str:
    wish = {"name": "together", "group_specs": specs}
    return str(ask(admin, "POST", TYPES, {"group_type": wish}).json()["group_type"]["id"])


def new_group(demo: Client, type_id: str, *types: str) -> Any:
    wish = {"name": "g", "group_type": type_id, "volume_types": types or ["__DEFAULT__"]}
    return ask(demo, "POST", GROUPS, {"group": wish})


def new_volume(demo: Client, **wishes: Any) -> Any:
    return ask(demo, "POST", f"{V3}/volumes", {"volume": {"size": 1, "volume_type": "__DEFAULT__", **wishes}})


def freeze(demo: Client, group_id: str) -> Any:
    return ask(demo, "POST", SNAPSHOTS, {"group_snapshot": {"group_id": group_id}})


def status(demo: Client, one: str) -> str:
    return str(ask(demo, "GET", f"{SNAPSHOTS}/{one}").json()["group_snapshot"]["status"])


def statuses(demo: Client) -> list[str]:
    return [each["status"] for each in demo.get(f"{V3}/snapshots/detail").json()["snapshots"]]


@pytest.fixture
def group(admin: Client, demo: Client, cloud: MemoryCloud) -> str:
    """With two volumes."""
    made = str(new_group(demo, group_type(admin, **AT_ONCE)).json()["group"]["id"])
    for _ in range(2):
        new_volume(demo, group_id=made)
    cloud.settle()
    return made


def test_all_volumes_are_frozen_by_one_call(demo: Client, cloud: MemoryCloud, backend: Any, group: str) -> None:
    made = freeze(demo, group).json()["group_snapshot"]["id"]
    assert (status(demo, made), statuses(demo)) == ("creating", ["creating"] * 2)
    assert ask(demo, "DELETE", f"{SNAPSHOTS}/{made}").status == 409
    cloud.settle()
    assert (status(demo, made), statuses(demo)) == ("available", ["available"] * 2)
    assert (backend.behaviour.calls["ensure_snapshots"], backend.behaviour.calls["ensure_snapshot"]) == (1, 0)
    copy = ask(demo, "POST", f"{GROUPS}/action", {"create-from-src": {"group_snapshot_id": made}})
    assert copy.status == 202, copy
    cloud.settle()
    copies = ask(demo, "GET", f"{V3}/volumes/detail?group_id={copy.json()['group']['id']}").json()["volumes"]
    assert [each["status"] for each in copies] == ["available"] * 2
    assert ask(demo, "DELETE", f"{SNAPSHOTS}/{made}").status == 202
    cloud.settle()
    assert (statuses(demo), backend.frozen.values()) == ([], [])


def test_all_fail_together_and_nothing_is_left(demo: Client, cloud: MemoryCloud, backend: Any, group: str) -> None:
    backend.behaviour.fail("ensure_snapshots", error=DriverError("it is broken"), after=True)
    made = freeze(demo, group).json()["group_snapshot"]["id"]
    cloud.settle()
    assert (status(demo, made), statuses(demo), backend.frozen.values()) == ("error", ["error"] * 2, [])
    told = ask(demo, "GET", f"{V3}/messages").json()["messages"]
    assert [each["user_message"] for each in told] == ["create snapshot:Snapshot failed to create."] * 2
    assert ask(demo, "DELETE", f"{SNAPSHOTS}/{made}").status == 202
    cloud.settle()
    assert ask(demo, "GET", f"{SNAPSHOTS}/{made}").status == 404


def test_what_is_being_made_is_not_deleted_whatever_its_status_was_set_to(
    admin: Client, demo: Client, cloud: MemoryCloud, backend: Any, group: str
) -> None:
    """The deletion of one could end before the backend makes it."""
    one = f"{SNAPSHOTS}/{freeze(demo, group).json()['group_snapshot']['id']}"
    for url, action in [(f"{one}/action", "reset_status")] + [
        (f"{V3}/snapshots/{each['id']}/action", "os-reset_status")
        for each in demo.get(f"{V3}/snapshots").json()["snapshots"]
    ]:
        assert ask(admin, "POST", url, {action: {"status": "error"}}).status == 202
    assert ask(demo, "DELETE", one).status == 409
    cloud.settle()
    assert ask(demo, "DELETE", one).status == 202
    cloud.settle()
    assert (ask(demo, "GET", one).status, backend.frozen.values()) == (404, [])


def test_each_snapshot_counts(admin: Client, demo: Client, group: str) -> None:
    project = ask(admin, "GET", f"{GROUPS}/{group}").json()["group"]["project_id"]
    admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": {"snapshots": 1}})
    assert freeze(demo, group).status == 413
    assert (statuses(demo), ask(demo, "GET", SNAPSHOTS).json()["group_snapshots"]) == ([], [])


@pytest.mark.parametrize("older", ["older@volumes#volumes", "cloudctl@former#former"], ids=["node", "only backend"])
def test_what_a_node_had_before_it_was_renamed_is_on_its_backend_still(
    admin: Client, demo: Client, cloud: MemoryCloud, group: str, older: str
) -> None:
    for table in (Volume, Group):
        cloud.transact(lambda conn, table=table: conn.execute(update(table).values(host=older)))
    assert new_volume(demo, group_id=group).status == 202
    cloud.settle()
    made = freeze(demo, group)
    assert made.status == 202, made
    cloud.settle()
    for source in ({"group_snapshot_id": made.json()["group_snapshot"]["id"]}, {"source_group_id": group}):
        copy = ask(demo, "POST", f"{GROUPS}/action", {"create-from-src": source})
        assert copy.status == 202, copy
    lone = new_volume(demo).json()["volume"]["id"]
    cloud.transact(lambda conn: conn.execute(update(Volume).where(Volume.id == lone).values(host=older)))
    cloud.settle()
    joined = ask(demo, "PUT", f"{GROUPS}/{copy.json()['group']['id']}", {"group": {"add_volumes": lone}})
    assert joined.status == 202, joined


# -- two backends, of which one can


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryCloud]:
    """`large`, where volumes go for its room, cannot freeze several at one moment."""
    create = fake.create

    def without(config: Any, resources: Any) -> Any:
        made = create(config, resources)
        if config.total_gib != 100:
            return made
        limited = Adapted(made, {})
        directlyProvides(limited, providedBy(made) - IConsistentSnapshots)
        return limited

    monkeypatch.setattr(fake, "create", without)
    made = MemoryCloud(
        {
            "drivers": {"volume": {"large": "fake", "fast": "fake"}},
            "driver": {"volume": {"fast": {"total_gib": 10}, "large": {"total_gib": 100}}},
        }
    )
    yield made
    made.close()


@pytest.fixture
def on_large(several: MemoryCloud) -> str:
    """A volume."""
    made = str(new_volume(several.client("demo")).json()["volume"]["id"])
    several.settle()
    assert volume(several.client("admin"), made)["os-vol-host-attr:host"] == LARGE
    return made


def test_all_volumes_go_to_a_backend_that_can(several: MemoryCloud, on_large: str) -> None:
    admin, demo = several.client("admin"), several.client("demo")
    one = new_group(demo, group_type(admin, **AT_ONCE)).json()["group"]["id"]
    ids = [new_volume(demo, group_id=one).json()["volume"]["id"] for _ in range(2)]
    several.settle()
    assert {volume(admin, id)["os-vol-host-attr:host"] for id in ids} == {FAST}
    refused = ask(demo, "PUT", f"{GROUPS}/{one}", {"group": {"add_volumes": on_large}})
    assert refused.status == 400 and b"on one backend" in refused.body
    assert new_volume(demo, group_id=one, source_volid=on_large).status == 400
    made = freeze(demo, one).json()["group_snapshot"]["id"]
    several.settle()
    assert status(demo, made) == "available"
    for source in ({"group_snapshot_id": made}, {"source_group_id": one}):
        copy = ask(demo, "POST", f"{GROUPS}/action", {"create-from-src": source})
        assert copy.status == 202, copy
        several.settle()
        copies = ask(admin, "GET", f"{V3}/volumes/detail?all_tenants=1&group_id={copy.json()['group']['id']}")
        assert [each["os-vol-host-attr:host"] for each in copies.json()["volumes"]] == [FAST] * 2


def test_types_that_no_such_backend_has_are_refused(several: MemoryCloud) -> None:
    admin, demo = several.client("admin"), several.client("demo")
    for name in ("fast", "large"):
        wish = {"name": name, "extra_specs": {"volume_backend_name": name}}
        admin.post(f"{V3}/types", {"volume_type": wish})
    type_id = group_type(admin, **AT_ONCE)
    assert new_group(demo, type_id, "fast", "__DEFAULT__").status == 202
    for names in (["large"], ["fast", "large"]):
        refused = new_group(demo, type_id, *names)
        assert refused.status == 400 and b"no backend" in refused.body


def test_a_type_that_asks_for_it_later_does_so_where_it_can_be_done(several: MemoryCloud, on_large: str) -> None:
    admin, demo = several.client("admin"), several.client("demo")
    admin.post(f"{V3}/types", {"volume_type": {"name": "fast", "extra_specs": {"volume_backend_name": "fast"}}})
    type_id = group_type(admin)
    one = new_group(demo, type_id, "fast", "__DEFAULT__").json()["group"]["id"]
    new_volume(demo, group_id=one, volume_type="fast")
    assert ask(demo, "PUT", f"{GROUPS}/{one}", {"group": {"add_volumes": on_large}}).status == 202
    several.settle()
    ask(admin, "POST", f"{TYPES}/{type_id}/group_specs", {"group_specs": AT_ONCE})
    refused = freeze(demo, one)
    assert refused.status == 400 and b"several backends" in refused.body
    other = [each["id"] for each in ask(demo, "GET", f"{V3}/volumes").json()["volumes"] if each["id"] != on_large]
    assert ask(demo, "PUT", f"{GROUPS}/{one}", {"group": {"remove_volumes": other[0]}}).status == 202
    refused = freeze(demo, one)
    assert refused.status == 400 and b"cannot freeze" in refused.body
    wish = {"group": {"add_volumes": other[0], "remove_volumes": on_large}}
    assert ask(demo, "PUT", f"{GROUPS}/{one}", wish).status == 202
    assert freeze(demo, one).status == 202
    several.settle()
    assert statuses(demo) == ["available"]


async def test_volumes_are_not_frozen_together_where_that_cannot_be(several: MemoryCloud, on_large: str) -> None:
    demo, found = several.client("demo"), several.cloud.drivers.volume
    one = new_group(demo, group_type(several.client("admin"), **AT_ONCE)).json()["group"]["id"]
    on_fast = new_volume(demo, group_id=one).json()["volume"]["id"]
    several.settle()
    assert isinstance(found, Backends)
    for ids in ([on_large], [on_fast, on_large]):
        with pytest.raises(Unfit):
            await found.ensure_snapshots([SnapshotSpec(f"of-{id}", id) for id in ids])
    await found.ensure_snapshots([SnapshotSpec("one", on_fast)])
    assert [each.id for each in await found.snapshots()] == ["one"]
