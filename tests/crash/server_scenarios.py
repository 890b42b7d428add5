"""Scenarios of the workflows for servers: each works, fails where it can, and is overtaken by a delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloudctl.drivers.boundary import call
from cloudctl.drivers.specs import Power
from tests.crash import asks
from tests.crash.asks import V2, V21, good
from tests.crash.scenario import Scenario, broken, first_host_is_down
from tests.crash.stage import Stage

# -- boot


def boots(stage: Stage) -> str:
    return asks.boot(stage)


def boots_with_volumes(stage: Stage) -> str:
    return asks.boot(stage, **asks.root_volume(stage))


def is_active(stage: Stage, server_id: str) -> None:
    found, guest = asks.server(stage, server_id), asks.guest(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert (guest.power, guest.spec.host) == (Power.RUNNING, found["OS-EXT-SRV-ATTR:host"])
    assert asks.plugs(stage) == {each.id for each in guest.spec.ports} and len(asks.plugs(stage)) == 1
    assert asks.used(stage) == 1
    attached = {each.volume_id: (guest.spec.host,) for each in guest.spec.volumes}
    assert asks.disks(stage) == attached
    assert asks.volumes(stage) == dict.fromkeys(attached, "in-use")


def is_elsewhere(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    failed = [each.failed_builds for each in stage.hosts()]
    assert sorted(failed) == [0, 0, 1]


def starts_slowly(stage: Stage) -> None:
    stage.drivers.hypervisor.behaviour.delay("ensure_running", 0.5)


def its_host_dies(stage: Stage, server_id: str) -> None:
    guest = asks.guest(stage, server_id)
    host = "fake-1" if guest is None else guest.spec.host
    stage.drivers.hypervisor.fail_host(host)
    body = {"host": host, "binary": "nova-compute", "forced_down": True}
    good(stage.admin.put(f"{V21}/os-services/force-down", body, headers={"OpenStack-API-Version": "compute 2.11"}))


def nothing_is_left(stage: Stage, _told: Any = None) -> None:
    assert not stage.drivers.hypervisor.guests.values()
    assert not asks.plugs(stage) and not asks.ports(stage)
    assert not asks.disks(stage) and not asks.volumes(stage)
    assert asks.used(stage) == 0


def is_error(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ERROR", None)
    nothing_is_left(stage)


def is_gone(stage: Stage, server_id: str) -> None:
    assert asks.server(stage, server_id) is None
    nothing_is_left(stage)


# -- delete


def deletes_one_that_has_everything(stage: Stage) -> tuple[str, str, str]:
    """A server with a root volume of its own, and a port and a volume that existed before it."""
    volume_id, port_id = asks.volume(stage), asks.port(stage)
    server_id = asks.running(stage, **asks.root_volume(stage), networks=[{"port": port_id}])
    asks.attach_volume(stage, server_id, volume_id)
    stage.settle()
    asks.delete_server(stage, server_id)
    return server_id, volume_id, port_id


def only_what_was_given_is_left(stage: Stage, told: tuple[str, str, str]) -> None:
    server_id, volume_id, port_id = told
    assert asks.server(stage, server_id) is None
    assert not stage.drivers.hypervisor.guests.values()
    assert asks.ports(stage) == {port_id} and not asks.plugs(stage)
    assert asks.volumes(stage) == {volume_id: "available"} and asks.disks(stage) == {volume_id: ()}
    assert asks.used(stage) == 0


def deletes(stage: Stage) -> str:
    return asks.delete_server(stage, asks.running(stage))


def delete_failed(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert asks.guest(stage, server_id) is not None and asks.used(stage) == 1


def purges(stage: Stage) -> str:
    """The server's host was down when it was deleted."""
    server_id = asks.running(stage)
    host = asks.guest(stage, server_id).spec.host
    stage.drivers.hypervisor.fail_host(host)
    asks.delete_server(stage, server_id)
    stage.settle()
    assert asks.guest(stage, server_id) is not None
    stage.drivers.hypervisor.recover_host(host)
    call(stage.service.audit.checks["hypervisor"])
    return server_id


# -- power


def starts(stage: Stage) -> str:
    server_id = asks.act(stage, asks.running(stage), "os-stop")
    stage.settle()
    return asks.act(stage, server_id, "os-start")


