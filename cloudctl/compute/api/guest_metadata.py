"""The metadata service as a web resource: one for each network, which guests find at 169.254.169.254.

It has no tokens and is not part of the compute API: the network driver serves it inside the networks of guests, or
proxies on their hosts forward what guests ask.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.application.service import Service
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.web import http
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request

from cloudctl.compute import guest_metadata
from cloudctl.compute.guest_metadata import PASSWORD, PASSWORD_LIMIT
from cloudctl.db import Database
from cloudctl.drivers import boundary, forwarded
from cloudctl.drivers.interfaces import IGuestMetadata
from cloudctl.errors import CloudError
from cloudctl.rest.clients import host_of

log = Logger()

TYPES = {".json": b"application/json", "data": b"application/octet-stream"}
TEXT = b"text/plain; charset=utf-8"


def build(db: Database, image_path: Callable[[str], Path]) -> Callable[[str], IResource]:
    """Network id → the resource that answers the guests on it."""
    return lambda network_id: GuestMetadata(db, image_path, network_id)


class ForwardedMetadata(Resource):
    """All paths, for the guests of all networks: a proxy, which knows the secret, tells which guest asks."""

    isLeaf = True

    def __init__(self, db: Database, image_path: Callable[[str], Path], secret: str) -> None:
        super().__init__()
        self.db = db
        self.image_path = image_path
        self.secret = secret

    def render(self, request: Request) -> Any:
        guest = forwarded.asker(self.secret, request.getHeader)
        if guest is None:
            request.setResponseCode(http.FORBIDDEN)
            return b"The signature is not that of [compute] metadata_secret."
        return GuestMetadata(self.db, self.image_path, *guest).render(request)


@frozen
class _Answer:
    code: int
    body: bytes
    type: bytes = TEXT


class GuestMetadata(Resource):
    """All paths, for the guests of one network: the address, by default the client's, tells which guest it is."""

    isLeaf = True

    def __init__(
        self, db: Database, image_path: Callable[[str], Path], network_id: str, address: str | None = None
    ) -> None:
        super().__init__()
        self.db = db
        self.image_path = image_path
        self.network_id = network_id
        self.address = address

    def render(self, request: Request) -> Any:
        done = ensureDeferred(self._answer(request))
        done.addErrback(_failed)
        gone: list[Any] = []
        request.notifyFinish().addErrback(gone.append)
        done.addCallback(lambda answer: None if gone else _send(request, answer))
        return NOT_DONE_YET

    async def _answer(self, request: Request) -> _Answer:
        client = self.address or host_of(request.getClientAddress())
        path = [part.decode(errors="replace") for part in request.postpath or () if part]
        try:
            if request.method in (b"GET", b"HEAD"):
                return await self._get(client, path)
            if request.method == b"POST" and path[:1] == ["openstack"] and path[2:] == [PASSWORD]:
                value = request.content.read(PASSWORD_LIMIT + 1) if request.content is not None else b""
                await self.db.run(guest_metadata.set_password, self.network_id, client, value)
                return _Answer(http.OK, b"")
        except CloudError as error:
            return _Answer(error.status, error.message.encode())
        return _Answer(http.NOT_ALLOWED, b"")

    async def _get(self, client: str, path: list[str]) -> _Answer:
        guest = await self.db.read(guest_metadata.guest_at, self.network_id, client, self.image_path)
        body = guest_metadata.answer(guest, path)
        if body is None:
            return _Answer(http.NOT_FOUND, b"There is nothing here.")
        known = (type for end, type in TYPES.items() if path and path[-1].endswith(end))
        return _Answer(http.OK, body, next(known, TEXT))


def _send(request: Request, answer: _Answer) -> None:
    request.setResponseCode(answer.code)
    request.setHeader(b"content-type", answer.type)
    request.setHeader(b"content-length", str(len(answer.body)).encode())
    if request.method != b"HEAD":
        request.write(answer.body)
    request.finish()


def _failed(failure: Any) -> _Answer:
    log.failure("could not look up the metadata of a guest", failure)
    return _Answer(http.INTERNAL_SERVER_ERROR, b"")


class MetadataService(Service):
    """Hands the resources to a network driver that can serve them, as the cloud starts."""

    def __init__(self, network: IGuestMetadata, site_of: Callable[[str], IResource]) -> None:
        self.network = network
        self.site_of = site_of

    def startService(self) -> None:
        super().startService()
        serving = boundary.call(self.network.serve_guest_metadata, self.site_of)
        serving.addErrback(lambda failure: log.failure("cannot serve the metadata of guests", failure))
