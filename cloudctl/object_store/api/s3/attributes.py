"""The attributes of an object in one answer: GetObjectAttributes. Reference: AWS, «GetObjectAttributes»."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.object_store import numbered, parts
from cloudctl.object_store.api.headers import last_modified
from cloudctl.object_store.api.reading import Found
from cloudctl.object_store.api.s3 import headers, listings, xml
from cloudctl.object_store.api.s3.buckets import XML_TYPE
from cloudctl.object_store.api.s3.door import action_of
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.objects import OBJECT, SHOW, Objects
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.tables import Object, Version
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

ASKED = "x-amz-object-attributes"
KNOWN: Final = ("ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize")
PAGE = 1000  # parts


def asked(call: Call) -> tuple[str, ...]:
    """The requested attributes. Raises InvalidArgument."""
    found = tuple(each.strip() for each in (call.header(ASKED) or "").split(",") if each.strip())
    if not found or not set(found) <= set(KNOWN):
        raise error("InvalidArgument", f"{ASKED} names some of {', '.join(KNOWN)}.")
    return found


@frozen
class Attributes:
    routes = Routes("S3: attributes of objects")

    objects: Objects

    @routes.get(OBJECT, policy=SHOW, anonymous=True, subresource="attributes", query=("versionId",))
    async def show(self, call: Call, bucket: str, key: str) -> Reply:
        """Show the attributes of an object that a header names."""
        version = headers.version(call)
        action = action_of("s3:GetObject", version)
        place, container = await self.objects.door.read(call, bucket, key, action=action, version=version)
        wanted = asked(call)
        found = await self.objects.find(call, place, container, version)
        record, root = found.object, Element("GetObjectAttributesResponse")
        if "ETag" in wanted:
            root.extend(element("x", ETag=found.data.etag.strip('"')))
        if "Checksum" in wanted and (sums := headers.sums_in_xml(record.headers)):
            root.append(element("Checksum", **sums, ChecksumType=headers.sum_type(record.headers)))
        if "ObjectParts" in wanted and record.parts_id is not None:
            root.append(await self._parts(call, found, record.parts_id))
        if "StorageClass" in wanted:
            root.extend(element("x", StorageClass="STANDARD"))
        if "ObjectSize" in wanted:
            root.extend(element("x", ObjectSize=found.data.size))
        return Reply(xml.answer(root), headers=(XML_TYPE, *self._said(record, numbered.is_known(container))))

    def _said(self, record: Object | Version, known: bool) -> tuple[tuple[str, str], ...]:
        version = (("x-amz-version-id", numbered.shown(record)),) if known else ()
        return (("Last-Modified", last_modified(record.updated_at)), *version)

    async def _parts(self, call: Call, found: Found, parts_id: str) -> Element:
        most = listings.integer("x-amz-max-parts", call.header("x-amz-max-parts"), PAGE, PAGE)
        marker = listings.integer(
            "x-amz-part-number-marker", call.header("x-amz-part-number-marker"), 0, parts.MOST_PARTS
        )
        listed = await self.objects.intake.db.scan(parts.list_parts, parts_id, marker, most + 1)
        shown = listed[:most]
        root = element(
            "ObjectParts",
            PartsCount=len(found.data.pieces),
            PartNumberMarker=marker,
            NextPartNumberMarker=shown[-1].number if shown else marker,
            MaxParts=most,
            IsTruncated=len(listed) > most > 0,
        )
        for part in shown:
            root.append(element("Part", PartNumber=part.number, Size=part.size, **headers.sums_in_xml(part.headers)))
        return root
