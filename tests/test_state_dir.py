"""However the state directory was made, nobody else can read what is in it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from cloudctl import state_dir, tap
from cloudctl.app import SECTIONS, Cloud
from cloudctl.config import build
from cloudctl.errors import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def generous() -> Iterator[None]:
    """The umask of a careless start."""
    before = os.umask(0)
    yield
    os.umask(before)


def start(directory: Path, reactor: Any) -> None:
    cloud = Cloud(build({}, SECTIONS, directory), reactor, listen=False)
    try:
        cloud.prepare()
        for name in ("cloudctl.sqlite", "cloudctl.sqlite-wal", "clouds.yaml"):
            if (directory / name).exists():
                assert mode(directory / name) == 0o600, name
    finally:
        cloud.db.close()
    assert mode(directory) == 0o700


def test_a_directory_that_is_there_already_is_closed_to_others(generous: None, tmp_path: Path, reactor: Any) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    start(state, reactor)


def test_so_is_one_of_a_cloud_whose_files_could_be_read(generous: None, tmp_path: Path, reactor: Any) -> None:
    state = tmp_path / "state"
    start(state, reactor)
    state.chmod(0o755)
    for name in ("cloudctl.sqlite", "clouds.yaml"):
        (state / name).chmod(0o644)
    start(state, reactor)


@pytest.mark.parametrize("option", ["state_dir", "server.data_dir"])
def test_a_file_in_its_place_is_told_by_the_option(tmp_path: Path, option: str) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(ConfigError) as raised:
        state_dir.prepare(tmp_path / "state", option)
    assert raised.value.problems == [f"{option}: {tmp_path / 'state'} is no directory"]


def test_a_directory_of_other_things_is_refused_and_stays_as_it_is(tmp_path: Path, reactor: Any) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter").touch()
    home.chmod(0o755)
    with pytest.raises(ConfigError, match="others may enter"):
        Cloud(build({}, SECTIONS, home), reactor, listen=False)
    assert mode(home) == 0o755
    assert os.listdir(home) == ["letter"]


def test_the_process_makes_nothing_that_others_may_read(generous: None, tmp_path: Path) -> None:
    options = tap.Options()
    options.parseOptions(["--state-dir", str(tmp_path / "state"), "--listen", "tcp:0:interface=127.0.0.1"])
    service: Any = tap.makeService(options)
    try:
        made = tmp_path / "made"
        made.touch()
        assert mode(made) == 0o600
        open_to_others = [path for path in (tmp_path / "state").rglob("*") if mode(path) & 0o077]
        assert open_to_others == []
    finally:
        service.db.close()


def test_a_disk_that_is_full_is_told_in_one_line(
    generous: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = tap.Options()
    options.parseOptions(["--state-dir", str(tmp_path / "state")])

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit) as raised:
        tap.makeService(options)
    assert raised.value.code == 64
    assert capsys.readouterr().err == f"cloudctl: cannot write to {tmp_path / 'state'}: No space left on device\n"


# -- the data directory


def test_a_data_directory_is_one_clouds(tmp_path: Path) -> None:
    state_dir.propose(tmp_path, "one")
    # The transaction was not committed; another one was.
    state_dir.propose(tmp_path, "two")
    state_dir.belongs_to(tmp_path, "two", ["images"], alone=False)
    state_dir.belongs_to(tmp_path, "two", ["images"], alone=False)
    assert os.listdir(tmp_path) == ["cloud-id"]
    for alone in (False, True):
        with pytest.raises(ConfigError, match=r"server\.data_dir: .* is that of another cloud, two"):
            state_dir.belongs_to(tmp_path, "one", ["images"], alone)
    with pytest.raises(ConfigError, match="has the data of cloud two, but the database is empty: restore"):
        state_dir.propose(tmp_path, "one")


def test_one_that_says_nothing_is_refused_unless_there_can_be_no_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without its file cloud-id, which must hold one"):
        state_dir.belongs_to(tmp_path, "one", ["images"], alone=False)
    assert os.listdir(tmp_path) == []
    state_dir.belongs_to(tmp_path, "one", ["images"], alone=True)
    state_dir.belongs_to(tmp_path, "one", ["images"], alone=False)


def test_processes_on_one_database_have_one_data_directory(tmp_path: Path, postgresql_url: str, reactor: Any) -> None:
    def prepare(name: str, data_dir: str, key: str) -> bool:
        tables = {"server": {"data_dir": data_dir}, "database": {"url": postgresql_url, "sealing_keys": [key]}}
        cloud = Cloud(build(tables, SECTIONS, tmp_path / name), reactor, listen=False)
        try:
            return cloud.prepare({"admin": "secret", "demo": "secret"})
        finally:
            cloud.db.close()

    data, key, other = str(tmp_path / "data"), Fernet.generate_key().decode(), Fernet.generate_key().decode()
    assert prepare("one", data, key) is True
    assert prepare("two", data, key) is False
    assert (tmp_path / "one/clouds.yaml").read_text().replace("/one/", "/two/") == (
        tmp_path / "two/clouds.yaml"
    ).read_text()
    with pytest.raises(ConfigError, match="three is not where the other processes of this cloud keep its data"):
        prepare("three", "", key)
    with pytest.raises(ConfigError, match=r"database\.sealing_keys"):
        prepare("four", data, other)
    assert not (tmp_path / "four/clouds.yaml").exists()


@pytest.mark.parametrize("content", [b"", b"half a key", b"\x91\xff"])
def test_a_file_that_holds_no_key_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sealing-key").write_bytes(content)
    with pytest.raises(ConfigError, match="sealing-key holds no key"):
        state_dir.sealing_key(tmp_path)
    assert (tmp_path / "sealing-key").read_bytes() == content
