"""What is withdrawn, if the daemon is slow to let go. The daemon is one of words only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import Busy
from cloudctl.drivers.nbd.served import Served, exports, node_name
from cloudctl.drivers.qcow2.records import Volume
from cloudctl.drivers.qemu.qmp import Refused
from tests.conftest import LoggedFailures


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


class Leaving:
    """It has an export that somebody began to withdraw. It is gone when it has been looked at twice more."""

    answer_timeout = 1.0

    def __init__(self, id: str) -> None:
        self.id = id
        self.looks = 0
        self.added: list[str] = []

    async def running(self) -> None:
        """It is."""

    def release(self) -> None:
        """It speaks to one alone."""

    async def ask(self, command: Any, _arguments: Any = None) -> Any:
        if command == "query-named-block-nodes":
            return [{"drv": "qcow2", "node-name": node_name("v1")}]
        self.looks += 1
        going = [{"id": self.id, "node-name": node_name("v1"), "shutting-down": True}] if self.looks < 4 else []
        return going + [{"id": each, "node-name": node_name("v1"), "shutting-down": False} for each in self.added]

    async def tell(self, command: Any, arguments: Any) -> None:
        if command == "block-export-del":
            raise Refused(command, "GenericError", f"Export '{arguments['id']}' is already shutting down")
        assert command == "block-export-add" and self.looks >= 4, "it would be refused while the other one is there"
        self.added.append(arguments["id"])


def test_an_export_that_is_wanted_again_while_it_goes_is_made_anew(tmp_path: Path) -> None:
    volume, clock = Volume("v1", 1, ("a",)), Clock()
    (id,) = exports(volume)
    daemon: Any = Leaving(id)
    served = Served(daemon, lambda: [volume], Path, clock, 1.0, tmp_path / "turn", lambda _host: False)
    outcome: list[Any] = []
    ensureDeferred(served.equal([volume])).addBoth(outcome.append)
    clock.pump([0.01] * 5)
    assert (outcome, daemon.added) == ([None], [id])


class Slow:
    """What it is told to withdraw stays until the test takes it away."""

    answer_timeout = 1.0

    def __init__(self) -> None:
        self.exports: dict[str, bool] = {}  # id → it is going

    async def running(self) -> None:
        """It is."""

    def release(self) -> None:
        """It speaks to one alone."""

    async def ask(self, command: Any, _arguments: Any = None) -> Any:
        node = node_name("v1")
        if command == "query-named-block-nodes":
            return [{"drv": "qcow2", "node-name": node}]
        return [{"id": id, "node-name": node, "shutting-down": going} for id, going in self.exports.items()]

    async def tell(self, command: Any, arguments: Any) -> None:
        self.exports[arguments["id"]] = command == "block-export-del"


def test_what_was_withdrawn_by_a_call_that_was_cancelled_is_made_anew(tmp_path: Path) -> None:
    """Otherwise a guest that uses it would wait until the next call for this volume."""
    volume, clock, daemon = Volume("v1", 1, ("a",)), Clock(), Slow()
    (id,) = exports(volume)
    told: Any = daemon
    served = Served(told, lambda: [volume], Path, clock, 1.0, tmp_path / "turn", lambda _host: False)

    async def resized() -> None:
        async with served.exclusive():
            await served.equal([volume])
            await served.withdraw([id])

    outcome: list[Any] = []
    waiting = ensureDeferred(resized())
    waiting.addBoth(outcome.append)
    waiting.cancel()
    assert outcome[0].check(CancelledError)
    assert daemon.exports == {id: True}
    daemon.exports.clear()
    clock.pump([0.1] * 15)
    assert daemon.exports == {id: False}


class Dead(Slow):
    """It has died, and there is something that nobody has foreseen."""

    def __init__(self) -> None:
        super().__init__()
        self.troubles = [OSError("too many open files")]

    async def running(self) -> None:
        if self.troubles:
            raise self.troubles.pop()


def test_a_daemon_that_died_is_started_again_whatever_went_wrong_first(
    tmp_path: Path, logged_failures: LoggedFailures
) -> None:
    """Otherwise the guests that use it would wait until the next call."""
    volume, clock, daemon = Volume("v1", 1, ("a",)), Clock(), Dead()
    (id,) = exports(volume)
    told: Any = daemon
    served = Served(told, lambda: [volume], Path, clock, 1.0, tmp_path / "turn", lambda _host: False)
    served.lost()
    clock.pump([0.1] * 15)
    assert daemon.exports == {id: False}
    assert logged_failures.flush(OSError)
