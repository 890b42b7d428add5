"""A RabbitMQ of the test run's own, from Debian's package; or the one that CLOUDCTL_TEST_AMQP names: `host:port`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.process import free_port
from tests.needed import need

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PATIENCE = 120.0  # seconds
AMQP = "CLOUDCTL_REQUIRE_AMQP"
CONFIGURATION = "listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users = none\n"


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Its host and port."""
    named = os.environ.get("CLOUDCTL_TEST_AMQP")
    if named:
        host, _, its_port = named.rpartition(":")
        yield host, int(its_port)
        return
    need(None if SERVER.exists() and shutil.which("erl") else "rabbitmq-server is not installed", AMQP)
    home = tmp_path_factory.mktemp("rabbitmq")
    port, distribution, names = free_port(), free_port(), free_port()
    (home / "rabbitmq.conf").write_text(CONFIGURATION.format(port=port))
    settings = {
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"cloudctl-{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq"),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(names),
    }
    with (home / "out").open("w") as out:
        server = subprocess.Popen([SERVER], env=os.environ | settings, stdout=out, stderr=out, start_new_session=True)
        try:
            _wait(server, port, home / "out")
            yield "127.0.0.1", port
        finally:
            os.killpg(server.pid, 15)
            server.wait(PATIENCE)
            subprocess.run(["epmd", "-port", str(names), "-kill"], capture_output=True, check=False)


def _wait(server: subprocess.Popen[bytes], port: int, out: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert server.poll() is None, out.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(out.read_text())
