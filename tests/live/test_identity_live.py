"""What only shows over real sockets and between real processes: lock-out, the time of an answer, revocation."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.process import PASSWORDS, LiveCloud

pytestmark = pytest.mark.slow

LOCKING = """
[identity.passwords]
lockout_failure_attempts = 3
lockout_duration = 600
"""
ROUNDS = 12


@pytest.fixture(scope="module")
def locking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    cloud = LiveCloud(tmp_path_factory.mktemp("locking"), LOCKING)
    cloud.start()
    yield cloud
    cloud.kill()


def login(cloud: LiveCloud, name: str, password: str) -> int:
    user = {"name": name, "domain": {"id": "default"}, "password": password}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    return cloud.ask("POST", "/identity/v3/auth/tokens", auth, "admin")[0]


def test_who_fails_too_often_is_locked_out_and_nobody_else(locking: LiveCloud) -> None:
    assert login(locking, "demo", PASSWORDS["demo"]) == 201
    assert [login(locking, "demo", "wrong") for _ in range(3)] == [401] * 3
    assert login(locking, "demo", PASSWORDS["demo"]) == 401
    assert login(locking, "admin", PASSWORDS["admin"]) == 201


def seconds(login: Callable[[], int]) -> float:
    began = time.perf_counter()
    assert login() == 401
    return time.perf_counter() - began


def test_an_unknown_user_is_refused_as_slowly_as_a_known_one(locking: LiveCloud) -> None:
    """Medians of alternating attempts, so that a busy machine slows both; one good round of ten is enough."""
    # Failures of this user are counted each time, and the password is compared with the hash each time.
    user = {"name": "timed", "password": "x", "options": {"ignore_lockout_failure_attempts": True}}
    status, made = locking.ask("POST", "/identity/v3/users", {"user": user}, "admin")
    assert status == 201, made
    ratios = []
    for _ in range(10):
        known, unknown = [], []
        for _ in range(ROUNDS):
            known.append(seconds(lambda: login(locking, "timed", "wrong")))
            unknown.append(seconds(lambda: login(locking, "nobody", "wrong")))
        ratios.append(statistics.median(known) / statistics.median(unknown))
        if 0.8 < ratios[-1] < 1.25:
            return
    pytest.fail(f"known to unknown, medians: {ratios}")


# -- two processes


@pytest.fixture
def two(tmp_path: Path, postgresql_url: str) -> Iterator[list[LiveCloud]]:
    """Two processes of one cloud."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        toml = f'[database]\nurl = "{postgresql_url}"\n'
        made.append(LiveCloud(tmp_path / name, toml, state_dir=tmp_path / "state"))
        made[-1].start()
    yield made
    for cloud in made:
        cloud.kill()


def test_what_one_process_revokes_no_other_takes_any_longer(two: list[LiveCloud]) -> None:
    one, other = two
    own = "/identity/v3/auth/projects"
    user = one.ask("GET", "/identity/v3/users?name=demo", user="admin")[1]["users"][0]["id"]
    path = f"/identity/v3/users/{user}"

    def fresh() -> Any:
        """A token that both processes already know."""
        one._tokens.pop("demo", None)
        other._tokens["demo"] = one.token("demo")
        assert [cloud.ask("GET", own)[0] for cloud in two] == [200, 200]

    def revoke() -> int:
        subject = {"X-Subject-Token": one.token("demo")}
        return one.ask("DELETE", "/identity/v3/auth/tokens", **subject)[0]

    def enable(value: bool) -> int:
        return one.ask("PATCH", path, {"user": {"enabled": value}}, "admin")[0]

    def reset() -> int:
        return one.ask("PATCH", path, {"user": {"password": PASSWORDS["demo"]}}, "admin")[0]

    for change, status in ((revoke, 204), (lambda: enable(False), 200), (reset, 200)):
        enable(True)
        fresh()
        assert change() == status
        assert other.ask("GET", own)[0] == 401
