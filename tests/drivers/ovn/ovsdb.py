"""A northbound database of the tests' own: a server with its schema and nothing that acts on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from cloudctl.drivers.ovn.driver import Config, create
from cloudctl.drivers.specs import DriverResources
from tests.bounds import WITH_ME

SCHEMA = Path("/usr/share/ovn/ovn-nb.ovsschema")
PROGRAMS = ("ovsdb-server", "ovsdb-tool", "ovsdb-client")


def lacking() -> str | None:
    """Why there can be no database here."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"OVN's tests need {', '.join(missing)}"
    if not SCHEMA.exists():
        return f"OVN's tests need {SCHEMA}"
    try:
        import ovs  # noqa: F401 - the question is whether it is there
    except ImportError as error:
        return str(error)
    return None


class Server:
    """One that can be killed and started again. `remote` leads to it."""

    def __init__(self, directory: Path, *options: str, name: str = "nb", schema: Path = SCHEMA) -> None:
        self.directory = directory
        self.name = name
        self.database = str(orjson.loads(schema.read_bytes())["name"])
        self.file = directory / f"{name}.db"
        self.socket = directory / f"{name}.sock"
        self.remote = f"unix:{self.socket}"
        self.options = options
        subprocess.run(["ovsdb-tool", "create", self.file, schema], check=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = ["ovsdb-server", str(self.file), f"--remote=punix:{self.socket}", "--no-chdir", *self.options]
        own = self.directory / self.name
        command += [f"--unixctl={own}.ctl", f"--log-file={own}.log", "-vconsole:off"]
        self.process = subprocess.Popen([*WITH_ME, *command], stdin=subprocess.DEVNULL)
        eventually(self.socket.exists)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None
        self.socket.unlink(missing_ok=True)

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def transact(self, *operations: dict[str, Any]) -> list[Any]:
        """By another client than the driver."""
        query = orjson.dumps([self.database, *operations]).decode()
        done = subprocess.run(["ovsdb-client", "transact", self.remote, query], capture_output=True, check=True)
        answers: list[Any] = orjson.loads(done.stdout)
        assert not any("error" in each for each in answers if each), answers
        return answers

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        wanted = {"op": "select", "table": table, "where": [], "columns": list(columns)}
        return self.transact(wanted)[0]["rows"]

    def empty(self) -> None:
        """The database holds nothing of ours."""
        tables = ("Logical_Switch", "Logical_Router", "Port_Group", "Address_Set", "DHCP_Options", "Load_Balancer")
        self.transact(*({"op": "delete", "table": each, "where": []} for each in tables))


def make_driver(server: Server | None, **options: Any) -> Any:
    """`northbound` says where the database is, where there is no `server`."""
    from twisted.internet import reactor

    remotes = {"northbound": [server.remote]} if server else {}
    config = Config(**{**remotes, "gateway_chassis": ["east", "west"], **options})
    return create(config, DriverResources(clock=reactor, name="ovn", reactor=reactor))


def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come to be"
        time.sleep(0.02)
