"""Children: submitted once, waited for, told apart when they fail."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Kind, TryElsewhere, Wait, queue
from tests.conftest import LoggedFailures
from tests.tasks.scene import Scene, Somebody
from tests.tasks.test_task_cancel import Gate

MAKE = Kind("make", "volume", 1800.0)


async def with_child(ctx: Context) -> Any:
    """Wait for a child that makes a volume; fail as it does."""
    state = await ctx.child("volume", MAKE, "v1", {"size": 1})
    if state in ("queued", "running", "waiting", "undoing"):
        return Wait(600.0)
    if state != "done":
        raise Conflict(f"{state}: {await ctx.child_error('volume')}")
    return {"child": state, "error": await ctx.child_error("volume")}


def family(scene: Scene, *made: Any, **options: Any) -> int:
    scene.workflow("make", scene.step("make", *made), resource="volume")
    scene.workflow("build", scene.step("one", *[with_child] * 9), **options)
    return scene.done("build", by=Somebody("u", "p", "req-1"))


def test_a_parent_waits_without_a_slot_and_is_woken_at_once_when_the_child_ends(scene: Scene) -> None:
    gate = Gate()
    parent = family(scene, gate)
    child = scene.transact(queue.listing)[0]
    assert (child.kind, child.resource_type, child.resource_id, child.args) == ("make", "volume", "v1", {"size": 1})
    assert (child.request_id, child.user_id, child.project_id, child.parent_id) == ("req-1", "u", "p", parent)
    assert (scene.state(parent), scene.engine.active) == ("waiting", 1)
    gate.opened.callback(None)
    scene.pump()
    assert (scene.state(parent), scene.row(parent).memo) == ("done", {"one": {"child": "done", "error": None}})
    assert len(scene.transact(queue.listing)) == 2


def test_a_child_that_fails_is_seen_by_its_parent_with_its_error(scene: Scene) -> None:
    parent = family(scene, Conflict("no space"))
    assert (scene.state(parent), scene.row(parent).error) == ("failed", "failed: no space")


def test_a_child_that_is_held_wakes_its_parent(scene: Scene) -> None:
    gate = Gate()
    parent = family(scene, gate)
    scene.script["undo make"] = [Conflict("stuck")] * 20
    gate.opened.errback(Conflict("no space"))
    scene.advance(599.0)
    assert scene.state(parent) == "waiting"
    scene.advance(600.0)
    assert scene.state(parent) == "failed"
    assert scene.row(parent).error.startswith("held: undo of make failed: stuck")


def test_a_child_that_ends_while_its_parent_still_runs_does_wake_it(scene: Scene) -> None:
    gate = Gate()

    async def slow(ctx: Context) -> Any:
        if await ctx.child("volume", MAKE, "v1") == "done":
            return None
        await gate(ctx)
        return Wait(600.0)

    scene.workflow("make", scene.step("make"), resource="volume")
    scene.workflow("build", scene.step("one", slow, slow))
    parent = scene.done("build")
    assert scene.did == ["one", "make"]
    gate.opened.callback(None)
    scene.pump()
    assert scene.state(parent) == "done"


def test_a_parent_that_starts_elsewhere_starts_its_children_anew(scene: Scene) -> None:
    async def elsewhere(ctx: Context) -> Any:
        outcome = await with_child(ctx)
        if isinstance(outcome, Wait):
            return outcome
        raise TryElsewhere("not here")

    scene.workflow("make", scene.step("make"), resource="volume")
    scene.workflow("build", scene.step("one", elsewhere, elsewhere, *[with_child] * 2), restarts=1)
    parent = scene.done("build")
    assert scene.state(parent) == "done"
    assert scene.did == ["one", "make", "one", "undo one", "one", "make", "one"]


def test_the_undo_of_a_parent_may_stop_a_child_and_wait_for_its_end(scene: Scene) -> None:
    async def stop(ctx: Context) -> Any:
        state = await ctx.cancel_child("volume")
        return Wait(600.0) if state in ("queued", "running", "waiting", "undoing") else None

    gate = Gate()
    parent = family(scene, gate)
    scene.script["undo one"] = [stop, stop]
    scene.cancel()
    scene.pump()
    assert scene.did == ["one", "make", "undo one"]
    gate.opened.errback(Conflict("stopped"))
    scene.pump()
    assert scene.did == ["one", "make", "undo one", "undo make", "make failed: stopped", "undo one", "build cancelled"]
    assert scene.state(parent) == "cancelled"


def test_cancelling_a_child_that_is_not_there_says_so(scene: Scene) -> None:
    seen = []

    async def one(ctx: Context) -> None:
        seen.append((await ctx.cancel_child("volume"), await ctx.child_error("volume")))

    scene.workflow("build", scene.step("one", one))
    scene.done("build")
    assert seen == [(None, None)]


@pytest.mark.parametrize(("kind", "resource_id"), [("nothing", "v1"), ("build", "one")])
def test_impossible_children_are_refused(
    scene: Scene, logged_failures: LoggedFailures, kind: str, resource_id: str
) -> None:
    async def one(ctx: Context) -> None:
        await ctx.child("c", scene.kind(kind), resource_id)

    scene.workflow("build", scene.step("one", one))
    assert scene.state(scene.done("build")) == "failed"
    assert logged_failures.flush(ValueError)
