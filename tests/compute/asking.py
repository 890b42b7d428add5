"""Requests to the compute API, in few words."""

from __future__ import annotations

from typing import Any

from attrs import define

from cloudctl.compute.options import HIGHEST
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response

V21 = "/compute/v2.1"
LATEST = f"2.{HIGHEST}"


def at(version: str | None) -> dict[str, str]:
    return {} if version is None else {"OpenStack-API-Version": f"compute {version}"}


@define(eq=False)
class Asking:
    """One user's requests. `version` is a microversion; None sends no header."""

    client: Client

    def get(self, path: str, version: str | None = None) -> Response:
        return self.client.get(V21 + path, headers=at(version))

    def post(self, path: str, body: Any = None, version: str | None = None) -> Response:
        return self.client.post(V21 + path, body, headers=at(version))

    def put(self, path: str, body: Any = None, version: str | None = None) -> Response:
        return self.client.put(V21 + path, body, headers=at(version))

    def delete(self, path: str, version: str | None = None) -> Response:
        return self.client.delete(V21 + path, headers=at(version))

    # -- what there is

    @property
    def cloud(self) -> MemoryCloud:
        return self.client.cloud

    @property
    def image(self) -> str:
        return str(self.client.get("/image/v2/images?name=tiny").json()["images"][0]["id"])

    @property
    def network(self) -> str:
        return str(self.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["id"])

    @property
    def ports(self) -> list[str]:
        """The ids of those that are not a router's own."""
        found = self.client.get("/networking/v2.0/ports").json()["ports"]
        return [each["id"] for each in found if not each["device_owner"].startswith("network:")]

    def volume(self, size: int = 1, **wishes: Any) -> str:
        """A volume that is available."""
        made = self.client.post("/volume/v3/volumes", {"volume": {"size": size, **wishes}})
        assert made.status == 202, made
        self.cloud.settle()
        return str(made.json()["volume"]["id"])

    def volume_status(self, volume_id: str) -> str:
        found = self.client.get(f"/volume/v3/volumes/{volume_id}")
        return "gone" if found.status == 404 else str(found.json()["volume"]["status"])

    # -- servers

    def body(self, **wishes: Any) -> dict[str, Any]:
        """A create that works; `wishes` change it, those that are None leave a field out."""
        body = {"name": "vm", "flavorRef": "1", "imageRef": self.image, "networks": [{"uuid": self.network}], **wishes}
        return {"server": {key: value for key, value in body.items() if value is not None}}

    def create(self, version: str | None = None, **wishes: Any) -> Response:
        return self.post("/servers", self.body(**wishes), version)

    def boot(self, version: str | None = None, **wishes: Any) -> str:
        """The id of a new server, whose boot has come to its end."""
        made = self.create(version, **wishes)
        assert made.status == 202, made
        self.cloud.settle()
        return str(made.json()["server"]["id"])

    def server(self, server_id: str, version: str | None = LATEST) -> dict[str, Any]:
        found = self.get(f"/servers/{server_id}", version)
        assert found.status == 200, found
        server: dict[str, Any] = found.json()["server"]
        return server

    def act(self, server_id: str, action: Any, version: str | None = None) -> Response:
        return self.post(f"/servers/{server_id}/action", action, version)

    def status(self, server_id: str) -> str:
        found = self.get(f"/servers/{server_id}")
        return "gone" if found.status == 404 else str(found.json()["server"]["status"])

    def names(self, query: str = "", version: str | None = None) -> list[str]:
        """Of the servers that a list shows, in its order."""
        found = self.get(f"/servers{query}", version)
        assert found.status == 200, found
        return [server["name"] for server in found.json()["servers"]]


def refusal(response: Response) -> tuple[int, str, str]:
    """(status, key, message) of an error."""
    ((key, error),) = response.json().items()
    assert error["code"] == response.status
    return response.status, key, error["message"]


def audited(cloud: MemoryCloud) -> list[str]:
    """What the audit finds."""
    cloud.cloud.audit.run()
    cloud.advance(0)
    return [each.kind for found in cloud.cloud.audit.latest.values() for each in found]
