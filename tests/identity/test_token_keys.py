"""The keys of tokens: shared in the database, taken from the files of older releases, rotated while others use them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, secrets
from cloudctl.db.secrets import Seal
from cloudctl.errors import ConfigError
from cloudctl.identity import keys
from cloudctl.identity.keys import CREDENTIAL_KEYS, FERNET_KEYS, KeyRing, KeyWatch
from cloudctl.testing.cloud import empty_database

ONE, TWO = Fernet.generate_key().decode(), Fernet.generate_key().decode()
SEAL = Seal.of([ONE])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(clock: Clock) -> Database:
    return empty_database(clock)


def read(db: Database, seal: Seal = SEAL) -> dict[int, bytes]:
    found: dict[int, bytes] = db.transact(True, secrets.read, seal, FERNET_KEYS)
    return found


def rotate(db: Database, most: int = 3) -> int:
    return int(db.transact(False, keys.rotate, SEAL, FERNET_KEYS, most))


def ring(db: Database, directory: Path = Path("/nonexistent")) -> KeyRing:
    made = KeyRing(db, SEAL, FERNET_KEYS)
    made.prepare(directory)
    return made


def test_the_first_keys_are_staged_and_primary_and_the_same_for_all(db: Database) -> None:
    ours, theirs = ring(db), ring(db)
    assert sorted(read(db)) == [0, 1]
    assert theirs.fernet().decrypt(ours.fernet().encrypt(b"x")) == b"x"


def test_whoever_reads_the_database_alone_has_no_keys(db: Database) -> None:
    ring(db)
    rows = db.transact(True, lambda conn: conn.execute(secrets._of_purpose, {"wanted": FERNET_KEYS}).all())
    assert not {bytes(sealed) for _, sealed in rows} & set(read(db).values())
    with pytest.raises(ConfigError, match=r"database\.sealing_keys: the fernet-keys .* sealed with a key"):
        read(db, Seal.of([TWO]))


def test_the_sealing_key_is_changed_in_three_steps_none_of_which_hides_a_key(db: Database) -> None:
    ring(db)
    before = read(db)
    # Each process learns the new one first, then seals with it, then forgets the old one.
    learnt, changed = Seal.of([ONE, TWO]), Seal.of([TWO, ONE])
    assert read(db, learnt) == read(db, changed) == before
    db.transact(False, secrets.reseal, changed)
    assert read(db, learnt) == read(db, Seal.of([TWO])) == before
    with pytest.raises(ConfigError):
        read(db, Seal.of([ONE]))


def test_the_keys_of_an_older_release_are_taken_from_its_files(db: Database, tmp_path: Path) -> None:
    files = {number: Fernet.generate_key() for number in (0, 4, 5)}
    for number, key in files.items():
        (tmp_path / str(number)).write_bytes(key + b"\n")
    (tmp_path / ".lock").touch()
    token = Fernet(files[4]).encrypt(b"old")
    assert ring(db, tmp_path).fernet().decrypt(token) == b"old"
    assert read(db) == files
    # Once only: whatever becomes of the files.
    (tmp_path / "6").write_bytes(Fernet.generate_key())
    ring(db, tmp_path)
    assert read(db) == files


def test_a_file_that_holds_no_key_is_said_to_be_so(db: Database, tmp_path: Path) -> None:
    (tmp_path / "1").write_text("not a key")
    with pytest.raises(ConfigError, match="1 is not a Fernet key"):
        ring(db, tmp_path)


def test_rotation_promotes_the_staged_key_and_drops_the_oldest(db: Database) -> None:
    ring(db)
    first = read(db)
    assert rotate(db) == 2
    second = read(db)
    assert sorted(second) == [0, 1, 2]
    assert second[2] == first[0]
    assert second[0] not in first.values()
    assert rotate(db) == 3
    assert sorted(read(db)) == [0, 2, 3]
    with pytest.raises(ValueError, match="fewest"):
        rotate(db, 1)


def test_a_token_of_the_next_primary_is_readable_before_the_rotation_is_seen(db: Database) -> None:
    ours = ring(db)
    rotate(db)
    assert ours.fernet().decrypt(ring(db).fernet().encrypt(b"x")) == b"x"


def test_a_running_process_sees_rotations_when_told_and_by_looking(db: Database, clock: Clock) -> None:
    ours = ring(db)
    forgotten: list[float] = []
    watch = KeyWatch(clock, db, [ours], lambda: forgotten.append(clock.seconds()))
    watch.startService()
    clock.advance(keys.PERIOD)
    assert forgotten == []
    # Told: one after the other, so that the first staged key is known no more.
    rotate(db)
    rotate(db)
    newest = ring(db).fernet().encrypt(b"new")
    assert ours.fernet().decrypt(newest) == b"new"
    assert forgotten == [clock.seconds()] * 2

    def untold(conn: Connection) -> None:
        keys.rotate(conn, SEAL, FERNET_KEYS, 3)
        conn.channels.clear()

    db.transact(False, untold)
    db.transact(False, untold)
    newest = ring(db).fernet().encrypt(b"newer")
    clock.advance(keys.PERIOD)
    assert ours.fernet().decrypt(newest) == b"newer"
    # What was sealed with a key that is gone would be taken for as long as it is used.
    assert len(forgotten) == 3
    watch.stopService()


def test_keys_that_were_never_read_seal_nothing(db: Database) -> None:
    with pytest.raises(LookupError, match="credential-keys were not read"):
        KeyRing(db, SEAL, CREDENTIAL_KEYS).fernet()
