"""Hundreds of hosts, none of which is there."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.libvirt.connections import HostConnection
from cloudctl.drivers.libvirt.host import Host, of_all
from cloudctl.drivers.libvirt.options import Config


def test_others_have_their_turn_while_many_hosts_are_asked() -> None:
    clock, config = Clock(), Config()
    hosts = [Host(HostConnection(name, "test:///default", config, None, clock), config) for name in ("a", "b", "c")]
    asked: list[str] = []
    answers: dict[str, Deferred[str]] = {each.name: Deferred() for each in hosts}

    async def ask(host: Host) -> str:
        asked.append(host.name)
        return await answers[host.name]

    found: list[Any] = []
    ensureDeferred(of_all(hosts, ask, clock)).addCallback(found.extend)
    clock.callLater(0, asked.append, "somebody else")
    clock.advance(0)
    assert asked == ["a", "b", "somebody else", "c"], "and nobody waits for another's answer"
    for name in ("c", "a", "b"):
        answers[name].callback(f"of {name}")
    assert found == ["of a", "of b", "of c"]
