"""Objects in S3: their data and their metadata. Reference: object-store.md, B2."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import evolve, frozen

from cloudctl.db import Connection
from cloudctl.errors import CloudError, NotFound
from cloudctl.object_store import containers, metadata, numbered, objects, parts
from cloudctl.object_store.api import conditions
from cloudctl.object_store.api.copying import LEADS_ELSEWHERE, Copying
from cloudctl.object_store.api.headers import Headers
from cloudctl.object_store.api.reading import Found, Reader
from cloudctl.object_store.api.s3 import acls, checksums, headers, listings, xml
from cloudctl.object_store.api.s3.buckets import XML_TYPE, answered, tag_set, tags_of
from cloudctl.object_store.api.s3.copies import Source
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door, action_of
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.hashing import Digest
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import Done, NewObject
from cloudctl.object_store.tables import Container
from cloudctl.object_store.tagging import tags
from cloudctl.rest.call import Call, Parts, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

OBJECT = "/<bucket>/<path:key>"
SHOW, CREATE, UPDATE = "object_store:objects:show", "object_store:objects:create", "object_store:objects:update"
READING = ("versionId", "partNumber", *headers.OVERRIDDEN)


def length_of(call: Call) -> int:
    """The bytes of data that will come, according to the headers. Raises MissingContentLength."""
    length = call.header("x-amz-decoded-content-length") or call.header("content-length")
    if length is None and "chunked" not in (call.header("transfer-encoding") or "").lower():
        raise error("MissingContentLength")
    return int(length) if length and length.isdecimal() and len(length) < 19 else 0


def _replaces(call: Call, what: str) -> bool:
    """Whether a copy replaces this instead of copying it. Raises InvalidArgument."""
    directive = (call.header(f"x-amz-{what}-directive") or "COPY").upper()
    if directive not in ("COPY", "REPLACE"):
        raise error("InvalidArgument", f"Unknown {what} directive.")
    return directive == "REPLACE"


def versioned(container: Container, version: str) -> Headers:
    """The header for the version that was made; nothing if versions are no longer kept, as in S3."""
    return (("x-amz-version-id", version),) if version and numbered.is_known(container) else ()


def _missing(place: Place, version: str, **headers: str) -> CloudError:
    named = {"Key": place.name, "BucketName": place.container}
    if version:
        return error("NoSuchVersion", "The specified version does not exist.", {**named, "VersionId": version})
    return error("NoSuchKey", more=named, **headers)


def _is_marker(version: str) -> CloudError:
    return error("MethodNotAllowed", x_amz_delete_marker="true", x_amz_version_id=version)


def _is_no_source(_version: str) -> CloudError:
    return error("InvalidRequest", "The source of a copy cannot be a version that is a delete marker.")


def _label(conn: Connection, place: Place, version: str, tags: str, call: Call) -> None:
    """Raises NoSuchKey, NoSuchVersion; MethodNotAllowed for a marker."""
    container = containers.get(conn, place, lock=True)
    try:
        if version:
            found = objects.find_version(conn, container, place.name, version, call.now)
        else:
            found = objects.get(conn, place, call.now, lock=True)
    except NotFound:
        raise _missing(place, version) from None
    if numbered.is_marker(found):
        raise _is_marker(version)
    kept = {name: value for name, value in found.headers.items() if name != headers.TAGGING}
    objects.relabel(conn, found, kept | ({headers.TAGGING: tags} if tags else {}))


@frozen
class Summing:
    """Stores a copy with a new checksum, computed while the data is copied."""

    name: str
    digest: Digest

    @classmethod
    def of(cls, call: Call) -> Summing | None:
        """None: a copy keeps its source's checksum. Raises InvalidRequest."""
        name = (call.header("x-amz-checksum-algorithm") or "").lower()
        if not name:
            return None
        if name not in checksums.ALGORITHMS:
            raise error("InvalidRequest", "Checksum algorithm provided is unsupported.")
        return cls(name, checksums.ALGORITHMS[name]())

    @property
    def sums(self) -> dict[str, str]:
        return {checksums.HEADER + self.name: checksums.told(self.digest)}

    def __call__(self, conn: Connection, place: Place, new: NewObject, now: datetime) -> Done:
        kept = {name: value for name, value in new.headers.items() if not name.startswith(metadata.SUM)}
        return objects.put(conn, place, evolve(new, headers={**kept, **headers.kept_sums(self.sums)}), now)


