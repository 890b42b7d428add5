"""Sources of copies: `/bucket/key?versionId=…`, and ranges of them."""

from __future__ import annotations

import re
from urllib.parse import unquote

from attrs import frozen

from cloudctl.object_store.api.s3.faults import error

RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})", re.ASCII)


@frozen
class Source:
    bucket: str
    key: str
    version: str

    @classmethod
    def read(cls, text: str) -> Source:
        """Raises InvalidArgument."""
        path, numbered, version = text.partition("?versionId=")
        if numbered and not version:
            raise error("InvalidArgument", "Version id cannot be the empty string")
        bucket, _, key = unquote(path, errors="surrogateescape").removeprefix("/").partition("/")
        if not bucket or not key:
            raise error("InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
        return cls(bucket, key, version)


def span(text: str | None, size: int) -> tuple[int, int] | None:
    """The requested part of the source; None: all of it. Raises InvalidArgument, InvalidRange."""
    if text is None:
        return None
    found = RANGE.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        told = "The x-amz-copy-source-range value must be of the form bytes=first-last"
        raise error("InvalidArgument", told)
    if int(found[2]) >= size:
        raise error("InvalidRange", "The specified copy source range is beyond the source.")
    return int(found[1]), int(found[2]) + 1
