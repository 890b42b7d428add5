"""The key directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cloudctl.identity import keys


def names(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())


def test_the_first_keys_are_staged_and_primary_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "fernet-keys"
    keys.ensure(directory)
    assert names(directory) == [0, 1]
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    before = keys.load(directory)
    keys.ensure(directory)
    assert keys.load(directory) == before


def test_rotation_promotes_the_staged_key_and_drops_the_oldest(tmp_path: Path) -> None:
    keys.ensure(tmp_path)
    first = keys.load(tmp_path)
    assert keys.rotate(tmp_path, 3) == 2
    second = keys.load(tmp_path)
    assert names(tmp_path) == [0, 1, 2]
    assert second[2] == first[0]
    assert second[0] not in first.values()
    assert keys.rotate(tmp_path, 3) == 3
    assert names(tmp_path) == [0, 2, 3]


def test_a_process_sees_a_rotation_of_another_and_reads_old_tokens(tmp_path: Path) -> None:
    keys.ensure(tmp_path)
    ring = keys.KeyDirectory(tmp_path)
    old = ring.fernet().encrypt(b"old")
    keys.rotate(tmp_path, 3)
    other = keys.KeyDirectory(tmp_path)
    new = other.fernet().encrypt(b"new")
    os.utime(tmp_path, ns=(1, 1))
    assert ring.fernet().decrypt(new) == b"new"
    assert other.fernet().decrypt(old) == b"old"


def test_a_token_of_the_next_primary_is_readable_before_the_rotation_is_seen(tmp_path: Path) -> None:
    keys.ensure(tmp_path)
    before = keys.KeyDirectory(tmp_path).fernet()
    keys.rotate(tmp_path, 3)
    assert before.decrypt(keys.KeyDirectory(tmp_path).fernet().encrypt(b"x")) == b"x"


def test_a_rotation_that_was_cut_short_is_completed_by_the_next(tmp_path: Path) -> None:
    keys.ensure(tmp_path)
    # The new primary was written, the new staged key was not.
    (tmp_path / "2").write_bytes((tmp_path / "0").read_bytes())
    assert keys.rotate(tmp_path, 3) == 2
    found = keys.load(tmp_path)
    assert sorted(found) == [0, 1, 2]
    assert found[0] != found[2]


def test_no_keys_and_bad_keys_are_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="contains no keys"):
        keys.KeyDirectory(tmp_path).fernet()
    (tmp_path / "1").write_text("not a key")
    with pytest.raises(ValueError, match="is not a Fernet key"):
        keys.KeyDirectory(tmp_path).fernet()


def test_fewer_than_two_keys_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fewest"):
        keys.rotate(tmp_path, 1)
