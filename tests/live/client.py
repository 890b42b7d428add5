"""The stock `openstack` command, again and again: its modules are imported once, and each command is a fork of that.

Importing them takes 1.5 seconds of processor time, most of what a command would cost. A fork runs the installed script,
in a process of its own, with its own environment and folder.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TIMEOUT = 120  # seconds for one command


class StockClient:
    """`script` is the path of the command. Close it."""

    def __init__(self, script: str, directory: Path) -> None:
        self._directory = directory
        self._out, self._err = directory / "openstack.out", directory / "openstack.err"
        # -P: those modules must not import what lies beside this file.
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, script, str(self._out), str(self._err)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=directory,
            text=True,
        )

    def run(self, arguments: tuple[str, ...], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([arguments, dict(environment)]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(arguments, status, self._out.read_text(), self._err.read_text())

    def close(self) -> None:
        self._process.communicate()


def serve(script: str, *files: str) -> None:
    importlib.import_module("openstackclient.shell")
    for line in sys.stdin:
        arguments, environment = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(TIMEOUT)
            for number, file in enumerate((os.devnull, *files)):
                os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = [script, *arguments]
            runpy.run_path(script, run_name="__main__")
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
