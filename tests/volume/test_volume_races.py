"""Requests at once, on a database where transactions really run at once: who comes later sees what came before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import delete, select, update
from twisted.web.http_headers import Headers

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import CloudError, Conflict, NotFound
from cloudctl.rest import policy
from cloudctl.rest.call import Call, Query
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.tasks import tables
from cloudctl.volume import (
    attachments,
    backup_records,
    backups,
    consistency,
    creation,
    encryption,
    group_types,
    groups,
    kinds,
    restoring,
    services,
    snapshots,
    states,
    transfers,
    types,
    volumes,
)
from cloudctl.volume.api import attachments as api
from cloudctl.volume.backup_records import NewRecord
from cloudctl.volume.backups import NewBackup
from cloudctl.volume.bootstrap import bootstrap
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.encryption import NewEncryption
from cloudctl.volume.group_types import NewGroupType
from cloudctl.volume.groups import NewGroup
from cloudctl.volume.lifecycle import backup_create, restore
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.owned import SNAPSHOTS, VOLUMES, Owned
from cloudctl.volume.snapshots import NewSnapshot
from cloudctl.volume.tables import Backup, Group, GroupType, Transfer, Volume
from cloudctl.volume.transfers import NewTransfer
from cloudctl.volume.types import NewType
from tests.meanwhile import Meanwhile, Others, others

NOW = utc(1_800_000_000)
POLICY = policy.load(["volume"], None)


def caller(project: str = "p") -> Caller:
    identity = Identity(user_id="u", project_id=project, roles=frozenset({"member", "reader"}))
    return Caller(identity, POLICY, NOW, "req-1")


CALL = Call(caller(), (3, 71), Query.parse(b""), "", "", "", Headers(), BytesIO())


@pytest.fixture
def meanwhile(postgresql_with_tables: str) -> Iterator[Others]:
    with others(postgresql_with_tables) as made:
        made.db.transact(False, bootstrap, NOW)
        yield made


@pytest.fixture
def volume_id(meanwhile: Others) -> str:
    """An available volume."""

    def make(conn: Connection) -> str:
        made = creation.create(conn, caller(), NewVolume(size=1))
        conn.execute(update(Volume).where(Volume.id == made.id).values(status=states.AVAILABLE))
        return str(made.id)

    return str(meanwhile.db.transact(False, make))


@pytest.fixture
def before_the_lock(meanwhile: Others, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`before_the_lock(fn, …)`: other transactions come before the next lock of a volume is taken."""

    def set_up(*fns: Callable[[Connection], Any]) -> None:
        find = Owned.find

        def late(records: Owned[Any], conn: Connection, id: str, *, lock: bool = False) -> Any:
            if lock and records is VOLUMES:
                monkeypatch.undo()
                for fn in fns:
                    meanwhile.begin(fn)
            return find(records, conn, id, lock=lock)

        monkeypatch.setattr(Owned, "find", late)
        monkeypatch.setattr(volumes, "find", partial(late, VOLUMES))

    return set_up


def reserve(conn: Connection, volume_id: str) -> str:
    return attachments.reserve(conn, volume_id, None, project_id=None, now=NOW, managed=False)


def test_an_attachment_that_is_deleted_lets_go_of_a_host_that_came_meanwhile(
    meanwhile: Others, volume_id: str, before_the_lock: Any
) -> None:
    run = meanwhile.db.transact
    id = run(False, reserve, volume_id)
    before_the_lock(lambda conn: api._begin_connecting(conn, CALL, id, "h1", {}))
    assert run(False, api._delete, CALL, id) == []
    assert meanwhile.results == [None]
    kinds_of = select(tables.TaskRow.kind).where(tables.TaskRow.resource_id == volume_id)
    assert kinds.DETACH_VOLUME.name in run(True, lambda conn: list(conn.scalars(kinds_of)))
    assert run(True, attachments.get, id).status == attachments.DETACHING


