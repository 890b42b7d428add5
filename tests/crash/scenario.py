"""A scenario: how work begins, what disturbs it, and how it must end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from cloudctl.drivers.errors import DriverError
from tests.crash.stage import Stage

Disturb = Callable[[Stage], object]


@frozen
class Scenario:
    """`begin` returns what the other functions need; processes will die at the work that it leaves unsettled."""

    kind: str  # the workflow that it is for
    name: str
    begin: Callable[[Stage], Any]
    end: Callable[[Stage, Any], object]
    # Done before each run: a disturbance lasts, or else a crash would change what happens next.
    disturbed: Disturb | None = None
    # A request that comes during the work, after so many seconds.
    later: tuple[float, Callable[[Stage, Any], object]] | None = None

    def disturb(self, stage: Stage, told: Any) -> None:
        if self.disturbed is not None:
            self.disturbed(stage)
        if self.later is not None:
            seconds, request = self.later
            stage.cloud.clock.callLater(seconds, request, stage, told)


def broken(driver: str, method: str) -> Disturb:
    """Every call of the method fails."""

    def disturb(stage: Stage) -> None:
        getattr(stage.drivers, driver).behaviour.fail(method, times=None, error=DriverError("it is broken"))

    return disturb


def first_host_is_down(stage: Stage) -> None:
    """The scheduler does not know it yet."""
    stage.drivers.hypervisor.fail_host("fake-1")
