"""Requests at once, on a database where transactions really run at once: who comes later sees what came before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import insert, update

from cloudctl.compute import attaching, flavors, groups, root_volumes, servers
from cloudctl.compute.block_devices import BLANK, VOLUME, Disks, NewDevice
from cloudctl.compute.flavors import NewFlavor
from cloudctl.compute.groups import NewGroup
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import ACTIVE
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.rest import policy, quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.volume import bootstrap, creation, quotas, states, transfers, volumes
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Transfer, Volume
from cloudctl.volume.transfers import NewTransfer
from tests.meanwhile import Meanwhile, Others, others

NOW = utc(1_800_000_000)
POLICY = policy.load(["compute", "volume"], None)


def caller(project: str = "p") -> Caller:
    identity = Identity(user_id="u", project_id=project, roles=frozenset({"member", "reader"}))
    return Caller(identity, POLICY, NOW, "req-1")


@pytest.fixture
def meanwhile(postgresql_with_tables: str) -> Iterator[Others]:
    with others(postgresql_with_tables) as made:
        made.db.transact(False, bootstrap.bootstrap, NOW)
        yield made


def server(conn: Connection, **more: Any) -> Server:
    """A running one."""
    values = {
        "id": "s",
        "project_id": "p",
        "user_id": "u",
        "vm_state": ACTIVE,
        "flavor_id": "1",
        "vcpus": 1,
        "memory_mib": 1,
        "host": "h1",
        "zone": "nova",
        "created_at": NOW,
        "updated_at": NOW,
        "launched_at": NOW,
        **more,
    }
    conn.execute(insert(Server), values)
    return servers.get(conn, "s")


def offered_volume(conn: Connection) -> tuple[Transfer, str]:
    made = creation.create(conn, caller(), NewVolume(size=1))
    conn.execute(update(Volume).where(Volume.id == made.id).values(status=states.AVAILABLE))
    return transfers.create(conn, caller(), NewTransfer(made.id))


def boot_from(conn: Connection, volume_id: str) -> None:
    disks = Disks((NewDevice(VOLUME, VOLUME, volume_id, boot_index=0),), "", 0, 0)
    root_volumes.add_volumes(conn, caller(), server(conn), disks, ComputeOptions(), VolumeOptions())


def attach(conn: Connection, volume_id: str) -> None:
    knows = {"knows_multiattach": True, "knows_shelved": True}
    attaching.attach_volume(conn, caller(), server(conn).id, volume_id, ComputeOptions(), **knows)


@pytest.mark.parametrize(("use", "refusal"), [(boot_from, Invalid), (attach, NotFound)])
def test_a_volume_that_another_project_accepts_meanwhile_is_not_the_servers(
    meanwhile: Others, use: Callable[[Connection, str], None], refusal: type[Exception]
) -> None:
    transfer, key = meanwhile.db.transact(False, offered_volume)
    accepting = Meanwhile(
        meanwhile.db, lambda conn: transfers.accept(conn, caller("q"), transfer.id, key, VolumeOptions())
    )
    meanwhile.begin(use, transfer.volume_id)
    accepting.commit()
    with pytest.raises(refusal, match=r"(failed to get|could not be found)"):
        assert meanwhile.results


def join(conn: Connection, group_id: str) -> None:
    groups.join(conn, caller(), group_id, 1)
    server(conn, group_id=group_id)


def test_a_server_that_joins_a_group_while_it_is_deleted_is_in_no_group(meanwhile: Others) -> None:
    run = meanwhile.db.transact
    group_id = run(False, groups.create, caller(), NewGroup("g", "affinity", {})).id
    joining = Meanwhile(meanwhile.db, join, group_id)
    meanwhile.begin(groups.remove, caller(), group_id)
    joining.commit()
    assert meanwhile.results == [None]
    assert run(True, servers.get, "s").group_id is None


def private_flavor(conn: Connection) -> None:
    flavors.create(conn, NewFlavor("f", memory_mib=1, vcpus=1, disk_gib=1, id="f", is_public=False), NOW)


def grant(conn: Connection, project: str) -> list[str]:
    return flavors.grant(conn, "f", project, public_too=False)


def test_access_that_is_granted_twice_at_once_is_refused_to_the_second(meanwhile: Others) -> None:
    meanwhile.db.transact(False, private_flavor)
    first = Meanwhile(meanwhile.db, grant, "q")
    meanwhile.begin(grant, "q")
    first.commit()
    with pytest.raises(Conflict):
        assert meanwhile.results
    assert first.result == ["q"]


def test_access_that_is_granted_while_a_flavor_is_deleted_does_not_outlive_it(meanwhile: Others) -> None:
    run = meanwhile.db.transact
    run(False, private_flavor)
    granting = Meanwhile(meanwhile.db, grant, "q")
    meanwhile.begin(flavors.remove, "f")
    granting.commit()
    assert meanwhile.results == [None]
    run(False, private_flavor)
    assert run(True, flavors.access, "f") == []


def test_a_server_gets_new_volumes_and_others_while_something_is_made_of_those(
    meanwhile: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(conn: Connection) -> str:
        made = creation.create(conn, caller(), NewVolume(size=1))
        conn.execute(update(Volume).where(Volume.id == made.id).values(status=states.AVAILABLE))
        return str(made.id)

    one, other = sorted(meanwhile.db.transact(False, make) for _ in range(2))
    existing = (NewDevice(VOLUME, VOLUME, other), NewDevice(VOLUME, VOLUME, one))
    disks = Disks((NewDevice(BLANK, VOLUME, volume_size=1), *existing), "image", 0, 0)

    def boot(conn: Connection) -> None:
        root_volumes.add_volumes(conn, caller(), server(conn), disks, ComputeOptions(), VolumeOptions())

    def copy(conn: Connection) -> None:
        volumes.get(conn, one, lock=True)
        meanwhile.begin(boot)
        # Another volume, and the quota, as whatever is made of several volumes.
        volumes.get(conn, other, lock=True)
        quota.turn(conn, quotas.quotas(VolumeOptions()), "p")

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    meanwhile.db.transact(False, copy)
    assert meanwhile.results == [None]
