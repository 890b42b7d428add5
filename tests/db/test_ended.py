"""Rows that have outlived their use: what goes, what stays, and what a purge that is killed leaves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.driver import create
from cloudctl.db.ended import BATCH, Ended, before, count, given, purge_of, remove, some
from cloudctl.db.threads import Inline
from cloudctl.identity.tables import OAuthNonce, Revocation, Trust, TrustRole
from cloudctl.testing.cloud import empty_database

NOW = datetime(2030, 1, 1)
OLD, YOUNG = NOW - timedelta(days=40), NOW - timedelta(days=20)
AGE = timedelta(days=30)
TRUSTS = Ended("trusts", Trust, (before(Trust.expires_at),), along=((TrustRole.trust_id, Trust.id),))
REVOCATIONS = Ended("revocations", Revocation, (before(Revocation.revoked_at),))
NONCES = Ended("nonces", OAuthNonce, (before(OAuthNonce.said_at),))


@pytest.fixture(autouse=True)
def searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One search does not find all."""
    monkeypatch.setattr("cloudctl.db.ended.SEARCH", BATCH)


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "sqlite":
        found: Database = empty_database(Clock())
    else:
        inline: Any = Inline()
        found = Database(create(request.getfixturevalue("postgresql_with_tables")), inline, inline, Clock())
    yield found
    found.close()


def trusts(conn: Connection, ends: datetime | None, *ids: str) -> None:
    people = {"trustor_user_id": "u", "trustee_user_id": "v"}
    conn.execute(insert(Trust), [{"id": id, **people, "expires_at": ends, "created_at": OLD} for id in ids])
    conn.execute(insert(TrustRole), [{"trust_id": id, "role_id": "r"} for id in ids])


def left(conn: Connection) -> tuple[list[str], list[str]]:
    """The trusts, and the trusts of their roles."""
    return sorted(conn.scalars(select(Trust.id))), sorted(conn.scalars(select(TrustRole.trust_id)))


def purged(db: Database, ended: Ended) -> int:
    return sum(purge_of(db, ended, NOW, AGE, lambda _: None))


def test_what_ended_long_ago_goes_with_what_belongs_to_it(db: Database) -> None:
    many = [f"{number:04}" for number in range(2 * BATCH + 1)]
    db.transact(False, trusts, OLD, *many)
    db.transact(False, trusts, YOUNG, "young")
    db.transact(False, trusts, None, "endless")
    assert db.transact(True, count, TRUSTS, given(TRUSTS, NOW, AGE)) == len(many)
    assert list(purge_of(db, TRUSTS, NOW, AGE, lambda _: None)) == [BATCH, BATCH, 1]
    assert db.transact(True, left) == (["endless", "young"],) * 2
    assert purged(db, TRUSTS) == 0


def test_one_that_stops_anywhere_leaves_whole_things(db: Database) -> None:
    db.transact(False, trusts, OLD, *(f"{number:04}" for number in range(2 * BATCH)))
    list(islice(purge_of(db, TRUSTS, NOW, AGE, lambda _: None), 1))
    found, of_roles = db.transact(True, left)
    assert len(found) == BATCH and found == of_roles
    assert purged(db, TRUSTS) == BATCH


def test_a_row_that_is_in_use_again_by_its_turn_stays(db: Database) -> None:
    db.transact(False, trusts, OLD, "one", "other")
    times = given(TRUSTS, NOW, AGE)
    keys = db.transact(True, some, TRUSTS, times, None)

    def prolong(conn: Connection) -> None:
        conn.execute(update(Trust).where(Trust.id == "one").values(expires_at=None))

    db.transact(False, prolong)
    assert db.transact(False, remove, TRUSTS, times, keys) == 1
    assert db.transact(True, left) == (["one"], ["one"])


def test_a_row_that_somebody_changes_is_not_waited_for(postgresql_with_tables: str) -> None:
    inline: Any = Inline()
    impatient = f"{postgresql_with_tables}?options=-c%20lock_timeout%3D2000"
    one, other = (Database(create(url), inline, inline, Clock()) for url in (postgresql_with_tables, impatient))
    one.transact(False, trusts, OLD, "one", "other")

    def changing(conn: Connection) -> int:
        conn.execute(update(Trust).where(Trust.id == "one").values(redelegation_count=1))
        return purged(other, TRUSTS)

    assert one.transact(False, changing) == 1
    assert one.transact(True, left) == (["one"], ["one"])
    one.close()
    other.close()


def test_rows_with_keys_of_several_columns_and_times_in_seconds(db: Database) -> None:
    def nonces(conn: Connection) -> None:
        at = int((OLD - datetime(1970, 1, 1)).total_seconds())
        rows = [{"consumer_id": f"{n % 3}", "said_at": at + n % 5, "digest": f"{n:04}"} for n in range(BATCH + 7)]
        conn.execute(insert(OAuthNonce), [*rows, {"consumer_id": "0", "said_at": at + 25 * 86400, "digest": "young"}])

    db.transact(False, nonces)
    assert purged(db, NONCES) == BATCH + 7
    assert list(db.transact(True, lambda conn: conn.scalars(select(OAuthNonce.digest)))) == ["young"]


def revocations(conn: Connection, *times: datetime) -> list[int]:
    return [conn.execute(insert(Revocation), {"epoch": 1, "revoked_at": at}).key for at in times]


def test_no_number_is_given_twice(db: Database) -> None:
    numbers = db.transact(False, revocations, OLD, OLD)
    assert purged(db, REVOCATIONS) == 1
    (next_one,) = db.transact(False, revocations, YOUNG)
    assert next_one > max(numbers)
    assert purged(db, REVOCATIONS) == 1


def test_what_must_stay_for_a_while_stays_whatever_is_asked(db: Database) -> None:
    longer = Ended("revocations", Revocation, REVOCATIONS.where, least=timedelta(days=60))
    db.transact(False, revocations, OLD, NOW - timedelta(days=61), NOW)
    assert purged(db, longer) == 1
    assert db.transact(True, lambda conn: conn.scalar(select(func.count()).select_from(Revocation.table))) == 2
