"""Which task runs when, in which process: order, slots, leases, fences, stops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError, OperationalError
from twisted.internet.defer import fail

from cloudctl.tasks import Context, Transient, Wait, queue
from cloudctl.tasks.claims import PORTION, may_have
from cloudctl.tasks.run import Crash
from cloudctl.tasks.tables import TaskRow
from tests.conftest import LoggedFailures
from tests.tasks.scene import ANYBODY, Scene, Somebody
from tests.tasks.test_task_cancel import Gate, commits


def gates(scene: Scene, kind: str, count: int) -> list[Gate]:
    made = [Gate() for _ in range(count)]
    scene.workflow(kind, scene.step(kind, *made))
    return made


# -- shares


@given(st.integers(1, 64), st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=120))
def test_a_project_never_has_more_than_its_share_and_another_one_finds_a_slot(
    slots: int, turns: list[tuple[int, bool]]
) -> None:
    """Whatever begins and ends: one that has nothing gets a slot as long as there is one."""
    running = Counter[int]()
    for project, begins in turns:
        free = slots - running.total()
        if not begins:
            running[project] -= min(running[project], 1)
        elif allowed := may_have(running[project], free):
            assert allowed <= free
            running[project] += allowed
            assert running[project] == 1 or running[project] <= PORTION * (slots - running.total())
        else:
            assert not free or running[project]


def test_however_many_long_tasks_a_project_has_another_one_is_not_kept_waiting(bare: Scene) -> None:
    long = gates(bare, "fetch", 100)
    bare.workflow("boot", bare.step("boot"))
    greedy, other = (Somebody("u", name, "r") for name in ("greedy", "other"))
    engine = bare.start(slots=8)
    for number in range(40):
        bare.submit("fetch", f"image {number}", by=greedy)
    bare.pump()
    assert (engine.active, bare.did.count("boot")) == (6, 0)
    for number in range(5):
        assert bare.state(bare.done("boot", f"server {number}", by=other)) == "done"
    # What is nobody's has no share, and one that ends makes room for the next.
    assert bare.state(bare.done("boot", "of the cloud")) == "done"
    long[0].opened.callback(None)
    bare.pump()
    assert (engine.active, bare.did.count("fetch")) == (6, 7)


# -- order


def test_a_newer_task_of_a_resource_starts_when_the_older_one_has_ended(scene: Scene) -> None:
    scene.workflow("first", scene.step("one", Transient("busy"), Wait(5.0)))
    scene.workflow("second", scene.step("two"))
    scene.submit("first")
    newer = scene.done("second")
    scene.advance(5.4)
    assert (scene.did, scene.state(newer)) == (["one", "one"], "queued")
    scene.advance(0.1)
    assert (scene.did, scene.state(newer)) == (["one", "one", "one", "two"], "done")


def test_resources_do_not_wait_for_each_other(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Gate()))
    scene.workflow("other", scene.step("two"), resource="net")
    scene.workflow("same id", scene.step("three"), resource="volume")
    scene.done("build", "x")
    assert scene.state(scene.done("other", "y")) == "done"
    assert scene.state(scene.done("same id", "x")) == "done"


def test_due_tasks_start_in_the_order_in_which_they_became_due(bare: Scene) -> None:
    order: list[str] = []

    async def note(ctx: Context) -> None:
        order.append(ctx.resource_id)

    bare.workflow("build", bare.step("one", *[note] * 3))
    for name, later in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        bare.submit_for(later, "build", name)
    bare.clock.advance(5.0)
    bare.start()
    bare.pump()
    assert order == ["b", "c", "a"]


def test_a_task_submitted_for_later_starts_exactly_then(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"))
    scene.submit_for(2.25, "build")
    scene.advance(2.2)
    assert scene.did == []
    scene.advance(0.05)
    assert scene.did == ["one"]


def test_no_more_tasks_run_than_there_are_slots_and_a_free_slot_is_filled_at_once(bare: Scene) -> None:
    waiting = gates(bare, "build", 5)
    engine = bare.start(slots=2)
    for name in "abcde":
        bare.submit("build", name)
    bare.pump()
    assert (engine.active, len(bare.did)) == (2, 2)
    waiting[0].opened.callback(None)
    bare.pump()
    assert (engine.active, len(bare.did)) == (2, 3)
    bare.advance(4.0)
    assert engine.counts.oldest_due == 4.0
    for gate in waiting[1:]:
        gate.opened.callback(None)
        bare.pump()
    assert (engine.active, engine.counts.ended["build", "done"]) == (0, 5)
    bare.advance(1.0)
    assert engine.counts.oldest_due == 0.0


def test_an_engine_serves_only_its_queues(bare: Scene) -> None:
    bare.workflow("build", bare.step("one"))
    ids = [bare.submit("build", name, queue=name) for name in ("any", "host:a", "host:b")]
    bare.start(queues=("any", "host:b"))
    bare.pump()
    assert [bare.state(id) for id in ids] == ["done", "queued", "done"]
    bare.start()
    bare.pump()
    assert bare.state(ids[1]) == "done"


def test_counts(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Transient("busy"), Wait(1.0)))
    scene.done("build")
    assert scene.engine.counts.started == {"build": 1}
    assert scene.engine.counts.parked == {"build": 1}
    scene.advance(5.0)
    counts = scene.engine.counts
    assert (counts.started, counts.parked, counts.ended) == ({"build": 1}, {"build": 2}, {("build", "done"): 1})


# -- leases


def test_two_processes_share_the_work_and_no_task_runs_twice(bare: Scene) -> None:
    waiting = gates(bare, "build", 6)
    one, two = bare.start(slots=3), bare.start(slots=3)
    for name in "abcdef":
        bare.submit("build", name)
    bare.pump()
    assert (one.active, two.active, len(bare.did)) == (3, 3, 6)
    for gate in waiting:
        gate.opened.callback(None)
    bare.pump()
    assert one.counts.ended["build", "done"] == two.counts.ended["build", "done"] == 3


def test_a_lease_is_renewed_while_the_task_runs(bare: Scene) -> None:
    (gate,) = gates(bare, "build", 1)
    one, two = bare.start(), bare.start()
    task_id = bare.done("build")
    bare.advance(300.0)
    assert (one.active + two.active, bare.did, bare.row(task_id).fence) == (1, ["build"], 1)
    gate.opened.callback(None)
    assert bare.state(task_id) == "done"


def test_a_lease_is_renewed_while_a_process_that_stops_lets_the_task_end(bare: Scene) -> None:
    (gate, _) = gates(bare, "build", 2)
    stopping = bare.start()
    task_id = bare.done("build")
    stopped = stopping.stopService()
    bare.start()
    bare.advance(300.0)
    assert (bare.did, bare.row(task_id).fence) == (["build"], 1)
    gate.opened.callback(None)
    bare.advance(1.0)
    assert stopped.called and bare.state(task_id) == "done"


def test_no_lease_is_renewed_after_a_stop_that_was_cut_short(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Gate()))
    task_id = scene.done("build")
    stopped = scene.engine.stopService()
    stopped.addErrback(lambda _: None)
    stopped.cancel()
    until = scene.row(task_id).lease_until
    scene.advance(20.0)
    assert scene.row(task_id).lease_until == until


def test_a_dead_process_loses_its_tasks_when_their_leases_end(bare: Scene) -> None:
    waiting = gates(bare, "build", 2)
    dead = bare.start()
    task_id = bare.done("build")
    dead.kill()
    bare.start()
    bare.advance(30.0)
    assert len(bare.did) == 1
    bare.advance(1.0)
    row = bare.row(task_id)
    assert (bare.did, row.owner, row.fence) == (["build"] * 2, bare.engine.owner, 2)
    waiting[1].opened.callback(None)
    assert bare.state(task_id) == "done"


def test_a_task_whose_claim_was_committed_and_not_answered_runs_when_its_lease_ends(
    bare: Scene, logged_failures: LoggedFailures, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gate,) = gates(bare, "long", 1)
    bare.workflow("build", bare.step("build"))
    engine = bare.start()
    long_id = bare.done("long", "another")
    run = bare.db.run

    def unanswered(fn: Any, *args: Any) -> Any:
        monkeypatch.setattr(bare.db, "run", run)
        run(fn, *args)
        return fail(OperationalError("COMMIT", (), Exception("the connection is lost")))

    monkeypatch.setattr(bare.db, "run", unanswered)
    task_id = bare.done("build")
    assert len(logged_failures.flush(OperationalError)) == 1
    assert (bare.row(task_id).owner, bare.did) == (engine.owner, ["long"])
    bare.advance(32.0)
    assert (bare.state(task_id), bare.did) == ("done", ["long", "build"])
    assert (bare.row(long_id).owner, bare.row(long_id).fence) == (engine.owner, 1)
    gate.opened.callback(None)


def test_a_process_that_was_frozen_past_its_lease_writes_nothing(bare: Scene) -> None:
    frozen_gate, gate = Gate(), Gate()
    bare.workflow("build", bare.step("one", frozen_gate, gate), bare.step("two"))
    frozen = bare.start()
    task_id = bare.done("build")
    frozen.running = 0  # as SIGSTOP: its clocks do not fire
    frozen._stop_clocks()
    bare.start()
    bare.advance(32.0)
    assert bare.did == ["one", "one"]
    frozen.running = 1
    frozen_gate.opened.callback({"stale": True})
    row = bare.row(task_id)
    assert (row.owner, row.step, row.memo, frozen.counts.lost) == (bare.engine.owner, None, {}, 1)
    gate.opened.callback(None)
    bare.pump()
    assert (bare.state(task_id), bare.row(task_id).memo, bare.did) == ("done", {}, ["one", "one", "two"])


@pytest.mark.parametrize("call", ["write", "commit", "child", "failure"])
def test_no_stale_run_can_write_in_any_way(bare: Scene, call: str) -> None:
    gate = Gate()

    async def one(ctx: Context) -> None:
        await gate(ctx)
        if call == "write":
            await ctx.write(note)
        elif call == "commit":
            await ctx.commit(note)
        elif call == "child":
            await ctx.child("c", bare.kind("child"), "two")
        else:
            raise Transient("busy")

    def note(conn: Any) -> None:
        queue.submit(conn, bare.kind("noted"), "note", ANYBODY)

    bare.workflow("child")
    bare.workflow("build", bare.step("one", one, Wait(1000.0)), deadline=None)
    engine = bare.start()
    task_id = bare.done("build")
    bare.transact(lambda conn: conn.execute(update(TaskRow).values(fence=TaskRow.fence + 1)).rowcount)
    gate.opened.callback(None)
    bare.pump()
    assert [row.id for row in bare.transact(queue.listing)] == [task_id]
    assert engine.counts.lost == 1


def test_the_only_process_takes_over_at_once_what_a_dead_one_had(bare: Scene) -> None:
    gates(bare, "build", 2)
    bare.start(exclusive=True)
    bare.done("build")
    bare.engine.kill()
    bare.start(exclusive=True)
    bare.pump()
    assert bare.did == ["build", "build"]
    assert bare.engine.active == 1


def test_the_database_allows_one_active_task_a_resource(bare: Scene) -> None:
    values = {"resource_type": "thing", "resource_id": "one", "submitted_at": 0.0, "owner": "me"}
    bare.transact(lambda conn: conn.execute(insert(TaskRow).values(**values)).rowcount)
    with pytest.raises(IntegrityError):
        bare.transact(lambda conn: conn.execute(insert(TaskRow).values(**values)).rowcount)


def test_the_database_allows_no_forgotten_task(bare: Scene) -> None:
    values = {"resource_type": "thing", "resource_id": "one", "submitted_at": 0.0}
    with pytest.raises(IntegrityError):
        bare.transact(lambda conn: conn.execute(insert(TaskRow).values(**values)).rowcount)


# -- deaths, stops, a lost database


def test_a_crash_leaves_the_row_as_it_was_and_stops_the_engine(bare: Scene) -> None:
    bare.workflow("build", bare.step("one", Crash("now")))
    engine = bare.start()
    task_id = bare.done("build")
    row = bare.row(task_id)
    assert (row.state, row.owner, row.attempts, row.error) == ("running", engine.owner, 0, None)
    assert engine.dead
    bare.advance(100.0)
    assert bare.row(task_id) == row
    bare.start(exclusive=True)
    bare.pump()
    assert bare.state(task_id) == "done"


def test_what_a_dead_process_still_waited_for_does_nothing_when_it_comes(bare: Scene) -> None:
    gate = Gate()

    async def one(ctx: Context) -> None:
        await gate(ctx)
        ctx.drivers.did.append("an effect from the grave")

    bare.workflow("build", bare.step("one", one))
    bare.start()
    bare.done("build")
    bare.engine.kill()
    gate.opened.callback(None)
    assert bare.did == ["one"]


def test_a_stop_lets_the_step_end_and_gives_the_task_back(scene: Scene) -> None:
    gate = Gate()
    scene.workflow("build", scene.step("one", gate), scene.step("two"))
    task_id = scene.done("build")
    stopped = scene.engine.stopService()
    assert not stopped.called
    gate.opened.callback(None)
    assert stopped.called
    row = scene.row(task_id)
    assert (row.state, row.step, row.owner, scene.did) == ("running", "two", None, ["one"])
    assert scene.clock.getDelayedCalls() == []
    scene.start()
    scene.pump()
    assert scene.state(task_id) == "done"


def test_an_idle_engine_stops_at_once_and_can_start_again(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"))
    scene.pump()
    assert scene.engine.stopService().called
    task_id = scene.submit("build")
    scene.advance(5.0)
    assert scene.state(task_id) == "queued"
    scene.engine.startService()
    scene.pump()
    assert scene.state(task_id) == "done"


def test_work_goes_on_when_a_lost_database_is_back(scene: Scene, logged_failures: LoggedFailures) -> None:
    gate = Gate()
    scene.workflow("build", scene.step("one", gate), scene.step("two", commits))
    task_id = scene.done("build")
    scene.database_is_gone = True
    gate.opened.callback(None)
    scene.advance(20.0)
    # The claims of twenty seconds are told once; the task and the renewals are, each time.
    assert len(logged_failures.flush(OperationalError)) == 2
    scene.database_is_gone = False
    scene.advance(1.0)
    assert scene.state(task_id) == "done"
    assert scene.did == ["one", "one", "two"]


def test_a_renewal_that_fails_is_logged_and_repeated(scene: Scene, logged_failures: LoggedFailures) -> None:
    (gate,) = gates(scene, "build", 1)
    task_id = scene.done("build")
    scene.database_is_gone = True
    scene.advance(10.0)
    scene.database_is_gone = False
    assert len(logged_failures.flush(OperationalError)) == 2
    scene.advance(10.0)
    assert scene.row(task_id).lease_until == scene.clock.seconds() + 30.0
    gate.opened.callback(None)
    assert scene.state(task_id) == "done"


def test_a_task_that_came_back_to_a_thawed_process_waits_for_its_stale_run_to_end(bare: Scene) -> None:
    stale = Gate()
    bare.workflow("build", bare.step("one", stale, Wait(5.0)))
    frozen = bare.start()
    task_id = bare.done("build")
    frozen.running = 0
    frozen._stop_clocks()
    other = bare.start()
    bare.advance(32.0)
    assert bare.state(task_id) == "waiting"
    other.kill()
    frozen.startService()
    bare.advance(20.0)
    # Due, but this process must not work on it twice at once.
    assert (bare.did, bare.row(task_id).owner) == (["one", "one"], None)
    stale.opened.callback(None)
    bare.advance(1.0)
    assert (bare.did, bare.state(task_id)) == (["one", "one", "one"], "done")
