"""Transactions of block storage that lock several records: all lock them in one order, so none meet in a circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.rest import policy, quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.volume import (
    creation,
    group_snapshots,
    group_types,
    groups,
    quotas,
    snapshots,
    states,
    transfers,
    types,
    volumes,
)
from cloudctl.volume.bootstrap import bootstrap
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.group_snapshots import NewGroupSnapshot, Source
from cloudctl.volume.group_types import NewGroupType
from cloudctl.volume.groups import Change, NewGroup
from cloudctl.volume.lifecycle import delete, snapshot_delete
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.snapshots import NewSnapshot
from cloudctl.volume.tables import Group, GroupSnapshot, GroupType, Volume
from cloudctl.volume.transfers import NewTransfer
from tests.meanwhile import beside, crossing, opened

NOW = utc(1_800_000_000)
OPTIONS = VolumeOptions()
POLICY = policy.load(["volume"], None)
ME, YOU = (
    Caller(Identity(user_id="u", project_id=project, roles=frozenset({"member", "reader"})), POLICY, NOW, "req-1")
    for project in ("p", "q")
)


@pytest.fixture
def db(postgresql_with_tables: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    with opened(postgresql_with_tables) as made:
        made.transact(False, bootstrap, NOW)
        made.transact(False, group_types.create, NewGroupType("together"), NOW)
        yield made


def new_group(conn: Connection) -> Group:
    default = types.default(conn, "p", OPTIONS.default_type).id
    type_ = conn.scalars(select(GroupType.id).where(GroupType.name == "together")).one()
    return groups.create(conn, ME, NewGroup(type_, [default]), OPTIONS)


def new_volume(conn: Connection, group_id: str | None = None) -> str:
    made = creation.create(conn, ME, NewVolume(size=1, group_id=group_id))
    conn.execute(update(Volume).where(Volume.id == made.id).values(status=states.AVAILABLE))
    return str(made.id)


@pytest.fixture
def group(db: Database) -> Group:
    made: Group = db.transact(False, new_group)
    return made


@pytest.fixture
def members(db: Database, group: Group) -> list[str]:
    """By id: the first is locked first."""
    return sorted(db.transact(False, new_volume, group.id) for _ in range(2))


def lock(volume_id: str) -> Callable[[Connection], Any]:
    return lambda conn: volumes.get(conn, volume_id, lock=True)


def count(conn: Connection) -> None:
    """As everything does that needs quota."""
    quota.turn(conn, quotas.quotas(OPTIONS), "p")


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "several",
    [
        lambda conn, id: group_snapshots.create(conn, ME, NewGroupSnapshot(id), OPTIONS),
        lambda conn, id: group_snapshots.create_group(conn, ME, Source(source_group_id=id), None, None, OPTIONS),
    ],
)
def test_a_group_is_copied_while_something_is_made_of_one_of_its_volumes(
    db: Database, group: Group, members: list[str], number: int, several: Any
) -> None:
    crossing(db, lock(members[number]), lambda conn: several(conn, group.id), count)


def test_a_group_snapshot_is_deleted_while_one_of_its_snapshots_goes(
    db: Database, group: Group, members: list[str]
) -> None:
    def freeze(conn: Connection) -> tuple[GroupSnapshot, str]:
        made = group_snapshots.create(conn, ME, NewGroupSnapshot(group.id), OPTIONS)
        group_snapshots.reset(conn, ME, made, states.ERROR)
        for each in (found := group_snapshots.members(conn, made.id)):
            snapshots.change(conn, each, {"status": states.ERROR}, NOW)
        return made, found[0].id

    made, one = db.transact(False, freeze)
    crossing(
        db,
        lambda conn: group_snapshots.get(conn, made.id, lock=True),
        lambda conn: snapshot_delete.gone(conn, one, NOW),
        lambda conn: group_snapshots.remove(conn, ME, made),
    )


def test_a_volume_of_a_group_is_cloned_into_it_while_the_group_is_changed(
    db: Database, group: Group, members: list[str]
) -> None:
    def clone(conn: Connection) -> None:
        creation.create(conn, ME, NewVolume(source_volid=members[0], group_id=group.id))

    crossing(db, lambda conn: groups.get(conn, group.id, lock=True), clone, lock(members[0]))


@pytest.mark.parametrize("backwards", [False, True])
def test_volumes_come_to_a_group_in_any_order(db: Database, group: Group, backwards: bool) -> None:
    one, other = sorted(db.transact(False, new_volume) for _ in range(2))
    wanted = Change({}, (other, one) if backwards else (one, other))
    crossing(db, lock(one), lambda conn: groups.alter(conn, ME, group, wanted, OPTIONS), lock(other))


def test_a_group_goes_with_its_volumes_in_any_order(db: Database, group: Group) -> None:
    later, earlier = sorted((db.transact(False, new_volume, group.id) for _ in range(2)), reverse=True)
    older = update(Volume).where(Volume.id == later).values(created_at=utc(1_700_000_000))
    db.transact(False, lambda conn: conn.execute(older) and None)
    crossing(db, lock(earlier), lambda conn: groups.remove(conn, ME, group, True), lock(later))


def test_a_volume_with_snapshots_changes_its_project_while_another_snapshot_goes(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(conn: Connection) -> tuple[str, str]:
        id = new_volume(conn)
        frozen = snapshots.create(conn, ME, NewSnapshot(id), OPTIONS)
        snapshots.change(conn, frozen, {"status": states.AVAILABLE}, NOW)
        return id, frozen.id

    (volume_id, _), (_, snapshot_id) = (db.transact(False, make) for _ in range(2))
    transfer, key = db.transact(False, transfers.create, ME, NewTransfer(volume_id))
    move = states.move
    with beside(db) as others:

        def moved(conn: Connection, *args: Any, **values: Any) -> None:
            move(conn, *args, **values)
            others.begin(snapshots.forget, snapshot_id)

        monkeypatch.setattr(states, "move", moved)
        db.transact(False, transfers.accept, YOU, transfer.id, key, OPTIONS)
        assert others.results == [None]


def test_a_group_goes_with_its_volumes_while_another_one_is_made_and_filled(
    db: Database, group: Group, members: list[str]
) -> None:
    first, last = members
    db.transact(False, groups.remove, ME, group, True)
    db.transact(False, delete.gone, first, group.id, NOW)
    with beside(db) as others:

        def fill(conn: Connection) -> None:
            made = new_group(conn)
            others.begin(delete.gone, last, group.id, NOW)
            new_volume(conn, made.id)

        db.transact(False, fill)
        assert others.errors == []
