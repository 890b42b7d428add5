"""What the tests of this folder ask of the image API over and over."""

from __future__ import annotations

from typing import Any

from cloudctl.testing.cloud import Client
from cloudctl.testing.http import Response

DATA = {"Content-Type": "application/octet-stream"}
V21 = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
V20 = {"Content-Type": "application/openstack-images-v2.0-json-patch"}
IMAGES = "/image/v2/images"


def create(client: Client, **fields: Any) -> dict[str, Any]:
    """A new image, by default with formats."""
    wanted = {"disk_format": "raw", "container_format": "bare", **fields}
    answer = client.post(IMAGES, wanted)
    assert answer.status == 201, answer
    made: dict[str, Any] = answer.json()
    return made


def upload(client: Client, image_id: str, body: bytes = b"data", /, **headers: str) -> Response:
    return client.put(f"{IMAGES}/{image_id}/file", body=body, headers={**DATA, **headers})


def stored(client: Client, body: bytes = b"data", **fields: Any) -> dict[str, Any]:
    """A new image with data."""
    made = create(client, **fields)
    answer = upload(client, made["id"], body)
    assert answer.status == 204, answer
    return show(client, made["id"])


def show(client: Client, image_id: str) -> dict[str, Any]:
    answer = client.get(f"{IMAGES}/{image_id}")
    assert answer.status == 200, answer
    shown: dict[str, Any] = answer.json()
    return shown


def names(client: Client, query: str = "") -> list[str]:
    """The names in a list of images, in its order, without the one that every cloud has."""
    answer = client.get(f"{IMAGES}?{query}")
    assert answer.status == 200, answer
    return [image["name"] for image in answer.json()["images"] if image["name"] != "tiny"]


def patch(client: Client, image_id: str, *operations: Any, headers: dict[str, str] = V21) -> Response:
    return client.patch(f"{IMAGES}/{image_id}", list(operations), headers=headers)


def project_of(client: Client) -> str:
    """The id of the project that a client's token is for."""
    made = create(client)
    assert client.delete(f"{IMAGES}/{made['id']}").status == 204
    return str(made["owner"])
