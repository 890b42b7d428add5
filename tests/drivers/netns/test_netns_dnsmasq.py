"""The dnsmasq of a network, without one: when it is started again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.netns.daemons import Daemons
from cloudctl.drivers.netns.dnsmasq import Dnsmasq
from cloudctl.drivers.programs import ProgramFailed
from cloudctl.drivers.specs import FixedIp, NetworkSpec, PortSpec, SubnetSpec

NETWORK = NetworkSpec("n1", subnets=(SubnetSpec("s1", "10.0.0.0/24", "10.0.0.1"),))
PORT = PortSpec("p1", "n1", "fa:16:3e:00:00:01", (FixedIp("s1", "10.0.0.5"),))
MOVED = evolve(PORT, fixed_ips=(FixedIp("s1", "10.0.0.6"),))


@frozen
class Pretended(Daemons):
    """Nothing is started: `run` has the arguments of what would run. `fail`: a start that is in it does not succeed."""

    run: dict[str, list[str]] = field(factory=dict)
    fail: list[str] = field(factory=list)
    starts: list[str] = field(factory=list)
    ends: list[Deferred[None]] = field(factory=list)  # what the next ends wait for

    def running(self, id: str) -> list[str]:
        return self.run.get(id, [])

    async def start(self, arguments: Sequence[str], namespace: str) -> None:
        if self.fail:
            raise ProgramFailed("dnsmasq", 1, self.fail.pop())
        if arguments:
            self.starts.append(namespace)
            self.run[NETWORK.id] = list(arguments)

    async def end(self, id: str) -> None:
        if self.ends:
            await self.ends.pop()
        self.run.pop(id, None)

    def signal(self, id: str, number: Any) -> None:
        pass


@pytest.fixture
def daemons(tmp_path: Path) -> Pretended:
    kernel: Any = SimpleNamespace(programs=SimpleNamespace(dry_run=False))
    return Pretended(kernel, Clock(), tmp_path)


@pytest.mark.parametrize("gone", [False, True], ids=["changed", "gone"])
async def test_what_could_not_be_started_again_is_started_by_a_repeat(daemons: Pretended, gone: bool) -> None:
    dnsmasq = Dnsmasq(daemons, 600)

    async def change() -> None:
        if gone:
            await dnsmasq.ensure_port_absent(PORT.id, NETWORK.id, "space")
        else:
            await dnsmasq.ensure_port(MOVED, NETWORK, "space")

    await dnsmasq.ensure(NETWORK, "space", lambda: [PORT])
    before = daemons.running(NETWORK.id)
    daemons.fail[:] = ["no memory", "no memory"]
    for _ in range(2):
        with pytest.raises(DriverError):
            await change()
        assert not daemons.running(NETWORK.id)
    await change()
    assert daemons.running(NETWORK.id) == before
    await change()
    assert len(daemons.starts) == 2


async def test_a_network_that_went_or_was_made_anew_is_not_started_again(daemons: Pretended) -> None:
    dnsmasq = Dnsmasq(daemons, 600)
    for renew in (True, False):
        await dnsmasq.ensure(NETWORK, "space", lambda: [PORT])
        daemons.fail.append("no memory")
        with pytest.raises(DriverError):
            await dnsmasq.ensure_port(MOVED, NETWORK, "space")
        if renew:
            await dnsmasq.ensure(NETWORK, "space", lambda: [MOVED])
        else:
            await dnsmasq.ensure_absent(NETWORK.id)
        daemons.starts.clear()
        await dnsmasq.ensure_port_absent("p2", NETWORK.id, "space")
        assert daemons.starts == []


async def test_a_port_that_is_added_while_a_network_waits_for_its_turn_is_known(daemons: Pretended) -> None:
    dnsmasq, ports = Dnsmasq(daemons, 600), [PORT]
    await dnsmasq.ensure(NETWORK, "space", lambda: ports)
    ended: Deferred[None] = Deferred()
    daemons.ends.append(ended)
    ports[:] = [MOVED]
    moved = ensureDeferred(dnsmasq.ensure_port(MOVED, NETWORK, "space"))
    renewed = ensureDeferred(dnsmasq.ensure(NETWORK, "space", lambda: tuple(ports)))
    other = evolve(PORT, id="p2", fixed_ips=(FixedIp("s1", "10.0.0.7"),))
    ports.append(other)
    await dnsmasq.ensure_port(other, NETWORK, "space")
    ended.callback(None)
    await moved
    await renewed
    assert sorted(file.name for file in (daemons.directory(NETWORK.id) / "hosts").iterdir()) == ["p1", "p2"]
