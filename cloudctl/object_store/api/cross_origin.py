"""Preflight requests of browsers, for pages of other sites. Reference: object-store.md, A3, A4."""

from __future__ import annotations

from attrs import frozen

from cloudctl.db import Database
from cloudctl.errors import Unauthorized
from cloudctl.object_store import containers, cors, metadata
from cloudctl.object_store.api.headers import Headers
from cloudctl.object_store.names import Place, placed
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

EXPOSED = "Access-Control-Expose-Headers"
OF_ACCOUNTS = "HEAD, GET, POST, OPTIONS"
OF_CONTAINERS = "HEAD, GET, PUT, POST, DELETE, OPTIONS"
OF_OBJECTS = "HEAD, GET, PUT, POST, COPY, DELETE, OPTIONS"


def expose(call: Call, said: Headers) -> None:
    """Let the page of another site that sent the request read the metadata among these headers, too."""
    if EXPOSED in call.also:
        names = (name.lower() for name, _ in said if name.startswith((metadata.CONTAINER, metadata.OBJECT)))
        call.also[EXPOSED] = ", ".join((call.also[EXPOSED], *names))


@frozen
class CrossOrigin:
    routes = Routes("Object store: pages of other sites")

    db: Database

    @routes.route("OPTIONS", "/v1/<account>", policy=None)
    async def account(self, call: Call, account: str) -> Reply:
        """Show which methods an account supports."""
        return await self._answer(call, placed(account), OF_ACCOUNTS)

    @routes.route("OPTIONS", "/v1/<account>/<container>", policy=None)
    async def container(self, call: Call, account: str, container: str) -> Reply:
        """Show which methods a container supports, and which a page of another site may use."""
        return await self._answer(call, placed(account, container), OF_CONTAINERS)

    @routes.route("OPTIONS", "/v1/<account>/<container>/<path:name>", policy=None)
    async def object(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Show which methods an object supports, and which a page of another site may use."""
        return await self._answer(call, placed(account, container, name), OF_OBJECTS)

    async def _answer(self, call: Call, place: Place, methods: str) -> Reply:
        """A request for methods only does not reveal whether the container exists. Raises Unauthorized."""
        told = (("Allow", methods),)
        origin, method = call.header("origin"), call.header("access-control-request-method")
        if origin is None:
            return Reply(None, 200, told)
        sent = [each.strip().lower() for each in (call.header("access-control-request-headers") or "").split(",")]
        names = [each for each in sent if each]
        container = await self.db.read(containers.find, place) if place.container else None
        rule = None if container is None or not method else cors.rule_for(container, origin, method, names)
        if rule is None:
            raise Unauthorized("", headers={"Allow": methods})
        # What a page may read of an answer is sent with the answer.
        before = (each for each in rule.told_before(origin, names) if each[0] != EXPOSED)
        return Reply(None, 200, (*told, *before))
