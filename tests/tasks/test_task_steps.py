"""Forward: steps, memos, commits, retries."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from cloudctl import context
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Kind, Step, Transient, Wait, Workflow
from cloudctl.tasks.run import backoff
from cloudctl.tasks.tables import TaskRow
from tests.conftest import LoggedFailures
from tests.tasks.scene import Scene


def nothing(_conn: Connection) -> None:
    pass


async def commits(ctx: Context) -> None:
    await ctx.commit(nothing)


def test_steps_run_in_order_and_the_task_is_done(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.step("two"), scene.step("three"))
    row = scene.row(scene.done("build"))
    assert scene.did == ["one", "two", "three"]
    assert (row.state, row.progress, row.owner, row.not_before, row.error) == ("done", 100, None, None, None)
    assert row.submitted_at == row.started_at == row.ended_at == scene.clock.seconds()


def test_a_workflow_without_steps_is_done_at_once(scene: Scene) -> None:
    scene.workflow("empty")
    assert scene.state(scene.done("empty")) == "done"


def test_a_task_runs_without_the_clock_moving_once_it_is_committed(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"))
    before = scene.clock.seconds()
    assert scene.state(scene.done("build")) == "done"
    assert scene.clock.seconds() == before


def test_memos_of_earlier_steps_are_read_as_json_gives_them(scene: Scene) -> None:
    seen = {}

    async def first(ctx: Context) -> Any:
        ctx.remember(chosen="a")
        return {"host": "h1", "sizes": (1, 2)}

    async def second(ctx: Context) -> None:
        seen.update(ctx.memo)

    scene.workflow("build", scene.step("one", first), scene.step("two", second))
    row = scene.row(scene.done("build"))
    assert seen == {"one": {"chosen": "a", "host": "h1", "sizes": [1, 2]}}
    assert row.memo == seen


def test_a_memo_that_is_no_json_fails_the_task(scene: Scene, logged_failures: LoggedFailures) -> None:
    scene.workflow("build", scene.step("one", {"bad": object()}))
    row = scene.row(scene.done("build"))
    assert row.state == "failed"
    assert "not JSON serializable" in row.error
    assert logged_failures.flush(TypeError)


def test_the_log_has_an_entry_a_step_however_often_it_was_tried(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Transient("busy"), Wait(2.0)), scene.step("two"))
    start = scene.clock.seconds()
    task_id = scene.done("build")
    assert scene.row(task_id).log == [{"step": "one", "started_at": start, "ended_at": None, "result": None}]
    scene.advance(3.0)
    assert scene.row(task_id).log == [
        {"step": "one", "started_at": start, "ended_at": start + 2.5, "result": "success"},
        {"step": "two", "started_at": start + 2.5, "ended_at": start + 2.5, "result": "success"},
    ]


def test_a_step_that_commits_costs_one_transaction_and_the_last_one_includes_the_end(scene: Scene) -> None:
    scene.workflow("build", *(scene.step(name, commits) for name in "abcde"))
    scene.pump()
    scene.transactions.clear()
    assert scene.state(scene.done("build")) == "done"
    assert scene.transactions.pop("_find") == 1
    assert scene.transactions == {"committing": 5}


def test_a_step_that_does_not_commit_costs_one_transaction(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.step("two"))
    scene.pump()
    scene.transactions.clear()
    assert scene.state(scene.done("build")) == "done"
    assert scene.transactions == {"_find": 1, "step_over": 2}


def test_an_idle_engine_looks_once_a_second(scene: Scene) -> None:
    scene.advance(10.5)
    scene.transactions.clear()
    scene.advance(10.0)
    assert scene.transactions == {"_rest": 10}, "it only reads"


def test_commit_returns_what_its_function_returned_and_stores_what_was_remembered(scene: Scene) -> None:
    got = []

    async def one(ctx: Context) -> None:
        ctx.remember(host="h1")
        got.append(await ctx.commit(lambda _conn, a, b: a + b, 1, b=2))

    scene.workflow("build", scene.step("one", one))
    row = scene.row(scene.done("build"))
    assert got == [3]
    assert row.memo == {"one": {"host": "h1"}}


def test_write_stores_what_was_remembered_though_the_step_goes_on(scene: Scene) -> None:
    async def one(ctx: Context) -> None:
        ctx.remember(volume="v1")
        await ctx.write(nothing)
        raise Transient("later")

    scene.workflow("build", scene.step("one", one))
    row = scene.row(scene.done("build"))
    assert (row.state, row.memo) == ("running", {"one": {"volume": "v1"}})


def test_a_failure_in_the_function_of_a_commit_rolls_it_back_and_the_step_has_failed(scene: Scene) -> None:
    async def one(ctx: Context) -> None:
        await ctx.commit(refuse)

    def refuse(_conn: Connection) -> None:
        raise Conflict("it is gone")

    scene.workflow("build", scene.step("one", one), scene.step("two"))
    assert scene.state(scene.done("build")) == "failed"
    assert scene.did == ["one", "undo one", "build failed: it is gone"]


@pytest.mark.parametrize("second", ["commits again", "returns a memo"])
def test_a_step_that_goes_on_after_its_commit_fails(scene: Scene, logged_failures: LoggedFailures, second: str) -> None:
    async def one(ctx: Context) -> Any:
        await ctx.commit(nothing)
        if second == "commits again":
            await ctx.commit(nothing)
        return {"lost": "in a crash"}

    scene.workflow("build", scene.step("one", one), scene.step("two"))
    assert scene.state(scene.done("build")) == "failed"
    assert scene.did[:2] == ["one", "undo one"]
    assert logged_failures.flush(RuntimeError)


def test_a_failure_after_the_last_commit_is_logged_and_the_task_is_done(
    scene: Scene, logged_failures: LoggedFailures
) -> None:
    async def one(ctx: Context) -> None:
        await ctx.commit(nothing)
        raise KeyError("too late")

    scene.workflow("build", scene.step("one", one))
    assert scene.state(scene.done("build")) == "done"
    assert scene.did == ["one"]
    assert logged_failures.flush(KeyError)


# -- again


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_the_back_off_doubles_up_to_a_minute_and_half_of_it_is_chance(chance: float) -> None:
    delays = [backoff(attempt, chance) for attempt in range(1, 30)]
    full = [min(60.0, 0.5 * 2**n) for n in range(29)]
    assert delays == [part * (0.5 + chance / 2) for part in full]


def test_a_transient_failure_is_tried_again_exactly_after_its_back_off(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Transient("busy"), Transient("busy still")))
    task_id = scene.done("build")
    row = scene.row(task_id)
    assert (row.state, row.attempts, row.error, row.owner) == ("running", 1, "busy", None)
    scene.advance(0.49)
    assert scene.did == ["one"]
    scene.advance(0.01)
    assert scene.did == ["one", "one"]
    scene.advance(0.99)
    assert scene.did == ["one", "one"]
    scene.advance(0.01)
    assert scene.did == ["one", "one", "one"]
    row = scene.row(task_id)
    assert (row.state, row.error) == ("done", None)


def test_a_step_that_never_works_fails_after_its_attempts(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.step("two", *[Transient("busy")] * 9, attempts=3))
    task_id = scene.done("build")
    scene.advance(60)
    assert scene.did == ["one", "two", "two", "two", "undo two", "undo one", "build failed: two: busy"]
    assert scene.row(task_id).error == "two: busy"


def test_attempts_are_counted_for_each_step_anew(scene: Scene) -> None:
    busy = [Transient("busy")] * 2
    scene.workflow("build", scene.step("one", *busy, attempts=3), scene.step("two", *busy, attempts=3))
    task_id = scene.done("build")
    scene.advance(60)
    assert scene.state(task_id) == "done"


def test_a_waiting_step_gives_up_its_slot_and_is_run_again_after_its_time(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Wait(poll=7.0)))
    task_id = scene.done("build")
    assert (scene.state(task_id), scene.engine.active) == ("waiting", 0)
    scene.advance(6.9)
    assert scene.did == ["one"]
    scene.advance(0.1)
    assert scene.did == ["one", "one"]
    assert scene.state(task_id) == "done"


def test_trouble_of_the_database_in_a_step_is_no_failure_of_the_step(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", OperationalError("SELECT 1", {}, Exception("server closed"))))
    task_id = scene.done("build")
    assert scene.state(task_id) == "running"
    scene.advance(1.0)
    assert scene.state(task_id) == "done"


# -- requests and names


def test_steps_run_under_the_request_id_that_submitted_them(scene: Scene) -> None:
    seen = []

    async def one(ctx: Context) -> None:
        seen.append(
            (context.request_id.get(), ctx.task.request_id, await ctx.read(lambda _c: context.request_id.get()))
        )

    scene.workflow("build", scene.step("one", one))
    token = context.request_id.set("req-1")
    task_id = scene.submit("build")
    context.request_id.set("req-2")
    scene.pump()
    assert seen == [("req-1", "req-1", "req-1")]
    assert context.request_id.get() == "req-2"
    assert scene.row(task_id).request_id == "req-1"
    context.request_id.reset(token)


def test_a_task_of_an_unknown_kind_is_held_and_runs_once_a_version_knows_it(scene: Scene) -> None:
    task_id = scene.done("build")
    row = scene.row(task_id)
    assert (row.state, row.error) == ("held", "this version knows no kind build")


def test_a_task_at_an_unknown_step_is_held(bare: Scene) -> None:
    bare.workflow("build", bare.step("old", Wait(1.0)))
    bare.start()
    task_id = bare.done("build")
    bare.transact(lambda conn: conn.execute(update(TaskRow).values(step="older")).rowcount)
    bare.advance(1.0)
    assert (bare.state(task_id), bare.row(task_id).error) == ("held", "this version knows no step older of build")


def test_a_renamed_step_is_found_by_its_former_name(scene: Scene) -> None:
    renamed = Workflow(
        scene.kind("build"), (scene.step("zero"), scene.step("new", aliases=("old",)), scene.step("end"))
    )
    assert [renamed.index(name) for name in (None, "zero", "new", "old", "end", "gone")] == [0, 0, 1, 1, 2, None]


@pytest.mark.parametrize("names", [("a", "a"), ("_a",), ("",), ("a" * 65,)])
def test_bad_names_of_steps_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="step names"):
        Workflow(Kind("build", "thing"), tuple(Step(name, commits) for name in names))


def test_two_workflows_of_one_kind_are_refused(scene: Scene) -> None:
    workflow = scene.workflow("build", scene.step("one"))
    with pytest.raises(ValueError, match="two workflows are called build"):
        scene.engine.register([workflow])
