"""What is withdrawn, if the daemon is slow to let go. The daemon is one of words only."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers.errors import Busy
from cloudctl.drivers.nbd.served import Served
from cloudctl.drivers.qemu.qmp import Refused


class Daemon:
    """It has one export, and lets go of it when its client does."""

    answer_timeout = 1.0

    def __init__(self, refusal: str | None = None) -> None:
        self.refusal = refusal
        self.exports = ["e1"]

    async def ask(self, _command: Any) -> Any:
        return [{"id": each, "node-name": "n", "shutting-down": False} for each in self.exports]

    async def tell(self, command: Any, _arguments: Any) -> None:
        if self.refusal is not None:
            raise Refused(command, "GenericError", self.refusal)


def withdrawing(daemon: Any, clock: Any) -> Any:
    from twisted.internet.defer import ensureDeferred

    none: Any = None  # of records: they are not asked
    served = Served(daemon, none, none, clock, 1.0, none, none)
    outcome: list[Any] = []
    ensureDeferred(served.withdraw(["e1"])).addBoth(outcome.append)
    return outcome


@pytest.mark.parametrize("refusal", [None, "Export 'e1' is already shutting down", "Export 'e1' is not found"])
def test_an_export_that_is_on_its_way_out_is_waited_for(refusal: Any) -> None:
    daemon, clock = Daemon(refusal), Clock()
    outcome = withdrawing(daemon, clock)
    assert outcome == []
    daemon.exports.clear()
    clock.pump([0.01] * 3)
    assert outcome == [None]


def test_one_that_does_not_go_is_busy_and_another_refusal_is_told() -> None:
    clock = Clock()
    outcome = withdrawing(Daemon(), clock)
    clock.pump([0.01] * 120)
    assert outcome[0].check(Busy)
    (failure,) = withdrawing(Daemon("no such command"), clock)
    assert failure.check(Refused)
