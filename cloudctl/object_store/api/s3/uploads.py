"""Objects uploaded in parts in S3. Reference: object-store.md, B2."""

from __future__ import annotations

from datetime import datetime
from xml.etree.ElementTree import Element

from attrs import evolve, frozen

from cloudctl.db import Connection
from cloudctl.object_store import objects, parts, upload_listing
from cloudctl.object_store.api import conditions
from cloudctl.object_store.api.s3 import checksums, copies, headers, listings, xml
from cloudctl.object_store.api.s3.buckets import BUCKET, XML_TYPE, answered
from cloudctl.object_store.api.s3.checksums import ALGORITHMS, HEADER
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.listings import Asked
from cloudctl.object_store.api.s3.objects import CREATE, OBJECT, SHOW, Objects, length_of, versioned
from cloudctl.object_store.api.s3.whole_sums import Completing, Sum
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.parts import Putting, UnknownPart, Wanted
from cloudctl.object_store.upload_listing import WantedUploads
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

LISTING = "object_store:containers:show"
# Bytes of an object uploaded in parts (5 TiB, as elsewhere).
MOST = 5 * 2**40


def _may_put(conn: Connection, place: Place, upload_id: str) -> Sum | None:
    return Sum.of(parts.get(conn, place, upload_id))


def _may_complete(conn: Connection, place: Place, upload_id: str, now: datetime) -> None:
    if parts.completed(conn, place, upload_id, now) is None:
        parts.get(conn, place, upload_id)


