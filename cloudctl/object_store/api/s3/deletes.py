"""Deleting many objects at once in S3. Reference: object-store.md, B2."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.object_store import numbered, objects
from cloudctl.object_store.api.s3 import xml
from cloudctl.object_store.api.s3.body import Expected
from cloudctl.object_store.api.s3.buckets import BUCKET, answered
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door, action_of, admits
from cloudctl.object_store.api.s3.faults import USUAL, error
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.names import MOST_OF_OBJECT
from cloudctl.object_store.objects import Done, Removal
from cloudctl.object_store.tables import Container
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

MOST = 1000


@frozen
class Deletes:
    routes = Routes("S3: many objects")

    door: S3Door
    documents: Documents
    intake: Intake

    async def may_delete(self, call: Call, bucket: str) -> Admitted:
        """Whether a list of objects may come."""
        place, _, _ = await self.door.many(call, bucket)
        _check_summed(call)
        return await self.documents.admitted(call, place, is_document=True)

    @routes.post(
        BUCKET,
        policy="object_store:objects:delete",
        anonymous=True,
        subresource="delete",
        raw=True,
        admits="may_delete",
    )
    async def delete(self, call: Call, bucket: str) -> Reply:
        """Delete up to 1,000 objects or versions of them."""
        place, container, entered = await self.door.many(call, bucket)
        _check_summed(call)
        root = await self.documents.read(call, "Delete")
        wanted = [_removal(each) for each in root.findall("Object")]
        if not 0 < len(wanted) <= MOST or any(not each.name for each in wanted):
            raise error("MalformedXML", f"Between 1 and {MOST} objects with a key each are expected.")
        present, versions = (
            self.door.lets_of(
                call, container, action_of("s3:DeleteObject", version), admits(container, entered, version)
            )
            for version in ("", "v")
        )
        may = {each for each in wanted if (versions if each.version else present)(each.name)}
        if not may and entered is None:
            raise error("AccessDenied")
        short = [each for each in wanted if each in may and len(each.name.encode()) <= MOST_OF_OBJECT]
        gone = await self.intake.change(objects.remove_many, place, short, call.now)
        results = dict(zip(short, gone.each, strict=True))
        quiet = xml.text_of(root, "Quiet").lower() == "true"
        told = [_told(container, each, results.get(each), quiet, each in may) for each in wanted]
        return answered(xml.listed("DeleteResult", (each for each in told if each is not None)))


def _check_summed(call: Call) -> None:
    """Check that the list has a checksum: it must not have been changed on its way. Raises InvalidRequest."""
    expected = Expected.of(call)
    if not (expected.md5 or expected.checksums):
        told = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"
        raise error("InvalidRequest", told)


def _removal(given: Element) -> Removal:
    """Raises NotImplemented."""
    for name in ("LastModifiedTime", "Size"):
        if given.find(name) is not None:
            raise error("NotImplemented", f"{name} as a condition of a deletion is not implemented; ETag is.")
    # A key may begin or end with a space.
    return Removal(given.findtext("Key") or "", xml.text_of(given, "VersionId"), xml.text_of(given, "ETag").strip('"'))


def _told(container: Container, wanted: Removal, done: Done | None, quiet: bool, may: bool) -> Element | None:
    key, version = wanted.name, wanted.version
    if done is None or not done.holds:
        code = "AccessDenied" if not may else "KeyTooLongError" if done is None else "PreconditionFailed"
        message = USUAL.get(code, "Your key is too long")
        return element("Error", Key=key, VersionId=version or None, Code=code, Message=message)
    if quiet:
        return None
    marker = (done.version or numbered.NULL) if done.is_marker and numbered.is_known(container) else None
    return element(
        "Deleted",
        Key=key,
        VersionId=version or None,
        DeleteMarker=True if marker else None,
        DeleteMarkerVersionId=marker,
    )
