"""Objects: their data and their metadata. Reference: object-store.md, A5, A6."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.errors import Invalid, LengthRequired, NotFound, TooLarge, Unavailable
from cloudctl.object_store import acl, containers, large, links, metadata, numbered, objects, versions
from cloudctl.object_store.api import bulk, conditions, headers, symlinks
from cloudctl.object_store.api.bulk import Bulk
from cloudctl.object_store.api.copying import COPY_FROM, Copying
from cloudctl.object_store.api.cross_origin import expose
from cloudctl.object_store.api.door import SHOW, Entered, version_of
from cloudctl.object_store.api.faults import HTML_TYPE
from cloudctl.object_store.api.forms import Forms, is_form
from cloudctl.object_store.api.headers import VERSION_ID, Headers
from cloudctl.object_store.api.manifests import Manifests
from cloudctl.object_store.api.reading import Found, Reader
from cloudctl.object_store.api.websites import Websites
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.tables import Version
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

PATH = "/v1/<account>/<container>/<path:name>"
SIGNED = ("temp_url_sig", "temp_url_expires", "temp_url_prefix", "temp_url_ip_range", "filename", "inline")
READING = (*SIGNED, "multipart-manifest", "symlink", "version-id", "part-number")
PUBLIC = f"{metadata.OBJECT}Public-"


def length_of(call: Call) -> int:
    """The bytes that will come, according to the headers. Raises LengthRequired."""
    length = call.header("content-length")
    if length is None and "chunked" not in (call.header("transfer-encoding") or "").lower():
        raise LengthRequired("Missing Content-Length header.")
    return int(length) if length and length.isdecimal() else 0


def check_no_data(call: Call, kind: str) -> None:
    """That there is a body shows only once it has come if it comes in chunks. Raises LengthRequired, Invalid."""
    if length_of(call) or (not call.arriving and call.content.seek(0, os.SEEK_END)):
        raise Invalid(f"{kind} requests require a zero byte body")


def content_type(call: Call, name: str) -> str:
    given = call.header("content-type")
    if not given or headers.is_true(call.header("X-Detect-Content-Type")):
        return objects.guessed_type(name)
    return given


def new_object(call: Call, place: Place) -> NewObject:
    """What a PUT makes, without its data. Raises Invalid."""
    kept = headers.of_object(call)
    target = call.header(links.TARGET)
    if target is not None:
        kept |= symlinks.wanted(call, place, target)
        check_no_data(call, "Symlink")
    none = call.header("if-none-match")
    if none is not None and none.strip() != "*":
        raise Invalid("If-None-Match only supports *")
    return NewObject(
        content_type=content_type(call, place.name) if target is None else call.header("content-type") or symlinks.TYPE,
        headers=kept,
        delete_at=headers.delete_at(call),
        only_if_absent=none is not None,
    )


def written(etag: str, when: Call) -> Headers:
    return (("ETag", etag), ("Last-Modified", headers.last_modified(when.now)), HTML_TYPE)


@frozen
class Objects:
    routes = Routes("Object store: objects")

    reader: Reader
    intake: Intake
    copying: Copying
    manifests: Manifests
    bulk: Bulk
    forms: Forms

    # -- reading

    @routes.head(PATH, policy="object_store:objects:show", anonymous=True, query=READING)
    async def show(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Show the metadata of an object."""
        return await self._page(call, placed(account, container, name), "HEAD")

    @routes.get(PATH, policy="object_store:objects:show", anonymous=True, query=READING)
    async def download(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Get the data of an object, or ranges of it."""
        return await self._page(call, placed(account, container, name), "GET")

    async def _page(self, call: Call, place: Place, method: str) -> Reply:
        sites = Websites(self.reader.door, self.read)
        site = await sites.visited(call, place)
        return await (self.read(call, place, method) if site is None else sites.page(call, place, site, method))

    async def read(self, call: Call, place: Place, method: str) -> Reply:
        """Answer with an object. Raises what the caller may be told."""
        try:
            return await self._read(call, place, method)
        except Unavailable:
            # It may have been replaced since it was found: then its data is gone, and the new one is there.
            return await self._read(call, place, method)

    async def _read(self, call: Call, place: Place, method: str) -> Reply:
        entered = await self.reader.door.enter(call, place, acl_header=acl.READ, method=method, rule=SHOW)
        manifest, version = call.query.get("multipart-manifest") == "get", version_of(call, entered)
        found = await self.reader.find(
            call,
            place,
            own=manifest,
            link=call.query.get("symlink") == "get",
            tell=True,
            signed=entered.signed,
            unread=method == "HEAD",
            version=version,
        )
        if numbered.is_marker(found.object):
            raise NotFound(objects.not_found().message, headers={VERSION_ID: numbered.shown(found.object)})
        if found.object.version and not version:
            # This URL stays valid when another object takes the name.
            call.also["Content-Location"] = f"{symlinks.url_path(call, found.place)}?version-id={found.object.version}"
        said = self._said(found, entered)
        expose(call, said)
        if manifest and found.object.large_etag is not None:
            return await self.manifests.show(call, found, said)
        if not conditions.holds(call, found.data.etag, found.object.updated_at):
            return Reply(None, 304, said)
        if found.object.large_etag is not None and (number := call.query.get("part-number")) is not None:
            body, status, told = self.reader.part(found, *await self.manifests.part(call, found, number, said))
        else:
            # Several ranges of a dynamic large object return all of it, as in Swift.
            several = manifest or large.manifest_of(found.object) is None
            body, status, told = self.reader.body(call, found, several=several)
        return Reply(body, status, (*said, *told))

    def _said(self, found: Found, entered: Entered) -> Headers:
        record = found.object
        kept = [*headers.shown(record.headers, owner=True)]
        if entered.signed is not None:
            kept = [each for each in kept if not each[0].startswith(metadata.OBJECT) or each[0].startswith(PUBLIC)]
            kept = [*kept, ("Content-Disposition", entered.signed.disposition)]
        said = [
            ("ETag", found.data.etag),
            ("Last-Modified", headers.last_modified(record.updated_at)),
            ("Accept-Ranges", "bytes"),
            ("X-Timestamp", headers.timestamp(record.updated_at)),
            *kept,
        ]
        if isinstance(record, Version) or record.version:
            said.append((VERSION_ID, numbered.shown(record)))
        if record.delete_at is not None:
            said.append(("X-Delete-At", str(record.delete_at)))
        if record.large_etag is not None:
            said += [("X-Static-Large-Object", "True"), ("X-Manifest-Etag", record.etag)]
        return tuple(said)

    # -- writing

    async def may_upload(self, call: Call, account: str, container: str, name: str) -> Admitted:
        """Whether data may come. Raises what `upload` would."""
        place = placed(account, container, name)
        if "extract-archive" in call.query:
            await self.reader.door.enter(call, place, acl_header=acl.WRITE)
            bulk.wanted(call)
            return Admitted(place.project_id)
        await self._may_write(call, place)
        if call.header(COPY_FROM) is not None:
            check_no_data(call, "Copy")
        if call.query.get("multipart-manifest") == "put":
            large.check_length(length_of(call))
        await self.intake.db.read(_check_room, place, length_of(call))
        new_object(call, place)
        return Admitted(place.project_id)

    async def _may_write(self, call: Call, place: Place) -> Entered:
        entered = await self.reader.door.enter(call, place, acl_header=acl.WRITE, method="PUT")
        if entered.container is None:
            raise containers.not_found()
        return entered

    @routes.put(
        PATH,
        policy="object_store:objects:create",
        anonymous=True,
        raw=True,
        status=201,
        admits="may_upload",
        query=(*SIGNED, "multipart-manifest", "heartbeat", "extract-archive", "version-id"),
    )
    async def upload(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Create or replace an object."""
        place = placed(account, container, name)
        if "extract-archive" in call.query:
            await self.reader.door.enter(call, place, acl_header=acl.WRITE)
            return await self.bulk.extract(call, place)
        entered = await self._may_write(call, place)
        source = call.header(COPY_FROM)
        if source is not None:
            check_no_data(call, "Copy")
            return await self.copying.copy(call, source, call.header("X-Copy-From-Account") or account, place)
        if version := version_of(call, entered):
            return await self._restore(call, place, version)
        length_of(call)
        new = await self.reader.fixed(call, place, new_object(call, place))
        if call.query.get("multipart-manifest") == "put":
            return await self.manifests.create(call, place, new)
        etag = (call.header("etag") or "").strip('"').lower()
        content = await self.intake.put(place, call.content, new, etag, call.now)
        told = ((VERSION_ID, content.version),) if content.version else ()
        return Reply(None, 201, (*written(content.etag, call), *told))

    async def _restore(self, call: Call, place: Place, version: str) -> Reply:
        """Make an old version the current object."""
        if versions.STAMP.fullmatch(version):
            raise objects.not_found()  # ids look like this elsewhere
        if version == numbered.NULL or not numbered.is_id(version):
            raise Invalid("Invalid version parameter")
        check_no_data(call, "PUT version-id")
        await self.intake.change(objects.restore, place, version, call.now)
        return Reply(None, 201, ((VERSION_ID, version), HTML_TYPE))

    async def may_post(self, call: Call, account: str, container: str, name: str) -> Admitted:
        """Whether a form may come: its sender is known only once it has arrived."""
        if not is_form(call):
            raise TooLarge("")
        place = placed(account, container, name)
        await self.forms.check(call, place)
        return Admitted(place.project_id)

    @routes.post(
        PATH,
        policy="object_store:objects:update",
        anonymous=True,
        raw=True,
        status=202,
        admits="may_post",
        query=SIGNED,
    )
    async def update(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Replace the metadata of an object, or store the files of a form under this name as a prefix."""
        place = placed(account, container, name)
        if is_form(call):
            return await self.forms.take(call, place)
        await self.reader.door.enter(call, place, acl_header=acl.WRITE, method="POST")
        kept, at, kind = headers.of_object(call), headers.delete_at(call), call.header("content-type")
        metadata.check_headers({"Content-Type": kind or ""})
        if call.header(links.TARGET) is not None:
            raise Invalid("A PUT request is required to set a symlink target")
        stays = await self.intake.db.run(_update, place, kept, at, kind, call)
        if (target := links.target_of(place, stays)) is None:
            return Reply(None, 202, (HTML_TYPE,))
        # The link has the new headers, and the client may go on to its target.
        told = [(name, value) for name, value in headers.shown(stays, owner=True) if name == links.TARGET_ETAG]
        return Reply(None, 307, (("Location", symlinks.url_path(call, target)), *told, HTML_TYPE))

    @routes.delete(
        PATH,
        policy="object_store:objects:delete",
        anonymous=True,
        query=(*SIGNED, "multipart-manifest", "version-id"),
    )
    async def delete(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Delete an object."""
        place = placed(account, container, name)
        entered = await self.reader.door.enter(call, place, acl_header=acl.WRITE, method="DELETE")
        version = version_of(call, entered)
        if call.query.get("multipart-manifest") == "delete":
            return await self.manifests.delete(call, place, version)
        if version:
            # Older versions are read by their ids: there is no current object until somebody restores one.
            remove = partial(objects.remove_version, brings_back=False)
            done = await self.intake.change(remove, place, version, call.now)
        else:
            remove = partial(objects.remove, marks=False, only_if_delete_at=headers.if_delete_at(call))
            done = await self.intake.change(remove, place, call.now)
        told = ((VERSION_ID, done.version),) if done.version else ()
        if not done.was_there:
            # A marker was added all the same.
            raise NotFound("", headers=dict(told))
        return Reply(None, 204, (HTML_TYPE, *told))

    @routes.route(
        "COPY",
        PATH,
        policy="object_store:objects:copy",
        anonymous=True,
        status=201,
        query=("multipart-manifest", "part-number", "symlink", "version-id"),
    )
    async def copy(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Copy an object to the place in the header Destination."""
        place = placed(account, container, name)
        await self.reader.door.enter(call, place, acl_header=acl.READ)
        target = self.copying.destination(call, place)
        await self.reader.door.enter(call, target, acl_header=acl.WRITE, rule="object_store:objects:create")
        return await self.copying.copy(call, f"{place.container}/{place.name}", account, target, quoted=False)


def _check_room(conn: Connection, place: Place, size: int) -> None:
    objects.check_room(conn, containers.get(conn, place), size)


def _update(
    conn: Connection, place: Place, kept: dict[str, str], delete_at: int | None, content_type: str | None, call: Call
) -> dict[str, str]:
    """Update an object. Returns the headers that are not the users' own."""
    found = objects.get(conn, place, call.now, lock=True)
    # Users' metadata goes, and the rest stays unless it is set again.
    stays = {name: value for name, value in found.headers.items() if not name.startswith(metadata.OBJECT)}
    changes: dict[str, Any] = {"headers": {**stays, **kept}, "delete_at": delete_at}
    if content_type:
        changes["content_type"] = content_type
    objects.change(conn, found, changes, call.now)
    return stays
