"""What a test run has started ends with it, and a story that never ends is ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import bounds

STARTS = """
import subprocess, sys
from tests.bounds import WITH_ME
subprocess.Popen([*WITH_ME, "sh", "-c", "echo $$; exec sleep 600"])
sys.stdin.read()
"""
ORIGIN = """
from tests.live import forks
forks.MODULES = ()
forks.serve()
"""


def ends(pid: int, kill: subprocess.Popen[str]) -> bool:
    """Whether this process is gone once the other one has been killed."""
    with open(os.pidfd_open(pid)) as end:
        kill.kill()
        kill.wait()
        watch = select.poll()
        watch.register(end, select.POLLIN)
        return bool(watch.poll(60_000))


def test_a_daemon_ends_with_the_test_run_that_started_it() -> None:
    command = [sys.executable, "-c", STARTS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert ends(int(run.stdout.readline()), run)


def test_a_forked_process_ends_with_its_origin(tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text("import time; time.sleep(600)")
    wish = ["start", [str(script)], str(tmp_path / "log"), {}, str(tmp_path)]
    command = [sys.executable, "-c", ORIGIN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as origin:
        assert origin.stdin is not None and origin.stdout is not None
        print(json.dumps(wish), file=origin.stdin, flush=True)
        assert ends(int(origin.stdout.readline()), origin)


def test_a_story_that_never_ends_is_ended_and_says_what_is_foreign() -> None:
    told = r"^no end after 0 s\. Daemons that this test run has not started:\n"
    with pytest.raises(AssertionError, match=told), bounds.ending_within(0.01):
        while True:
            time.sleep(60)