def stops(stage: Stage) -> str:
    return asks.act(stage, asks.running(stage), "os-stop")


def reboots(stage: Stage) -> str:
    return asks.act(stage, asks.running(stage), "reboot", {"type": "SOFT"})


def reboots_hard(stage: Stage) -> str:
    return asks.act(stage, asks.running(stage), "reboot", {"type": "HARD"})


def is_off(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHUTOFF", None)
    assert asks.guest(stage, server_id).power is Power.STOPPED


def was_rebooted_once(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    assert asks.guest(stage, server_id).log.count("Linux version") == 2


def is_error_but_there(stage: Stage, server_id: str) -> None:
    assert asks.server(stage, server_id)["status"] == "ERROR" and asks.guest(stage, server_id) is not None


# -- volumes of servers


def attaches_volume(stage: Stage) -> tuple[str, str]:
    server_id, volume_id = asks.running(stage), asks.volume(stage)
    asks.attach_volume(stage, server_id, volume_id)
    return server_id, volume_id


def detaches_volume(stage: Stage) -> tuple[str, str]:
    server_id, volume_id = attaches_volume(stage)
    stage.settle()
    good(stage.demo.delete(f"{V21}/servers/{server_id}/os-volume_attachments/{volume_id}"))
    return server_id, volume_id


def volume_is_used(stage: Stage, told: tuple[str, str]) -> None:
    server_id, volume_id = told
    is_active(stage, server_id)
    assert asks.volumes(stage) == {volume_id: "in-use"}
    assert [each.volume_id for each in asks.guest(stage, server_id).spec.volumes] == [volume_id]


def volume_is_free(stage: Stage, told: tuple[str, str]) -> None:
    server_id, volume_id = told
    assert asks.server(stage, server_id)["status"] == "ACTIVE"
    assert not asks.guest(stage, server_id).spec.volumes
    assert asks.volumes(stage) == {volume_id: "available"} and asks.disks(stage) == {volume_id: ()}


def only_the_volume_is_left(stage: Stage, told: tuple[str, str]) -> None:
    server_id, volume_id = told
    assert asks.server(stage, server_id) is None and not stage.drivers.hypervisor.guests.values()
    assert asks.volumes(stage) == {volume_id: "available"} and asks.disks(stage) == {volume_id: ()}


def deletes_its_server(stage: Stage, told: tuple[str, str]) -> None:
    asks.delete_server(stage, told[0])


# -- interfaces of servers


def attaches_interface(stage: Stage) -> tuple[str, str]:
    server_id, port_id = asks.running(stage), asks.port(stage)
    body = {"interfaceAttachment": {"port_id": port_id}}
    good(stage.demo.post(f"{V21}/servers/{server_id}/os-interface", body))
    return server_id, port_id


def detaches_interface(stage: Stage) -> tuple[str, str]:
    """The interface that was made with the server: its port is deleted."""
    server_id = asks.running(stage)
    (port_id,) = asks.ports(stage)
    good(stage.demo.delete(f"{V21}/servers/{server_id}/os-interface/{port_id}"))
    return server_id, port_id


def loses_port(stage: Stage) -> tuple[str, str]:
    """Its owner deletes it in networking."""
    server_id = asks.running(stage)
    (port_id,) = asks.ports(stage)
    good(stage.demo.delete(f"{V2}/ports/{port_id}"))
    return server_id, port_id


def has_it_yet(stage: Stage, told: tuple[str, str]) -> None:
    """The audit will find it."""
    assert asks.server(stage, told[0])["status"] == "ACTIVE" and not asks.ports(stage)
    assert {each.id for each in asks.guest(stage, told[0]).spec.ports} == {told[1]} and not asks.plugs(stage)


def has_interfaces(*numbers: int) -> Callable[[Stage, tuple[str, str]], None]:
    """The number of ports in the guest and on the host, and of ports that exist at all."""

    def check(stage: Stage, told: tuple[str, str]) -> None:
        assert asks.server(stage, told[0])["status"] == "ACTIVE"
        held = {each.id for each in asks.guest(stage, told[0]).spec.ports}
        assert held == asks.plugs(stage)
        assert (len(held), len(asks.ports(stage))) == numbers

    return check


BOOT, VOLUMES_BOOT = "compute.server.boot", "compute.server.boot_with_volumes"
WHILE = 0.35  # seconds: in the middle of the work

SCENARIOS = (
    Scenario(BOOT, "works", boots, is_active),
    Scenario(BOOT, "works on the second host", boots, is_elsewhere, first_host_is_down),
    Scenario(BOOT, "fails", boots, is_error, broken("hypervisor", "ensure_running")),
    Scenario(
        BOOT,
        "its host is declared dead",
        boots,
        is_active,
        starts_slowly,
        later=(0.25, its_host_dies),
    ),
    Scenario(BOOT, "is deleted meanwhile", boots, is_gone, later=(WHILE, asks.delete_server)),
    Scenario(VOLUMES_BOOT, "works", boots_with_volumes, is_active),
    Scenario(
        VOLUMES_BOOT,
        "works on the second host",
        boots_with_volumes,
        is_elsewhere,
        first_host_is_down,
    ),
    Scenario(VOLUMES_BOOT, "fails", boots_with_volumes, is_error, broken("hypervisor", "ensure_running")),
    Scenario(VOLUMES_BOOT, "has no volume", boots_with_volumes, is_error, broken("volume", "ensure_created")),
    Scenario(VOLUMES_BOOT, "is deleted meanwhile", boots_with_volumes, is_gone, later=(0.05, asks.delete_server)),
    Scenario("compute.server.delete", "works", deletes_one_that_has_everything, only_what_was_given_is_left),
    Scenario("compute.server.delete", "fails", deletes, delete_failed, broken("hypervisor", "ensure_absent")),
    Scenario("compute.server.purge", "works", purges, is_gone),
    Scenario("compute.server.start", "works", starts, is_active),
    Scenario("compute.server.start", "fails", starts, is_off, broken("hypervisor", "ensure_running")),
    Scenario("compute.server.stop", "works", stops, is_off),
    Scenario("compute.server.stop", "fails", stops, is_active, broken("hypervisor", "ensure_stopped")),
    Scenario("compute.server.stop", "is deleted meanwhile", stops, is_gone, later=(0.05, asks.delete_server)),
    Scenario("compute.server.reboot", "works", reboots, was_rebooted_once),
    Scenario("compute.server.reboot", "works hard", reboots_hard, was_rebooted_once),
    Scenario(
        "compute.server.reboot",
        "fails",
        reboots_hard,
        is_error_but_there,
        broken("hypervisor", "ensure_rebooted"),
    ),
    Scenario("compute.server.attach_volume", "works", attaches_volume, volume_is_used),
    Scenario(
        "compute.server.attach_volume",
        "fails",
        attaches_volume,
        volume_is_free,
        broken("hypervisor", "ensure_volume_attached"),
    ),
    Scenario(
        "compute.server.attach_volume",
        "is deleted meanwhile",
        attaches_volume,
        only_the_volume_is_left,
        later=(0.15, deletes_its_server),
    ),
    Scenario("compute.server.detach_volume", "works", detaches_volume, volume_is_free),
    Scenario(
        "compute.server.detach_volume",
        "fails",
        detaches_volume,
        volume_is_used,
        broken("hypervisor", "ensure_volume_detached"),
    ),
    Scenario(
        "compute.server.detach_volume",
        "is deleted meanwhile",
        detaches_volume,
        only_the_volume_is_left,
        later=(0.05, deletes_its_server),
    ),
    Scenario("compute.server.attach_interface", "works", attaches_interface, has_interfaces(2, 2)),
    Scenario(
        "compute.server.attach_interface",
        "fails",
        attaches_interface,
        has_interfaces(1, 2),
        broken("hypervisor", "ensure_port_attached"),
    ),
    Scenario("compute.server.detach_interface", "works", detaches_interface, has_interfaces(0, 0)),
    Scenario(
        "compute.server.detach_interface",
        "fails",
        detaches_interface,
        has_interfaces(1, 1),
        broken("hypervisor", "ensure_port_detached"),
    ),
    Scenario("compute.port.lost", "works", loses_port, has_interfaces(0, 0)),
    Scenario("compute.server.lose_port", "works", loses_port, has_interfaces(0, 0)),
    Scenario("compute.server.lose_port", "fails", loses_port, has_it_yet, broken("hypervisor", "ensure_port_detached")),
)
