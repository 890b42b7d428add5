"""Scenarios of the workflows that shelve servers, keep their disks as images, and soft-delete them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from cloudctl.compute import kinds, servers, shelving
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.specs import Power
from cloudctl.tasks import Kind, Unasked, submit
from tests.crash import asks
from tests.crash.asks import V21, good
from tests.crash.change_scenarios import deletes_the_image, image_is_gone, image_is_there
from tests.crash.scenario import Scenario, broken
from tests.crash.server_scenarios import (
    WHILE,
    deletes_its_server,
    is_active,
    is_gone,
    nothing_is_left,
)
from tests.crash.stage import Stage

WRITTEN = "what the guest has written"


def images(stage: Stage) -> list[str]:
    found = good(stage.demo.get(f"{asks.IMAGES}?visibility=private"))["images"]
    return [each["status"] for each in found]


# -- backups, and images of servers that boot from volumes: (server, image)


def backs_up(stage: Stage) -> tuple[str, str]:
    server_id = asks.running(stage)
    body = {"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}}
    for _ in range(2):
        stage.settle()
        stage.cloud.clock.rightNow += 1
        answer = good(stage.demo.post(f"{V21}/servers/{server_id}/action", body, headers=asks.NEWEST))
    return server_id, answer["image_id"]


def only_the_newest_is_there(stage: Stage, told: tuple[str, str]) -> None:
    image_is_there(stage, told)
    assert images(stage) == ["active"]


def only_the_older_is_there(stage: Stage, told: tuple[str, str]) -> None:
    image_is_gone(stage, told)
    assert images(stage) == ["active"]


def only_the_other_is_left(stage: Stage, told: tuple[str, str]) -> None:
    server_id, image_id = told
    assert asks.server(stage, server_id) is None
    nothing_is_left(stage)
    assert asks.image_status(stage, image_id) == "gone" and images(stage) == ["active"]


def freezes(stage: Stage) -> tuple[str, str]:
    server_id = asks.running(stage, **asks.root_volume(stage))
    body = {"createImage": {"name": "snap"}}
    answer = good(stage.demo.post(f"{V21}/servers/{server_id}/action", body, headers=asks.NEWEST))
    return server_id, answer["image_id"]


def snapshots(stage: Stage) -> list[str]:
    return [each["status"] for each in good(stage.demo.get(f"{asks.V3}/snapshots"))["snapshots"]]


def is_frozen(stage: Stage, told: tuple[str, str]) -> None:
    server_id, image_id = told
    is_active(stage, server_id)
    assert (asks.image_status(stage, image_id), snapshots(stage)) == ("active", ["available"])
    assert len(stage.drivers.volume.frozen.values()) == 1


def nothing_is_frozen(stage: Stage, told: tuple[str, str]) -> None:
    image_is_gone(stage, told)
    assert not snapshots(stage) and not stage.drivers.volume.frozen.values()


# -- shelve


def written(stage: Stage, **wishes: Any) -> str:
    """A running server with something written to its disk."""
    server_id = asks.running(stage, **wishes)
    guests = stage.drivers.hypervisor.guests
    guests.put(server_id, evolve(guests.get(server_id), head=WRITTEN))
    return server_id


def shelves(stage: Stage) -> str:
    return asks.act(stage, written(stage), "shelve")


def shelves_one_of_volumes(stage: Stage) -> str:
    return asks.act(stage, asks.running(stage, **asks.root_volume(stage)), "shelve")


def stays(stage: Stage) -> str:
    """A server that did not leave its host."""
    server_id = shelves(stage)
    broken("hypervisor", "ensure_absent")(stage)
    stage.settle()
    stage.drivers.hypervisor.behaviour.clear()
    assert asks.server(stage, server_id)["status"] == "SHELVED"
    return server_id


def leaves(stage: Stage) -> str:
    """A server that has been shelved long enough."""
    server_id = stays(stage)

    def begin(conn: Connection) -> None:
        shelving.overdue(conn, servers.get(conn, server_id), utc(stage.cloud.clock.seconds()))

    stage.cloud.transact(begin)
    return server_id


def offloads(stage: Stage) -> str:
    server_id = stays(stage)
    good(stage.admin.post(f"{V21}/servers/{server_id}/action", {"shelveOffload": None}))
    return server_id


def unshelves(begin: Callable[[Stage], str]) -> Callable[[Stage], str]:
    def run(stage: Stage) -> str:
        server_id = begin(stage)
        stage.settle()
        return asks.act(stage, server_id, "unshelve")

    return run


def is_shelved(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHELVED_OFFLOADED", None)
    assert found["OS-EXT-SRV-ATTR:host"] is None and asks.guest(stage, server_id) is None
    assert not asks.plugs(stage) and asks.used(stage) == 0 and len(asks.ports(stage)) == 1
    assert set(asks.disks(stage).values()) <= {()}
    assert images(stage) == (["active"] if found["image"] else [])


def is_shelved_on_its_host(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHELVED", None)
    assert asks.guest(stage, server_id).power is Power.STOPPED
    assert asks.used(stage) == 1 and images(stage) == ["active"]


def is_as_it_was(stage: Stage, server_id: str) -> None:
    is_active(stage, server_id)
    assert not images(stage)
    if asks.guest(stage, server_id).spec.image is not None:
        assert asks.guest(stage, server_id).head == WRITTEN


def all_of_it_is_gone(stage: Stage, server_id: str) -> None:
    is_gone(stage, server_id)
    assert not images(stage)


# -- soft deletes


def soft(*wanted: tuple[str, Kind]) -> Callable[[Stage], str]:
    """What the API does if deletes can be undone, which by default they cannot."""

    def begin(stage: Stage) -> str:
        server_id = asks.running(stage)
        for name, kind in wanted:
            stage.settle()

            def accept(conn: Connection, name: str = name, kind: Kind = kind) -> None:
                servers.move(conn, server_id, name, utc(stage.cloud.clock.seconds()))
                submit(conn, kind, server_id, Unasked(servers.get(conn, server_id).project_id))

            stage.cloud.transact(accept)
        return server_id

    return begin


def is_soft_deleted(stage: Stage, server_id: str) -> None:
    found = asks.server(stage, server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SOFT_DELETED", None)
    assert asks.guest(stage, server_id).power is Power.STOPPED and asks.used(stage) == 1


def forces(stage: Stage) -> str:
    return asks.act(stage, asks.running(stage), "forceDelete")


SCENARIOS = (
    Scenario("compute.server.create_backup", "works", backs_up, only_the_newest_is_there),
    Scenario(
        "compute.server.create_backup",
        "fails",
        backs_up,
        only_the_older_is_there,
        broken("hypervisor", "ensure_captured"),
    ),
    Scenario(
        "compute.server.create_backup",
        "loses its image",
        backs_up,
        only_the_older_is_there,
        later=(0.05, deletes_the_image),
    ),
    Scenario(
        "compute.server.create_backup",
        "is deleted meanwhile",
        backs_up,
        only_the_other_is_left,
        later=(0.05, deletes_its_server),
    ),
    Scenario("compute.server.freeze_volumes", "works", freezes, is_frozen),
    Scenario("compute.server.freeze_volumes", "fails", freezes, nothing_is_frozen, broken("volume", "ensure_snapshot")),
    Scenario("compute.server.shelve", "works", shelves, is_shelved),
    Scenario("compute.server.shelve", "works with volumes", shelves_one_of_volumes, is_shelved),
    Scenario("compute.server.shelve", "fails", shelves, is_as_it_was, broken("hypervisor", "ensure_captured")),
    Scenario(
        "compute.server.shelve", "is deleted meanwhile", shelves, all_of_it_is_gone, later=(0.15, asks.delete_server)
    ),
    Scenario("compute.server.leave_host", "works", leaves, is_shelved),
    Scenario("compute.server.offload", "works", offloads, is_shelved),
    Scenario(
        "compute.server.offload", "fails", offloads, is_shelved_on_its_host, broken("hypervisor", "ensure_absent")
    ),
    Scenario("compute.server.unshelve", "works", unshelves(shelves), is_as_it_was),
    Scenario("compute.server.unshelve", "works on its host", unshelves(stays), is_as_it_was),
    Scenario("compute.server.unshelve", "works with volumes", unshelves(shelves_one_of_volumes), is_as_it_was),
    Scenario(
        "compute.server.unshelve", "fails", unshelves(shelves), is_shelved, broken("hypervisor", "ensure_running")
    ),
    Scenario(
        "compute.server.unshelve",
        "fails with volumes",
        unshelves(shelves_one_of_volumes),
        is_shelved,
        broken("hypervisor", "ensure_running"),
    ),
    Scenario(
        "compute.server.unshelve",
        "fails on its host",
        unshelves(stays),
        is_shelved_on_its_host,
        broken("hypervisor", "ensure_running"),
    ),
    Scenario(
        "compute.server.unshelve",
        "is deleted meanwhile",
        unshelves(shelves),
        all_of_it_is_gone,
        later=(WHILE, asks.delete_server),
    ),
    Scenario("compute.server.soft_delete", "works", soft(("soft delete", kinds.SOFT_DELETE)), is_soft_deleted),
    Scenario(
        "compute.server.restore",
        "works",
        soft(("soft delete", kinds.SOFT_DELETE), ("restore", kinds.RESTORE)),
        is_active,
    ),
    Scenario("compute.server.force_delete", "works", forces, is_gone),
)
