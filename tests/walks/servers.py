"""What a walk does to servers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tests.compute.asking import V21
from tests.walks.walk import IMAGES, V2, Action, Actions, Body, Walk, always, nothing

FLAVORS = ("1", "2")
HOSTS = ("fake-1", "fake-2", "fake-3")
STEADY = ("ACTIVE", "SHUTOFF")  # in which most is accepted
LOCAL = {"source_type": "image", "destination_type": "local", "boot_index": 0}
VOLUME = {"source_type": "volume", "destination_type": "volume"}

# -- boots: how each differs from the simplest one


def as_it_is(_walk: Walk) -> dict[str, Any]:
    return {}


def with_a_new_volume(walk: Walk) -> dict[str, Any]:
    device = {**LOCAL, "uuid": walk.image, "destination_type": "volume", "volume_size": 1}
    return {"imageRef": "", "block_device_mapping_v2": [{**device, "delete_on_termination": walk.often(0.6)}]}


def with_a_bootable_volume(walk: Walk) -> dict[str, Any]:
    volume = walk.pick([each for each in walk.volumes("available") if each["bootable"] == "true"])
    if volume is None:
        return {}
    return {"imageRef": "", "block_device_mapping_v2": [{**VOLUME, "uuid": volume["id"], "boot_index": 0}]}


def with_one_more_volume(walk: Walk) -> dict[str, Any]:
    volume = walk.pick(walk.volumes("available"))
    if volume is None:
        return {}
    more = {**VOLUME, "uuid": volume["id"], "boot_index": -1, "delete_on_termination": walk.often(0.3)}
    return {"block_device_mapping_v2": [{**LOCAL, "uuid": walk.image}, more]}


def from_an_image(walk: Walk) -> dict[str, Any]:
    image = walk.pick([each for each in walk.shown(IMAGES, "images") if each["status"] == "active"])
    return {} if image is None else {"imageRef": image["id"]}


def with_a_port(walk: Walk) -> dict[str, Any]:
    port = walk.pick(walk.ports(free=True))
    return {} if port is None else {"networks": [{"port": port["id"]}]}


def with_chosen_networks(walk: Walk) -> dict[str, Any]:
    return {"networks": walk.pick(("auto", "none"))}


def twins(_walk: Walk) -> dict[str, Any]:
    return {"min_count": 1, "max_count": 2}


def boot(walk: Walk, **wishes: Any) -> None:
    plain = {"flavorRef": walk.pick(FLAVORS), "imageRef": walk.image, "networks": [{"uuid": walk.private}]}
    walk.ask("POST", f"{V21}/servers", {"server": {"name": "walked", **plain, **wishes}})


def booted(how: Body) -> Action:
    return lambda walk: boot(walk, **how(walk))


# -- actions


def of(*bodies: Any) -> Body:
    return lambda walk: walk.pick(bodies)


def flavor(walk: Walk) -> Any:
    return {"flavorRef": walk.pick(FLAVORS)}


def image(walk: Walk) -> Any:
    return {"imageRef": walk.image}


def act(name: str, body: Body = nothing, *, to: Collection[str] = (), admin: bool = False) -> Action:
    """`to` are the states in which it is accepted."""

    def ask(walk: Walk) -> None:
        server = walk.pick_mostly(walk.servers(), lambda server: server["status"] in to)
        if server is None:
            boot(walk)
        else:
            walk.ask("POST", f"{V21}/servers/{server['id']}/action", {name: body(walk)}, admin=admin)

    return ask


def restore(walk: Walk) -> None:
    """Users do not see what they have deleted softly."""
    path = f"{V21}/servers/detail?all_tenants=1&status=SOFT_DELETED"
    if server := walk.pick(walk.shown(path, "servers", admin=True)):
        walk.ask("POST", f"{V21}/servers/{server['id']}/action", {"restore": None})


def evacuate(walk: Walk) -> None:
    found = walk.shown(f"{V21}/servers/detail?all_tenants=1", "servers", admin=True)
    if server := walk.pick_mostly(found, lambda server: server["OS-EXT-SRV-ATTR:host"] in walk.down):
        walk.ask("POST", f"{V21}/servers/{server['id']}/action", {"evacuate": {}}, admin=True)


def remove(walk: Walk) -> None:
    if server := walk.pick(walk.servers()):
        walk.ask("DELETE", f"{V21}/servers/{server['id']}")


def abort_move(walk: Walk) -> None:
    if server := walk.pick(walk.servers()):
        path = f"{V21}/servers/{server['id']}/migrations"
        if moves := walk.shown(path, "migrations", admin=True):
            walk.ask("DELETE", f"{path}/{moves[0]['id']}", admin=True)


# -- volumes and ports of servers


def attach_volume(walk: Walk) -> None:
    server = walk.pick_mostly(walk.servers(), lambda server: server["status"] in STEADY)
    volume = walk.pick_mostly(walk.volumes(), lambda volume: volume["status"] == "available")
    if server and volume:
        wishes = {"volumeId": volume["id"], "delete_on_termination": walk.often(0.2)}
        walk.ask("POST", f"{V21}/servers/{server['id']}/os-volume_attachments", {"volumeAttachment": wishes})


def detach_volume(walk: Walk) -> None:
    if path := _attachment(walk):
        walk.ask("DELETE", path)


def swap_volume(walk: Walk) -> None:
    path = _attachment(walk)
    volume = walk.pick_mostly(walk.volumes(), lambda volume: volume["status"] == "available")
    if path and volume:
        walk.ask("PUT", path, {"volumeAttachment": {"volumeId": volume["id"]}}, admin=True)


def _attachment(walk: Walk) -> str | None:
    """The path of one, by chance."""
    server = walk.pick_mostly(walk.servers(), lambda server: bool(server["os-extended-volumes:volumes_attached"]))
    volume = walk.pick(server["os-extended-volumes:volumes_attached"]) if server else None
    return f"{V21}/servers/{server['id']}/os-volume_attachments/{volume['id']}" if server and volume else None


def attach_interface(walk: Walk) -> None:
    server = walk.pick_mostly(walk.servers(), lambda server: server["status"] in STEADY)
    port = walk.pick(walk.ports(free=True))
    if server:
        wishes = {"port_id": port["id"]} if port and walk.often(0.5) else {"net_id": walk.private}
        walk.ask("POST", f"{V21}/servers/{server['id']}/os-interface", {"interfaceAttachment": wishes})


def detach_interface(walk: Walk) -> None:
    if found := _interface(walk):
        walk.ask("DELETE", f"{V21}/servers/{found['device_id']}/os-interface/{found['id']}")


def delete_interface(walk: Walk) -> None:
    """In networking, which tells compute."""
    if found := _interface(walk):
        walk.ask("DELETE", f"{V2}/ports/{found['id']}")


def _interface(walk: Walk) -> dict[str, Any] | None:
    return walk.pick([each for each in walk.ports() if each["device_owner"].startswith("compute:")])


COLD = [{"host": host} for host in (None, *HOSTS)]
LIVE = [{"host": host, "block_migration": "auto"} for host in (None, *HOSTS)]

ACTIONS: Actions = (
    (2.4, booted(as_it_is)),
    (2.0, booted(with_a_new_volume)),
    (0.8, booted(with_a_port)),
    (0.8, booted(from_an_image)),
    (0.5, booted(with_a_bootable_volume)),
    (0.4, booted(with_chosen_networks)),
    (0.4, booted(twins)),
    (0.8, booted(with_one_more_volume)),
    (1.0, act("os-start", to=("SHUTOFF",))),
    (1.0, act("os-stop", to=("ACTIVE",))),
    (1.0, act("reboot", always({"type": "SOFT"}))),
    (1.0, act("reboot", always({"type": "HARD"}))),
    (1.0, act("pause", to=("ACTIVE",))),
    (1.0, act("unpause", to=("PAUSED",))),
    (1.0, act("suspend", to=("ACTIVE",))),
    (1.0, act("resume", to=("SUSPENDED",))),
    (1.0, act("shelve", to=("ACTIVE", "SHUTOFF", "PAUSED"))),
    (1.0, act("shelveOffload", to=("SHELVED",), admin=True)),
    (2.0, act("unshelve", to=("SHELVED", "SHELVED_OFFLOADED"))),
    (2.0, act("resize", flavor, to=STEADY)),
    (1.0, act("confirmResize", to=("VERIFY_RESIZE",))),
    (1.0, act("revertResize", to=("VERIFY_RESIZE",))),
    (1.0, act("rebuild", image, to=STEADY)),
    (1.0, act("rescue", to=STEADY)),
    (1.0, act("unrescue", to=("RESCUE",))),
    (1.0, act("createImage", always({"name": "of a server"}))),
    (1.0, act("createBackup", always({"name": "daily", "backup_type": "daily", "rotation": 1}))),
    (1.0, act("migrate", of(None, *COLD), to=STEADY, admin=True)),
    (1.0, act("os-migrateLive", of(*LIVE), to=("ACTIVE", "PAUSED"), admin=True)),
    (1.0, evacuate),
    (1.0, act("lock")),
    (1.0, act("unlock")),
    (1.0, act("changePassword", always({"adminPass": "another"}), to=("ACTIVE",))),
    (1.0, act("addSecurityGroup", always({"name": "default"}))),
    (1.0, restore),
    (0.3, act("forceDelete")),
    (1.0, abort_move),
    (4.0, remove),
    (8.0, attach_volume),
    (4.2, detach_volume),
    (1.8, swap_volume),
    (2.5, attach_interface),
    (1.7, detach_interface),
    (0.8, delete_interface),
)
