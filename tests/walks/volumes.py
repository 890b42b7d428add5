"""What a walk does to volumes, their snapshots, backups and groups, and to images."""

from __future__ import annotations

from typing import Any

from tests.walks.walk import IMAGES, V3, Action, Actions, Body, Walk, always, nothing


def some_volume(walk: Walk) -> dict[str, Any] | None:
    """Mostly one that is not in use."""
    return walk.pick_mostly(walk.volumes(), lambda volume: volume["status"] == "available")


def snapshots(walk: Walk) -> list[dict[str, Any]]:
    return walk.shown(f"{V3}/snapshots/detail", "snapshots")


def backups(walk: Walk) -> list[dict[str, Any]]:
    return walk.shown(f"{V3}/backups/detail", "backups")


def groups(walk: Walk) -> list[dict[str, Any]]:
    return walk.shown(f"{V3}/groups/detail", "groups")


# -- new volumes


def make(walk: Walk, **wishes: Any) -> None:
    walk.ask("POST", f"{V3}/volumes", {"volume": {"name": "walked", "size": 1, **wishes}})


def make_of_image(walk: Walk) -> None:
    make(walk, imageRef=walk.image)


def make_of_snapshot(walk: Walk) -> None:
    if found := walk.pick(snapshots(walk)):
        make(walk, snapshot_id=found["id"], size=found["size"])


def make_of_volume(walk: Walk) -> None:
    if found := walk.pick(walk.volumes()):
        make(walk, source_volid=found["id"], size=found["size"])


def make_of_backup(walk: Walk) -> None:
    if found := walk.pick([each for each in backups(walk) if each["status"] == "available"]):
        make(walk, backup_id=found["id"], size=found["size"])


# -- those that are there


def act(name: str, body: Body = nothing, *, admin: bool = False) -> Action:
    def ask(walk: Walk) -> None:
        volume = some_volume(walk)
        if volume is None:
            make(walk)
        else:
            walk.ask("POST", f"{V3}/volumes/{volume['id']}/action", {name: body(walk)}, admin=admin)

    return ask


def pool(walk: Walk) -> Any:
    found = walk.pick(walk.shown(f"{V3}/scheduler-stats/get_pools", "pools", admin=True))
    return {"host": found["name"] if found else ""}


def extend(walk: Walk) -> None:
    if volume := walk.pick(walk.volumes()):
        walk.ask("POST", f"{V3}/volumes/{volume['id']}/action", {"os-extend": {"new_size": volume["size"] + 1}})


def revert(walk: Walk) -> None:
    if found := walk.pick(snapshots(walk)):
        walk.ask("POST", f"{V3}/volumes/{found['volume_id']}/action", {"revert": {"snapshot_id": found["id"]}})


def remove(walk: Walk) -> None:
    if volume := some_volume(walk):
        walk.ask("DELETE", f"{V3}/volumes/{volume['id']}{walk.pick(('', '', '?cascade=true'))}")


def transfer(walk: Walk) -> None:
    volume = some_volume(walk)
    if volume is None:
        return
    answer = walk.ask("POST", f"{V3}/volume-transfers", {"transfer": {"volume_id": volume["id"]}})
    if answer.status == 202:
        made = answer.json()["transfer"]
        path = f"{V3}/volume-transfers/{made['id']}"
        if walk.often(0.5):
            walk.ask("DELETE", path)
        else:
            walk.ask("POST", f"{path}/accept", {"accept": {"auth_key": made["auth_key"]}})


def take_snapshot(walk: Walk) -> None:
    if volume := walk.pick(walk.volumes()):
        walk.ask("POST", f"{V3}/snapshots", {"snapshot": {"volume_id": volume["id"], "force": True}})


def delete_snapshot(walk: Walk) -> None:
    if found := walk.pick(snapshots(walk)):
        walk.ask("DELETE", f"{V3}/snapshots/{found['id']}")


# -- backups


def back_up(walk: Walk) -> None:
    if volume := walk.pick(walk.volumes()):
        wishes = {"volume_id": volume["id"], "force": True, "incremental": walk.often(0.5)}
        walk.ask("POST", f"{V3}/backups", {"backup": wishes})


def delete_backup(walk: Walk) -> None:
    if found := walk.pick(backups(walk)):
        walk.ask("DELETE", f"{V3}/backups/{found['id']}")


def restore_backup(walk: Walk) -> None:
    backup, volume = walk.pick(backups(walk)), some_volume(walk)
    if backup and volume:
        wishes = {"volume_id": volume["id"]} if walk.often(0.6) else {}
        walk.ask("POST", f"{V3}/backups/{backup['id']}/restore", {"restore": wishes})


# -- groups


def make_group(walk: Walk) -> None:
    types = [each["id"] for each in walk.shown(f"{V3}/types", "volume_types")]
    walk.ask("POST", f"{V3}/groups", {"group": {"group_type": walk.group_type, "volume_types": types, "name": "g"}})


def add_to_group(walk: Walk) -> None:
    group, volume = walk.pick(groups(walk)), walk.pick(walk.volumes())
    if group and volume:
        walk.ask("PUT", f"{V3}/groups/{group['id']}", {"group": {"add_volumes": volume["id"]}})


def take_group_snapshot(walk: Walk) -> None:
    filled = {volume["group_id"] for volume in walk.volumes()}
    if group := walk.pick_mostly(groups(walk), lambda group: group["id"] in filled):
        walk.ask("POST", f"{V3}/group_snapshots", {"group_snapshot": {"group_id": group["id"], "name": "g"}})


def delete_group_snapshot(walk: Walk) -> None:
    if found := walk.pick(walk.shown(f"{V3}/group_snapshots/detail", "group_snapshots")):
        walk.ask("DELETE", f"{V3}/group_snapshots/{found['id']}")


def delete_group(walk: Walk) -> None:
    if group := walk.pick(groups(walk)):
        walk.ask("POST", f"{V3}/groups/{group['id']}/action", {"delete": {"delete-volumes": True}})


# -- images


def delete_image(walk: Walk) -> None:
    if image := walk.pick([each for each in walk.shown(IMAGES, "images") if each["id"] != walk.image]):
        walk.ask("DELETE", f"{IMAGES}/{image['id']}")


UPLOAD = {"image_name": "of a volume", "force": True, "disk_format": "raw", "container_format": "bare"}

ACTIONS: Actions = (
    (3.5, make),
    (1.4, make_of_image),
    (1.0, make_of_snapshot),
    (0.7, make_of_volume),
    (0.4, make_of_backup),
    (1.2, extend),
    (1.2, act("os-volume_upload_image", always(UPLOAD))),
    (1.2, act("os-retype", always({"new_type": "second", "migration_policy": "on-demand"}))),
    (1.2, act("os-migrate_volume", pool, admin=True)),
    (1.2, revert),
    (2.4, remove),
    (1.2, transfer),
    (1.6, take_snapshot),
    (2.1, delete_snapshot),
    (2.4, back_up),
    (1.5, delete_backup),
    (0.9, restore_backup),
    (1.2, make_group),
    (1.6, add_to_group),
    (0.8, take_group_snapshot),
    (0.6, delete_group_snapshot),
    (0.6, delete_group),
    (1.5, delete_image),
)
