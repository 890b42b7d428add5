"""Submitting and reading, apart from any engine."""

from __future__ import annotations

import pytest

from cloudctl import context
from cloudctl.db import Connection
from cloudctl.tasks import Kind, queue
from tests.tasks.scene import ANYBODY, Scene, Somebody


def test_a_submission_that_is_rolled_back_was_never_there(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"))

    def submit_and_fail(conn: Connection) -> None:
        queue.submit(conn, scene.kind("build"), "one", ANYBODY)
        raise KeyError

    with pytest.raises(KeyError):
        scene.transact(submit_and_fail)
    scene.advance(2.0)
    assert (scene.did, scene.transact(queue.listing)) == ([], [])


def test_the_request_id_is_that_of_the_origin_and_else_of_the_present_request(bare: Scene) -> None:
    token = context.request_id.set(context.new_request_id())
    try:
        assert bare.row(bare.submit("build")).request_id == context.request_id.get()
        assert bare.row(bare.submit("build", by=Somebody("u", "p", "req-x"))).request_id == "req-x"
    finally:
        context.request_id.reset(token)
    # Work that nobody asked for is found by one as well.
    assert bare.row(bare.submit("build")).request_id.startswith("req-")


def test_request_ids_are_unlike_each_other() -> None:
    one, two = context.new_request_id(), context.new_request_id()
    assert one != two
    assert (one[:4], len(one)) == ("req-", 40)


def test_submit_once_submits_unless_such_a_task_has_not_begun(bare: Scene) -> None:
    def once(resource_id: str = "one", kind: str = "sync") -> object:
        return bare.transact(queue.submit_once, bare.kind(kind), resource_id, ANYBODY)

    first = once()
    assert first is not None
    assert once() is None
    assert once("two") is not None
    assert once(kind="other") is not None
    bare.cancel()
    assert once() is not None


def test_submit_once_submits_again_while_the_first_one_runs(scene: Scene) -> None:
    again = []

    async def one(_ctx: object) -> None:
        again.append(scene.transact(queue.submit_once, scene.kind("sync"), "one", ANYBODY))

    scene.workflow("sync", scene.step("one", one))
    scene.done("sync")
    assert again != [None]
    assert scene.did == ["one", "one"]


def test_has_open_looks_at_open_tasks_of_the_kinds(scene: Scene) -> None:
    scene.workflow("quick", scene.step("one"))
    scene.done("quick")
    assert not scene.transact(queue.has_open, "thing", "one")
    scene.submit("unknown")
    assert scene.transact(queue.has_open, "thing", "one")
    assert scene.transact(queue.has_open, "thing", "one", (Kind("unknown", "thing"), scene.kind("quick")))
    assert not scene.transact(queue.has_open, "thing", "one", (scene.kind("quick"),))
    assert not scene.transact(queue.has_open, "thing", "two")
    scene.pump()
    assert not scene.transact(queue.has_open, "thing", "one")


def test_listing_is_newest_first_and_filtered(scene: Scene) -> None:
    scene.workflow("a", scene.step("one"))
    scene.workflow("b", scene.step("two"), resource="net")
    ids = [
        scene.done("a", "x", by=Somebody("u", "p", "req-1")),
        scene.done("b", "x"),
        scene.done("a", "y"),
        scene.done("c", "x"),
    ]

    def listed(**filters: object) -> list[int]:
        return [ids.index(row.id) for row in scene.transact(queue.listing, **filters)]

    assert listed() == [3, 2, 1, 0]
    assert listed(limit=2) == [3, 2]
    assert listed(before=ids[2]) == [1, 0]
    assert listed(states=("held",)) == [3]
    assert listed(kinds=(scene.kind("a"), scene.kind("b"))) == [2, 1, 0]
    assert listed(resource=("thing", "x")) == [3, 0]
    assert listed(request_id="req-1") == [0]


def test_an_unknown_task_is_none(bare: Scene) -> None:
    assert bare.transact(queue.get, 7) is None


def test_cancel_of_one_task(scene: Scene) -> None:
    scene.workflow("build", scene.step("one"))
    ended = scene.done("build")
    assert scene.transact(queue.cancel, ended) is False
    assert scene.transact(queue.cancel, scene.submit("build")) is True
