"""What happens to the cloud on a walk: time passes, drivers fail, the engine dies, hosts go down and return."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import DriverError, NoCapacity
from tests.compute.asking import V21
from tests.crash.stage import successor
from tests.walks.servers import HOSTS as NAMES
from tests.walks.walk import CRASHES, FAULTS, HA, HOSTS, Action, Walk

# Part of the message of whatever a driver is told to refuse.
INJECTED = "injected"
# What takes a while, in most walks: a request may find it under way.
SLOW = (
    "ensure_defined",
    "ensure_running",
    "ensure_created",
    "ensure_stopped",
    "ensure_migrated",
    "ensure_captured",
    "ensure_connected",
    "ensure_plugged",
    "ensure_copied",
)
MOST_DOWN = 2  # of three hosts
MINUTE = 61.0  # and a bit: whatever is done every minute is done
PATIENCE = 40  # minutes, in which instance HA ends what was reported, and whatever waits is repeated


def be_slow(walk: Walk) -> None:
    for fake in walk.fakes:
        known = methods(*fake.behaviour.interfaces)
        for method in SLOW:
            if method in known and walk.often(0.8):
                fake.behaviour.delay(method, walk.chance.choice((0.1, 0.5, 3.0)))


def wait(walk: Walk) -> None:
    walk.cloud.advance(walk.chance.choice((0.0, 0.05, 0.1, 0.3, 1.0, 5.0, 30.0, MINUTE)))


def driver_fails(walk: Walk) -> None:
    """Once or more often: as if it was away, or for good; before anything is done, or after it."""
    behaviour = walk.chance.choice(walk.fakes).behaviour
    method = walk.chance.choice(sorted(each for each in methods(*behaviour.interfaces) if each.startswith("ensure")))
    times = walk.chance.choice((1, 1, 2, 20))
    error = walk.chance.choice((None, None, DriverError(f"{INJECTED} refusal"), NoCapacity(f"{INJECTED} fullness")))
    behaviour.fail(method, times, error, after=walk.often(0.4))
    walk.happened(f"-- {behaviour.faults[-1]}")


def engine_dies(walk: Walk) -> None:
    """And another one takes over."""
    walk.service.engine.kill()
    walk.service.engine = successor(walk.service)
    walk.service.engine.startService()
    walk.happened("-- the engine is another one")


# -- hosts


def host_goes_or_returns(walk: Walk) -> None:
    name = walk.chance.choice(NAMES)
    if name in walk.down:
        _return(walk, name)
    elif len(walk.down) < MOST_DOWN:
        walk.hypervisor.fail_host(name)
        walk.happened(f"-- host {name} is down")
        if HA in walk.mix:
            if walk.often(0.8):
                _report(walk, name)
        elif walk.often(0.6):
            _force_down(walk, name, True)


def _return(walk: Walk, name: str) -> None:
    walk.hypervisor.recover_host(name)
    walk.happened(f"-- host {name} is up")
    if HA in walk.mix:
        _let_back(walk)
    else:
        _force_down(walk, name, False)


def _force_down(walk: Walk, name: str, down: bool) -> None:
    services = walk.shown(f"{V21}/os-services?binary=nova-compute&host={name}", "services", admin=True)
    walk.ask("PUT", f"{V21}/os-services/{services[0]['id']}", {"forced_down": down}, admin=True)


# -- instance HA


def make_segment(walk: Walk) -> None:
    wishes = {"name": "walked", "recovery_method": "auto", "service_type": "COMPUTE"}
    made = walk.ask("POST", "/v1/segments", {"segment": wishes}, admin=True, ha=True)
    walk.segment = f"/v1/segments/{made.json()['segment']['uuid']}"
    for name in NAMES:
        host = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
        assert walk.ask("POST", f"{walk.segment}/hosts", {"host": host}, admin=True, ha=True).status == 201


def _report(walk: Walk, name: str) -> None:
    at = datetime.fromtimestamp(walk.cloud.clock.seconds(), UTC).replace(tzinfo=None).isoformat()
    status = walk.chance.choice(("NORMAL", "UNKNOWN"))
    payload = {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": status}
    told = {"hostname": name, "type": "COMPUTE_HOST", "generated_time": at, "payload": payload}
    walk.ask("POST", "/v1/notifications", {"notification": told}, admin=True, ha=True)


def _let_back(walk: Walk) -> None:
    """As an operator does with hosts that have returned."""
    for host in walk.shown(f"{walk.segment}/hosts", "hosts", admin=True, ha=True):
        if host["on_maintenance"] and host["name"] not in walk.down:
            path = f"{walk.segment}/hosts/{host['uuid']}"
            walk.ask("PUT", path, {"host": {"on_maintenance": False}}, admin=True, ha=True)


# -- all together


def actions(walk: Walk) -> Iterator[tuple[float, Action]]:
    yield 22.0, wait
    if FAULTS in walk.mix:
        yield 3.0, driver_fails
    if CRASHES in walk.mix:
        yield 2.0, engine_dies
    if HOSTS in walk.mix:
        yield 1.5, host_goes_or_returns


def rest(walk: Walk) -> None:
    """The trouble is over, and whatever is under way ends. Raises AssertionError if it does not."""
    for fake in walk.fakes:
        fake.behaviour.clear()
    for _ in range(PATIENCE):
        for name in walk.down:
            _return(walk, name)
        if HA in walk.mix:
            _let_back(walk)
        walk.cloud.advance(MINUTE)
    walk.cloud.settle()
