"""Files on their way from or to a host, whose way ends early: real libvirtds have nothing open for them any more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.qemu.real import soon

SIZE = 64 << 20


def is_open(file: Path) -> bool:
    """Whether any process has the file open."""
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(each).endswith(f"/{file.name}"):
                return True
        except OSError:
            continue  # it has just been closed
    return False


@pytest.fixture
def storage(libvirtd: Libvirtd, tmp_path: Path) -> Iterator[Any]:
    import libvirt

    from cloudctl.drivers.libvirt.options import Config
    from cloudctl.drivers.libvirt.storage import Storage

    connection = libvirt.open(libvirtd.uri)
    config = Config(hosts={"here": libvirtd.uri}, directory=str(tmp_path / "disks"), pool=tmp_path.name)
    made = Storage(config, connection)
    made.prepare()
    yield made
    connection.close()
    libvirtd.empty()


@pytest.fixture
def disk(storage: Any, tmp_path: Path) -> Path:
    found = tmp_path / "disks" / f"{tmp_path.name}.disk"
    found.write_bytes(os.urandom(SIZE))
    storage.refreshed()
    return found


async def test_a_disk_for_which_there_is_no_room_here_is_read_no_more(storage: Any, disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        storage.fetch(disk.name, Path("/dev/full"))
    assert await soon(lambda: not is_open(disk))


class Full:
    """The storage of another host, as far as it is asked here: it takes nothing."""

    @property
    def connection(self) -> Full:
        return self

    def create(self, _name: str, _format: str, _size: int) -> Full:
        return self

    def newStream(self, _flags: int) -> Full:
        return self

    def upload(self, _stream: Full, *_range: int) -> None: ...

    def abort(self) -> None: ...

    def send(self, _data: bytes) -> int:
        import libvirt

        raise libvirt.libvirtError("No space left on device")


async def test_a_disk_for_which_there_is_no_room_there_is_read_no_more(storage: Any, disk: Path) -> None:
    from cloudctl.drivers.libvirt import carrying

    full: Any = Full()
    with pytest.raises(Exception, match="No space left"):
        carrying._carry(storage, full, disk.name)
    assert await soon(lambda: not is_open(disk))


async def test_what_has_arrived_is_all_that_was_sent(storage: Any, disk: Path, tmp_path: Path) -> None:
    fetched = tmp_path / "fetched"
    storage.fetch(disk.name, fetched)
    assert fetched.read_bytes() == disk.read_bytes()
    assert await soon(lambda: not is_open(disk))
