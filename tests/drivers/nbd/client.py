"""A guest's side of a volume: QEMU's NBD client."""

from __future__ import annotations

import subprocess
from typing import Any

from twisted.internet.threads import deferToThread

from tests.drivers.qcow2.live import MIB
from tests.there import there


class Client:
    """A guest's side of a connection: QEMU's NBD client, which waits for a server that has gone."""

    def __init__(self, told: Any, reconnect: int = 120) -> None:
        data = told["data"]
        server = ",".join(f"server.{key}={value}" for key, value in data["server"].items())
        options = f"driver=nbd,{server},export={data['export']},reconnect-delay={reconnect}"
        self.process = subprocess.Popen(
            ["qemu-io", "--image-opts", options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def says(self, command: Any, lines: Any = 1) -> Any:
        print(command, file=self.process.stdin, flush=True)
        return [there(self.process.stdout).readline().removeprefix("qemu-io> ").strip() for _ in range(lines)]

    def write(self, pattern: str, offset: int = 0, length: Any = MIB) -> Any:
        """The first line of the answer, in a thread: the daemon may have to be started meanwhile."""
        command = f"write -P {pattern} {offset} {length}"
        return deferToThread(lambda: self.says(command)[0]).addCallback(self._done)

    def _done(self, line: str) -> Any:
        if line.startswith("wrote"):
            there(self.process.stdout).readline()
        return line

    def holds(self, pattern: str, offset: int = 0, length: Any = MIB) -> Any:
        def read() -> Any:
            first = self.says(f"read -P {pattern} {offset} {length}")[0]
            if "failed" in first:
                there(self.process.stdout).readline()
            there(self.process.stdout).readline()
            return "failed" not in first

        return deferToThread(read)

    def size(self) -> Any:
        return self.says("length")[0]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def writes_on(self) -> int:
        """Until it cannot: how often it was told to, which blocks."""
        for number in range(1, 1_000_000):
            (line,) = self.says(f"write -P {number % 250 + 1} 0 4096")
            if not line.startswith("wrote"):
                return number
            there(self.process.stdout).readline()
        raise AssertionError("it writes on and on")
