"""Programs that drivers start: how they end, whatever they do."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from attrs import evolve
from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.internet.task import Clock, deferLater

from cloudctl.drivers import accounts, confinement, programs
from cloudctl.drivers.accounts import READERS, READERS_GROUP
from cloudctl.drivers.confinement import Confinement
from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.handed import Lent, Node, Open
from cloudctl.drivers.programs import ProgramFailed, Programs, ProgramTimedOut
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qemu.disks import Disks
from cloudctl.drivers.specs import ImageSource


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


@pytest.mark.parametrize("is_started", [False, True])
async def test_a_program_that_nobody_waits_for_any_more_is_ended(shell: Any, tmp_path: Path, is_started: bool) -> None:
    told = tmp_path / "told"
    words = "sh", "-c", f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 300"
    waiting = ensureDeferred(shell.start(*words, ready=_never) if is_started else shell.change(*words))
    await _until(shell, told.exists)
    waiting.cancel()
    with pytest.raises(CancelledError):
        await waiting
    running = Path("/proc", told.read_text().strip())
    await _until(shell, lambda: not running.exists())


async def _until(shell: Programs, true: Callable[[], bool]) -> None:
    """Well within the 300 seconds after which the programs here end by themselves."""
    end = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < end
        await deferLater(shell.clock, 0.01)


async def test_a_program_that_cannot_be_started_now_may_be_later(shell: Programs) -> None:
    class Full:
        def spawnProcess(self, *_args: Any, **_kwargs: Any) -> None:
            raise OSError(11, "Resource temporarily unavailable")

    with pytest.raises(Unreachable, match="temporarily"):
        await evolve(shell, reactor=cast(Any, Full()), clock=Clock()).read("sh", "-c", "true")


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


def confining(monkeypatch: pytest.MonkeyPatch, confinement_of: Confinement) -> None:
    """The shell is confined so."""
    monkeypatch.setattr(confinement, "CONFINED", {"sh": confinement_of})
    monkeypatch.setattr(programs, "PROGRAMS", {"sh": "dash", "prlimit": "util-linux", "setpriv": "util-linux"})


@pytest.fixture
def confined(shell: Programs, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Its shell has 64 MiB of addresses."""
    confining(monkeypatch, Confinement("same", addresses=64 << 20, timed=True))
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
async def test_what_stays_roots_has_few_of_roots_rights(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    confining(monkeypatch, Confinement("same", confinement.FILES))
    told = await shell.read("sh", "-c", "cat /proc/self/status")
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in told.decode().splitlines())}
    assert {found[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {f"{1 << 2:016x}"}  # CAP_DAC_READ_SEARCH
    assert (found["CapInh"], found["NoNewPrivs"], found["Groups"]) == ("0" * 16, "1", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="has no rights of root to lose")
async def test_what_is_handed_files_is_of_a_user_that_can_open_no_others(
    shell: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    confining(monkeypatch, Confinement())
    source, target, other = tmp_path / "source", tmp_path / "target", tmp_path / "other"
    for path in (source, other):
        path.write_bytes(b"data")
        path.chmod(0o600)
    # All that it is handed, and nothing else, also not to write what it may read.
    script = f'cat "$0" > "$1"; cat {other} || cat {source} || echo x >> "$0" || cat /proc/self/status'
    told = await shell.change("sh", "-c", script, Lent(source), Lent(target, writable=True))
    assert target.read_bytes() == b"data" == source.read_bytes()
    found = {name: value.split() for name, _, value in (line.partition(":") for line in told.decode().splitlines())}
    assert found["Gid"] == [str(READERS_GROUP)] * 4 and found["Groups"] == []
    assert int(found["Uid"][0]) in READERS and len(set(found["Uid"])) == 1
    assert {found[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert found["NoNewPrivs"] == ["1"]
    assert [path.stat().st_mode & 0o777 for path in (source, target, other)] == [0o640, 0o660, 0o600]


async def test_a_file_that_cannot_be_handed_is_told(
    shell: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if os.geteuid() == 0:
        confining(monkeypatch, Confinement())
        with pytest.raises(DriverError, match="cannot be opened: No such file"):
            await shell.read("sh", "-c", "true", Lent(tmp_path / "none"))
    told = await evolve(shell, dry_run=True).change("sh", "-c", "true", Lent(tmp_path / "made", writable=True))
    assert told == b"" and not (tmp_path / "made").exists()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user may enter, as those of pytest are not."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="has no rights of root to lose")
async def test_qemu_img_reads_users_files_as_that_user(
    shell: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, open_to_all: Path
) -> None:
    """One that says of which user it is, in its answer or in the file that it makes."""
    monkeypatch.setattr(programs, "PROGRAMS", {"qemu-img": "", "prlimit": "", "setpriv": ""})
    path = f"{open_to_all}:{programs.SEARCH_PATH}"
    monkeypatch.setattr(programs, "SEARCH_PATH", path)
    monkeypatch.setattr(programs, "ENVIRONMENT", {"PATH": path})
    told = 'info) echo "{\\"virtual-size\\": $(id -u)}";; convert) id -u > "$last";;'
    (open_to_all / "qemu-img").write_text(f'#!/bin/sh\nfor last; do :; done; case "$1" in {told} esac\n')
    (open_to_all / "qemu-img").chmod(0o755)
    image, made = tmp_path / "image", tmp_path / "made"
    image.write_bytes(b"data")
    images = Images(shell, 60.0)

    def as_a_reader(path: Path) -> bool:
        return int(path.read_text()) in READERS

    assert (await images.virtual_size(ImageSource("image", str(image))))[1] in READERS
    await images.convert(image, "raw", made)
    assert as_a_reader(made)
    await images.refill(image, "raw", made, 1)
    assert as_a_reader(made)
    # So it reads the cloud's own disks, which guests have written.
    await images.extract(image, "moment", made, "raw")
    assert as_a_reader(made)
    # What takes an image for guests does the same.
    disks = Disks(shell, cast(Any, None), tmp_path / "cache", 60.0, 60.0)
    assert as_a_reader(await disks.converted(ImageSource("image", str(image))))


def test_what_users_can_make_do_things_is_confined() -> None:
    found = confinement.CONFINED
    assert {"qemu-img", "qemu-nbd", "qemu-storage-daemon", "qemu-system-x86_64"} == set(found)
    for name in ("qemu-img", "qemu-storage-daemon", "qemu-nbd"):
        assert found[name].is_limited and not found[name].capabilities
        # One that asks daemons is handed nothing open: their sockets are root's.
        assert found[name].user == ("same" if name == "qemu-nbd" else "own")
    assert (found["qemu-img"].addresses or 0) < 2 << 30


@pytest.mark.skipif(os.geteuid() != 0, reason="has no rights of root to lose")
async def test_two_runs_are_of_two_users(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that neither can do anything to the other; where there are no such users, it is one that owns nothing."""
    confining(monkeypatch, Confinement())
    told = {await shell.read("sh", "-c", "id -u") for _ in range(3)}
    assert len(told) == 3
    monkeypatch.setattr(accounts, "exist", lambda _: False)
    assert await shell.read("sh", "-c", "id -u; id -g") == f"{READERS_GROUP}\n{READERS_GROUP}\n".encode()


async def test_a_file_is_handed_in_the_midst_of_a_word(shell: Any, tmp_path: Path) -> None:
    path = tmp_path / 'a "name"'
    path.touch()
    node = Node({"filename": Lent(path)})
    script = 'echo "$0"; readlink /proc/self/fd/${1#fd=}'
    with path.open() as file:
        told = await shell.read("sh", "-c", script, node, ("fd=", Open(file.fileno())))
    said, opened = told.decode().splitlines()
    assert (json.loads(said.removeprefix("json:")), opened) == ({"filename": str(path)}, str(path))
