"""A dry run says what it would do, and does nothing."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname
from typing import Any, cast

from attrs import evolve
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogLevel, globalLogPublisher

from cloudctl.drivers.netns.driver import Config, create
from cloudctl.drivers.specs import (
    DriverResources,
    FixedIp,
    NetworkSpec,
    PortSpec,
    RouterInterface,
    RouterSpec,
    SecurityGroupSpec,
    SubnetSpec,
)

NOWHERE = "cloudctl-test-that-is-not-there"


class NoProcesses:
    """A reactor on which nothing can be started."""

    def spawnProcess(self, *args: Any, **kwargs: Any) -> None:
        raise AssertionError(f"a dry run starts {args[2]}")


async def test_a_dry_run_prints_the_whole_plan_and_starts_nothing(tmp_path: Path) -> None:
    config = Config(hosts={"one": NOWHERE}, runtime_dir=tmp_path / "run", dry_run=True)
    resources = DriverResources(clock=Clock(), name="netns", reactor=NoProcesses(), state_dir=tmp_path / "state")
    driver = create(config, resources)
    events: list[Any] = []
    observer = cast(ILogObserver, events.append)
    globalLogPublisher.addObserver(observer)
    try:
        await driver.ensure_network(NetworkSpec("n1", subnets=(SubnetSpec("s1", "10.0.0.0/24"),)))
        await driver.ensure_security_group(SecurityGroupSpec("g1"))
        await driver.ensure_port(
            PortSpec("p1", "n1", "fa:16:3e:00:00:01", (FixedIp("s1", "10.0.0.5"),), security_groups=("g1",)), "one"
        )
        await driver.ensure_router(
            RouterSpec("r1", interfaces=(RouterInterface("p2", "n1", "fa:16:3e:00:00:02", ("10.0.0.1/24",)),))
        )
    finally:
        globalLogPublisher.removeObserver(observer)
    told = [
        event["command"] + event["stdin"]
        for event in events
        if event["log_level"] is LogLevel.info and "command" in event
    ]
    for word in (
        "netns add ccn-n1",
        "type bridge",
        "dnsmasq",
        "tuntap add",
        "jump from1",
        "netns add ccr-r1",
        "ip_forward=1",
    ):
        assert any(word in each for each in told), f"{word} is not in the plan"
    assert list(tmp_path.iterdir()) == []


async def test_a_port_leaves_a_host_that_is_configured_no_more(tmp_path: Path) -> None:
    config = Config(hosts={"one": NOWHERE}, runtime_dir=tmp_path / "run", dry_run=True)
    driver = create(config, DriverResources(clock=Clock(), name="netns", reactor=NoProcesses()))
    await driver.ensure_network(NetworkSpec("n1", subnets=(SubnetSpec("s1", "10.0.0.0/24"),)))
    spec = PortSpec("p1", "n1", "fa:16:3e:00:00:01", (FixedIp("s1", "10.0.0.5"),))
    await driver.ensure_port(spec, "one")
    kept = driver.records.ports.get("p1")
    assert kept is not None
    driver.records.ports.put("p1", evolve(kept, hosts=("gone", "one")))
    await driver.ensure_port_absent("p1", "gone")
    assert driver.records.ports.get("p1") == kept
    driver.records.ports.put("p1", evolve(kept, hosts=("gone",)))
    await driver.ensure_port_absent("p1", "gone")
    assert driver.records.ports.get("p1") is None
    await driver.ensure_network_absent("n1")


def test_it_says_which_host_gives_out_addresses(tmp_path: Path) -> None:
    for hosts, first in (({"b": NOWHERE, "a": ""}, "b"), ({}, gethostname())):
        config = Config(hosts=hosts, runtime_dir=tmp_path / "run", dry_run=True)
        resources = DriverResources(clock=Clock(), name="netns", reactor=NoProcesses(), state_dir=tmp_path / "state")
        assert create(config, resources).service_host() == first
