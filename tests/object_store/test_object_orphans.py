"""What is in the account of a project that was deleted."""

from __future__ import annotations

import pytest
from sqlalchemy import delete

from cloudctl.identity.tables import Project
from cloudctl.object_store.tables import Account as AccountRow
from cloudctl.testing.cloud import PASSWORDS, Client, MemoryCloud
from tests.object_store.asking import Account, files, rows

DAY = 86_400.0


@pytest.fixture
def theirs(cloud: MemoryCloud) -> Account:
    """With all that an account may have."""
    o = Account(cloud.client("demo"))
    o.put("c")
    for number in range(5):
        o.put(f"c/o{number}", b"data")
    o.put("c/copy", X_Copy_From="c/o0")
    o.put("versions", X_Versions_Enabled="true")
    for data in (b"one", b"two"):
        o.put("versions/o", data)
    o.put("empty")
    return o


def forget(cloud: MemoryCloud, project_id: str) -> None:
    cloud.transact(lambda conn: conn.execute(delete(Project).where(Project.id == project_id)))


def test_it_stays_for_a_week_and_then_goes(
    cloud: MemoryCloud, theirs: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudctl.object_store.orphans.BATCH", 2)
    other = Account(cloud.client("admin"))
    other.put("mine")
    other.put("mine/o", b"stays")
    forget(cloud, theirs.project_id)
    cloud.advance(3600)
    cloud.advance(6 * DAY)
    assert len(rows(cloud)) == 8
    cloud.advance(2 * DAY)
    assert len(rows(cloud)) == 1 and files(cloud) == rows(cloud)
    left = cloud.transact(lambda conn: conn.execute(AccountRow.table.select()).all())
    assert [row.project_id for row in left] == [other.project_id]


def test_the_account_of_no_project_stays(cloud: MemoryCloud) -> None:
    system = Client(cloud, cloud.token("admin", PASSWORDS["admin"], {"system": {"all": True}}))
    o = Account(system, "nobodys")
    o.put("c")
    o.put("c/o", b"data")
    for _ in range(3):
        cloud.advance(10 * DAY)
    assert len(rows(cloud)) == 1


def test_one_that_was_made_before_its_project_was_noted_goes_too(cloud: MemoryCloud, theirs: Account) -> None:
    cloud.transact(lambda conn: conn.execute(AccountRow.table.update().values(headers={})))
    cloud.advance(3600)
    forget(cloud, theirs.project_id)
    for _ in range(2):
        cloud.advance(8 * DAY)
    assert rows(cloud) == set() == files(cloud)