@pytest.mark.parametrize(
    "late",
    [lambda conn, id: api._delete(conn, CALL, id), lambda conn, id: api._begin_connecting(conn, CALL, id, "h1", {})],
)
def test_an_attachment_that_is_gone_meanwhile_is_not_found(
    meanwhile: Others, volume_id: str, before_the_lock: Any, late: Any
) -> None:
    id = meanwhile.db.transact(False, reserve, volume_id)
    before_the_lock(lambda conn: attachments.finish_detach(conn, id, NOW))
    with pytest.raises(NotFound):
        meanwhile.db.transact(False, late, id)


def offer(conn: Connection, volume_id: str, project: str = "p") -> tuple[Transfer, str]:
    return transfers.create(conn, caller(project), NewTransfer(volume_id))


def accept(conn: Connection, offered: tuple[Transfer, str], project: str) -> Transfer:
    transfer, key = offered
    return transfers.accept(conn, caller(project), transfer.id, key, VolumeOptions())


def owner(conn: Connection, volume_id: str) -> tuple[str, str]:
    found = volumes.get(conn, volume_id)
    return found.project_id, found.status


def test_an_offer_that_is_withdrawn_meanwhile_is_not_accepted(
    meanwhile: Others, volume_id: str, before_the_lock: Any
) -> None:
    run = meanwhile.db.transact
    offered = run(False, offer, volume_id)
    before_the_lock(lambda conn: transfers.remove(conn, caller(), offered[0]), lambda conn: offer(conn, volume_id))
    with pytest.raises(NotFound):
        run(False, accept, offered, "q")
    assert run(True, owner, volume_id) == ("p", "awaiting-transfer")
    _, newer = meanwhile.results
    run(False, accept, newer, "q")
    assert run(True, owner, volume_id) == ("q", "available")


def test_an_offer_that_is_accepted_meanwhile_is_not_withdrawn(
    meanwhile: Others, volume_id: str, before_the_lock: Any
) -> None:
    run = meanwhile.db.transact
    offered = run(False, offer, volume_id)
    before_the_lock(lambda conn: accept(conn, offered, "q"), lambda conn: offer(conn, volume_id, "q"))
    with pytest.raises(NotFound):
        run(False, transfers.remove, caller(), offered[0])
    # The next owner's offer is another one.
    assert run(True, owner, volume_id) == ("q", "awaiting-transfer")


def take_in(conn: Connection, volume_id: str) -> Backup:
    """Import a backup of the volume."""
    id = "00000000-0000-4000-8000-00000000000b"
    record = NewRecord(id, id, volume_id, 1, NOW, "c", "nova", volume_metadata={"of": "backup"})
    return backup_records.create(conn, caller(), record, VolumeOptions())


def test_metadata_that_is_set_while_a_restore_ends_is_kept(meanwhile: Others, volume_id: str) -> None:
    run = meanwhile.db.transact
    backup = run(False, take_in, volume_id)
    mine = update(Volume).where(Volume.id == volume_id).values(metadata={"of": "user", "new": "yes"})
    setting = Meanwhile(meanwhile.db, lambda conn: conn.execute(mine) and None)
    meanwhile.begin(restore.restored, volume_id, backup.id, NOW)
    setting.commit()
    assert meanwhile.results == [None]
    assert run(True, volumes.get, volume_id).metadata == {"of": "backup", "new": "yes"}


def test_a_backup_that_is_imported_meanwhile_is_there_already(meanwhile: Others, volume_id: str) -> None:
    first = Meanwhile(meanwhile.db, take_in, volume_id)
    meanwhile.begin(take_in, volume_id)
    first.commit()
    with pytest.raises(Conflict):
        assert meanwhile.results
    assert meanwhile.db.transact(True, backups.get, first.result.id).volume_id == volume_id


def use(conn: Connection, volume_id: str, status: str) -> str:
    """The id of an attachment; `status`: of the volume, which something is done with meanwhile."""
    id = reserve(conn, volume_id)
    attachments.complete(conn, id, None, None, NOW)
    conn.execute(update(Volume).where(Volume.id == volume_id).values(status=status))
    return id


