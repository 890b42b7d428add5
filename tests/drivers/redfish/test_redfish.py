"""Fencing by Redfish, of a simulated management controller."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from klein import Klein
from twisted.internet.task import Clock
from twisted.web.server import Site

from cloudctl.drivers.errors import DriverError, UnknownHost, Unreachable
from cloudctl.drivers.loader import check, load
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
from cloudctl.testing.faults import with_faults
from cloudctl.testing.fencer_suite import fencer_suite

SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
BASIC = b"Basic " + base64.b64encode(b"root:calvin")


@define(eq=False)
class Bmc:
    """A controller. `slow`: for how many looks the power stays as it was; `deaf`: it takes orders and does nothing."""

    app: Klein = field(factory=Klein)
    power: str = "On"
    wanted: str = "On"
    slow: int = 0
    deaf: bool = False
    status: int = 200
    target: str = RESET
    orders: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.app.route(SYSTEM)(self.show)
        self.app.route(RESET, methods=["POST"])(self.reset)

    def show(self, request: Any) -> bytes:
        if self.power != self.wanted:
            self.slow -= 1
            self.power = self.wanted if self.slow < 0 else self.power
        return self._answer(request, f'"PowerState": "{self.power}"')

    def reset(self, request: Any) -> bytes:
        order = request.content.read().decode()
        self.orders.append(order)
        if not self.deaf:
            self.wanted = "Off" if "ForceOff" in order else "On"
        return self._answer(request, '"ok": true')

    def _answer(self, request: Any, told: str) -> bytes:
        if request.getHeader(b"authorization") != BASIC:
            request.setResponseCode(401)
            return b"{}"
        request.setResponseCode(self.status)
        return f'{{{told}, "Actions": {{"#ComputerSystem.Reset": {{"target": "{self.target}"}}}}}}'.encode()


@pytest.fixture
def bmc() -> Bmc:
    return Bmc()


@pytest.fixture
def port(bmc: Bmc, reactor: Any) -> Iterator[Any]:
    found = reactor.listenTCP(0, Site(bmc.app.resource()), interface="127.0.0.1")
    yield found
    found.stopListening()


@pytest.fixture
def table(port: Any, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "password").write_text("calvin\n")
    url = f"http://127.0.0.1:{port.getHost().port}{SYSTEM}"
    host = {"url": url, "user": "root", "password_file": str(tmp_path / "password")}
    return {"hosts": {"compute-1": host}, "power_timeout": 60.0, "timeout": 60.0}


def made(table: dict[str, Any], reactor: Any) -> Any:
    return load("fencer", "redfish", table, DriverResources(clock=reactor, name="redfish", reactor=reactor))


async def test_a_host_is_off_when_its_controller_measures_it(bmc: Bmc, table: Any, reactor: Any) -> None:
    fencer = made(table, reactor)
    bmc.slow = 1
    evidence = await fencer.ensure_fenced("compute-1")
    assert "measures that compute-1 has no power" in evidence and "calvin" not in evidence
    assert (bmc.power, bmc.orders) == ("Off", ['{"ResetType":"ForceOff"}'])
    await fencer.ensure_fenced("compute-1")
    assert len(bmc.orders) == 1
    await fencer.ensure_unfenced("compute-1")
    assert bmc.power == "On"


async def test_an_order_that_is_not_carried_out_is_no_proof(bmc: Bmc, table: Any, reactor: Any) -> None:
    bmc.deaf = True
    table["power_timeout"] = 0.1
    with pytest.raises(Unreachable, match="was told, and the host is still on"):
        await made(table, reactor).ensure_fenced("compute-1")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"status": 503}, Unreachable, "cannot answer now"),
        ({"status": 302}, DriverError, "refuses GET"),
        ({"power": "PoweringOn", "wanted": "PoweringOn"}, Unreachable, "says that the power is"),
        ({"target": "http://elsewhere.example.com/reset"}, DriverError, "offers no reset"),
    ],
)
async def test_whoever_cannot_tell_raises(
    bmc: Bmc, table: Any, reactor: Any, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    for name, value in change.items():
        setattr(bmc, name, value)
    with pytest.raises(error, match=message):
        await made(table, reactor).ensure_fenced("compute-1")
    assert bmc.orders == []


async def test_a_wrong_password_an_unknown_host_and_a_dead_controller(table: Any, reactor: Any, port: Any) -> None:
    with pytest.raises(UnknownHost):
        await made(table, reactor).ensure_fenced("compute-2")
    Path(table["hosts"]["compute-1"]["password_file"]).write_text("wrong")
    with pytest.raises(DriverError, match="refuses user root"):
        await made(table, reactor).ensure_fenced("compute-1")
    for dead in ("127.0.0.1:9", "no-such-host.invalid"):
        table["hosts"]["compute-1"]["url"] = f"http://{dead}{SYSTEM}"
        with pytest.raises(Unreachable, match="does not answer"):
            await made(table, reactor).ensure_fenced("compute-1")


def test_what_cannot_be_is_told_at_the_start(table: Any) -> None:
    table["hosts"]["compute-1"]["password_file"] = "/nonexistent"
    with pytest.raises(ConfigError, match="the password of compute-1 cannot be read"):
        check(made(table, Clock()), "driver.fencer.redfish")
    table["hosts"]["compute-1"]["url"] = "10.0.0.1"
    with pytest.raises(ConfigError, match="must be the URL of a system"):
        made(table, Clock())
    table["hosts"]["compute-1"]["url"] = "https://10.0.0.1:99999/redfish/v1/Systems/1"
    with pytest.raises(ConfigError, match="url: is not an address: Port out of range"):
        made(table, Clock())


async def test_authorities_that_cannot_be_read_are_told_whenever_that_is(
    bmc: Bmc, table: Any, reactor: Any, tmp_path: Path
) -> None:
    authorities = tmp_path / "ca.pem"
    table["ca_file"] = str(authorities)
    damaged = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"
    for content in (None, b"", damaged):
        if content is not None:
            authorities.write_bytes(content)
        with pytest.raises(ConfigError, match=r"ca\.pem"):
            check(made(table, Clock()), "driver.fencer.redfish")
        with pytest.raises(DriverError, match=r"ca\.pem"):
            await made(table, reactor).ensure_fenced("compute-1")
    assert bmc.orders == []


_made: list[tuple[Bmc, dict[str, Any]]] = []


def make_driver(_directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(made(_made[-1][1], reactor), reactor)


async def is_off() -> bool:
    return _made[-1][0].wanted == "Off"


class TestRedfish(fencer_suite(make_driver, is_off)):
    @pytest.fixture(autouse=True)
    def _a_controller(self, bmc: Bmc, table: dict[str, Any]) -> None:
        _made[:] = [(bmc, table)]
