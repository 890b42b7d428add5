"""The whole cloud ends the same wherever its process dies: at every point of every registered workflow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.tasks import Transaction
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.crash import crash_everywhere
from tests.crash import (
    change_scenarios,
    copy_scenarios,
    group_scenarios,
    ha_scenarios,
    incremental_scenarios,
    managing_scenarios,
    move_scenarios,
    other_scenarios,
    server_scenarios,
    shelve_scenarios,
    volume_move_scenarios,
)
from tests.crash.scenario import Scenario
from tests.crash.stage import Stage

SCENARIOS = (
    *server_scenarios.SCENARIOS,
    *change_scenarios.SCENARIOS,
    *shelve_scenarios.SCENARIOS,
    *move_scenarios.SCENARIOS,
    *other_scenarios.SCENARIOS,
    *copy_scenarios.SCENARIOS,
    *group_scenarios.SCENARIOS,
    *incremental_scenarios.SCENARIOS,
    *volume_move_scenarios.SCENARIOS,
    *managing_scenarios.SCENARIOS,
    *ha_scenarios.SCENARIOS,
)
KINDS = sorted({scenario.kind for scenario in SCENARIOS})


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.cloud.close()


def test_every_workflow_has_a_scenario(stage: Stage) -> None:
    registered = set(stage.service.engine.workflows)
    assert not registered - set(KINDS), f"no scenario for {', '.join(sorted(registered - set(KINDS)))}"
    assert not set(KINDS) - registered


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_end_is_the_same_wherever_the_process_dies(stage: Stage, kind: str) -> None:
    seen, done = set(), set()
    for scenario in SCENARIOS:
        if scenario.kind == kind:
            seen |= die_everywhere(stage, scenario)
            done |= stage.cloud.transact(steps_done, kind)
    # Otherwise a scenario misses part of the workflow that it is for.
    for position, step in enumerate(stage.service.engine.workflows[kind].steps):
        if position and isinstance(step.do, Transaction):
            # There is no point before it: it is part of the transaction of the step before.
            assert step.name in done
        else:
            assert (kind, step.name, "step") in seen
        assert step.undo is None or (kind, step.name, "undo") in seen


def steps_done(conn: Connection, kind: str) -> set[str]:
    """The steps that tasks of this kind have done."""
    logs = conn.scalars(select(TaskRow.log).where(TaskRow.kind == kind))
    return {entry["step"] for log in logs for entry in log if entry["result"] == "success"}


def die_everywhere(stage: Stage, scenario: Scenario) -> set[tuple[str, str, str]]:
    """(kind, step, name) of the points at which it died."""
    stage.set_back(stage.first)
    told = scenario.begin(stage)
    moment = stage.moment()
    disturb = partial(scenario.disturb, told=told)
    try:
        points = crash_everywhere(lambda: stage.world(moment, disturb), again=())
        stage.world(moment, disturb)
        stage.settle()
        scenario.end(stage, told)
    except AssertionError as error:
        error.add_note(f"{scenario.kind} {scenario.name}")
        raise
    return {(point.kind, point.step, point.name) for point in points}
