"""Where several processes are at work, nobody takes away a host of which a notification is just coming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import insert

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id, utc
from cloudctl.errors import Conflict
from cloudctl.instance_ha import members, notifications
from cloudctl.instance_ha.notifications import NewNotification
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Member
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
        while not acting.done() and not db.transact(True, lambda conn: conn.alchemy.execute(WAITING).scalar_one()):
            """It has not come to the host yet."""
        coming.commit()
        with pytest.raises(Conflict):
            acting.result(60)
