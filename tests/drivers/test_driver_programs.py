"""Programs that drivers start: how they end, whatever they do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve
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


async def _at_once(_pid: int) -> bool:
    return True


async def _never(_pid: int) -> bool:
    return False


async def test_a_program_that_is_started_goes_on_in_a_session_of_its_own(shell: Any) -> None:
    started: list[int] = []

    async def ready(pid: int) -> bool:
        started.append(pid)
        return os.getsid(pid) == pid

    await shell.start("sh", "-c", "exec sleep 300", ready=ready)
    os.kill(started[-1], signal.SIGKILL)


async def test_a_program_that_ends_before_it_is_ready_says_why(shell: Any) -> None:
    with pytest.raises(ProgramFailed, match="it hurts") as caught:
        await shell.start("sh", "-c", "echo it hurts >&2; exit 3", ready=_never)
    assert caught.value.code == 3
    with pytest.raises(ProgramFailed, match="it has ended"):
        await shell.start("sh", "-c", "exit 0", ready=_never)


async def test_a_program_that_is_never_ready_is_ended(shell: Any) -> None:
    with pytest.raises(ProgramTimedOut):
        await shell.start("sh", "-c", "exec sleep 300", ready=_never, timeout=0.2)


async def test_what_is_only_said_is_not_started(shell: Any, tmp_path: Path) -> None:
    await evolve(shell, dry_run=True).start("sh", "-c", f"touch {tmp_path / 'made'}", ready=_at_once)
    assert not (tmp_path / "made").exists()


@pytest.fixture
def confined(shell: Programs, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Its shell has 64 MiB of addresses."""
    monkeypatch.setattr(programs, "CONFINED", {"sh": 64 << 20})
    monkeypatch.setattr(programs, "PROGRAMS", {"sh": "dash", "prlimit": "util-linux"})
    return shell


async def test_what_parses_users_files_is_limited(confined: Any) -> None:
    # KiB of addresses, seconds of a processor, blocks of 512 bytes of a core and of any file.
    script = "ulimit -v; ulimit -t; ulimit -c; ulimit -f"
    told = await confined.change("sh", "-c", script, timeout=7.5, file_bytes=10 * 1024)
    assert told.split() == [b"65536", b"8", b"0", b"20"]


async def test_what_writes_a_larger_file_than_it_may_is_ended(confined: Any, tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed):
        await confined.change("sh", "-c", f"exec head -c 100000 /dev/zero > {tmp_path / 'large'}", file_bytes=4096)
    assert (tmp_path / "large").stat().st_size == 4096


@pytest.mark.skipif(os.geteuid() != 0, reason="has no rights of root to lose")
async def test_what_reads_users_files_has_few_of_roots_rights(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", {"sh": "dash", "setpriv": "util-linux"})
    monkeypatch.setattr(programs, "CAPABILITIES", {"sh": programs.FILES})
    told = await shell.read("sh", "-c", "cat /proc/self/status")
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in told.decode().splitlines())}
    assert {found[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {f"{1 << 2:016x}"}  # CAP_DAC_READ_SEARCH
    assert (found["CapInh"], found["NoNewPrivs"], found["Groups"]) == ("0" * 16, "1", "")


def test_qemu_img_is_confined() -> None:
    assert {"qemu-img", "qemu-storage-daemon", "qemu-system-x86_64"} == set(programs.CAPABILITIES)
    assert programs.CONFINED["qemu-img"] < 2 << 30
