"""The state machine as data, and the displayed status as a condition."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from sqlalchemy import insert, select
from twisted.internet.task import Clock

from cloudctl.compute import power
from cloudctl.compute.servers import check
from cloudctl.compute.states import ASKED, DELETING, MOVES, RESTORING, SOFT_DELETED, SOFT_DELETING
from cloudctl.compute.status import STATUS, STATUSES, showing, status
from cloudctl.compute.tables import Server
from cloudctl.db.columns import utc
from cloudctl.errors import Conflict
from cloudctl.testing.cloud import empty_database
from tests.house.source import modules

PAIRS = [(vm_state, task) for vm_state, (_, by_task) in STATUS.items() for task in (None, "deleting", *by_task)]


def row(**fields: object) -> Server:
    given: dict[str, Any] = {
        "id": "S",
        "vm_state": "active",
        "task_state": None,
        "locked_by": None,
        "launched_at": utc(1),
        **fields,
    }
    return Server(**{**dict.fromkeys(Server.table.c.keys()), **given})


@pytest.mark.parametrize(
    ("vm_state", "task_state", "word"),
    [
        ("building", "spawning", "BUILD"),
        ("active", None, "ACTIVE"),
        ("active", "rebooting", "REBOOT"),
        ("active", "reboot_started_hard", "HARD_REBOOT"),
        ("active", "powering-off", "ACTIVE"),
        ("stopped", None, "SHUTOFF"),
        ("stopped", "resize_prep", "RESIZE"),
        ("error", "rebuilding", "REBUILD"),
        ("soft-delete", None, "SOFT_DELETED"),
        ("unheard-of", None, "UNKNOWN"),
    ],
)
def test_the_status_follows_from_both_states(vm_state: str, task_state: str | None, word: str) -> None:
    assert status(vm_state, task_state) == word


def test_a_status_filter_shows_exactly_the_rows_with_that_status() -> None:
    db = empty_database(Clock())
    now = utc(0)
    rows = [
        {
            "id": f"{number}",
            "project_id": "p",
            "user_id": "u",
            "vm_state": vm_state,
            "task_state": task,
            "flavor_id": "1",
            "vcpus": 1,
            "memory_mib": 1,
            "created_at": now,
            "updated_at": now,
        }
        for number, (vm_state, task) in enumerate(PAIRS)
    ]
    db.transact(False, lambda conn: conn.execute(insert(Server), rows) and None)
    for word in STATUSES:
        found = db.transact(
            True, lambda conn, word=word: conn.execute(select(Server.id).where(showing([word]))).scalars().all()
        )
        assert {PAIRS[int(number)] for number in found} == {pair for pair in PAIRS if status(*pair) == word}


@pytest.mark.parametrize(
    ("action", "fields", "said"),
    [
        ("start", {}, "Cannot 'start' instance S while it is in vm_state active"),
        ("stop", {"task_state": "powering-off"}, "Cannot 'stop' instance S while it is in task_state powering-off"),
        ("stop", {"launched_at": None}, "Instance S is in an invalid state for 'stop'"),
        ("stop", {"locked_by": "admin"}, "Instance S is locked"),
        (
            "reboot_hard",
            {"task_state": "powering-on"},
            "Cannot 'reboot' instance S while it is in task_state powering-on",
        ),
        ("update metadata", {"task_state": "deleting"}, "while it is in task_state deleting"),
        ("attach_volume", {"vm_state": "error"}, "Cannot 'attach_volume' instance S while it is in vm_state error"),
    ],
)
def test_an_action_is_refused_with_its_reason(action: str, fields: dict[str, object], said: str) -> None:
    with pytest.raises(Conflict) as refused:
        check(row(**fields), action)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("action", "fields", "over_lock"),
    [
        ("delete", {"vm_state": "building", "task_state": "scheduling", "launched_at": None}, False),
        ("delete", {"task_state": "deleting"}, False),
        ("stop", {"vm_state": "error"}, False),
        ("stop", {"locked_by": "owner"}, True),
        ("reboot_hard", {"vm_state": "stopped", "task_state": "rebooting"}, False),
        ("update tags", {"locked_by": "owner", "task_state": "powering-off"}, False),
    ],
)
def test_an_action_is_allowed(action: str, fields: dict[str, object], over_lock: bool) -> None:
    check(row(**fields), action, over_lock=over_lock)


def test_every_move_is_made_somewhere() -> None:
    said = {
        node.value
        for name, module in modules("cloudctl").items()
        if name.startswith("cloudctl.compute.") and name != "cloudctl.compute.states"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
    }
    assert set(MOVES) - said == set()


@pytest.mark.parametrize("action", power.WORK)
def test_an_action_on_power_that_is_cancelled_leaves_nothing_under_way(action: str) -> None:
    doing = MOVES[action].target["task_state"]
    assert doing in MOVES["power cancelled"].sources["task_state"], f"{doing} is not in POWERING"


@pytest.mark.parametrize(
    ("task_state", "replacing"),
    [
        (SOFT_DELETING, {"delete", "forceDelete", "soft delete"}),
        (RESTORING, {"delete", "forceDelete"}),
        (DELETING, {"delete", "forceDelete"}),
    ],
)
def test_a_deletion_gives_way_only_to_another_one(task_state: str, replacing: set[str]) -> None:
    rows = [row(vm_state=vm_state, task_state=task_state) for vm_state in STATUS]
    if task_state == RESTORING:
        rows = [row(vm_state=SOFT_DELETED, task_state=task_state)]
    doing = {name: move for name, move in ASKED.items() if "task_state" in move.target}
    assert {name for name, move in doing.items() if any(move.wrong(each) is None for each in rows)} == replacing
