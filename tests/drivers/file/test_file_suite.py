"""The public suite of objects' data against the driver `file`; what it does where a hard link cannot be."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers.errors import NoCapacity, Unreachable
from cloudctl.drivers.file.driver import Config, ObjectFiles, create
from cloudctl.drivers.loader import check
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
from cloudctl.testing.faults import with_faults
from cloudctl.testing.objects_suite import ID, OTHER, objects_suite


def make(directory: Path) -> Any:
    from twisted.internet import reactor

    resources = DriverResources(clock=reactor, name="file", reactor=reactor, state_dir=directory / "state")
    return with_faults(create(Config(), resources), reactor)


class TestFile(objects_suite(make)):
    pass


@pytest.fixture
def other_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.usefixtures("other_file_system")
class TestFileOfAnotherFileSystem(objects_suite(make)):
    pass


@pytest.fixture
def driver(tmp_path: Path) -> ObjectFiles:
    made = create(Config(str(tmp_path / "own")), DriverResources(clock=Clock(), name="file"))
    check(made, "driver.objects.file")
    (tmp_path / "content").write_bytes(b"data")
    return made


@pytest.mark.parametrize(("number", "told"), [(errno.ENOSPC, NoCapacity), (errno.EIO, Unreachable)])
def test_what_the_system_refuses_is_told_and_nothing_is_there(
    driver: ObjectFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: type[Exception]
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails)
        with pytest.raises(told, match=os.strerror(number)):
            driver.ensure_kept(ID, str(tmp_path / "content"))
    assert driver.inventory("") == ()


def test_no_name_is_there_before_all_data_and_nothing_is_told_before_all_names_are(
    driver: ObjectFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_bytes(b"other")
    seen: list[str] = []
    sync, link = os.fsync, os.link

    def synced(opened: int) -> None:
        sync(opened)
        seen.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{opened}'))}")

    def linked(source: Path, target: Path) -> None:
        link(source, target)
        seen.append(f"name {source.name}")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    driver.ensure_all_kept([(ID, str(tmp_path / "content")), (OTHER, str(tmp_path / "other"))])
    assert seen[:5] == ["sync own", "sync content", "sync other", "name content", "name other"]
    assert sorted(seen[5:]) == [f"sync {ID[:2]}", f"sync {OTHER[:2]}"]


@pytest.mark.usefixtures("other_file_system")
def test_a_copy_that_fails_leaves_nothing_half(
    driver: ObjectFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(NoCapacity):
        driver.ensure_kept(ID, str(tmp_path / "content"))
    assert [path for path in driver.directory.rglob("*") if path.is_file()] == []


def test_copies_that_a_killed_process_left_are_removed_once_nobody_can_be_copying(driver: ObjectFiles) -> None:
    old, new = driver.directory / "half-old", driver.directory / "half-new"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    check(driver, "driver.objects.file")
    assert not old.exists() and new.exists()
    assert driver.inventory("") == ()


def test_a_part_of_the_cloud_sees_none_of_another(driver: ObjectFiles, tmp_path: Path) -> None:
    images = create(Config(str(tmp_path / "own")), DriverResources(clock=Clock(), name="file", part="images"))
    check(images, "driver.objects.file")
    driver.ensure_kept(ID, str(tmp_path / "content"))
    images.ensure_kept(OTHER, str(tmp_path / "content"))
    assert [[each.id for each in part.inventory("")] for part in (driver, images)] == [[ID], [OTHER]]
    images.ensure_absent(ID)
    with driver.open(ID) as file:
        assert file.read() == b"data"


def test_a_directory_that_cannot_be_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = create(Config(str(tmp_path / "file")), DriverResources(clock=Clock(), name="file"))
    with pytest.raises(ConfigError, match=r"driver\.objects\.file: .*/file cannot be written"):
        check(made, "driver.objects.file")
