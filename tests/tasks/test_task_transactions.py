"""Steps that only change the database: they share the transaction that brings the task to them."""

from __future__ import annotations

from typing import Any

from twisted.logger import capturedLogs, formatEvent

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Transient, queue, submit
from tests.tasks.scene import ANYBODY, Scene


def nothing(_conn: Connection) -> None:
    pass


async def commits(ctx: Context) -> None:
    await ctx.commit(nothing)


def costs(scene: Scene) -> dict[str, int]:
    """The transactions of one task, less the one that claims it."""
    scene.pump()
    scene.transactions.clear()
    scene.done("build")
    assert scene.transactions.pop("_find") == 1
    return dict(scene.transactions)


def test_it_is_done_in_the_transaction_that_completes_the_step_before(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.change("two"), scene.change("three"), scene.step("four"))
    assert costs(scene) == {"step_over": 2}
    assert scene.did == ["one", "two", "three", "four"]


def test_one_before_it_that_commits_takes_it_along_to_the_end(scene: Scene) -> None:
    scene.workflow("build", scene.step("one", commits), scene.change("two"))
    assert costs(scene) == {"committing": 1}


def test_the_first_one_has_a_transaction_of_its_own_unless_its_task_is_claimed_as_it_is_submitted(scene: Scene) -> None:
    scene.workflow("build", scene.change("one"), scene.change("two"))
    assert costs(scene) == {"change": 1}


def test_its_entry_in_the_log_is_like_any_other(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"), scene.change("two"))
    start = scene.clock.seconds()
    row = scene.row(scene.done("build"))
    assert (row.state, row.progress) == ("done", 100)
    assert [(entry["step"], entry["started_at"], entry["ended_at"], entry["result"]) for entry in row.log] == [
        ("one", start, start, "success"),
        ("two", start, start, "success"),
    ]


def test_what_it_raises_there_is_taken_back_and_counts_once_it_is_done_by_itself(scene: Scene) -> None:
    def submits(resource_id: str) -> Any:
        def change(conn: Connection) -> None:
            submit(conn, scene.kind("other"), resource_id, ANYBODY)
            if resource_id == "first":
                raise Conflict("it was shared")

        return change

    scene.workflow("other", scene.step("another"))
    scene.workflow("build", scene.step("one"), scene.change("two", submits("first"), submits("second")))
    with capturedLogs() as events:
        task_id = scene.done("build")
    assert scene.state(task_id) == "done"
    assert scene.did == ["one", "two", "two", "another"]
    assert f"task {task_id}: step two is done by itself: it was shared" in map(formatEvent, events)
    others = [row.resource_id for row in scene.transact(queue.listing) if row.kind == "other"]
    assert others == ["second"]


def test_it_fails_and_is_tried_again_as_any_step(scene: Scene) -> None:
    trouble = Transient("busy"), Transient("busy"), Conflict("no"), Conflict("no")
    scene.workflow("build", scene.step("one"), scene.change("two", *trouble))
    task_id = scene.done("build")
    assert scene.row(task_id).attempts == 1
    scene.advance(1.0)
    assert scene.state(task_id) == "failed"
    assert scene.did == ["one", "two", "two", "two", "undo two", "undo one", "build failed: no"]


def test_a_task_that_is_cancelled_before_it_does_not_do_it(scene: Scene) -> None:
    async def cancels(_ctx: Context) -> None:
        scene.cancel()

    scene.workflow("build", scene.step("one", cancels), scene.change("two"))
    assert scene.state(scene.done("build")) == "cancelled"
    # It was taken back as soon as the row said so; its undo cannot know how far it got.
    assert scene.did == ["one", "two", "undo two", "undo one", "build cancelled"]
    assert "change" not in scene.transactions


def submitted_as_with_a_file(scene: Scene, *resources: str) -> list[str | None]:
    """Submit tasks and claim them in the same transaction; the steps at which they are on the disk. Then run them."""

    def submitting(conn: Connection) -> Any:
        for each in resources:
            submit(conn, scene.kind("build"), each, ANYBODY)
        return scene.engine._claim_within(conn)

    scene.pump()
    found = scene.transact(submitting)
    steps = [row.step for row in scene.transact(queue.listing)]
    scene.transactions.clear()
    scene.engine._claimed_within(found)
    scene.pump()
    del scene.transactions["_find"]  # a commit in memory is announced all the same
    assert {row.state for row in scene.transact(queue.listing)} == {"done"}
    return steps


def test_the_first_one_is_done_where_its_task_is_submitted_and_claimed(scene: Scene) -> None:
    scene.workflow("build", scene.change("one"), scene.change("two"), scene.step("three"))
    assert submitted_as_with_a_file(scene, "here") == ["three"]
    assert scene.did == ["one", "two", "three"]
    assert scene.transactions == {"step_over": 1}


def test_a_task_that_is_nothing_else_is_done_with_its_request(scene: Scene) -> None:
    scene.workflow("build", scene.change("one"))
    submitted_as_with_a_file(scene, "here")
    assert scene.did == ["one"]
    assert not scene.transactions
    assert scene.engine.counts.ended == {("build", "done"): 1}


def test_the_first_ones_of_several_tasks_are_done_by_themselves(scene: Scene) -> None:
    scene.workflow("build", scene.change("one"), scene.step("two"))
    assert submitted_as_with_a_file(scene, "here", "there") == [None, None]
    assert scene.transactions == {"change": 2, "step_over": 2}


def test_a_first_one_that_fails_there_leaves_its_task_to_begin_by_itself(scene: Scene) -> None:
    scene.workflow("build", scene.change("one", Conflict("not now")), scene.step("two"))
    assert submitted_as_with_a_file(scene, "here") == [None]
    assert scene.did == ["one", "one", "two"]
