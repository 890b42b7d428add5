"""Containers: their objects and their metadata. Reference: object-store.md, A4."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid, TooLarge
from cloudctl.object_store import acl, containers, listing, removal, version_listing
from cloudctl.object_store.api import bulk, listings
from cloudctl.object_store.api.bulk import Bulk
from cloudctl.object_store.api.cross_origin import expose
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.api.faults import HTML_TYPE, NOTHING
from cloudctl.object_store.api.forms import Forms, is_form
from cloudctl.object_store.api.headers import Headers, container_changes, last_modified, shown, timestamp
from cloudctl.object_store.api.websites import Websites
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.listing import Wanted
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.tables import Container
from cloudctl.object_store.version_listing import WantedVersions
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

POLICY = "default"


def _headers(container: Container, usage: containers.Usage, *, owner: bool) -> Headers:
    return (
        ("X-Container-Object-Count", str(usage.objects)),
        ("X-Container-Bytes-Used", str(usage.bytes)),
        ("X-Storage-Policy", POLICY),
        ("X-Timestamp", timestamp(container.created_at)),
        ("Last-Modified", last_modified(container.updated_at)),
        ("Accept-Ranges", "bytes"),
        *shown(container.headers, owner=owner),
    )


def _page(conn: Connection, place: Place, container: Container, wanted: Wanted, form: str, now: datetime) -> bytes:
    entries = [listings.of_object(each, place.account) for each in listing.of_objects(conn, container, wanted, now)]
    return listings.CONTAINER.written(form, container.name, entries)


def _versions(
    conn: Connection, place: Place, container: Container, wanted: WantedVersions, form: str, now: datetime
) -> bytes:
    found = version_listing.of_versions(conn, container, wanted, now)
    return listings.CONTAINER.written(
        form, container.name, [listings.of_version(each, place.account) for each in found]
    )


def _wanted_versions(call: Call, wanted: Wanted) -> WantedVersions:
    return WantedVersions(
        wanted.limit,
        wanted.marker,
        call.query.get("version_marker"),
        wanted.prefix,
        wanted.delimiter,
        wanted.reverse,
        wanted.end_marker,
    )


def _check_policy(conn: Connection, call: Call, place: Place) -> None:
    """There is one storage policy. Raises Invalid, Conflict."""
    wanted = call.header("X-Storage-Policy")
    if wanted and wanted.lower() != POLICY:
        if containers.find(conn, place) is not None:
            raise Conflict(f"The container has the storage policy {POLICY}.")
        raise Invalid(f"Invalid X-Storage-Policy {wanted[:64]!r}")


@frozen
class Containers:
    routes = Routes("Object store: containers")

    db: Database
    door: Door
    bulk: Bulk
    forms: Forms
    intake: Intake
    sites: Websites

    async def _visited(self, call: Call, place: Place, method: str) -> Reply | None:
        """What a visitor of a web site is shown; None if it is not one."""
        site = await self.sites.visited(call, place)
        return await self.sites.root(call, place, site, method) if site is not None and site.has_folders else None

    async def _said(self, call: Call, container: Container) -> Headers:
        usage = await self.db.read(containers.usage, container.id)
        owner = call.may("object_store:containers:update", project_id=container.project_id)
        said = _headers(container, usage, owner=owner)
        expose(call, said)
        return said

    async def _entered(self, call: Call, place: Place) -> Container:
        entered = await self.door.enter(call, place, acl_header=acl.READ, listing=True)
        if entered.container is None:
            raise containers.not_found()
        return entered.container

    @routes.head("/v1/<account>/<container>", policy="object_store:containers:show", anonymous=True, status=204)
    async def show(self, call: Call, account: str, container: str) -> Reply:
        """Show the metadata of a container."""
        place = placed(account, container)
        if (page := await self._visited(call, place, "HEAD")) is not None:
            return page
        found = await self._entered(call, place)
        return Reply(None, headers=(*await self._said(call, found), *NOTHING))

    @routes.get(
        "/v1/<account>/<container>",
        policy="object_store:containers:show",
        anonymous=True,
        query=(*listings.PARAMETERS, "path", "versions", "version_marker"),
    )
    async def list(self, call: Call, account: str, container: str) -> Reply:
        """List the objects of a container."""
        place = placed(account, container)
        if (page := await self._visited(call, place, "GET")) is not None:
            return page
        found = await self._entered(call, place)
        wanted, form = listings.wanted(call), listings.media(call)
        if "versions" in call.query:
            body = await self.db.scan(_versions, place, found, _wanted_versions(call, wanted), form, call.now)
        else:
            body = await self.db.scan(_page, place, found, wanted, form, call.now)
        return listings.reply(form, body, await self._said(call, found))

    async def may_extract(self, call: Call, account: str, container: str) -> Admitted:
        """Whether an archive may come."""
        if "extract-archive" not in call.query:
            raise TooLarge("")
        place = placed(account, container)
        await self.door.enter(call, place, acl_header=acl.WRITE)
        bulk.wanted(call)
        return Admitted(place.project_id)

    @routes.put(
        "/v1/<account>/<container>",
        policy="object_store:containers:create",
        anonymous=True,
        raw=True,
        status=201,
        admits="may_extract",
        query=("extract-archive",),
    )
    async def create(self, call: Call, account: str, container: str) -> Reply:
        """Create a container, change an existing one, or make objects from an archive's files."""
        place = placed(account, container)
        if "extract-archive" in call.query:
            await self.door.enter(call, place, acl_header=acl.WRITE)
            return await self.bulk.extract(call, place)
        await self.door.enter(call, place)
        await self.db.read(_check_policy, call, place)
        is_new = await self.db.run(containers.put, place, container_changes(call), call.now)
        return Reply(None, 201 if is_new else 202, (HTML_TYPE,))

    async def may_post(self, call: Call, account: str, container: str) -> Admitted:
        """Whether a form may come: its sender is known only once it has arrived."""
        if not is_form(call):
            raise TooLarge("")
        place = placed(account, container)
        await self.forms.check(call, place)
        return Admitted(place.project_id)

    @routes.post(
        "/v1/<account>/<container>",
        policy="object_store:containers:update",
        anonymous=True,
        raw=True,
        status=204,
        admits="may_post",
    )
    async def update(self, call: Call, account: str, container: str) -> Reply:
        """Change the metadata of a container, or store the files of a form."""
        place = placed(account, container)
        if is_form(call):
            return await self.forms.take(call, place)
        await self.door.enter(call, place)
        await self.db.run(_update, place, container_changes(call), call)
        return Reply(None, 204, (HTML_TYPE,))

    @routes.delete("/v1/<account>/<container>", policy="object_store:containers:delete", anonymous=True)
    async def delete(self, call: Call, account: str, container: str) -> Reply:
        """Delete an empty container."""
        place = placed(account, container)
        await self.door.enter(call, place)
        await self.intake.change(removal.remove, place, call.now)
        return Reply(None, 204, (HTML_TYPE,))


def _update(conn: Connection, place: Place, changes: dict[str, str | None], call: Call) -> None:
    containers.change(conn, containers.get(conn, place, lock=True), changes, call.now)
