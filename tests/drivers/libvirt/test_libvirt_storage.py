"""What a host's pool says while somebody works in it. libvirt's binding is needed, but no daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

libvirt: Any = pytest.importorskip("libvirt")

from cloudctl.drivers.errors import Busy  # noqa: E402 - after the skip
from cloudctl.drivers.libvirt import storage  # noqa: E402 - after the skip
from cloudctl.drivers.libvirt.options import Config  # noqa: E402 - after the skip
from cloudctl.drivers.libvirt.storage import Storage  # noqa: E402 - after the skip

WORKS = "internal error: pool 'guests' has asynchronous jobs running."


class Pool:
    """libvirt's, as far as it is asked here: it refuses with each of `errors` once."""

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)

    def storagePoolLookupByName(self, _name: str) -> Pool:
        return self

    def refresh(self, _flags: int) -> None:
        if self.errors:
            raise libvirt.libvirtError(self.errors.pop(0))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PAUSE", 0.0)


def of(pool: Pool) -> Storage:
    return Storage(Config(hosts={"east": "qemu:///system"}), pool)


def test_who_makes_a_volume_there_is_waited_for() -> None:
    pool = Pool(WORKS, WORKS)
    assert of(pool).refreshed() is pool
    assert not pool.errors


def test_who_takes_long_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE", 0.0)
    with pytest.raises(Busy, match="asynchronous jobs"):
        of(Pool(WORKS)).refreshed()


def test_another_error_is_told_at_once() -> None:
    pool = Pool("Storage pool not found", WORKS)
    with pytest.raises(libvirt.libvirtError, match="not found"):
        of(pool).refreshed()
    assert pool.errors == [WORKS]


THERE = [
    "Requested operation is not valid: volume target path '/guests/image-1' already exists",
    "Failed to create file '/guests/image-1': File exists",
]


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether another host has begun the same copy since this one looked, at each of the next times."""
    found: list[bool] = []

    def copy(_self: Storage, _source: Path, _name: str) -> None:
        if found.pop(0):
            raise libvirt.libvirtError(THERE[len(found) % 2])

    monkeypatch.setattr(Storage, "copy", copy)
    monkeypatch.setattr(Storage, "_wait_for_copy_of", lambda _self, _name: None)
    return found


def test_an_image_that_another_host_copies_into_the_same_directory_is_looked_for_again(tries: list[bool]) -> None:
    tries += [True, True, True, False]
    of(Pool())._copy_beside_others(Path("/image"), "image-1")
    assert tries == []


def test_what_stays_in_the_way_is_told(tries: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE", 0.0)
    tries += [True, False]
    with pytest.raises(libvirt.libvirtError, match="exists"):
        of(Pool())._copy_beside_others(Path("/image"), "image-1")


# -- volumes


class Taken:
    """A volume that somebody else removes, or that stays, just as it is to be removed."""

    def __init__(self, code: int) -> None:
        self.code = code

    def delete(self, _flags: int) -> None:
        error = libvirt.libvirtError("no")
        error.err = (self.code, 0, "no", 0, "", "", "", 0, 0)
        raise error


def test_a_volume_that_another_process_removes_meanwhile_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storage, "find", lambda _self, _name: Taken(libvirt.VIR_ERR_NO_STORAGE_VOL))
    of(Pool()).remove("console")
    monkeypatch.setattr(Storage, "find", lambda _self, _name: Taken(libvirt.VIR_ERR_OPERATION_DENIED))
    with pytest.raises(libvirt.libvirtError):
        of(Pool()).remove("console")
