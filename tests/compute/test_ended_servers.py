"""What a purge removes of deleted servers, and what it leaves because something living still needs it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

from cloudctl.compute.tables import Migration, Server
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.tasks.tables import DONE, HELD, TaskRow
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, audited
from tests.ended import purge

DAY = 86_400.0
SERVERS, MIGRATIONS, TASKS = "deleted servers", "migrations of deleted servers", "tasks of deleted servers"


def ids(cloud: MemoryCloud, column: Any) -> list[Any]:
    return list(cloud.transact(lambda conn: conn.scalars(select(column))))


def end(demo: Asking, server_id: str) -> None:
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()


def moved(demo: Asking, admin: Asking) -> str:
    """A server that has been live-migrated."""
    server_id = demo.boot()
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    assert admin.act(server_id, body, LATEST).status == 202
    demo.cloud.settle()
    return server_id


def test_a_server_goes_with_its_actions_and_migrations(cloud: MemoryCloud, demo: Asking, admin: Asking) -> None:
    old, living, young = moved(demo, admin), moved(demo, admin), moved(demo, admin)
    end(demo, old)
    cloud.advance(40 * DAY)
    demo, admin = Asking(cloud.client("demo")), Asking(cloud.client("admin"))
    end(demo, young)
    log = demo.get(f"/servers/{living}/os-instance-actions").body
    found = purge(cloud.db, 30)
    assert (found[SERVERS], found[MIGRATIONS], found[TASKS]) == (1, 1, 3)
    assert sorted(ids(cloud, Server.id)) == sorted([living, young])
    assert sorted(ids(cloud, Migration.server_id)) == sorted([living, young])
    assert demo.get(f"/servers/{old}/os-instance-actions", LATEST).status == 404
    assert demo.get(f"/servers/{young}/os-instance-actions", LATEST).status == 200
    assert demo.get(f"/servers/{living}/os-instance-actions").body == log
    assert audited(cloud) == []


@pytest.mark.parametrize("kept", ["work", "migration"])
def test_a_server_stays_while_something_of_it_has_not_ended(cloud: MemoryCloud, demo: Asking, kept: str) -> None:
    server_id = demo.boot()
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    assert Asking(cloud.client("admin")).act(server_id, body, LATEST).status == 202
    cloud.settle()
    end(demo, server_id)
    demo.boot()

    def keep(conn: Connection) -> None:
        if kept == "work":
            newest = select(TaskRow.id).where(TaskRow.resource_id == server_id).order_by(TaskRow.id.desc()).limit(1)
            this = TaskRow.id == newest.scalar_subquery()
            conn.execute(update(TaskRow).where(this).values(state=HELD, ended_at=None))
        else:
            conn.execute(update(Migration).values(status="running"))

    cloud.transact(keep)
    cloud.advance(40 * DAY)
    found = purge(cloud.db, 30)
    assert not found.keys() & {SERVERS, MIGRATIONS, TASKS}


def test_a_server_stays_until_its_guest_has_left_the_host_that_was_down(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    demo.boot()
    hypervisor.behaviour.fail("ensure_absent", times=None, error=HostDown("fake-1 is down"))
    end(demo, server_id)
    cloud.advance(DAY * 40)
    # The audit has submitted what fails as long as the host is down.
    cloud.settle()
    cloud.advance(DAY * 40)
    cloud.settle()
    assert SERVERS not in purge(cloud.db, 30)
    assert server_id in ids(cloud, Server.id)
    hypervisor.behaviour.clear()
    assert audited(cloud) == ["guest-left-behind"]
    cloud.settle()
    cloud.advance(DAY * 40)
    # The newest task stays, and would be that one.
    Asking(cloud.client("demo")).boot()
    found = purge(cloud.db, 30)
    assert found[SERVERS] == 1 and found[TASKS] >= 3
    assert server_id not in {*ids(cloud, Server.id), *ids(cloud, TaskRow.resource_id)}
    assert hypervisor.guests.get(server_id) is None
    assert audited(cloud) == []


def test_what_a_host_kept_before_says_nothing_of_what_one_keeps_now(
    cloud: MemoryCloud, demo: Asking, hypervisor: FakeHypervisor
) -> None:
    server_id = demo.boot()
    hypervisor.behaviour.fail("ensure_absent", error=HostDown("fake-1 is down"))
    demo.act(server_id, {"shelve": None})
    cloud.settle()
    assert audited(cloud) == ["guest-left-behind"]
    cloud.settle()
    demo.act(server_id, {"unshelve": None})
    cloud.settle()
    hypervisor.behaviour.fail("ensure_absent", times=None, error=HostDown("fake-1 is down"))
    end(demo, server_id)
    demo.boot()
    cloud.advance(DAY * 40)
    cloud.settle()
    assert SERVERS not in purge(cloud.db, 30)


def test_the_name_of_a_guest_is_not_given_again(cloud: MemoryCloud, demo: Asking) -> None:
    for _ in range(2):
        end(demo, demo.boot())
    taken = ids(cloud, Server.number)
    cloud.advance(DAY * 40)
    assert purge(cloud.db, 30)[SERVERS] == 1
    Asking(cloud.client("demo")).boot()
    (new,) = set(ids(cloud, Server.number)) - set(taken)
    assert new > max(taken)


def test_what_a_task_waits_for_stays_until_it_has_ended(cloud: MemoryCloud, demo: Asking) -> None:
    demo.boot()
    (parent, child, *_) = ids(cloud, TaskRow.id)

    def wait(conn: Connection) -> None:
        conn.execute(update(TaskRow).where(TaskRow.id == parent).values(state=HELD, ended_at=None))
        conn.execute(
            update(TaskRow).where(TaskRow.id == child).values(parent_id=parent, child_key="it", resource_type="port")
        )

    cloud.transact(wait)
    cloud.advance(DAY * 40)
    purge(cloud.db, 30)
    assert {parent, child} <= set(ids(cloud, TaskRow.id))

    def finish(conn: Connection) -> None:
        conn.execute(update(TaskRow).where(TaskRow.id == parent).values(state=DONE, ended_at=0.0))

    cloud.transact(finish)
    purge(cloud.db, 30)
    assert not {parent, child} & set(ids(cloud, TaskRow.id))


def test_ended_tasks_of_every_kind_go(cloud: MemoryCloud) -> None:
    """Each kind is somebody's: declared once, or its tasks would stay for ever."""
    kinds = [workflow.kind for part in cloud.cloud.parts for workflow in part.workflows]

    def ended(conn: Connection) -> None:
        for kind in [*kinds, kinds[0]]:
            task = {"kind": kind.name, "resource_type": kind.resource, "resource_id": "gone", "state": DONE}
            conn.execute(TaskRow.table.insert().values(**task, submitted_at=0.0, ended_at=0.0))

    cloud.transact(ended)
    found = purge(cloud.db, 30)
    assert sum(rows for what, rows in found.items()) == len(kinds)
    assert set(cloud.transact(lambda conn: conn.scalars(select(TaskRow.resource_id)))) >= {"gone"}
