"""Deleting many objects at once in S3. Reference: object-store.md, B2."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.object_store import numbered, objects
from cloudctl.object_store.api.s3 import xml
from cloudctl.object_store.api.s3.body import Expected
from cloudctl.object_store.api.s3.buckets import BUCKET, answered
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door, action_of
from cloudctl.object_store.api.s3.faults import USUAL, error
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.names import MOST_OF_OBJECT
from cloudctl.object_store.objects import Done
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
        place, container, admitted = await self.door.many(call, bucket)
        _check_summed(call)
        root = await self.documents.read(call, "Delete")
        wanted = [(each.findtext("Key") or "", xml.text_of(each, "VersionId")) for each in root.findall("Object")]
        if not 0 < len(wanted) <= MOST or any(not key for key, _ in wanted):
            raise error("MalformedXML", f"Between 1 and {MOST} objects with a key each are expected.")
        present, versions = (
            self.door.lets_of(call, container, action_of("s3:DeleteObject", version), admitted) for version in ("", "v")
        )
        may = {each for each in wanted if (versions if each[1] else present)(each[0])}
        if not may and not admitted:
            raise error("AccessDenied")
        short = [each for each in wanted if each in may and len(each[0].encode()) <= MOST_OF_OBJECT]
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


def _told(container: Container, wanted: tuple[str, str], done: Done | None, quiet: bool, may: bool) -> Element | None:
    key, version = wanted
    if done is None:
        code, message = ("KeyTooLongError", "Your key is too long") if may else ("AccessDenied", USUAL["AccessDenied"])
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
