"""Accounts: their containers and their metadata. Reference: object-store.md, A3."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid, MethodNotAllowed, TooLarge
from cloudctl.object_store import account_acl, accounts, listing, metadata
from cloudctl.object_store.accounts import Usage
from cloudctl.object_store.api import bulk, listings
from cloudctl.object_store.api.bulk import Bulk
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.api.faults import HTML_TYPE, NOTHING
from cloudctl.object_store.api.headers import Headers, changes, shown, timestamp
from cloudctl.object_store.listing import Wanted
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.tables import Account
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

QUOTA = "X-Account-Quota-"
# Its former name, among the metadata that users set freely.
OLD_QUOTA = f"{metadata.ACCOUNT}Quota-"
# Accounts come and go with their projects.
ALLOWED = {"Allow": "HEAD, GET, POST, OPTIONS"}
RESELLERS = "object_store:resellers"


def _headers(found: Account | None, usage: Usage, now: datetime, *, owner: bool) -> Headers:
    policy = "X-Account-Storage-Policy-Default"
    amounts = [("Container-Count", usage.containers), ("Object-Count", usage.objects), ("Bytes-Used", usage.bytes)]
    said = dict(found.headers) if found is not None else {}
    said |= {name.replace(QUOTA, OLD_QUOTA): value for name, value in said.items() if name.startswith(QUOTA)}
    return (
        *((f"X-Account-{name}", str(amount)) for name, amount in amounts),
        *((f"{policy}-{name}", str(amount)) for name, amount in amounts if usage.containers),
        ("X-Timestamp", timestamp(now if found is None else found.created_at)),
        ("Accept-Ranges", "bytes"),
        *shown(said, owner=owner),
    )


def _page(conn: Connection, place: Place, wanted: Wanted, form: str) -> bytes:
    entries = [listings.of_container(each) for each in listing.of_containers(conn, place.project_id, wanted)]
    return listings.ACCOUNT.written(form, place.account, entries)


def _show(conn: Connection, project_id: str) -> tuple[Account | None, Usage, str | None]:
    return accounts.find(conn, project_id), accounts.usage(conn, project_id), accounts.domain(conn, project_id)


@frozen
class Accounts:
    routes = Routes("Object store: accounts")

    db: Database
    door: Door
    bulk: Bulk

    async def _said(self, call: Call, place: Place) -> Headers:
        found, usage, domain = await self.db.read(_show, place.project_id)
        owner = call.may("object_store:accounts:update", project_id=place.project_id)
        said = _headers(found, usage, call.now, owner=owner)
        return said if domain is None else (*said, ("X-Account-Project-Domain-Id", domain))

    @routes.head("/v1/<account>", policy="object_store:accounts:show", anonymous=True, status=204)
    async def show(self, call: Call, account: str) -> Reply:
        """Show the metadata of an account."""
        place = placed(account)
        await self.door.enter(call, place)
        return Reply(None, headers=(*await self._said(call, place), *NOTHING))

    @routes.get("/v1/<account>", policy="object_store:accounts:show", anonymous=True, query=listings.PARAMETERS)
    async def list(self, call: Call, account: str) -> Reply:
        """List the containers of an account."""
        place = placed(account)
        await self.door.enter(call, place)
        form = listings.media(call)
        body = await self.db.scan(_page, place, listings.wanted(call), form)
        return listings.reply(form, body, await self._said(call, place))

    async def may_post(self, call: Call, account: str) -> Admitted:
        """Whether a list of things to delete may come."""
        if "bulk-delete" not in call.query:
            raise TooLarge("")
        place = placed(account)
        await self.door.enter(call, place)
        return Admitted(place.project_id)

    @routes.post(
        "/v1/<account>",
        policy="object_store:accounts:update",
        anonymous=True,
        raw=True,
        status=204,
        admits="may_post",
        query=("bulk-delete",),
    )
    async def update(self, call: Call, account: str) -> Reply:
        """Change the metadata of an account, or delete many things in it."""
        place = placed(account)
        await self.door.enter(call, place)
        if "bulk-delete" in call.query:
            return await self.bulk.delete(call, place)
        wanted = changes(call, metadata.ACCOUNT) | _quotas(call) | _access(call)
        await self.db.run(accounts.change, place.project_id, wanted, call.now)
        return Reply(None, 204, (HTML_TYPE,))

    @routes.delete(
        "/v1/<account>",
        policy="object_store:accounts:bulk_delete",
        anonymous=True,
        raw=True,
        status=200,
        admits="may_post",
        query=("bulk-delete",),
    )
    async def delete_many(self, call: Call, account: str) -> Reply:
        """Delete many things in an account."""
        place = placed(account)
        await self.door.enter(call, place)
        if "bulk-delete" not in call.query:
            raise MethodNotAllowed("", headers=ALLOWED)
        return await self.bulk.delete(call, place)

    async def may_extract(self, call: Call, account: str) -> Admitted:
        """Whether an archive may come."""
        if "extract-archive" not in call.query:
            raise TooLarge("")
        place = placed(account)
        await self.door.enter(call, place)
        bulk.wanted(call)
        return Admitted(place.project_id)

    @routes.put(
        "/v1/<account>",
        policy="object_store:accounts:extract",
        anonymous=True,
        raw=True,
        admits="may_extract",
        query=("extract-archive",),
    )
    async def extract(self, call: Call, account: str) -> Reply:
        """Make containers and objects from the files in an archive."""
        place = placed(account)
        await self.door.enter(call, place)
        if "extract-archive" not in call.query:
            raise MethodNotAllowed("", headers=ALLOWED)
        return await self.bulk.extract(call, place)


def _access(call: Call) -> dict[str, str | None]:
    """Who may access the account. Raises Invalid."""
    given = call.header(account_acl.HEADER)
    if given is None:
        return {}
    return {account_acl.HEADER: account_acl.cleaned(given) if given else None}


def _quotas(call: Call) -> dict[str, str | None]:
    """The limits that a reseller sets. Raises Invalid, Forbidden."""
    found: dict[str, str | None] = {}
    given = changes(call, OLD_QUOTA) | changes(call, QUOTA)
    for name, value in given.items():
        kind = name.removeprefix(OLD_QUOTA).removeprefix(QUOTA)
        if kind not in ("Bytes", "Count"):
            continue
        if not call.may(RESELLERS):
            raise Forbidden("")
        if value is not None and not (value.isascii() and value.isdecimal()):
            raise Invalid("Invalid quota.")
        found |= {f"{QUOTA}{kind}": value, f"{OLD_QUOTA}{kind}": None}
    return found
