"""Real networks: only as root, with all programs. CLOUDCTL_REQUIRE_HOST=1 makes their absence a failure."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.drivers.netns.lab import Lab, dnsmasq_pids, lacking, left_over, make_driver, run, runtime_dir
from tests.needed import HOST, need


@pytest.fixture
def prefix() -> Iterator[str]:
    """Of the names of everything that the test makes."""
    need(lacking(), HOST)
    prefix = reserved()
    yield prefix
    for pid in dnsmasq_pids(prefix):
        os.kill(pid, 9)
    run("ip", "-batch", "-", stdin="".join(f"netns del {name}\n" for name in left_over(prefix)))
    shutil.rmtree(runtime_dir(prefix), ignore_errors=True)


def reserved() -> str:
    """A prefix that no other test on this machine has now: they are short."""
    while True:
        prefix = f"t{secrets.token_hex(1)}"
        try:
            runtime_dir(prefix).mkdir()
        except FileExistsError:
            continue
        return prefix


@pytest_twisted.async_yield_fixture
async def lab(prefix: str, tmp_path: Path) -> AsyncIterator[Lab]:
    """Two hosts, the first with a bridge to the outside, where a namespace has 203.0.113.1."""
    lab = Lab(prefix, tmp_path, make_driver(prefix, tmp_path))
    lab.wire_up()
    yield lab
    await lab.driver.close()
