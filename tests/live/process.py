"""A cloud in a process of its own, on real ports: started, used, killed and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from cloudctl.state_dir import DATABASE
from tests.bounds import WITH_ME
from tests.live import forks
from tests.live.client import StockClient

READY = 120.0  # seconds within which a started cloud answers, or never
# Below the kernel's ports for clients; so many per process of a test run.
FIRST_PORT, PORTS, WORKERS = 12_000, 2000, 10
_numbers = count(os.getpid())
# One for each port handed out, for as long as this process lives: another run may come to the same numbers.
_given: list[socket.socket] = []
PASSWORDS = {"admin": "admin-secret", "demo": "demo-secret"}


def free_port() -> int:
    """A port that no other test process gets, nor the kernel gives to a client: another process binds it later."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = FIRST_PORT + worker % WORKERS * PORTS + next(_numbers) % PORTS
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0a port of cloudctl's tests: {port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            mark.close()
            continue
        _given.append(mark)
        return port


def command(name: str) -> str:
    """The path of a command installed beside this Python."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return found


@cache
def migrated() -> bytes:
    """A database of SQLite that has all tables: what a first start spends most of its time on."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        script = str(Path(__file__).with_name("migrated.py"))
        process = forks.origin().start([script, f"{name}/made"], directory / "log", os.environ, directory)
        assert process.wait(timeout=600) == 0, (directory / "log").read_text()
        return (directory / "made").read_bytes()


class LiveCloud:
    """`twist cloudctl` in `directory`. Processes of one cloud have the same `state_dir`, by default in that directory.

    `afresh`: each start imports everything, as when its time is measured, and the first one runs all migrations;
    otherwise it forks a process that has imported it, and begins with the tables.
    """

    def __init__(
        self,
        directory: Path,
        toml: str = "",
        reactor: str = "default",
        state_dir: Path | None = None,
        *,
        afresh: bool = False,
    ) -> None:
        self.directory = directory
        self.state_dir = state_dir or directory / "state"
        self.port, self.ha_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.reactor = reactor
        self.database = self.state_dir / DATABASE  # without one in `toml`
        self.config = directory / "cloudctl.toml"
        self.config.write_text(toml)
        self.log = directory / "cloud.log"
        self.process: subprocess.Popen[bytes] | forks.Forked | None = None
        self._afresh = afresh
        self._tokens: dict[str, str] = {}
        self._client: StockClient | None = None

    def start(self, wait: bool = True) -> float:
        """Start it; returns seconds until the first answer."""
        began = time.monotonic()
        environment = {
            **os.environ,
            "CLOUDCTL_ADMIN_PASSWORD": PASSWORDS["admin"],
            "CLOUDCTL_DEMO_PASSWORD": PASSWORDS["demo"],
        }
        arguments = [command("twist"), f"--reactor={self.reactor}", "--log-format=text", "cloudctl"]
        arguments += [f"--config={self.config}", f"--state-dir={self.state_dir}"]
        arguments += [f"--listen=tcp:{self.port}:interface=127.0.0.1"]
        arguments += [f"--ha-listen=tcp:{self.ha_port}:interface=127.0.0.1"]
        if self._afresh:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*WITH_ME, *arguments], stdout=log, stderr=log, env=environment, cwd=self.directory
                )
        else:
            if "[database]" not in self.config.read_text() and not self.database.exists():
                self.state_dir.mkdir(mode=0o700, exist_ok=True)
                self.database.write_bytes(migrated())
            self.process = forks.origin().start(arguments, self.log, environment, self.directory)
        if wait:
            self.wait(began)
        return time.monotonic() - began

    def wait(self, began: float) -> None:
        while time.monotonic() < began + READY:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")
            try:
                urlopen(f"{self.url}/healthcheck", timeout=60).read()
                return
            except (URLError, ConnectionError, TimeoutError):
                time.sleep(0.02)
        raise AssertionError(f"no answer within {READY} s:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=120)
        self.process = None
        return status

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    # -- requests

    def token(self, user: str = "demo") -> str:
        if user not in self._tokens:
            password = {"user": {"name": user, "domain": {"id": "default"}, "password": PASSWORDS[user]}}
            scope = {"project": {"name": user, "domain": {"id": "default"}}}
            auth = {"auth": {"identity": {"methods": ["password"], "password": password}, "scope": scope}}
            _, headers, _ = self._send("POST", "/identity/v3/auth/tokens", auth, {})
            self._tokens[user] = headers["x-subject-token"]
        return self._tokens[user]

    def ask(self, method: str, path: str, body: Any = None, user: str = "demo", **headers: str) -> tuple[int, Any]:
        """(status, JSON or None). A body of bytes is sent as it is. Raises OSError if the cloud is not there."""
        status, _, value = self._send(method, path, body, {"X-Auth-Token": self.token(user), **headers})
        return status, value

    def body(self, path: str, user: str = "demo") -> bytes:
        """The body of a GET's answer. Raises OSError."""
        with urlopen(Request(self.url + path, headers={"X-Auth-Token": self.token(user)}), timeout=60) as answer:
            return bytes(answer.read())

    def _send(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers}
        request = Request(self.url + path, data=data, headers=sent, method=method)
        try:
            with urlopen(request, timeout=60) as answer:
                status, found, raw = answer.status, answer.headers, answer.read()
        except HTTPError as error:
            status, found, raw = error.code, error.headers, error.read()
        except HTTPException as error:
            raise ConnectionError(f"half an answer: {error!r}") from error
        # Never right, and only the log says why.
        assert status != 500, f"{method} {path}: {raw!r}\n{self.log.read_text()[-8000:]}"
        lower = {name.lower(): value for name, value in found.items()}
        return status, lower, json.loads(raw) if raw and "json" in lower.get("content-type", "") else None

    def openstack(self, *arguments: str, cloud: str = "cloudctl", check: bool = True) -> Any:
        """The stock client: its JSON output, or its text if it has none."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "OS_CLIENT_CONFIG_FILE": str(self.state_dir / "clouds.yaml"),
            "OS_CLOUD": cloud,
        }
        if self._client is None:
            self._client = StockClient(command("openstack"), self.directory)
        done = self._client.run(arguments, environment)
        if check and done.returncode != 0:
            raise AssertionError(f"openstack {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return done.stdout + done.stderr
