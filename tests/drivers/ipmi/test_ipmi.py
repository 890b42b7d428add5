"""Fencing by IPMI: what ipmitool is asked, and what its answers mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError, UnknownHost, Unreachable
from cloudctl.drivers.ipmi.driver import Config, HostOptions, fencer
from cloudctl.drivers.power import PowerFencer
from cloudctl.drivers.programs import ProgramFailed
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
from cloudctl.options import structure
from cloudctl.testing.faults import with_faults
from cloudctl.testing.fencer_suite import fencer_suite


@define(eq=False)
class Ipmitool:
    """As it answers."""

    power: str = "on"
    deaf: bool = False
    error: Exception | None = None
    calls: list[tuple[str, ...]] = field(factory=list)

    async def read(self, name: str, /, *arguments: str, timeout: float) -> bytes:
        self.calls.append(arguments)
        if self.error is not None:
            raise self.error
        return f"Chassis Power is {self.power}\n".encode()

    async def change(self, name: str, /, *arguments: str, timeout: float) -> bytes:
        self.calls.append(arguments)
        if not self.deaf:
            self.power = arguments[-1]
        return b"Chassis Power Control: Down/Off\n"


@pytest.fixture
def tool() -> Ipmitool:
    return Ipmitool()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def made(tool: Ipmitool, clock: Clock) -> PowerFencer:
    hosts = {"compute-1": HostOptions("10.0.0.1", "root", Path("/etc/cloudctl/compute-1"))}
    return fencer(Config(hosts), DriverResources(clock=clock, name="ipmi"), tool)


@pytest.mark.parametrize("wrong", [{"address": ""}, {"port": 0}, {"port": 65536}])
def test_a_controller_that_cannot_be_reached_so_is_refused(wrong: dict[str, Any]) -> None:
    """Only a fencing would have met it."""
    table = {"address": "10.0.0.1", "user": "root", "password_file": "/etc/cloudctl/compute-1"}
    structure(HostOptions, table, "driver.fencer.ipmi.hosts.compute-1")
    with pytest.raises(ConfigError, match=f"compute-1.{next(iter(wrong))}"):
        structure(HostOptions, {**table, **wrong}, "driver.fencer.ipmi.hosts.compute-1")


async def test_a_host_is_off_when_its_controller_says_so(made: PowerFencer, tool: Ipmitool) -> None:
    assert await made.ensure_fenced("compute-1") == "ipmi 10.0.0.1 measures that compute-1 has no power"
    place = ("-I", "lanplus", "-H", "10.0.0.1", "-p", "623", "-U", "root", "-f", "/etc/cloudctl/compute-1")
    assert tool.calls[0] == (*place, "chassis", "power", "status")
    assert [each[-1] for each in tool.calls] == ["status", "off", "status"]
    await made.ensure_unfenced("compute-1")
    assert tool.power == "on"


def test_an_order_that_is_not_carried_out_is_no_proof(made: PowerFencer, tool: Ipmitool, clock: Clock) -> None:
    tool.deaf = True
    outcome: list[object] = []
    ensureDeferred(made.ensure_fenced("compute-1")).addErrback(lambda failure: outcome.append(failure.value))
    for _ in range(70):
        clock.advance(1)
    assert isinstance(outcome[0], Unreachable)


async def test_whoever_cannot_tell_raises(made: PowerFencer, tool: Ipmitool) -> None:
    tool.power = "unknown"
    with pytest.raises(Unreachable, match="does not say"):
        await made.ensure_fenced("compute-1")
    tool.error = ProgramFailed("ipmitool", 1, "Unable to establish IPMI v2 / RMCP+ session")
    with pytest.raises(DriverError, match="RMCP"):
        await made.ensure_fenced("compute-1")
    with pytest.raises(UnknownHost):
        await made.ensure_fenced("compute-2")


_tools: list[Ipmitool] = []


def make_driver(directory: Path) -> Any:
    from twisted.internet import reactor

    (directory / "password").touch()
    hosts = {"compute-1": HostOptions("10.0.0.1", "root", directory / "password")}
    return with_faults(fencer(Config(hosts), DriverResources(reactor, "ipmi", reactor), _tools[-1]), reactor)


async def is_off() -> bool:
    return _tools[-1].power == "off"


class TestIpmi(fencer_suite(make_driver, is_off)):
    @pytest.fixture(autouse=True)
    def _a_controller(self, tool: Ipmitool, monkeypatch: pytest.MonkeyPatch) -> None:
        _tools[:] = [tool]
        # The program is simulated, so it need not be there.
        monkeypatch.setattr("cloudctl.drivers.ipmi.driver.require", lambda *_names: None)
