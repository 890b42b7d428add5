"""Cancelling, and deadlines."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Transient, Wait, queue
from cloudctl.tasks.workflow import Cancelled
from tests.conftest import LoggedFailures
from tests.tasks.scene import ANYBODY, Scene


class Gate:
    """An outcome that keeps its step waiting in a driver call."""

    def __init__(self) -> None:
        self.opened: Deferred[Any] = Deferred()

    async def __call__(self, ctx: Context) -> Any:
        self.context = ctx
        return await self.opened


def nothing(_conn: Connection) -> None:
    pass


async def commits(ctx: Context) -> None:
    await ctx.commit(nothing)


def test_a_queued_task_that_is_cancelled_ends_without_a_step_or_an_undo(bare: Scene) -> None:
    bare.workflow("build", bare.step("one"))
    task_id = bare.submit("build")
    assert bare.cancel() == 1
    bare.start()
    bare.pump()
    row = bare.row(task_id)
    assert bare.did == ["build cancelled"]
    assert (row.state, row.error, row.owner) == ("cancelled", "cancelled", None)


def test_a_running_task_that_is_cancelled_ends_its_step_and_is_undone(scene: Scene) -> None:
    gate = Gate()
    scene.workflow("build", scene.step("one"), scene.step("two", gate), scene.step("three"))
    task_id = scene.done("build")
    scene.cancel()
    scene.pump()
    assert scene.did == ["one", "two"]
    gate.opened.callback(None)
    scene.pump()
    assert scene.did == ["one", "two", "undo three", "undo two", "undo one", "build cancelled"]
    assert scene.state(task_id) == "cancelled"


def test_a_long_step_sees_at_once_that_its_task_is_cancelled_and_may_stop(scene: Scene) -> None:
    gate = Gate()
    scene.workflow("build", scene.step("one", gate), scene.step("two"))
    task_id = scene.done("build")
    assert not gate.context.cancelled
    scene.cancel()
    assert gate.context.cancelled
    gate.opened.errback(Cancelled())
    scene.pump()
    assert scene.did == ["one", "undo one", "build cancelled"]
    assert scene.state(task_id) == "cancelled"


def test_a_parked_task_that_is_cancelled_is_undone_at_once(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.step("two", Wait(600.0)))
    task_id = scene.done("build")
    scene.cancel()
    scene.pump()
    assert scene.did == ["one", "two", "undo two", "undo one", "build cancelled"]
    assert scene.state(task_id) == "cancelled"


def test_a_task_that_backs_off_just_as_it_is_cancelled_is_undone_at_once(scene: Scene) -> None:
    gate = Gate()
    scene.workflow("build", scene.step("one", gate))
    task_id = scene.done("build")
    scene.cancel()
    gate.opened.errback(Transient("busy"))
    scene.pump()
    assert scene.state(task_id) == "cancelled"


def test_a_task_whose_last_step_ends_before_the_cancel_is_seen_is_done(scene: Scene) -> None:
    gate = Gate()
    scene.workflow("build", scene.step("one", gate))
    task_id = scene.done("build")
    scene.cancel()
    gate.opened.callback(None)
    scene.pump()
    assert scene.state(task_id) == "done"


def test_what_was_submitted_after_the_cancel_runs_after_the_undo(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Wait(600.0)))
    scene.workflow("delete", scene.step("remove"))
    scene.done("build")

    def delete(conn: Connection) -> None:
        queue.cancel_open(conn, "thing", "one")
        queue.submit(conn, scene.kind("delete"), "one", ANYBODY)

    scene.transact(delete)
    scene.pump()
    assert scene.did == ["one", "undo one", "build cancelled", "remove"]


def test_cancel_spares_the_kinds_to_keep_and_other_resources(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", *[Wait(600.0)] * 3))
    scene.workflow("delete", scene.step("remove"))
    scene.done("build", "other")
    scene.done("build")
    newer = scene.done("delete")
    assert scene.cancel(keep=("build", "delete")) == 0
    assert scene.cancel(keep=("build",)) == 1
    scene.pump()
    assert scene.did == ["one", "one"]
    assert scene.cancel("nothing") == 0
    assert scene.cancel(keep=("delete",)) == 1
    scene.pump()
    assert (scene.state(newer), scene.did[2:]) == ("cancelled", ["undo one", "build cancelled", "delete cancelled"])


def test_a_task_that_was_failing_stays_failed_though_it_is_cancelled(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", *[Transient("x")] * 2, attempts=2, undo=[Wait(600.0)]))
    task_id = scene.done("build")
    scene.advance(1.0)
    scene.cancel()
    scene.pump()
    assert scene.state(task_id) == "failed"
    assert scene.did[-1] == "build failed: one: x"


# -- deadlines


def test_a_task_that_comes_to_its_turn_too_late_fails_without_a_step(bare: Scene) -> None:
    bare.workflow("build", bare.step("one"), deadline=10.0)
    task_id = bare.submit("build")
    bare.clock.advance(10.0)
    bare.start()
    bare.pump()
    assert bare.did == ["build failed: the deadline has passed"]
    assert bare.row(task_id).error == "the deadline has passed"


def test_a_waiting_task_is_woken_and_undone_at_its_deadline(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.step("two", Wait(600.0)), deadline=20.0)
    task_id = scene.done("build")
    scene.advance(19.9)
    assert scene.state(task_id) == "waiting"
    scene.advance(0.1)
    assert scene.did == ["one", "two", "undo two", "undo one", "build failed: the deadline has passed"]
    assert scene.state(task_id) == "failed"


def test_retries_end_at_the_deadline(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", *[Transient("busy")] * 99, attempts=99), deadline=3.0)
    task_id = scene.done("build")
    scene.advance(3.0)
    assert scene.did == ["one"] * 3 + ["undo one", "build failed: the deadline has passed"]
    assert scene.row(task_id).ended_at == scene.row(task_id).submitted_at + 3.0


def test_a_step_that_hangs_is_interrupted_at_the_deadline(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Gate()), deadline=30.0)
    task_id = scene.done("build")
    scene.advance(29.9)
    assert scene.state(task_id) == "running"
    scene.advance(0.1)
    assert scene.did == ["one", "undo one", "build failed: one: the deadline has passed"]
    assert scene.state(task_id) == "failed"


def test_a_step_that_will_not_be_interrupted_is_the_last_one(scene: Scene) -> None:
    async def stubborn(ctx: Context) -> None:
        try:
            await Deferred()
        except Exception:
            await ctx.write(nothing)

    scene.workflow("build", scene.step("one", stubborn), scene.step("two"), deadline=5.0)
    task_id = scene.done("build")
    scene.advance(5.0)
    assert scene.did == ["one", "undo two", "undo one", "build failed: the deadline has passed"]
    assert scene.state(task_id) == "failed"


def test_undoing_has_no_deadline(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", Gate(), undo=[Wait(100.0)]), deadline=5.0)
    task_id = scene.done("build")
    scene.advance(100.0)
    assert scene.state(task_id) == "undoing"
    scene.advance(5.0)
    assert scene.state(task_id) == "failed"


def test_the_deadline_does_not_interrupt_an_undo_but_a_hanging_one_is_tried_again(
    scene: Scene, logged_failures: LoggedFailures
) -> None:
    scene.workflow("build", scene.step("one", Conflict("no"), undo=[Gate()]), deadline=5.0)
    task_id = scene.done("build")
    scene.advance(1799.0)
    assert (scene.state(task_id), scene.did) == ("undoing", ["one", "undo one"])
    scene.advance(2.0)
    assert scene.did == ["one", "undo one", "undo one", "build failed: no"]
    assert logged_failures.flush(CancelledError)


def test_no_timer_is_left_when_a_task_has_ended(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", commits))
    scene.pump()
    before = len(scene.clock.getDelayedCalls())
    scene.done("build")
    assert len(scene.clock.getDelayedCalls()) == before
