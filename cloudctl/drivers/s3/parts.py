"""Contents that are uploaded in parts: too large for one request, or so large that a retry should not resend it all.

An upload whose process died before its end stays in the store, and is aborted when another process starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO
from xml.etree.ElementTree import Element, SubElement, tostring

from twisted.logger import Logger

from cloudctl import signature_v4
from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.s3 import documents
from cloudctl.drivers.s3.client import Bucket, Refused, Span, gone

log = Logger()

LEAST = 5 * 2**20  # bytes of a part that is not the last, by S3
MOST_OF_ONE = 5 * 2**30  # bytes
MOST = 10_000  # parts
PAGE = "1000"  # uploads
ABANDONED = 86_400.0  # seconds after which an upload is considered abandoned
ID = re.compile("[0-9a-f]{32}")


def keep(bucket: Bucket, key: str, file: IO[bytes], size: int, part_size: int) -> None:
    """Upload `size` bytes of the file; parts are larger if there would be too many. An existing content stays.

    Raises DriverError, OSError.
    """
    if bucket.has(key):
        return
    begun = documents.read(bucket.document("POST", key, "uploads="))
    upload = f"uploadId={signature_v4.encoded(documents.text(begun, 'UploadId').encode())}"
    try:
        step = max(part_size, -(-size // MOST))
        tags = [
            bucket.put(key, Span(file, start, min(step, size - start)), f"partNumber={number}&{upload}")
            for number, start in enumerate(range(0, size, step), 1)
        ]
        _complete(bucket, key, upload, tags)
    except BaseException:
        _give_up(bucket, key, upload)
        raise


def _complete(bucket: Bucket, key: str, upload: str, tags: list[str]) -> None:
    """The parts become the content, unless there is one already. Raises DriverError."""
    root = Element("CompleteMultipartUpload", xmlns="http://s3.amazonaws.com/doc/2006-03-01/")
    for number, tag in enumerate(tags, 1):
        part = SubElement(root, "Part")
        SubElement(part, "PartNumber").text = str(number)
        SubElement(part, "ETag").text = tag
    try:
        # A store may answer 200 before it knows the outcome.
        answer = documents.read(bucket.document("POST", key, upload, tostring(root), {"if-none-match": "*"}))
        if answer.tag == "Error":
            raise Refused(f"the parts of {key}", 200, documents.text(answer, "Code"))
    except Refused as refused:
        if refused.status == 412:  # another call has kept the same content
            _give_up(bucket, key, upload)
        elif not (gone(refused) and bucket.has(key)):  # else it was done, and the answer was lost
            raise


def _give_up(bucket: Bucket, key: str, upload: str) -> None:
    """Abort an upload. If this fails now, `sweep` does it later."""
    try:
        bucket.document("DELETE", key, upload)
    except DriverError as error:
        if not (isinstance(error, Refused) and gone(error)):
            log.warn("an abandoned upload stays in the store until the next start: {error}", error=str(error))


def sweep(bucket: Bucket, prefix: str, now: float) -> None:
    """Abort abandoned uploads. Those whose key is not one of our names are somebody else's. Raises DriverError."""
    for upload in _uploads(bucket, prefix):
        key, id = documents.text(upload, "Key"), documents.text(upload, "UploadId")
        if ID.fullmatch(key.removeprefix(prefix)) and documents.moment(upload, "Initiated") < now - ABANDONED:
            log.info("aborted the abandoned upload of {key}", key=key)
            _give_up(bucket, key, f"uploadId={signature_v4.encoded(id.encode())}")


def _uploads(bucket: Bucket, prefix: str) -> Iterator[Element]:
    """Raises Unreachable, Refused."""
    asked, at = {"uploads": "", "prefix": prefix, "max-uploads": PAGE}, {"key-marker": "", "upload-id-marker": ""}
    while True:
        page = documents.read(bucket.document("GET", "", signature_v4.query({**asked, **at})))
        yield from page.iterfind("Upload")
        if documents.text(page, "IsTruncated") != "true":
            return
        following = {name: documents.text(page, f"Next{_named(name)}") for name in at}
        if following == at:
            raise Unreachable("the store's list of uploads does not end")
        at = following


def _named(marker: str) -> str:
    """`key-marker` → `KeyMarker`."""
    return "".join(word.capitalize() for word in marker.split("-"))
