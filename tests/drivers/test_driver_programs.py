"""Programs that drivers start: how they end, whatever they do."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers import programs
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.programs import ProgramFailed, Programs, ProgramTimedOut


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """May run a shell, too."""
    from twisted.internet import reactor

    monkeypatch.setattr(programs, "PROGRAMS", {"sh": "dash"})
    return Programs(reactor, reactor)


async def test_a_program_gets_its_input_and_its_output_is_told(shell: Any) -> None:
    assert await shell.change("sh", "-c", "cat; echo end", stdin=b"begin\n") == b"begin\nend\n"


async def test_a_program_that_fails_says_why(shell: Any) -> None:
    with pytest.raises(ProgramFailed, match="it hurts") as caught:
        await shell.read("sh", "-c", "echo it hurts >&2; exit 3")
    assert caught.value.code == 3


@pytest.mark.parametrize("script", ["exec sleep 300", "sleep 300 & exec sleep 300", "sleep 300 & exit 0"])
async def test_a_program_has_its_time_whoever_holds_its_pipes(shell: Any, script: Any) -> None:
    began = time.monotonic()
    with pytest.raises(ProgramTimedOut):
        await shell.read("sh", "-c", script, timeout=0.2)
    assert time.monotonic() - began < 290.0


async def test_a_program_that_cannot_be_started_now_may_be_later() -> None:
    class Full:
        def spawnProcess(self, *_args: Any, **_kwargs: Any) -> None:
            raise OSError(11, "Resource temporarily unavailable")

    with pytest.raises(Unreachable, match="temporarily"):
        await Programs(cast(Any, Full()), Clock()).read("ip", "link")


async def test_no_other_program_can_be_run() -> None:
    with pytest.raises(ValueError, match="not allowed to run"):
        await Programs(cast(Any, None), Clock()).change("sh", "-c", "true")
