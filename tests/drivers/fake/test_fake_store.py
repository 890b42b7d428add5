"""Objects on disk: whole or absent, whatever kills the process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError, NoCapacity, Unreachable
from cloudctl.drivers.fake import hypervisor
from cloudctl.drivers.fake.store import Directory, Memory
from cloudctl.drivers.specs import DriverResources, Power
from tests.there import there


@frozen
class Thing:
    name: str
    power: Power
    parts: tuple[int, ...] = ()


@pytest.fixture(params=["memory", "directory"])
def store(request: Any, tmp_path: Path) -> Any:
    return Memory() if request.param == "memory" else Directory(Thing, tmp_path / "things")


def test_what_is_put_is_found_and_what_is_deleted_is_not(store: Any) -> None:
    one, two = Thing("ü", Power.RUNNING, (1, 2)), Thing("b", Power.STOPPED)
    assert store.get("1") is None and store.values() == []
    store.put("2", two)
    store.put("1", two)
    store.put("1", one)
    assert store.get("1") == one and store.values() == [one, two]
    store.delete("1")
    store.delete("1")
    assert store.values() == [two]


def test_objects_may_be_others_as_when_a_world_is_put_back() -> None:
    store: Memory[int] = Memory({"b": 2})
    assert store.values() == [2]
    store.objects = {"c": 3, "a": 1}
    assert store.values() == [1, 3]


@pytest.mark.parametrize("id", ["../up", "a/b", ".", "..", ".hidden", "a.json", "a%2Fb", "a b"])
def test_no_id_leaves_the_directory(tmp_path: Path, id: str) -> None:
    store = Directory(Thing, tmp_path / "things")
    store.put(id, Thing(id, Power.STOPPED))
    assert store.get(id) == store.values()[0] == Thing(id, Power.STOPPED)
    assert [entry.name for entry in tmp_path.iterdir()] == ["things"]
    store.delete(id)
    assert store.values() == []


def test_a_file_left_by_a_killed_process_is_no_object(tmp_path: Path) -> None:
    store = Directory(Thing, tmp_path)
    (tmp_path / "1.json.4711.new").write_text('{"name": "ha')
    assert store.values() == [] and store.get("1") is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"name": "ha')
    with pytest.raises(DriverError, match=r"1\.json is damaged"):
        Directory(Thing, tmp_path).values()


def test_without_a_state_directory_it_is_in_memory() -> None:
    driver = hypervisor.create(hypervisor.Config(), DriverResources(clock=Clock(), name="fake"))
    found: list[Any] = []
    ensureDeferred(driver.inventory()).addCallback(found.append)
    assert found == [()]


WRITER = """
import sys
from pathlib import Path
from twisted.internet.defer import ensureDeferred
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from cloudctl.drivers.fake.hypervisor import Config, create
from cloudctl.drivers.specs import DriverResources, GuestSpec

driver = create(Config(durable=True), DriverResources(clock=Clock(), name="fake", state_dir=Path(sys.argv[1])))

async def forever():
    number = 0
    while True:
        id = f"g{number % 50}"
        await driver.ensure_defined(GuestSpec(id, "vm", "fake-1", 1, 512, 1))
        await driver.ensure_rebooted(id, str(number))
        print(id, number, flush=True)
        number += 1

failures = []
ensureDeferred(forever()).addErrback(failures.append)
sys.exit(str(failures))
"""


async def test_a_killed_process_leaves_every_answered_effect_and_no_half(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    answered = [there(writer.stdout).readline().split() for _ in range(200)]
    os.kill(writer.pid, signal.SIGKILL)
    rest = [line.split() for line in there(writer.stdout).read().splitlines()]
    there(writer.stdout).close()
    assert writer.wait() == -signal.SIGKILL
    latest = {id: int(number) for id, number in [*answered, *rest]}
    driver = hypervisor.create(
        hypervisor.Config(durable=True), DriverResources(clock=Clock(), name="fake", state_dir=tmp_path)
    )
    assert {state.id for state in await driver.inventory()} == {f"g{number}" for number in range(50)}
    for id, number in latest.items():
        # The effect of the call that was killed may be there, too.
        assert there(driver.guests.get(id)).reboot_token in (str(number), str(number + 50))


@pytest.mark.parametrize(("number", "told"), [(errno.ENOSPC, NoCapacity), (errno.EIO, Unreachable)])
def test_a_disk_that_takes_nothing_is_an_error_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: type[DriverError]
) -> None:
    store = Directory(Thing, tmp_path / "things")
    store.put("1", Thing("b", Power.STOPPED))

    def half(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:1])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(told, match=rf"cannot write .*1\.json: {os.strerror(number)}"):
        store.put("1", Thing("b", Power.RUNNING))
    assert store.values() == [Thing("b", Power.STOPPED)]
    assert [file.name for file in store.path.iterdir()] == ["1.json"], "half an object is not left behind"
