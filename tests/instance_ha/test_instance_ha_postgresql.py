"""Where several processes are at work, nobody takes away a host of which a notification is just coming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from random import Random
from string import ascii_letters
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import insert

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id, utc
from cloudctl.errors import Conflict, NotFound
from cloudctl.instance_ha import members, notifications, segments
from cloudctl.instance_ha.lifecycle import beginning
from cloudctl.instance_ha.members import NewMember
from cloudctl.instance_ha.notifications import NewNotification
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.segments import NewSegment
from cloudctl.instance_ha.tables import Member, Notification, Segment
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.policy import Policy
from cloudctl.tasks import Unasked
from tests.instance_ha.asking import STOPPED
from tests.meanwhile import WAITING, Meanwhile, opened

AT = utc(1_800_000_000.0)
CALLER = Caller(Identity(), Policy({}), AT, "req-1")


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    with opened(postgresql_with_tables) as made:
        yield made


def until_it_waits(db: Database, acting: Future[Any]) -> None:
    while not acting.done() and not db.transact(True, lambda conn: conn.alchemy.execute(WAITING).scalar_one()):
        """It has not come to the lock yet."""


def member(conn: Connection, segment_id: str = "rack-1", name: str = "host-1") -> Member:
    values = {"id": new_id(), "segment_id": segment_id, "name": name, "type": "COMPUTE"}
    conn.execute(insert(Member).values(**values, control_attributes="SSH", created_at=AT))
    return members.get(conn, values["id"])


def change(conn: Connection, found: Member) -> None:
    members.change(conn, CALLER, found, {"reserved": True})


@pytest.mark.parametrize("act", [change, members.remove])
def test_a_host_is_in_use_from_the_moment_in_which_a_notification_of_it_comes(
    db: Database, act: Callable[..., Any]
) -> None:
    found = db.transact(False, member)
    new = NewNotification("host-1", "COMPUTE_HOST", STOPPED, AT)
    coming = Meanwhile(db, notifications.create, Unasked(), new, InstanceHaOptions(engine_enabled=False), AT)
    with ThreadPoolExecutor(1) as thread:
        acting = thread.submit(db.transact, False, act, found)
        until_it_waits(db, acting)
        coming.commit()
        with pytest.raises(Conflict):
            acting.result(60)


def segment(conn: Connection) -> Segment:
    return segments.create(conn, CALLER, NewSegment("rack-1", "auto", "COMPUTE"))


def rename(conn: Connection, found: Segment) -> None:
    segments.change(conn, found, {"name": "rack-2"}, AT)


@pytest.mark.parametrize("act", [rename, segments.remove])
def test_a_segment_is_in_use_from_the_moment_in_which_a_notification_of_its_host_comes(
    db: Database, act: Callable[..., Any]
) -> None:
    found = db.transact(False, segment)
    db.transact(False, member, found.id)
    new = NewNotification("host-1", "COMPUTE_HOST", STOPPED, AT)
    coming = Meanwhile(db, notifications.create, Unasked(), new, InstanceHaOptions(engine_enabled=False), AT)
    with ThreadPoolExecutor(1) as thread:
        acting = thread.submit(db.transact, False, act, found)
        until_it_waits(db, acting)
        coming.commit()
        with pytest.raises(Conflict):
            acting.result(60)


def test_no_host_is_left_in_a_segment_that_is_just_removed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_runs_servers", lambda conn, name: None)
    found = db.transact(False, segment)
    removing = Meanwhile(db, segments.remove, found)
    with ThreadPoolExecutor(1) as thread:
        adding = thread.submit(db.transact, False, members.create, CALLER, found, NewMember("host-1", "COMPUTE", "SSH"))
        until_it_waits(db, adding)
        removing.commit()
        with pytest.raises(NotFound):
            adding.result(60)


def test_a_notification_that_is_just_superseded_begins_no_recovery(db: Database) -> None:
    db.transact(False, member)
    options = InstanceHaOptions(engine_enabled=False)
    unsure = NewNotification("host-1", "COMPUTE_HOST", {**STOPPED, "host_status": "UNKNOWN"}, AT)
    found = db.transact(False, notifications.create, Unasked(), unsure, options, AT)
    sure = NewNotification("host-1", "COMPUTE_HOST", STOPPED, AT)
    coming = Meanwhile(db, notifications.create, Unasked(), sure, options, AT)
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(db.transact, False, beginning.start, found, options, AT)
        until_it_waits(db, starting)
        coming.commit()
        starting.result(60)
    left = db.transact(True, members.find, "host-1")
    assert left is not None and not left.on_maintenance


def test_recoveries_that_begin_together_do_not_pass_a_gate_that_is_open_for_one(db: Database) -> None:
    options = InstanceHaOptions(engine_enabled=False)

    def report(conn: Connection, name: str) -> Notification:
        member(conn, "rack-1", name)
        return notifications.create(conn, Unasked(), NewNotification(name, "COMPUTE_HOST", STOPPED, AT), options, AT)

    few = evolve(options, cliff_share=1.0, fences_per_hour=1)
    first, second = (db.transact(False, report, name) for name in ("host-1", "host-2"))
    passing = Meanwhile(db, beginning.start, first, few, AT)
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(db.transact, False, beginning.start, second, few, AT)
        until_it_waits(db, other)
        passing.commit()
        assert (passing.result, other.result(60)) == (None, "1 hosts were fenced within an hour, or are about to be")


def test_a_process_may_have_the_longest_name_there_is(db: Database) -> None:
    db.transact(False, member)
    # Random letters, since PostgreSQL compresses others.
    name = "".join(Random(1).choices(ascii_letters, k=4096))
    new = NewNotification("host-1", "PROCESS", {"event": "STOPPED", "process_name": name}, AT)
    options = InstanceHaOptions(engine_enabled=False, duplicate_notification_detection_interval=0.0)
    made = db.transact(False, notifications.create, Unasked(), new, options, AT)
    assert made.payload["process_name"] == name
    later = evolve(new, generated_time=AT + timedelta(seconds=1))
    with pytest.raises(Conflict):
        db.transact(False, notifications.create, Unasked(), later, options, AT + timedelta(seconds=1))