@frozen
class Objects:
    routes = Routes("S3: objects")

    door: S3Door
    documents: Documents
    reader: Reader
    intake: Intake
    copying: Copying

    # -- reading

    @routes.head(OBJECT, policy=SHOW, anonymous=True, query=READING)
    async def show(self, call: Call, bucket: str, key: str) -> Reply:
        """Show the metadata of an object."""
        return await self._read(call, bucket, key)

    @routes.get(OBJECT, policy=SHOW, anonymous=True, query=READING)
    async def download(self, call: Call, bucket: str, key: str) -> Reply:
        """Get the data of an object, or a range of it."""
        return await self._read(call, bucket, key)

    async def _read(self, call: Call, bucket: str, key: str) -> Reply:
        version = headers.version(call)
        action = action_of("s3:GetObject", version)
        place, container = await self.door.read(call, bucket, key, action=action, version=version)
        found = await self.find(call, place, container, version)
        said = headers.shown(found.object, found.data.etag, call, known=numbered.is_known(container))
        said += self._overridden(call)
        if not conditions.holds(call, found.data.etag, found.object.updated_at):
            # Without data there must be no sum: clients would check it.
            return Reply(None, 304, tuple(each for each in said if not each[0].startswith(checksums.HEADER)))
        body, status, told = self._body(call, found)
        told = tuple(each for each in told if each[0] not in dict(said)) + await self._sums_of_part(call, found)
        return Reply(body, status, (*said, *told))

    async def source(self, call: Call, place: Place, container: Container, version: str) -> Found:
        """What a copy is made of. Raises NoSuchKey, NoSuchVersion; InvalidRequest for a marker."""
        return await self.find(call, place, container, version, _is_no_source)

    async def find(
        self,
        call: Call,
        place: Place,
        container: Container,
        version: str,
        marker: Callable[[str], CloudError] = _is_marker,
    ) -> Found:
        """Raises NoSuchKey, NoSuchVersion; `marker` for one, which is MethodNotAllowed."""
        try:
            found = await self.reader.find(call, place, version=version)
        except NotFound:
            raise (_missing(place, version) if version else await self._gone(place, container)) from None
        if numbered.is_marker(found.object):
            raise marker(version)
        return found

    async def _gone(self, place: Place, container: Container) -> CloudError:
        if numbered.is_known(container):
            newest = await self.intake.db.read(numbered.newest, container, place.name)
            if newest is not None and newest.is_marker:
                told = {"x_amz_delete_marker": "true", "x_amz_version_id": numbered.shown(newest)}
                return _missing(place, "", **told)
        return _missing(place, "")

    def _overridden(self, call: Call) -> Headers:
        """Headers that the URL requests. Raises InvalidRequest if it is not signed."""
        found = tuple(
            (name, call.query.get(asked) or "") for asked, name in headers.OVERRIDDEN.items() if asked in call.query
        )
        if found and not call.user_id:
            raise error(
                "InvalidRequest", "Request specific response headers cannot be used for anonymous GET requests."
            )
        if any("\r" in value or "\n" in value for _, value in found):
            raise error("InvalidArgument", "A header has one line.")
        return found

    async def _sums_of_part(self, call: Call, found: Found) -> Headers:
        """The checksums of the requested part of an object uploaded in parts."""
        upload_id, number = found.object.parts_id, call.query.get("partNumber")
        if upload_id is None or number is None or (call.header("x-amz-checksum-mode") or "").upper() != "ENABLED":
            return ()
        part = await self.intake.db.read(parts.part_at, upload_id, int(number))
        found_sums = () if part is None else tuple(headers.sums(part.headers))
        return (*found_sums, (headers.TYPE, headers.sum_type(found.object.headers))) if found_sums else ()

    def _body(self, call: Call, found: Found) -> tuple[Parts, int, Headers]:
        number = call.query.get("partNumber")
        if number is None:
            return self.reader.body(call, found, several="," not in (call.header("range") or ""))
        pieces = found.data.pieces
        if call.header("range") is not None:
            raise error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
        if not (number.isascii() and number.isdecimal() and len(number) < 6 and 0 < int(number) <= parts.MOST_PARTS):
            why = f"Part number must be an integer between 1 and {parts.MOST_PARTS}, inclusive"
            raise error("InvalidArgument", why, {"ArgumentName": "partNumber", "ArgumentValue": number})
        index, is_whole = int(number), not found.object.parts_id
        if index > (1 if is_whole else len(pieces)):
            raise error("InvalidPartNumber", "The requested partnumber is not satisfiable")
        start = 0 if is_whole else sum(piece.length for piece in pieces[: index - 1])
        stop = found.data.size if is_whole else start + pieces[index - 1].length
        body, status, told = self.reader.part(found, start, stop)
        if start == stop:
            # No range can name what has no bytes.
            status, told = 200, (("Content-Type", found.object.content_type),)
        return body, status, told if is_whole else (*told, ("x-amz-mp-parts-count", str(len(pieces))))

    # -- writing

    async def may_upload(self, call: Call, bucket: str, key: str) -> Admitted:
        """Whether data may come. Raises what `upload` would."""
        place, container = await self.door.write(call, bucket, key)
        headers.new_object(call)
        await self.intake.db.read(objects.check_room, container, length_of(call))
        return await self.documents.admitted(call, place)

    @routes.put(OBJECT, policy=CREATE, anonymous=True, raw=True, admits="may_upload")
    async def upload(self, call: Call, bucket: str, key: str) -> Reply:
        """Create, replace or copy an object."""
        place, container = await self.door.write(call, bucket, key)
        self._check_acl(call, container)
        if (source := call.header("x-amz-copy-source")) is not None:
            return await self._copy(call, place, container, source)
        length_of(call)
        new = headers.new_object(call)
        data = await self.documents.data(call)
        file, sums = data.finish(), data.sums
        new = evolve(new, headers={**new.headers, **headers.kept_sums(sums)})
        content = await self.intake.put(place, file, new, "", call.now)
        told = (("ETag", headers.quoted(content.etag)), *versioned(container, content.version), *sums.items())
        return Reply(None, 200, (*told, *(((headers.TYPE, headers.WHOLE),) if sums else ())))

    def _check_acl(self, call: Call, container: Container) -> None:
        canned = call.header("x-amz-acl")
        if canned is not None:
            acls.check(container, canned)
        if canned is not None and canned not in headers.OWN_ACLS:
            raise error("NotImplemented", "An object is as open as its bucket is: set the ACL of the bucket.")

    async def _copy(self, call: Call, place: Place, container: Container, text: str) -> Reply:
        source = Source.read(text)
        where, bucket = await self.door.read_source(call, source)
        found = await self.source(call, where, bucket, source.version)
        conditions.hold_for_copy(call, found.data.etag, found.object.updated_at)
        replaced = _replaces(call, "metadata")
        if where == place and not replaced and not source.version:
            why = "This copy request is illegal: it copies an object to itself without changing its metadata."
            raise error("InvalidRequest", why)
        new = self._copied(call, found, replaced)
        summing = Summing.of(call)
        if summing is None:
            content, sums = await self.copying.bring(found, place, new, call.now), dict(headers.sums(new.headers))
        else:
            content = await self.copying.bring(found, place, new, call.now, keep=summing, seen=summing.digest.update)
            sums = summing.sums
        root = element("CopyObjectResult", LastModified=listings.moment(call.now), ETag=headers.quoted(content.etag))
        if sums:
            root.extend(element("x", **headers.sums_in_xml(headers.kept_sums(sums)), ChecksumType=headers.WHOLE))
        told: Headers = (XML_TYPE, *versioned(container, content.version))
        if numbered.is_known(bucket):
            told += (("x-amz-copy-source-version-id", numbered.shown(found.object)),)
        return Reply(xml.answer(root), headers=told)

    def _copied(self, call: Call, found: Found, replaced: bool) -> NewObject:
        """What a copy makes, without its data."""
        new, was = headers.new_object(call), found.object.headers
        told = new.headers if replaced else was
        # The data is copied, not what leads to it.
        kept = {name: value for name, value in told.items() if name not in LEADS_ELSEWHERE}
        tags = (new.headers if _replaces(call, "tagging") else was).get(headers.TAGGING)
        kept.pop(headers.TAGGING, None)
        kept |= {headers.TAGGING: tags} if tags else {}
        for name in (headers.KEPT_TYPE, *headers.kept_sums(dict(headers.sums(was)))):
            kept.pop(name, None)
        if headers.sum_type(was) == headers.WHOLE:
            # A copy is one piece: a sum of the sums of parts does not apply to it.
            kept |= headers.kept_sums(dict(headers.sums(was)))
        return evolve(new, headers=kept, content_type=new.content_type if replaced else found.object.content_type)

    @routes.delete(OBJECT, policy="object_store:objects:delete", anonymous=True, query=("versionId",))
    async def delete(self, call: Call, bucket: str, key: str) -> Reply:
        """Delete an object or a version of it; it need not exist."""
        version = headers.version(call)
        action = action_of("s3:DeleteObject", version)
        place, container = await self.door.write(call, bucket, key, action=action, version=version)
        headers.refuse(call.header, headers.CONDITIONS)
        try:
            tag = (call.header("if-match") or "").strip().strip('"')
            if version:
                done = await self.intake.change(objects.remove_version, place, version, call.now, tag)
            else:
                done = await self.intake.change(objects.remove, place, call.now, tag)
        except NotFound:
            done = Done(version=version)
        told: Headers = versioned(container, done.version) if done.version else ()
        return Reply(None, 204, (*told, *((("x-amz-delete-marker", "true"),) if done.is_marker else ())))

    # -- tags and access

    @routes.get(OBJECT, policy=SHOW, anonymous=True, subresource="tagging", query=("versionId",))
    async def tagging(self, call: Call, bucket: str, key: str) -> Reply:
        """Show the tags of an object."""
        version = headers.version(call)
        place, container = await self.door.read(call, bucket, key, action="s3:GetObjectTagging", version=version)
        found = await self.find(call, place, container, version)
        return answered(tag_set(tags(found.object.headers)))

    @routes.put(OBJECT, policy=UPDATE, anonymous=True, subresource="tagging", raw=True, query=("versionId",))
    async def set_tagging(self, call: Call, bucket: str, key: str) -> Reply:
        """Set the tags of an object."""
        action, version = "s3:PutObjectTagging", headers.version(call)
        try:
            kept = headers.kept_tags(tags_of(await self.documents.read(call, "Tagging")))
        except CloudError:
            # A caller who may not is told only that.
            await self.door.write(call, bucket, key, action=action, version=version)
            raise
        place, _ = await self.door.write(call, bucket, key, action=action, version=version, given=kept)
        await self.intake.db.run(_label, place, version, kept, call)
        return Reply(None, 200)

    @routes.delete(OBJECT, policy=UPDATE, anonymous=True, subresource="tagging", query=("versionId",))
    async def remove_tagging(self, call: Call, bucket: str, key: str) -> Reply:
        """Remove the tags of an object."""
        version = headers.version(call)
        place, _ = await self.door.write(call, bucket, key, action="s3:DeleteObjectTagging", version=version)
        await self.intake.db.run(_label, place, version, "", call)
        return Reply(None, 204)

    @routes.get(OBJECT, policy=SHOW, anonymous=True, subresource="acl", query=("versionId",))
    async def acl(self, call: Call, bucket: str, key: str) -> Reply:
        """Show who may read an object: the same as for its bucket."""
        version = headers.version(call)
        place, container = await self.door.read(call, bucket, key, action="s3:GetObjectAcl", version=version)
        await self.find(call, place, container, version)
        return answered(acls.shown(place.project_id, container))

    @routes.put(OBJECT, policy=UPDATE, anonymous=True, subresource="acl", raw=True)
    async def set_acl(self, call: Call, bucket: str, key: str) -> Reply:
        """Accept an ACL only if it is equivalent to the bucket's."""
        place, container = await self.door.write(call, bucket, key)
        await self.find(call, place, container, "")
        canned = call.header("x-amz-acl")
        if canned is None:
            canned = acls.canned_of(await self.documents.read(call, "AccessControlPolicy"))
        acls.check(container, canned)
        if canned not in (*headers.OWN_ACLS, acls.canned(container)):
            raise error("NotImplemented", "An object is as open as its bucket is: set the ACL of the bucket.")
        return Reply(None, 200)
