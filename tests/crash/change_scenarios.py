"""Scenarios of the workflows that freeze servers, or give them another size, place, disk or password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloudctl.drivers.specs import Power
from tests.compute.asking import Asking
from tests.crash import asks
from tests.crash.asks import V21, good
from tests.crash.scenario import Scenario, broken
from tests.crash.server_scenarios import (
    WHILE,
    deletes_its_server,
    is_active,
    is_error_but_there,
    is_gone,
    nothing_is_left,
)
from tests.crash.stage import Stage

PASSWORD = "a-password-of-tests"
CONTENT = b"another system"


def after(*before: str, action: str, body: Any = None) -> Callable[[Stage], str]:
    """A running server after these actions, with `action` under way."""

    def begin(stage: Stage) -> str:
        server_id = asks.running(stage)
        for each in before:
            asks.act(stage, server_id, each)
            stage.settle()
        return asks.act(stage, server_id, action, body)

    return begin


def ends(status: str, power: Power) -> Callable[[Stage, str], None]:
    def check(stage: Stage, server_id: str) -> None:
        found = asks.server(stage, server_id)
        assert (found["status"], found["OS-EXT-STS:task_state"]) == (status, None)
        assert asks.guest(stage, server_id).power is power

    return check


is_paused, is_suspended = ends("PAUSED", Power.PAUSED), ends("SUSPENDED", Power.SUSPENDED)


def has_password(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    assert asks.guest(stage, server_id).spec.admin_password == PASSWORD


# -- rescue


def is_rescued(stage: Stage, server_id: str) -> None:
    ends("RESCUE", Power.RUNNING)(stage, server_id)
    guest = asks.guest(stage, server_id)
    assert guest.rescued and guest.spec.admin_password == PASSWORD


def is_active_and_not_rescued(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    assert not asks.guest(stage, server_id).rescued


# -- images and rebuilds


def makes_an_image(stage: Stage) -> tuple[str, str]:
    server_id = asks.running(stage)
    body = {"createImage": {"name": "snap"}}
    answer = good(stage.demo.post(f"{V21}/servers/{server_id}/action", body, headers=asks.NEWEST))
    return server_id, answer["image_id"]


def image_is_there(stage: Stage, told: tuple[str, str]) -> None:
    server_id, image_id = told
    is_active(stage, server_id)
    assert asks.image_status(stage, image_id) == "active" and image_id in asks.files(stage)


def image_is_gone(stage: Stage, told: tuple[str, str]) -> None:
    server_id, image_id = told
    is_active(stage, server_id)
    assert asks.image_status(stage, image_id) == "gone" and image_id not in asks.files(stage)


def all_is_gone(stage: Stage, told: tuple[str, str]) -> None:
    server_id, image_id = told
    assert asks.server(stage, server_id) is None
    nothing_is_left(stage)
    assert asks.image_status(stage, image_id) == "gone" and image_id not in asks.files(stage)


def deletes_the_image(stage: Stage, told: tuple[str, str]) -> None:
    good(stage.demo.delete(f"{asks.IMAGES}/{told[1]}"))


def rebuilds(stage: Stage) -> str:
    server_id = asks.running(stage)
    return asks.act(stage, server_id, "rebuild", {"imageRef": Asking(stage.demo).image, "adminPass": PASSWORD})


def rebuilds_its_volume(stage: Stage) -> str:
    server_id = asks.running(stage, **asks.root_volume(stage))
    image_id = asks.image(stage)
    asks.put(stage, image_id, "file", CONTENT)
    stage.settle()
    body = {"rebuild": {"imageRef": image_id, "adminPass": PASSWORD}}
    good(stage.demo.post(f"{V21}/servers/{server_id}/action", body, headers=asks.NEWEST))
    return server_id


def its_volume_is_anew(stage: Stage, server_id: str) -> None:
    has_password(stage, server_id)
    (volume,) = stage.drivers.volume.volumes.values()
    assert volume.head.encode() == CONTENT


# -- resizes


def with_volume(stage: Stage) -> str:
    server_id = asks.running(stage)
    asks.attach_volume(stage, server_id, asks.volume(stage))
    stage.settle()
    return server_id


def resizes(stage: Stage) -> str:
    return asks.act(stage, with_volume(stage), "resize", {"flavorRef": "2"})


def migrates(stage: Stage) -> str:
    server_id = with_volume(stage)
    good(stage.admin.post(f"{V21}/servers/{server_id}/action", {"migrate": None}))
    return server_id


def confirms(stage: Stage) -> str:
    server_id = resizes(stage)
    stage.settle()
    return asks.act(stage, server_id, "confirmResize")


def reverts(stage: Stage) -> str:
    server_id = migrates(stage)
    stage.settle()
    return asks.act(stage, server_id, "revertResize")


def is_resized(stage: Stage, server_id: str) -> None:
    found, guest = asks.server(stage, server_id), asks.guest(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("VERIFY_RESIZE", None)
    assert (guest.power, guest.spec.host) == (Power.RUNNING, found["OS-EXT-SRV-ATTR:host"])
    assert guest.spec.memory_mib == found["flavor"]["ram"]
    assert asks.used(stage) == 2  # in both places
    _is_on_one_host(stage, guest)


def is_confirmed(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    assert asks.guest(stage, server_id).spec.memory_mib == 2048


def is_as_before(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    guest = asks.guest(stage, server_id)
    assert guest.spec.memory_mib == 512
    _is_on_one_host(stage, guest)


def _is_on_one_host(stage: Stage, guest: Any) -> None:
    hosts = (guest.spec.host,)
    assert set(asks.disks(stage).values()) == {hosts}
    assert [tuple(each.hosts) for each in stage.drivers.network.ports.values()] == [hosts]


def only_its_volume_is_left(stage: Stage, server_id: str) -> None:
    assert asks.server(stage, server_id) is None and not stage.drivers.hypervisor.guests.values()
    assert not asks.plugs(stage) and not asks.ports(stage) and asks.used(stage) == 0
    assert set(asks.volumes(stage).values()) == {"available"} and set(asks.disks(stage).values()) == {()}


SCENARIOS = (
    Scenario("compute.server.pause", "works", after(action="pause"), is_paused),
    Scenario("compute.server.pause", "fails", after(action="pause"), is_active, broken("hypervisor", "ensure_paused")),
    Scenario("compute.server.unpause", "works", after("pause", action="unpause"), is_active),
    Scenario("compute.server.suspend", "works", after(action="suspend"), is_suspended),
    Scenario("compute.server.resume", "works", after("suspend", action="resume"), is_active),
    Scenario(
        "compute.server.resume",
        "fails",
        after("suspend", action="resume"),
        is_suspended,
        broken("hypervisor", "ensure_running"),
    ),
    Scenario("compute.server.rescue", "works", after(action="rescue", body={"adminPass": PASSWORD}), is_rescued),
    Scenario(
        "compute.server.rescue",
        "fails",
        after(action="rescue"),
        is_error_but_there,
        broken("hypervisor", "ensure_rescued"),
    ),
    Scenario("compute.server.unrescue", "works", after("rescue", action="unrescue"), is_active_and_not_rescued),
    Scenario(
        "compute.server.set_password",
        "works",
        after(action="changePassword", body={"adminPass": PASSWORD}),
        has_password,
    ),
    Scenario("compute.server.create_image", "works", makes_an_image, image_is_there),
    Scenario(
        "compute.server.create_image",
        "fails",
        makes_an_image,
        image_is_gone,
        broken("hypervisor", "ensure_captured"),
    ),
    Scenario(
        "compute.server.create_image",
        "loses its image",
        makes_an_image,
        image_is_gone,
        later=(0.05, deletes_the_image),
    ),
    Scenario(
        "compute.server.create_image",
        "is deleted meanwhile",
        makes_an_image,
        all_is_gone,
        later=(0.05, deletes_its_server),
    ),
    Scenario("compute.server.rebuild", "works", rebuilds, has_password),
    Scenario("compute.server.rebuild", "fails", rebuilds, is_error_but_there, broken("hypervisor", "ensure_running")),
    Scenario("compute.server.rebuild", "works with a volume", rebuilds_its_volume, its_volume_is_anew),
    Scenario("compute.server.resize", "works", resizes, is_resized),
    Scenario("compute.server.resize", "fails", resizes, is_as_before, broken("hypervisor", "ensure_stopped")),
    Scenario(
        "compute.server.resize",
        "is deleted meanwhile",
        after(action="resize", body={"flavorRef": "2"}),
        is_gone,
        later=(WHILE, asks.delete_server),
    ),
    # The forward path is that of a resize.
    Scenario(
        "compute.server.migrate",
        "is deleted meanwhile",
        migrates,
        only_its_volume_is_left,
        later=(WHILE, asks.delete_server),
    ),
    Scenario("compute.server.confirm_resize", "works", confirms, is_confirmed),
    Scenario("compute.server.revert_resize", "works", reverts, is_as_before),
    Scenario(
        "compute.server.revert_resize", "fails", reverts, is_error_but_there, broken("hypervisor", "ensure_stopped")
    ),
)
