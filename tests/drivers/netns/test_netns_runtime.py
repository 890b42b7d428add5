"""What dnsmasq reads must be readable by a program that has given up its privileges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers import loader
from cloudctl.drivers.netns.driver import Config, create
from cloudctl.drivers.netns.records import make_readable, write
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
from tests.drivers.netns.lab import runtime_dir


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_directories_and_files_can_be_read_by_all_whatever_the_umask(tmp_path: Path, strict_umask: None) -> None:
    directory = tmp_path / "run" / "network" / "hosts"
    make_readable(directory)
    write(directory / "port", b"fa:16:3e:00:00:01,10.0.0.2\n")
    assert [mode(each) for each in (directory, directory.parent, directory.parent.parent)] == [0o755] * 3
    assert mode(directory / "port") == 0o644


def test_who_is_killed_while_he_makes_a_directory_leaves_none_that_is_closed(
    tmp_path: Path, strict_umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run" / "network"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "chmod", killed)
        make_readable(directory)
    make_readable(directory)
    assert [mode(each) for each in (directory, directory.parent)] == [0o755] * 2


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o700)
    make_readable(there / "mine")
    assert (mode(there), mode(there / "mine")) == (0o700, 0o755)


def test_a_directory_that_only_root_may_enter_is_refused(prefix: str, tmp_path: Path) -> None:
    """As the one of the other drivers is."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    config = Config(hosts={"one": f"{prefix}-one"}, runtime_dir=closed / "netns", prefix=prefix)
    resources = DriverResources(clock=Clock(), name="netns", reactor=object(), state_dir=tmp_path / "state")
    with pytest.raises(ConfigError, match="not accessible to everyone"):
        loader.check(create(config, resources), "driver.network.netns")


def test_a_physical_network_needs_its_bridge_from_the_start(prefix: str, tmp_path: Path) -> None:
    def checked(namespace: str, bridge: str) -> None:
        config = Config(
            hosts={"one": namespace},
            physical_networks={"public": bridge},
            runtime_dir=runtime_dir(prefix),
            prefix=prefix,
        )
        resources = DriverResources(clock=Clock(), name="netns", reactor=object(), state_dir=tmp_path / "state")
        loader.check(create(config, resources), "driver.network.netns")

    checked("", "lo")
    checked(f"{prefix}-one", "not-there")  # the namespace, and what is to be in it, may be made later
    with pytest.raises(ConfigError, match="bridge not-there of physical network public does not exist"):
        checked("", "not-there")