@frozen
class Uploads:
    routes = Routes("S3: uploads in parts")

    objects: Objects

    @property
    def documents(self) -> Documents:
        return self.objects.documents

    @routes.post(OBJECT, policy=CREATE, anonymous=True, subresource="uploads", raw=True)
    async def begin(self, call: Call, bucket: str, key: str) -> Reply:
        """Begin an upload in parts."""
        place, container = await self.objects.door.write(call, bucket, key)
        new, whole = headers.new_object(call), Sum.asked(call)
        if whole is not None:
            new = evolve(new, headers={**new.headers, **whole.kept})
        upload_id = await self.objects.intake.db.run(parts.begin, place, new, call.now)
        root = element("InitiateMultipartUploadResult", Bucket=container.name, Key=key, UploadId=upload_id)
        return Reply(xml.answer(root), headers=(XML_TYPE, *(() if whole is None else whole.told)))

    async def may_put(self, call: Call, bucket: str, key: str) -> Admitted:
        """Whether a part may come."""
        place, container = await self.objects.door.write(call, bucket, key)
        _number(call)
        whole = await self.objects.intake.db.read(_may_put, place, call.query.get("uploadId") or "")
        await self.objects.intake.db.read(objects.check_room, container, length_of(call))
        return await self.documents.admitted(call, place, "" if whole is None else whole.algorithm)

    @routes.put(
        OBJECT, policy=CREATE, anonymous=True, subresource="partNumber", raw=True, admits="may_put", query=("uploadId",)
    )
    async def put(self, call: Call, bucket: str, key: str) -> Reply:
        """Upload or copy a part."""
        place, _ = await self.objects.door.write(call, bucket, key)
        upload_id, number = call.query.get("uploadId") or "", _number(call)
        whole = await self.objects.intake.db.read(_may_put, place, upload_id)
        if (source := call.header("x-amz-copy-source")) is not None:
            return await self._copy(call, place, source, upload_id, whole)
        length_of(call)
        data = await self.documents.data(call, "" if whole is None else whole.algorithm)
        file, sums = data.finish(), data.sums
        new, keep = NewObject(headers=headers.kept_sums(sums)), Putting(upload_id, number)
        content = await self.objects.intake.put(place, file, new, "", call.now, keep)
        return Reply(None, 200, (("ETag", headers.quoted(content.etag)), *sums.items()))

    async def _copy(self, call: Call, place: Place, text: str, upload_id: str, whole: Sum | None) -> Reply:
        source = copies.Source.read(text)
        where, bucket = await self.objects.door.read_source(call, source)
        found = await self.objects.source(call, where, bucket, source.version)
        conditions.hold_for_copy(call, found.data.etag, found.object.updated_at)
        span = copies.span(call.header("x-amz-copy-source-range"), found.data.size)
        seen = None if whole is None else ALGORITHMS[whole.algorithm]()

        def sums() -> dict[str, str]:
            return {} if whole is None or seen is None else {HEADER + whole.algorithm: checksums.told(seen)}

        content = await self.objects.copying.bring(
            found,
            place,
            NewObject(),
            call.now,
            span=span,
            keep=Putting(upload_id, _number(call), lambda: headers.kept_sums(sums())),
            seen=None if seen is None else seen.update,
        )
        root = element("CopyPartResult", LastModified=listings.moment(call.now), ETag=headers.quoted(content.etag))
        root.extend(element("x", **headers.sums_in_xml(headers.kept_sums(sums()))))
        return answered(root)

    async def may_complete(self, call: Call, bucket: str, key: str) -> Admitted:
        """Whether the list of parts may come."""
        place, _ = await self.objects.door.write(call, bucket, key)
        await self.objects.intake.db.read(_may_complete, place, call.query.get("uploadId") or "", call.now)
        return await self.documents.admitted(call, place, summed=False, is_document=True)

    @routes.post(OBJECT, policy=CREATE, anonymous=True, subresource="uploadId", raw=True, admits="may_complete")
    async def complete(self, call: Call, bucket: str, key: str) -> Reply:
        """Make the object from its parts."""
        place, container = await self.objects.door.write(call, bucket, key)
        # The sum in the headers is that of the object.
        root = await self.documents.read(call, "CompleteMultipartUpload", summed=False)
        wanted = [
            Wanted(_integer(xml.text_of(each, "PartNumber")), xml.text_of(each, "ETag").strip('"'), _sums_of(each))
            for each in root.findall("Part")
        ]
        if not wanted or any(each.find("ETag") is None for each in root.findall("Part")):
            raise error("MalformedXML")
        conditional = headers.new_object(call)
        new = NewObject(only_if_absent=conditional.only_if_absent, only_if_tag=conditional.only_if_tag)
        upload_id, said = call.query.get("uploadId") or "", Completing.of(call)
        try:
            done = await self.objects.intake.change(parts.complete, place, upload_id, wanted, MOST, new, said, call.now)
        except UnknownPart as why:
            told = {"UploadId": upload_id, "PartNumber": str(why.part.number), "ETag": why.part.etag}
            raise error("InvalidPart", why.message, told) from None
        where = f"{call.root_url}/{container.name}/{key}"
        made = element(
            "CompleteMultipartUploadResult",
            Location=where,
            Bucket=container.name,
            Key=key,
            ETag=headers.quoted(done.etag),
        )
        if sums := headers.sums_in_xml(done.headers):
            made.extend(element("x", **sums, ChecksumType=headers.sum_type(done.headers)))
        return Reply(xml.answer(made), headers=(XML_TYPE, *versioned(container, done.version)))

    @routes.delete(OBJECT, policy="object_store:objects:delete", anonymous=True, subresource="uploadId")
    async def abort(self, call: Call, bucket: str, key: str) -> Reply:
        """Abort an upload."""
        place, _ = await self.objects.door.write(call, bucket, key, action="s3:AbortMultipartUpload")
        await self.objects.intake.change(parts.abort, place, call.query.get("uploadId") or "")
        return Reply(None, 204)

    # -- listings

    @routes.get(
        OBJECT,
        policy=SHOW,
        anonymous=True,
        subresource="uploadId",
        query=("max-parts", "part-number-marker", "encoding-type"),
    )
    async def list_parts(self, call: Call, bucket: str, key: str) -> Reply:
        """List the parts of an upload."""
        place, container = await self.objects.door.write(call, bucket, key, action="s3:ListMultipartUploadParts")
        asked = Asked.of(call, "max-parts")
        marker = listings.number(call, "part-number-marker", 0, parts.MOST_PARTS)
        upload_id = call.query.get("uploadId") or ""
        upload = await self.objects.intake.db.read(parts.get, place, upload_id)
        whole = Sum.of(upload)
        found = await self.objects.intake.db.scan(parts.list_parts, upload_id, marker, asked.most + 1)
        shown = found[: asked.most]
        root = element(
            "ListPartsResult",
            Bucket=container.name,
            EncodingType=asked.coding,
            Key=asked.text(key),
            UploadId=upload_id,
            StorageClass="STANDARD",
            PartNumberMarker=marker,
            NextPartNumberMarker=shown[-1].number if shown else marker,
            MaxParts=asked.most,
            IsTruncated=len(found) > asked.most > 0,
            ChecksumAlgorithm=None if whole is None else whole.algorithm.upper(),
            ChecksumType=None if whole is None else whole.type,
        )
        root.append(element("Initiator", ID=upload.project_id, DisplayName=upload.project_id))
        root.append(listings.owner(upload.project_id))
        for part in shown:
            etag, when = headers.quoted(part.etag), listings.moment(part.updated_at)
            sums = headers.sums_in_xml(part.headers)
            root.append(element("Part", PartNumber=part.number, LastModified=when, ETag=etag, Size=part.size, **sums))
        return answered(root)

    @routes.get(
        BUCKET,
        policy=LISTING,
        anonymous=True,
        subresource="uploads",
        query=("prefix", "delimiter", "max-uploads", "encoding-type", "key-marker", "upload-id-marker"),
    )
    async def list(self, call: Call, bucket: str) -> Reply:
        """List the unfinished uploads to a bucket."""
        asked, query = Asked.of(call, "max-uploads"), call.query
        _, container = await self.objects.door.own(call, bucket)
        key, upload_id = query.get("key-marker") or "", query.get("upload-id-marker") or ""
        wanted = WantedUploads(asked.most + 1, key, upload_id, asked.prefix, asked.delimiter)
        found = await self.objects.intake.db.scan(upload_listing.of_uploads, container, wanted)
        more, shown = len(found) > asked.most > 0, found[: asked.most]
        last = shown[-1] if more else None
        root = element(
            "ListMultipartUploadsResult",
            Bucket=container.name,
            KeyMarker=asked.text(key),
            UploadIdMarker=upload_id,
            NextKeyMarker=None if last is None else asked.text(last if isinstance(last, str) else last.name),
            NextUploadIdMarker=None if last is None or isinstance(last, str) else last.id,
            Prefix=asked.text(asked.prefix),
            Delimiter=asked.text(asked.delimiter) or None,
            EncodingType=asked.coding,
            MaxUploads=asked.most,
            IsTruncated=more,
        )
        for each in shown:
            if not isinstance(each, str):
                who = element("Initiator", ID=each.project_id, DisplayName=each.project_id)
                when = listings.moment(each.created_at)
                said = {"Key": asked.text(each.name), "UploadId": each.id, "Initiated": when}
                if (whole := Sum.of(each)) is not None:
                    said |= {"ChecksumAlgorithm": whole.algorithm.upper(), "ChecksumType": whole.type}
                root.append(element("Upload", who, listings.owner(each.project_id), **said, StorageClass="STANDARD"))
        root.extend(asked.folders(shown))
        return answered(root)


def _number(call: Call) -> int:
    """Raises InvalidArgument."""
    number = listings.number(call, "partNumber", 0, parts.MOST_PARTS + 1)
    if not 0 < number <= parts.MOST_PARTS:
        raise error("InvalidArgument", f"Part number must be an integer between 1 and {parts.MOST_PARTS}, inclusive")
    return number


def _sums_of(given: Element) -> dict[str, str]:
    """The checksums that the client gives for a part, in the form in which they are stored."""
    found = {name: xml.text_of(given, f"Checksum{name.upper()}") for name in ALGORITHMS}
    return headers.kept_sums({HEADER + name: value for name, value in found.items() if value})


def _integer(text: str) -> int:
    """Raises MalformedXML."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise error("MalformedXML", "The number of a part is an integer.")
    return int(text)
