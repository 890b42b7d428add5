"""A cloud in memory, and who uses its placement API."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define

from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response

LATEST = "1.39"


@define(eq=False)
class Placing:
    """An administrator's requests. `version` None sends no header."""

    client: Client

    def ask(self, method: str, path: str, body: Any = None, version: str | None = LATEST) -> Response:
        headers = {} if version is None else {"OpenStack-API-Version": f"placement {version}"}
        return self.client.request(method, f"/placement{path}", body, headers=headers)

    def get(self, path: str, version: str | None = LATEST) -> Any:
        answer = self.ask("GET", path, version=version)
        assert answer.status == 200, answer
        return answer.json()

    def provider(self, name: str, parent: str | None = None, **inventories: int) -> str:
        """A provider's id. `inventories`: class → total."""
        body = {"name": name} | ({"parent_provider_uuid": parent} if parent else {})
        answer = self.ask("POST", "/resource_providers", body)
        assert answer.status == 200, answer
        found = answer.json()
        if inventories:
            self.stock(found["uuid"], **inventories)
        return str(found["uuid"])

    def generation(self, provider: str) -> int:
        return int(self.get(f"/resource_providers/{provider}")["generation"])

    def stock(self, provider: str, **totals: int) -> None:
        self.put(provider, "inventories", inventories={name: {"total": total} for name, total in totals.items()})

    def put(self, provider: str, what: str, **body: Any) -> None:
        body["resource_provider_generation"] = self.generation(provider)
        answer = self.ask("PUT", f"/resource_providers/{provider}/{what}", body)
        assert answer.status == 200, answer

    def take(self, consumer: str, generation: int | None = None, **shares: Any) -> Response:
        """`shares`: provider → amounts, in the key `of`."""
        body = {
            "allocations": {provider: {"resources": amounts} for provider, amounts in shares["of"].items()},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }
        return self.ask("PUT", f"/allocations/{consumer}", body)

    def usages(self, provider: str) -> dict[str, int]:
        found: dict[str, int] = self.get(f"/resource_providers/{provider}/usages")["usages"]
        return found


@pytest.fixture
def cloud() -> MemoryCloud:
    return MemoryCloud()


@pytest.fixture
def placing(cloud: MemoryCloud) -> Placing:
    return Placing(cloud.client("admin"))
