"""Requests to the instance-HA API, in few words."""

from __future__ import annotations

from typing import Any

from attrs import define

from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response
from tests.compute.asking import Asking

LATEST = "1.3"
# What the specification's example says.
STOPPED = {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"}


@define(eq=False)
class Ha:
    """An administrator's requests. `version` None sends no header."""

    client: Client

    @property
    def cloud(self) -> MemoryCloud:
        return self.client.cloud

    @property
    def compute(self) -> Asking:
        return Asking(self.client)

    def ask(self, method: str, path: str, body: Any = None, version: str | None = LATEST, **headers: str) -> Response:
        asked = {} if version is None else {"OpenStack-API-Version": f"instance-ha {version}"}
        return self.client.request(method, f"/v1{path}", body, headers=asked | headers, ha=True)

    def get(self, path: str, version: str | None = LATEST) -> Any:
        answer = self.ask("GET", path, version=version)
        assert answer.status == 200, answer
        return answer.json()

    def make(self, path: str, key: str, **fields: Any) -> dict[str, Any]:
        answer = self.ask("POST", path, {key: fields})
        assert answer.status == 201, answer
        made: dict[str, Any] = answer.json()[key]
        return made

    def segment(self, name: str = "rack-1", recovery_method: str = "auto", **fields: Any) -> str:
        made = self.make(
            "/segments", "segment", name=name, recovery_method=recovery_method, service_type="COMPUTE", **fields
        )
        return str(made["uuid"])

    def host(self, segment: str, name: str, **fields: Any) -> str:
        made = self.make(
            f"/segments/{segment}/hosts", "host", name=name, type="COMPUTE", control_attributes="SSH", **fields
        )
        return str(made["uuid"])

    def report(self, hostname: str = "fake-1", type: str = "COMPUTE_HOST", **payload: str) -> Response:
        """In the specification's form."""
        return self.ask("POST", "/notifications", {"hostname": hostname, "type": type, "payload": payload or STOPPED})

    def reported(self, hostname: str = "fake-1", type: str = "COMPUTE_HOST", **payload: str) -> str:
        answer = self.report(hostname, type, **payload)
        assert answer.status == 202, answer
        return str(answer.json()["notification"]["notification_uuid"])

    def notification(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/notifications/{uuid}")["notification"]
        return found

    def status(self, uuid: str) -> str:
        return str(self.notification(uuid)["status"])

    def vmoves(self, uuid: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/notifications/{uuid}/vmoves?sort_key=id&sort_dir=asc")["vmoves"]
        return found
