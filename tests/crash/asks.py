"""Requests that scenarios make to a cloud, and what they look at in the end."""

from __future__ import annotations

from typing import Any

from cloudctl.image.store import ImageStore
from tests.compute.asking import Asking
from tests.crash.stage import Stage

V21, V2, V3, IMAGES = "/compute/v2.1", "/networking/v2.0", "/volume/v3", "/image/v2/images"
BINARY = {"Content-Type": "application/octet-stream"}
NEWEST = {"OpenStack-API-Version": "compute latest, volume latest"}


def good(answer: Any) -> Any:
    assert answer.status < 300, answer
    return answer.json() if answer.body else None


def make(stage: Stage, path: str, kind: str, **fields: Any) -> Any:
    return good(stage.demo.post(path, {kind: fields}, headers=NEWEST))[kind]


# -- servers


def boot(stage: Stage, **wishes: Any) -> str:
    return str(good(Asking(stage.demo).create(**wishes))["server"]["id"])


def running(stage: Stage, **wishes: Any) -> str:
    server_id = boot(stage, **wishes)
    stage.settle()
    return server_id


def root_volume(stage: Stage) -> dict[str, Any]:
    """Request for a server whose root disk is a volume made from the image, and deleted with the server."""
    device: dict[str, Any] = {"source_type": "image", "uuid": Asking(stage.demo).image, "destination_type": "volume"}
    device |= {"boot_index": 0, "volume_size": 1, "delete_on_termination": True}
    return {"imageRef": None, "block_device_mapping_v2": [device]}


def act(stage: Stage, server_id: str, action: str, body: Any = None) -> str:
    good(stage.demo.post(f"{V21}/servers/{server_id}/action", {action: body}))
    return server_id


def delete_server(stage: Stage, server_id: str) -> str:
    good(stage.demo.delete(f"{V21}/servers/{server_id}"))
    return server_id


def server(stage: Stage, server_id: str) -> Any:
    """As an administrator sees it; None if it is gone."""
    answer = stage.admin.get(f"{V21}/servers/{server_id}", headers=NEWEST)
    return None if answer.status == 404 else good(answer)["server"]


def guest(stage: Stage, server_id: str) -> Any:
    """What the hypervisor has; None if it has nothing."""
    return stage.drivers.hypervisor.guests.get(server_id)


def used(stage: Stage) -> int:
    """Processors allocated on all hosts."""
    found = good(stage.admin.get(f"{V21}/os-hypervisors/detail"))["hypervisors"]
    return sum(each["vcpus_used"] for each in found)


# -- ports and volumes


def port(stage: Stage, **fields: Any) -> str:
    made = str(make(stage, f"{V2}/ports", "port", network_id=Asking(stage.demo).network, **fields)["id"])
    stage.settle()
    return made


def ports(stage: Stage) -> set[str]:
    """Ports that do not belong to a router."""
    found = good(stage.demo.get(f"{V2}/ports"))["ports"]
    return {each["id"] for each in found if not each["device_owner"].startswith("network:")}


def plugs(stage: Stage) -> set[str]:
    """The ports that the network driver has on a host."""
    return {each.spec.id for each in stage.drivers.network.ports.values()}


def volume(stage: Stage, **fields: Any) -> str:
    made = str(make(stage, f"{V3}/volumes", "volume", size=1, **fields)["id"])
    stage.settle()
    return made


def volumes(stage: Stage) -> dict[str, str]:
    """Id → status of all volumes."""
    return {each["id"]: each["status"] for each in good(stage.demo.get(f"{V3}/volumes/detail"))["volumes"]}


def disks(stage: Stage) -> dict[str, tuple[str, ...]]:
    """Id → connected hosts of all that the volume driver has."""
    return {each.id: each.hosts for each in stage.drivers.volume.volumes.values()}


def attach_volume(stage: Stage, server_id: str, volume_id: str) -> None:
    body = {"volumeAttachment": {"volumeId": volume_id}}
    good(stage.demo.post(f"{V21}/servers/{server_id}/os-volume_attachments", body))


# -- images


def image(stage: Stage, **fields: Any) -> str:
    made = {"name": "own", "disk_format": "raw", "container_format": "bare", **fields}
    return str(good(stage.demo.post(IMAGES, made))["id"])


def put(stage: Stage, image_id: str, where: str, data: bytes) -> None:
    """`where`: "file" or "stage"."""
    good(stage.demo.put(f"{IMAGES}/{image_id}/{where}", body=data, headers=BINARY))


def image_status(stage: Stage, image_id: str) -> str:
    answer = stage.demo.get(f"{IMAGES}/{image_id}")
    return "gone" if answer.status == 404 else str(good(answer)["status"])


def files(stage: Stage) -> set[str]:
    return {path.name for path in stage.service.made(ImageStore).directory.iterdir()}
