"""Scenarios of the workflows that move servers to other hosts: live, or because their host has died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from cloudctl.compute.host_watch import HostWatch
from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import HostDown
from cloudctl.drivers.fake.behaviour import Behaviour
from cloudctl.drivers.specs import Power
from tests.crash import asks
from tests.crash.asks import V21, good
from tests.crash.change_scenarios import only_its_volume_is_left, with_volume
from tests.crash.scenario import Scenario, broken
from tests.crash.server_scenarios import is_active, is_off
from tests.crash.stage import DELAY, Stage

AGES = 1000.0  # seconds
SOON = 3.0


def admin_acts(stage: Stage, server_id: str, action: str, body: Any, version: str = "latest") -> None:
    headers = {"OpenStack-API-Version": f"compute {version}"}
    good(stage.admin.post(f"{V21}/servers/{server_id}/action", {action: body}, headers=headers))


def migrates(stage: Stage) -> str:
    server_id = with_volume(stage)
    admin_acts(stage, server_id, "os-migrateLive", {"host": None, "block_migration": "auto"})
    return server_id


def migrates_paused(stage: Stage) -> str:
    server_id = asks.act(stage, with_volume(stage), "pause")
    stage.settle()
    admin_acts(stage, server_id, "os-migrateLive", {"host": None, "block_migration": "auto"})
    return server_id


def status(stage: Stage) -> str:
    """The status of the only migration."""
    (found,) = good(stage.admin.get(f"{V21}/os-migrations"))["migrations"]
    return str(found["status"])


def ends(status_: str, moved: bool, power: Power = Power.RUNNING) -> Callable[[Stage, str], None]:
    """Everything that the server has is where it is, and nowhere else."""

    def check(stage: Stage, server_id: str) -> None:
        found, guest = asks.server(stage, server_id), asks.guest(stage, server_id)
        assert (status(stage), found["OS-EXT-STS:task_state"]) == (status_, None)
        assert guest.power is power and guest.moving_to is None
        host = found["OS-EXT-SRV-ATTR:host"]
        (migration,) = good(stage.admin.get(f"{V21}/os-migrations"))["migrations"]
        assert (guest.spec.host, host != migration["source_compute"]) == (host, moved)
        assert set(asks.disks(stage).values()) == {(host,)} and set(asks.volumes(stage).values()) == {"in-use"}
        assert [tuple(each.hosts) for each in stage.drivers.network.ports.values()] == [(host,)]
        assert [each.info["data"]["host"] for each in guest.spec.volumes] == [host]
        assert asks.used(stage) == 1

    return check


# -- actions on a guest under way, which takes longer than anybody waits


class Slow(dict[str, float]):
    def get(self, name: str, _default: Any = None) -> float:
        return AGES if name == "ensure_migrated" else DELAY


def takes_ages(stage: Stage) -> None:
    stage.drivers.hypervisor.behaviour.delays = Slow()


class Answering(dict[str, float]):
    """Silent hosts answer again once a migration is to be aborted."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__()
        self.behaviour = behaviour

    def get(self, name: str, _default: Any = None) -> float:
        if name == "ensure_migration_aborted":
            self.behaviour.faults.clear()
        return DELAY


def falls_silent(stage: Stage) -> None:
    """Nothing reports that the guest has arrived, nor where it is."""
    behaviour = stage.drivers.hypervisor.behaviour
    silence = HostDown("the host does not answer")
    behaviour.fail("ensure_migrated", times=None, error=silence, after=True)
    behaviour.fail("observe", times=None, error=silence)
    behaviour.delays = Answering(behaviour)


def aborts(stage: Stage, server_id: str) -> None:
    _ask(stage, server_id, lambda path: stage.admin.delete(path, headers=asks.NEWEST))


def forces(stage: Stage, server_id: str) -> None:
    body = {"force_complete": None}
    _ask(stage, server_id, lambda path: stage.admin.post(f"{path}/action", body, headers=asks.NEWEST))


def _ask(stage: Stage, server_id: str, request: Callable[[str], Any]) -> None:
    """Wait until the migration runs, which a dead process may delay, and send the request."""
    (found,) = good(stage.admin.get(f"{V21}/os-migrations"))["migrations"]
    if found["status"] == "running":
        good(request(f"{V21}/servers/{server_id}/migrations/{found['id']}"))
    else:
        stage.cloud.clock.callLater(0.5, _ask, stage, server_id, request)


# -- evacuation


def evacuates(version: str) -> Callable[[Stage], str]:
    def begin(stage: Stage) -> str:
        server_id = with_volume(stage)
        stage.drivers.hypervisor.fail_host(asks.guest(stage, server_id).spec.host)
        call(stage.service.made(HostWatch).look)
        stage.cloud.clock.advance(1)
        admin_acts(stage, server_id, "evacuate", {"adminPass": "a-password-of-tests"}, version)
        return server_id

    return begin


def is_elsewhere_and_runs(stage: Stage, server_id: str) -> None:
    ends("done", moved=True)(stage, server_id)
    is_active(stage, server_id)


