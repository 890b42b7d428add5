"""The only way to a server, which can be cut for a while."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

from attrs import define, field

from tests.live.process import free_port


def no_line() -> str | None:
    """Why it is impossible here."""
    return None if shutil.which("socat") else "socat is not installed"


@define(eq=False)
class Line:
    """`to`: host:port of the server. `port`: the port of this machine that leads there."""

    to: str
    port: int = field(factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def mend(self) -> None:
        command = ["socat", f"TCP-LISTEN:{self.port},bind=127.0.0.1,fork,reuseaddr", f"TCP:{self.to}"]
        self.process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)

    def cut(self) -> None:
        """Including all open connections."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
