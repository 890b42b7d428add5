"""Where several processes write at once, what commits late is delivered late, and not passed by."""

from __future__ import annotations

from threading import Event as Flag
from threading import Thread

from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.events import outbox, receivers
from cloudctl.events.outbox import NewEvent
from tests.meanwhile import Meanwhile, others


def test_what_commits_late_comes_late_and_is_not_lost(postgresql_with_tables: str) -> None:
    inline = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, Clock())  # type: ignore[arg-type]  # no reactor
    db.wishes.add("*")
    written, go_on = Flag(), Flag()

    def tell(conn: Connection, type: str, *, wait: bool = False) -> None:
        outbox.tell(conn, NewEvent(type, "server/1", {}, "test:here"), utc(0.0))
        if wait:
            written.set()
            assert go_on.wait(60)

    late = Thread(target=db.transact, args=(False, tell, "late"), kwargs={"wait": True})
    late.start()
    assert written.wait(60)
    db.transact(False, tell, "early")
    db.transact(False, outbox.order)
    assert [each.type for each in db.transact(True, outbox.after, 0)] == ["early"]
    seen = db.transact(True, outbox.last)
    go_on.set()
    late.join(60)
    db.transact(False, outbox.order)
    assert [each.type for each in db.transact(True, outbox.after, seen)] == ["late"]
    db.close()


def test_a_receiver_that_comes_further_meanwhile_is_not_set_back(postgresql_with_tables: str) -> None:
    with others(postgresql_with_tables) as other:
        other.db.transact(False, receivers.ensure, "inside")
        further = Meanwhile(other.db, receivers.move, "inside", 140)
        other.begin(receivers.pass_over, 100, utc(0.0), {})
        further.commit()
        assert other.results == [[]]
        found = other.db.transact(True, receivers.find, "inside")
        assert (found.position, found.lost) == (140, 0)
