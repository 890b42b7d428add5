"""The fencer `rbd`: the public suite with a simulated `ceph`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define, field

from cloudctl.drivers.errors import Unreachable, Unusable
from cloudctl.drivers.rbd import fencer
from cloudctl.testing.faults import with_faults
from cloudctl.testing.fencer_suite import fencer_suite

HOST, ADDRESS = "compute-1", "127.0.0.77"
ENTRIES = {f"{ADDRESS}:0/0", "[2001:db8::77]:0/0"}


@define(eq=False)
class Monitors:
    """Of a Ceph, as its program asks them. `deaf`: they take orders and do nothing."""

    blocked: dict[str, str] = field(factory=dict)
    deaf: bool = False

    async def change(self, name: str, /, *arguments: str, timeout: float) -> bytes:
        assert (name, timeout) == ("ceph", 30.0)
        words = list(arguments[arguments.index("osd") :])
        match words:
            case ["osd", "blocklist", "add", entry, seconds]:
                assert int(seconds) > 10 * 365 * 86_400
                if not self.deaf:
                    self.blocked[entry] = "2046-01-01T00:00:00.000000+0000"
            case ["osd", "blocklist", "rm", entry]:
                del self.blocked[entry]
            case ["osd", "dump", "--format=json"]:
                return orjson.dumps({"epoch": 1, "blocklist": self.blocked})
            case _:
                raise AssertionError(words)
        return b""


_monitors: list[Monitors] = []


def options(directory: Path) -> fencer.Config:
    (directory / "key").touch()
    return fencer.Config(keyring=directory / "key", hosts={HOST: [ADDRESS, "2001:db8::77"]})


def make_driver(directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(fencer.RbdFencer(options(directory), _monitors[-1]), reactor)


async def is_fenced() -> bool:
    found = ENTRIES & _monitors[-1].blocked.keys()
    assert len(found) in (0, 2)
    return bool(found)


class TestRbdFencer(fencer_suite(make_driver, is_fenced, HOST)):
    @pytest.fixture(autouse=True)
    def _a_cluster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _monitors[:] = [Monitors({"10.9.8.7:0/123": "of somebody else"})]
        # The program is simulated, so it need not be there.
        monkeypatch.setattr("cloudctl.drivers.rbd.fencer.require", lambda *_names: None)


async def test_an_order_that_is_not_carried_out_is_no_proof(tmp_path: Path) -> None:
    driver = fencer.RbdFencer(options(tmp_path), Monitors(deaf=True))
    with pytest.raises(Unreachable, match="does not list"):
        await driver.ensure_fenced(HOST)


async def test_without_its_key_it_is_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudctl.drivers.rbd.fencer.require", lambda *_names: None)
    with pytest.raises(Unusable, match="key of user fencer"):
        await fencer.RbdFencer(fencer.Config(keyring=tmp_path / "none"), Monitors()).check()


def test_a_host_without_an_address_is_refused() -> None:
    wrong: list[str]
    for wrong in ([], ["somewhere"]):
        with pytest.raises(ValueError, match=r"no address|does not appear"):
            fencer.Config(hosts={HOST: wrong})
