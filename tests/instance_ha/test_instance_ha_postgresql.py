"""Where several processes are at work, nobody takes away a host of which a notification is just coming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import insert, text
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id, utc
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.errors import Conflict
from cloudctl.instance_ha import members, notifications
from cloudctl.instance_ha.notifications import NewNotification
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Member
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.policy import Policy
from cloudctl.tasks import Unasked
from tests.databases import Meanwhile
from tests.instance_ha.asking import STOPPED

AT = utc(1_800_000_000.0)
CALLER = Caller(Identity(), Policy({}), AT, "req-1")
WAITS = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    inline = Inline()
    made = Database(create(postgresql_with_tables), inline, inline, Clock())  # type: ignore[arg-type]  # no reactor
    yield made
    made.close()


def member(conn: Connection) -> Member:
    values = {"id": new_id(), "segment_id": "rack-1", "name": "host-1", "type": "COMPUTE"}
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
        while not acting.done() and not db.transact(True, lambda conn: conn.alchemy.execute(WAITS).scalar_one()):
            """It has not come to the host yet."""
        coming.commit()
        with pytest.raises(Conflict):
            acting.result(60)
