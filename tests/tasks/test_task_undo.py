"""Backward: undo, restart elsewhere, hooks, held tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.tasks import Context, Transient, TryElsewhere, Wait, queue
from cloudctl.tasks.workflow import Cancelled, Reason, Task
from tests.conftest import LoggedFailures
from tests.tasks.scene import ANYBODY, Scene


def nothing(_conn: Connection) -> None:
    pass


async def commits(ctx: Context) -> None:
    await ctx.commit(nothing)


def test_a_failure_undoes_the_failed_step_and_those_before_it_in_reverse(scene: Scene) -> None:
    scene.workflow(
        "build", scene.step("one"), scene.step("two"), scene.step("three", Conflict("no")), scene.step("four")
    )
    row = scene.row(scene.done("build"))
    assert scene.did == ["one", "two", "three", "undo three", "undo two", "undo one", "build failed: no"]
    assert (row.state, row.error, row.owner, row.not_before) == ("failed", "no", None, None)
    assert [(entry["step"], entry["result"]) for entry in row.log] == [
        ("one", "success"),
        ("two", "success"),
        ("three", "error"),
        ("three", "undone"),
        ("two", "undone"),
        ("one", "undone"),
    ]
    assert all(entry["ended_at"] is not None for entry in row.log)


def test_a_refusal_is_not_logged_as_a_bug_but_anything_unforeseen_is(
    scene: Scene, logged_failures: LoggedFailures
) -> None:
    scene.workflow("refused", scene.step("one", Conflict("no")))
    scene.workflow("broken", scene.step("two", KeyError("x")))
    scene.done("refused")
    assert logged_failures.flush() == []
    assert scene.state(scene.done("broken")) == "failed"
    assert [failure.type for failure in logged_failures.flush()] == [KeyError]


def test_steps_without_undo_are_passed_over(scene: Scene) -> None:
    plain = scene.step("plain")
    steps = (scene.step("one"), type(plain)("plain", plain.do), scene.step("three", Conflict("no")))
    scene.workflow("build", *steps)
    scene.done("build")
    assert scene.did == ["one", "plain", "three", "undo three", "undo one", "build failed: no"]


def test_an_undo_that_fails_is_tried_again_and_the_others_follow(scene: Scene, logged_failures: LoggedFailures) -> None:
    scene.workflow("build", scene.step("one"), scene.step("two", Conflict("no"), undo=[Transient("x"), KeyError("y")]))
    task_id = scene.done("build")
    assert scene.state(task_id) == "undoing"
    scene.advance(0.5)
    assert logged_failures.flush(KeyError)
    scene.advance(1.0)
    assert scene.did == ["one", "two", "undo two", "undo two", "undo two", "undo one", "build failed: no"]
    assert (scene.state(task_id), scene.row(task_id).error) == ("failed", "no")


def test_an_undo_may_wait(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Conflict("no"), undo=[Wait(3.0)]))
    task_id = scene.done("build")
    assert (scene.state(task_id), scene.engine.active) == ("undoing", 0)
    scene.advance(3.0)
    assert scene.did == ["one", "undo one", "undo one", "build failed: no"]


def test_an_undo_may_commit_and_the_last_commit_includes_the_end(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", undo=[commits]), scene.step("two", Conflict("no"), undo=[commits]))
    scene.pump()
    scene.transactions.clear()
    assert scene.state(scene.done("build")) == "failed"
    assert scene.did[-1] == "build failed: no"
    assert scene.transactions == {"_find": 1, "step_over": 1, "turn_back": 1, "committing": 2}


def test_a_failing_hook_is_tried_again_and_what_it_wrote_is_rolled_back(
    scene: Scene, logged_failures: LoggedFailures
) -> None:
    failures = [KeyError("a bug in the hook")]

    def failed(conn: Connection, task: Any, why: str, now: datetime) -> None:
        queue.submit(conn, scene.kind("fault"), "two", ANYBODY)
        if failures:
            raise failures.pop()

    scene.workflow("fault", resource="thing")
    scene.workflow("build", scene.step("one", Conflict("no")), on_failure=failed)
    task_id = scene.done("build")
    assert scene.state(task_id) == "undoing"
    assert logged_failures.flush(KeyError)
    scene.advance(1.0)
    assert scene.state(task_id) == "failed"
    assert [row.kind for row in scene.transact(queue.listing)] == ["fault", "build"]


def test_a_hook_that_keeps_failing_leaves_the_task_held(scene: Scene, logged_failures: LoggedFailures) -> None:
    def failed(conn: Connection, task: Any, why: str, now: datetime) -> None:
        raise Conflict("never")

    plain = scene.step("one", Conflict("no"))
    scene.workflow("build", type(plain)("one", plain.do), on_failure=failed)
    task_id = scene.done("build")
    scene.advance(3600)
    row = scene.row(task_id)
    assert (row.state, row.error) == ("held", "undo of the end failed: never; the task failed first because: no")


# -- why


@pytest.mark.parametrize(
    ("error", "why"),
    [(Conflict("no"), Reason.FAILED), (TryElsewhere("down"), Reason.ELSEWHERE), (Cancelled(), Reason.CANCELLED)],
)
def test_an_undo_knows_why_the_task_turns_back_in_a_later_process_too(
    scene: Scene, error: Exception, why: Reason
) -> None:
    seen: list[Reason | None] = []

    async def look(ctx: Context) -> None:
        seen.append(ctx.reason)

    async def dies(ctx: Context) -> None:
        seen.append(ctx.reason)
        scene.engine.kill()

    async def fails(ctx: Context) -> None:
        seen.append(ctx.reason)
        raise error

    scene.workflow("build", scene.step("one", fails, undo=[dies, look]))
    task_id = scene.done("build")
    assert scene.row(task_id).memo["_why"] == why.value
    scene.start(exclusive=True)
    scene.pump()
    assert seen == [None, why, why]


def test_a_hook_knows_what_the_task_failed_by_and_what_its_steps_remembered(scene: Scene) -> None:
    class Full(Conflict):
        pass

    told: list[Any] = []

    def failed(_conn: Connection, task: Task, why: str, _now: datetime) -> None:
        told.append((why, task.failed_by(Full), task.failed_by(Conflict), task.memo["one"]))

    async def dies(_ctx: Context) -> None:
        scene.engine.kill()

    scene.workflow(
        "build", scene.step("one", {"host": "h1"}), scene.step("two", Full("no room"), undo=[dies]), on_failure=failed
    )
    scene.done("build")
    assert told == []
    scene.start(exclusive=True)
    scene.pump()
    assert told == [("no room", True, False, {"host": "h1"})]


def test_a_hook_knows_that_no_exception_made_the_task_fail(scene: Scene) -> None:
    told: list[bool] = []

    def failed(_conn: Connection, task: Task, _why: str, _now: datetime) -> None:
        told.append(task.failed_by(Conflict))

    scene.workflow("build", scene.step("one", Wait(600.0)), deadline=60.0, on_failure=failed)
    scene.done("build")
    scene.advance(60.0)
    assert told == [False]


# -- elsewhere


def test_try_elsewhere_undoes_and_starts_again_knowing_what_failed(scene: Scene) -> None:
    known: list[Any] = []

    async def schedule(ctx: Context) -> Any:
        failed = ctx.task.tried
        known.append([memo["schedule"]["host"] for memo in failed])
        return {"host": f"h{len(failed)}"}

    down = [TryElsewhere("host is down")] * 2
    first = scene.step("schedule", schedule, schedule, schedule)
    scene.workflow("build", first, scene.step("run", *down), restarts=2)
    row = scene.row(scene.done("build"))
    once = ["schedule", "run", "undo run", "undo schedule"]
    assert scene.did == [*once, *once, "schedule", "run"]
    assert known == [[], ["h0"], ["h0", "h1"]]
    assert (row.state, row.restarts, row.error) == ("done", 2, None)
    assert row.memo["schedule"] == {"host": "h2"}


def test_try_elsewhere_fails_when_no_restart_is_left(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", *[TryElsewhere("host is down")] * 3), restarts=1)
    with capturedLogs() as lines:
        task_id = scene.done("build")
    assert scene.state(task_id) == "failed"
    told = [formatEvent(each).partition(": ")[2] for each in lines if each["log_namespace"] == "cloudctl.tasks.run"]
    assert told == ["one will be tried elsewhere: host is down", "step one failed: host is down"]
    assert scene.did == ["one", "undo one", "one", "undo one", "build failed: host is down"]


def test_a_task_that_is_cancelled_while_it_undoes_does_not_start_elsewhere(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", TryElsewhere("down"), undo=[Wait(5.0)]), restarts=1)
    task_id = scene.done("build")
    scene.cancel()
    scene.pump()
    assert scene.did == ["one", "undo one", "undo one", "build cancelled"]
    assert scene.state(task_id) == "cancelled"


# -- held


def held(scene: Scene) -> int:
    undo = [Conflict("stuck")] * 20
    scene.workflow("build", scene.step("one"), scene.step("two", Conflict("no"), undo=undo))
    task_id = scene.done("build")
    scene.advance(3600)
    assert scene.state(task_id) == "held"
    return task_id


def test_an_undo_that_never_works_leaves_the_task_held_and_visible(scene: Scene) -> None:
    task_id = held(scene)
    row = scene.row(task_id)
    assert scene.did == ["one", "two", *["undo two"] * 20]
    assert row.error == "undo of two failed: stuck; the task failed first because: no"
    assert (row.owner, row.not_before, row.ended_at) == (None, None, None)
    assert [row.id for row in scene.transact(queue.listing, states=("held",))] == [task_id]
    assert scene.engine.counts.ended["build", "held"] == 1


def test_a_held_task_that_is_retried_goes_on_where_it_stood_with_fresh_attempts_and_time(scene: Scene) -> None:
    task_id = held(scene)
    scene.did.clear()
    scene.transact(queue.retry, task_id)
    row = scene.row(task_id)
    assert (row.state, row.attempts, row.deadline) == ("undoing", 0, scene.clock.seconds() + 1800)
    scene.pump()
    assert scene.state(task_id) == "failed"
    assert scene.did[:2] == ["undo two", "undo one"]


def test_a_task_held_for_its_unknown_kind_goes_forward_when_it_is_retried(scene: Scene) -> None:
    task_id = scene.done("build")
    scene.workflow("build", scene.step("one"))
    scene.transact(queue.retry, task_id)
    scene.pump()
    assert scene.state(task_id) == "done"


def test_a_held_task_does_not_block_newer_ones_and_is_not_retried_while_they_are_open(scene: Scene) -> None:
    task_id = held(scene)
    scene.workflow("newer", scene.step("three", Wait(5.0)))
    newer = scene.done("newer")
    assert scene.state(newer) == "waiting"
    with pytest.raises(Conflict, match="newer open tasks"):
        scene.transact(queue.retry, task_id)
    assert scene.state(task_id) == "held"
    scene.advance(5.0)
    scene.transact(queue.retry, task_id)
    assert scene.state(task_id) == "undoing"


def test_only_a_held_task_can_be_retried(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"))
    task_id = scene.done("build")
    with pytest.raises(Conflict, match="is done, not held"):
        scene.transact(queue.retry, task_id)
    with pytest.raises(NotFound):
        scene.transact(queue.retry, task_id + 1)


@pytest.mark.parametrize(
    ("requested", "resource", "voided"), [("remove", "one", True), ("remove", "two", False), ("look", "one", False)]
)
def test_work_is_void_once_its_resource_is_to_be_removed(
    scene: Scene, requested: str, resource: str, voided: bool
) -> None:
    assert is_void(scene, requested, resource) is voided


def test_work_that_makes_earlier_work_void_is_not_void_itself(scene: Scene) -> None:
    assert is_void(scene, "look", "one", voids=True) is False
    assert is_void(scene, "remove", "one", voids=True) is True


def is_void(scene: Scene, requested: str, resource: str, *, voids: bool = False) -> bool:
    """Whether that is so for the undo of a task of resource `one`, after a task of this kind has been requested."""
    said: list[bool] = []

    async def undo(ctx: Context) -> None:
        said.append(await ctx.is_void())
        if len(said) == 1:
            raise Transient("not yet")

    scene.workflow("build", scene.step("one", Conflict("no"), undo=[undo, undo]), voids=voids)
    scene.workflow("look", scene.step("two"))
    scene.workflow("remove", scene.step("three"), voids=True)
    scene.done("build")
    scene.submit(requested, resource)
    scene.advance(60)
    before, after = said
    assert not before
    return after