def is_elsewhere_and_off(stage: Stage, server_id: str) -> None:
    ends("done", moved=True, power=Power.STOPPED)(stage, server_id)
    is_off(stage, server_id)


def is_error(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], status(stage)) == ("ERROR", None, "failed")
    assert asks.used(stage) == 1


def dumps(stage: Stage) -> str:
    server_id = asks.running(stage)
    good(stage.demo.post(f"{V21}/servers/{server_id}/action", {"trigger_crash_dump": None}, headers=asks.NEWEST))
    return server_id


def was_interrupted(times: int) -> Callable[[Stage, str], None]:
    def check(stage: Stage, server_id: str) -> None:
        is_active(stage, server_id)
        assert asks.guest(stage, server_id).log.count("NMI received") == times

    return check


# -- reports from outside


def is_told(name: str, tag: Callable[[Stage, str], str], break_it: Callable[[Stage, str], None]) -> Any:
    """A running server with a volume, about which something outside reports."""

    def begin(stage: Stage) -> str:
        server_id = with_volume(stage)
        break_it(stage, server_id)
        event = {"name": name, "server_uuid": server_id, "tag": tag(stage, server_id)}
        good(stage.admin.post(f"{V21}/os-server-external-events", {"events": [event]}, headers=asks.NEWEST))
        return server_id

    return begin


def word(tag: str) -> Callable[[Stage, str], str]:
    return lambda stage, server_id: tag


def its_volume(stage: Stage, server_id: str) -> str:
    (volume_id,) = asks.volumes(stage)
    return volume_id


def as_it_was(stage: Stage, server_id: str) -> None:
    """Nothing is wrong with it."""


def loses_its_ports(stage: Stage, server_id: str) -> None:
    guest = asks.guest(stage, server_id)
    stage.drivers.hypervisor.guests.put(server_id, evolve(guest, spec=evolve(guest.spec, ports=())))


def goes_off(stage: Stage, server_id: str) -> None:
    stage.drivers.hypervisor.guests.put(server_id, evolve(asks.guest(stage, server_id), power=Power.STOPPED))


def goes_on_without(stage: Stage, server_id: str) -> None:
    found, guest = asks.server(stage, server_id), asks.guest(stage, server_id)
    assert (found["status"], guest.power, guest.spec.ports) == ("ACTIVE", Power.RUNNING, ())


def sees_the_size(times: int) -> Callable[[Stage, str], None]:
    def check(stage: Stage, server_id: str) -> None:
        is_active(stage, server_id)
        assert asks.guest(stage, server_id).log.count("new size: 1 GiB") == times

    return check


MIGRATE = "compute.server.live_migrate"
NEWS = is_told("network-changed", word(""), loses_its_ports)
GROWN = is_told("volume-extended", its_volume, as_it_was)

SCENARIOS = (
    Scenario(MIGRATE, "works", migrates, ends("completed", moved=True)),
    Scenario(MIGRATE, "works on what is paused", migrates_paused, ends("completed", moved=True, power=Power.PAUSED)),
    Scenario(MIGRATE, "fails", migrates, ends("failed", moved=False), broken("hypervisor", "ensure_migrated")),
    Scenario(MIGRATE, "fails before", migrates, ends("failed", moved=False), broken("volume", "connect")),
    Scenario(MIGRATE, "arrives in silence", migrates, ends("completed", moved=True), falls_silent),
    Scenario(MIGRATE, "is deleted meanwhile", migrates, only_its_volume_is_left, later=(0.35, asks.delete_server)),
    Scenario(
        "compute.migration.abort",
        "works",
        migrates,
        ends("cancelled", moved=False),
        takes_ages,
        later=(SOON, aborts),
    ),
    Scenario(
        "compute.migration.force",
        "works",
        migrates,
        ends("completed", moved=True),
        takes_ages,
        later=(SOON, forces),
    ),
    Scenario("compute.server.evacuate", "works", evacuates("2.94"), is_elsewhere_and_runs),
    Scenario("compute.server.evacuate", "works and is off", evacuates("2.95"), is_elsewhere_and_off),
    Scenario("compute.server.evacuate", "fails", evacuates("2.94"), is_error, broken("hypervisor", "ensure_defined")),
    Scenario("compute.server.refresh", "works", NEWS, is_active),
    Scenario("compute.server.refresh", "fails", NEWS, goes_on_without, broken("hypervisor", "ensure_port_attached")),
    Scenario("compute.server.extend_volume", "works", GROWN, sees_the_size(1)),
    Scenario(
        "compute.server.extend_volume", "fails", GROWN, sees_the_size(0), broken("hypervisor", "ensure_volume_size")
    ),
    Scenario("compute.guest.compare", "works", is_told("power-update", word("POWER_OFF"), goes_off), is_off),
    Scenario("compute.server.crash_dump", "works", dumps, was_interrupted(1)),
    Scenario(
        "compute.server.crash_dump", "fails", dumps, was_interrupted(0), broken("hypervisor", "ensure_interrupted")
    ),
)
