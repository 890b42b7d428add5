"""What the tests of this folder ask of the object store over and over."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.object_store.store import ObjectStore
from cloudctl.object_store.tables import Object, UploadPart, Version
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response

ROOT = "/object-store/v1"


def project_of(client: Client) -> str:
    """The id of the project that a client's token is for."""
    told = client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": str(client.token)})
    return str(told.json()["token"]["project"]["id"])


class Account:
    """The account of a client's project, or another one; paths are below it and quoted here."""

    def __init__(self, client: Client, project_id: str | None = None) -> None:
        self.client = client
        self.project_id = project_id or project_of(client)
        self.url = f"{ROOT}/AUTH_{self.project_id}"

    def ask(self, method: str, path: str = "", query: str = "", /, *, body: bytes = b"", **headers: str) -> Response:
        """A header's name has _ for -."""
        sent = {"Accept": "*/*", **{name.replace("_", "-"): value for name, value in headers.items()}}
        target = self.url + (f"/{quote(path)}" if path else "") + (f"?{query}" if query else "")
        return self.client.request(method, target, body=body, headers=sent)

    def put(self, path: str, body: bytes = b"", /, **headers: str) -> Response:
        """Create a container or an object."""
        answer = self.ask("PUT", path, body=body, **headers)
        assert answer.status in (201, 202), answer
        return answer

    def get(self, path: str = "", query: str = "", **headers: str) -> Response:
        return self.ask("GET", path, query, body=b"", **headers)

    def head(self, path: str = "", query: str = "", **headers: str) -> Response:
        return self.ask("HEAD", path, query, body=b"", **headers)

    def post(self, path: str = "", query: str = "", **headers: str) -> Response:
        return self.ask("POST", path, query, body=b"", **headers)

    def delete(self, path: str, query: str = "", **headers: str) -> Response:
        return self.ask("DELETE", path, query, body=b"", **headers)

    def names(self, path: str = "", query: str = "") -> list[str]:
        """A listing, in its order."""
        answer = self.get(path, f"format=json&{query}")
        assert answer.status == 200, answer
        return [each.get("name", each.get("subdir")) for each in answer.json()]

    def holding(self, container: str, *names: str) -> None:
        """A container with empty objects."""
        self.put(container)
        for name in names:
            self.put(f"{container}/{name}")


def files(cloud: MemoryCloud) -> set[str]:
    """The ids of all files, and the names of what is on its way."""
    store = cloud.cloud.made(ObjectStore)
    left = {each.name for each in store.spool.iterdir()}
    return left | {each.id for page in store.pages() for each in page}


def rows(cloud: MemoryCloud) -> set[str]:
    def read(conn: Connection) -> Any:
        kinds = (Object, Version, UploadPart)
        return {each for kind in kinds for each in conn.scalars(select(kind.file_id)) if each}

    return set(cloud.transact(read))