def backed_up(conn: Connection, volume_id: str) -> None:
    backup = take_in(conn, volume_id)
    backup_create.release(conn, backup.id, NOW)


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (states.BACKING_UP, backed_up),
        (states.UPLOADING, lambda conn, volume_id: attachments.follow(conn, volume_id, NOW, leaving=states.UPLOADING)),
    ],
)
def test_a_volume_that_is_detached_while_its_copy_ends_is_available(
    meanwhile: Others, volume_id: str, status: str, end: Any
) -> None:
    run = meanwhile.db.transact
    detaching = Meanwhile(meanwhile.db, attachments.finish_detach, run(False, use, volume_id, status), NOW)
    meanwhile.begin(end, volume_id)
    detaching.commit()
    assert meanwhile.results == [None]
    found = run(True, volumes.get, volume_id)
    assert (found.status, found.attach_status) == (states.AVAILABLE, "detached")


def snapshot(conn: Connection, volume_id: str) -> Any:
    return snapshots.create(conn, caller(), NewSnapshot(volume_id), VolumeOptions())


def back_up(conn: Connection, volume_id: str) -> Any:
    return backups.create(conn, caller(), NewBackup(volume_id), VolumeOptions())


def restore_over(conn: Connection, volume_id: str) -> Any:
    backup = take_in(conn, volume_id)
    states.BACKUP.move(conn, backup.id, "created", NOW)
    return restoring.restore(conn, caller(), backup.id, volume_id, None, VolumeOptions())


def set_metadata(conn: Connection, volume_id: str) -> Any:
    return volumes.change_metadata(conn, caller(), volume_id, lambda before: {"a": "b"})


def clone(conn: Connection, volume_id: str) -> Any:
    return creation.create(conn, caller(), NewVolume(size=1, source_volid=volume_id), VolumeOptions())


@pytest.mark.parametrize("late", [snapshot, back_up, restore_over, set_metadata, clone])
def test_a_volume_that_another_project_gets_meanwhile_is_not_the_former_owners_any_more(
    meanwhile: Others, volume_id: str, late: Any
) -> None:
    offered = meanwhile.db.transact(False, offer, volume_id)
    accepting = Meanwhile(meanwhile.db, accept, offered, "q")
    meanwhile.begin(late, volume_id)
    accepting.commit()
    with pytest.raises(NotFound):
        assert meanwhile.results


def encrypt(conn: Connection, type_id: str) -> None:
    encryption.create(conn, type_id, NewEncryption("luks", "front-end"), NOW)


def share(conn: Connection, type_id: str) -> None:
    types.change_extra_specs(conn, type_id, NOW, {types.MULTIATTACH: "<is> True"})


def drop(conn: Connection, type_id: str) -> None:
    types.remove(conn, types.get(conn, type_id), "__DEFAULT__")


@pytest.fixture
def type_id(meanwhile: Others) -> str:
    return str(meanwhile.db.transact(False, types.create, NewType("fast"), NOW).id)


def of_type(conn: Connection, type_id: str) -> Volume:
    return creation.create(conn, caller(), NewVolume(size=1, volume_type=type_id))


@pytest.mark.parametrize("change", [encrypt, share, drop])
def test_a_type_that_is_changed_meanwhile_is_used_as_it_is_then(meanwhile: Others, type_id: str, change: Any) -> None:
    changing = Meanwhile(meanwhile.db, change, type_id)
    meanwhile.begin(of_type, type_id)
    changing.commit()
    if change is share:
        assert meanwhile.results[0].multiattach
    else:
        (error,) = meanwhile.errors
        assert isinstance(error, CloudError)


