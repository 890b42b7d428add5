"""Key pairs. Reference: compute.md, section 10."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import field, frozen
from twisted.internet.threads import deferToThreadPool

from cloudctl.compute import keypairs, keys
from cloudctl.compute.api import gates, query
from cloudctl.compute.keypairs import NewKeypair
from cloudctl.compute.keys import Pair
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import Keypair
from cloudctl.db import Connection, Database
from cloudctl.rest.body import MISSING, Body, BodyError, Length, Missing, Pattern, Problem, gated
from cloudctl.rest.call import Call
from cloudctl.rest.caller import forbidden
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Page, Paging, paging
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields

# The rule for managing other users' key pairs.
OTHERS = "compute:keypairs:others"

QUERY = {"user_id": since(2, 10)}
LIST_QUERY = {**QUERY, "limit": since(2, 35), "marker": since(2, 35)}


@frozen
class CreateKeypair:
    name: Annotated[
        str,
        Length(1, 255, blank=False),
        Pattern(r"[A-Za-z0-9 @._-]+", "a name of letters, digits, spaces, hyphens and underscores"),
    ]
    public_key: Annotated[str, Length(1, 16384)] | Missing = MISSING
    type: Literal["ssh", "x509"] | Missing = gated(since(2, 2))
    user_id: Annotated[str, Length(1, 64)] | Missing = gated(since(2, 10))


LATER = Fields[[Keypair]]("a key pair", {"type": (since(2, 2), lambda pair: pair.type)})


def view(call: Call, row: Keypair) -> dict[str, Any]:
    """As in the list."""
    shown = {"name": row.name, "public_key": row.public_key, "fingerprint": row.fingerprint}
    return shown | LATER.of(call.version, row)


def full(call: Call, row: Keypair) -> dict[str, Any]:
    return {
        **view(call, row),
        "id": row.number,
        "user_id": row.user_id,
        "created_at": micros(row.created_at),
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }


@frozen
class Keypairs:
    routes = Routes("Key pairs")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-keypairs", policy="compute:keypairs:list", query=LIST_QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List the key pairs of a user."""
        query.only(call, LIST_QUERY)
        page = await self.db.scan(self._page, call, owner(call))
        shown = [{"keypair": view(call, row)} for row in page.rows]
        last = page.rows[-1].name if page.rows else None
        return {"keypairs": shown, **query.links(call, page, "keypairs_links", last)}

    def _page(self, conn: Connection, call: Call, user_id: str) -> Page:
        asked = paging(call, query.limits(self.options), ()) if call.version in gates.KEYPAIR_PAGES else Paging(None)
        return query.page(conn, keypairs.LISTING, asked, Keypair.user_id == user_id)

    @routes.post(
        "/os-keypairs",
        policy="compute:keypairs:create",
        body=Body(CreateKeypair, key="keypair"),
        status={(2, 1): 200, (2, 2): 201},
    )
    async def create(self, call: Call, body: CreateKeypair) -> dict[str, Any]:
        """Import a public key, or create a pair."""
        user_id = allowed(call, body.user_id or call.user_id)
        _check_name(call, body.name)
        kind = body.type or "ssh"
        if body.public_key is MISSING:
            return {"keypair": await self._generate(call, user_id, body.name, kind)}
        fingerprint = keys.fingerprint(kind, body.public_key)
        wanted = NewKeypair(user_id, body.name, kind, body.public_key, fingerprint)
        row = await self.db.run(keypairs.create, call.caller, wanted)
        return {"keypair": created(call, row)}

    async def _generate(self, call: Call, user_id: str, name: str, kind: keys.Type) -> dict[str, Any]:
        if call.version in gates.KEYPAIR_IMPORT:
            raise BodyError([Problem("$.keypair", "'public_key' is a required property", "required")])
        # Not in the reactor's thread, and not in the one that writes.
        pool: Any = self.db.threads
        pair: Pair = await deferToThreadPool(self.db.reactor, pool, keys.generate, kind, user_id, call.now)
        wanted = NewKeypair(user_id, name, kind, pair.public_key, pair.fingerprint)
        row = await self.db.run(keypairs.create, call.caller, wanted)
        return {**created(call, row), "private_key": pair.private_key}

    @routes.get("/os-keypairs/<name>", policy="compute:keypairs:show", query=QUERY)
    async def show(self, call: Call, name: str) -> dict[str, Any]:
        """Show one key pair."""
        query.only(call, QUERY)
        return {"keypair": full(call, await self.db.read(keypairs.get, owner(call), name))}

    @routes.delete(
        "/os-keypairs/<name>", policy="compute:keypairs:delete", status={(2, 1): 202, (2, 2): 204}, query=QUERY
    )
    async def delete(self, call: Call, name: str) -> None:
        """Delete a key pair; servers keep its public key."""
        query.only(call, QUERY)
        await self.db.run(keypairs.remove, owner(call), name)


def owner(call: Call) -> str:
    """The owner of the key pairs: the caller, or (2.10, administrators) `?user_id=`. Raises Forbidden."""
    wanted = call.query.get("user_id")
    return allowed(call, wanted or call.user_id)


def allowed(call: Call, user_id: str) -> str:
    """Raises Forbidden."""
    if user_id != call.user_id and not call.may(OTHERS):
        raise forbidden(OTHERS)
    return user_id


def created(call: Call, row: Keypair) -> dict[str, Any]:
    return {**view(call, row), "user_id": row.user_id}


def _check_name(call: Call, name: str) -> None:
    if call.version not in gates.KEYPAIR_IMPORT and any(char in "@." for char in name):
        raise BodyError(
            [Problem("$.keypair.name", f"{name!r} is not a name of letters, digits, spaces, hyphens and underscores")]
        )
    if name != name.strip():
        raise BodyError([Problem("$.keypair.name", f"{name!r} has leading or trailing whitespace")])
