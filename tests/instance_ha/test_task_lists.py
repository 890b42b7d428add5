"""The lists of tasks in the configuration."""

from __future__ import annotations

import pytest

from cloudctl.instance_ha.lifecycle import workflows
from cloudctl.instance_ha.options import InstanceHaOptions


@pytest.mark.parametrize("left", [[], ["evacuate_instances"], ["prepare_HA_enabled_instances", "evacuate_instances"]])
def test_a_recovery_goes_on_if_its_task_is_not_in_the_list_any_more(left: list[str]) -> None:
    recovery = workflows(InstanceHaOptions(host_tasks=left))[0]
    assert recovery.index("fence_host") == 1
    assert [step.name for step in recovery.steps] == ["begin", *left, "end"]