@pytest.mark.parametrize("change", [encrypt, share, drop])
def test_a_type_that_a_new_volume_gets_meanwhile_is_in_use(meanwhile: Others, type_id: str, change: Any) -> None:
    making = Meanwhile(meanwhile.db, of_type, type_id)
    meanwhile.begin(change, type_id)
    making.commit()
    with pytest.raises(Conflict):
        assert meanwhile.results


def test_two_first_default_types_of_a_project_leave_one(meanwhile: Others, type_id: str) -> None:
    other = str(meanwhile.db.transact(False, types.create, NewType("slow"), NOW).id)
    setting = Meanwhile(meanwhile.db, types.set_default, "p", type_id)
    meanwhile.begin(types.set_default, "p", other)
    setting.commit()
    assert meanwhile.results == [None]
    (left,) = meanwhile.db.transact(True, types.defaults, "p")
    assert left.volume_type_id == other


def test_a_service_is_switched_off_twice_at_once(meanwhile: Others) -> None:
    off = (VolumeOptions(), "cloudctl@volumes", services.VOLUME, True)
    switching = Meanwhile(meanwhile.db, services.switch, *off)
    meanwhile.begin(services.switch, *off, "maintenance")
    switching.commit()
    (found,) = meanwhile.results
    assert found.disabled_reason == "maintenance"


def test_a_snapshot_that_goes_meanwhile_is_not_reverted_to(
    meanwhile: Others, volume_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = meanwhile.db.transact
    id = run(False, snapshot, volume_id).id
    find = Owned.find

    def late(records: Owned[Any], conn: Connection, wanted: str, *, lock: bool = False) -> Any:
        found = find(records, conn, wanted, lock=lock)
        if records is SNAPSHOTS:
            monkeypatch.undo()
            meanwhile.begin(snapshots.forget, id)
        return found

    monkeypatch.setattr(Owned, "find", late)
    with pytest.raises(NotFound):
        run(False, snapshots.revert, caller(), volume_id, id)


def copy_of(conn: Connection, snapshot_id: str) -> Volume:
    return creation.create(conn, caller(), NewVolume(snapshot_id=snapshot_id), VolumeOptions())


def test_a_snapshot_that_goes_meanwhile_is_no_source(meanwhile: Others, volume_id: str) -> None:
    def taken(conn: Connection) -> str:
        made = snapshot(conn, volume_id).id
        states.SNAPSHOT.move(conn, made, "created", NOW)
        return str(made)

    id = meanwhile.db.transact(False, taken)
    going = Meanwhile(meanwhile.db, snapshots.remove, caller(), id, False)
    meanwhile.begin(copy_of, id)
    going.commit()
    (error,) = meanwhile.errors
    assert isinstance(error, Conflict)


def new_group_type(conn: Connection) -> GroupType:
    return group_types.create(conn, NewGroupType("together"), NOW)


def group_of(conn: Connection, type_: GroupType) -> Group:
    return groups.create(conn, caller(), NewGroup(type_.id, ["__DEFAULT__"]), VolumeOptions())


@pytest.mark.parametrize(
    ("first", "second", "refusal"),
    [(group_types.remove, group_of, NotFound), (group_of, group_types.remove, Conflict)],
)
def test_a_group_type_goes_while_it_is_used(
    meanwhile: Others, first: Any, second: Any, refusal: type[CloudError]
) -> None:
    type_ = meanwhile.db.transact(False, new_group_type)
    before = Meanwhile(meanwhile.db, first, type_)
    meanwhile.begin(second, type_)
    before.commit()
    (error,) = meanwhile.errors
    assert isinstance(error, refusal)


def test_the_type_of_consistency_groups_is_made_once(meanwhile: Others) -> None:
    """In a cloud that is older than the type, by whoever asks for such a group first."""
    meanwhile.db.transact(False, lambda conn: conn.execute(delete(GroupType)))
    before = Meanwhile(meanwhile.db, consistency.ensure_type, NOW)
    meanwhile.begin(consistency.ensure_type, NOW)
    before.commit()
    assert meanwhile.results == [before.result]
