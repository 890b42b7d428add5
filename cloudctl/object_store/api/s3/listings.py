"""Listings of S3: of objects in two versions, and of their versions. Reference: object-store.md, B2, B3."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import quote
from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.errors import PreconditionFailed
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.headers import quoted
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.listing import Entry, Wanted
from cloudctl.object_store.names import check_text
from cloudctl.object_store.tables import Container, Object, Version
from cloudctl.rest.call import Call

MOST = 1000
COMMON = ("prefix", "delimiter", "max-keys", "encoding-type")
V1 = (*COMMON, "marker")
V2 = (*COMMON, "continuation-token", "start-after", "fetch-owner")
VERSIONS = (*COMMON, "key-marker", "version-id-marker")
ALMOST = timedelta(microseconds=999_999)  # a second


def moment(when: datetime) -> str:
    """The same second as in the header Last-Modified: clients compare them."""
    return f"{(when + ALMOST).isoformat(timespec='seconds')}.000Z"


def number(call: Call, name: str, otherwise: int, most: int) -> int:
    """A parameter of the query. Raises InvalidArgument."""
    return integer(name, call.query.get(name), otherwise, most)


def integer(name: str, text: str | None, otherwise: int, most: int) -> int:
    """Raises InvalidArgument."""
    if text is None or text == "":
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 11):
        raise error("InvalidArgument", f"Provided {name} not an integer or within integer range")
    return min(int(text), most)


@frozen
class Asked:
    """The parameters of every listing."""

    prefix: str
    delimiter: str
    most: int
    coding: str | None

    @classmethod
    def of(cls, call: Call, most: str = "max-keys") -> Asked:
        """Raises InvalidArgument."""
        coding = call.query.get("encoding-type")
        if coding not in (None, "url"):
            raise error("InvalidArgument", "Invalid Encoding Method specified in Request")
        query = call.query
        return cls(query.get("prefix") or "", query.get("delimiter") or "", number(call, most, MOST, MOST), coding)

    def text(self, text: str) -> str:
        return quote(text, safe="/-_.~") if self.coding else text

    def wanted(self, marker: str) -> Wanted:
        """One more than is shown, to know whether there are more."""
        return Wanted(self.most + 1, marker, prefix=self.prefix, delimiter=self.delimiter)

    def said(self, container: Container) -> Element:
        root = element(
            "ListBucketResult",
            Name=container.name,
            Prefix=self.text(self.prefix),
            MaxKeys=self.most,
            EncodingType=self.coding,
        )
        if self.delimiter:
            root.append(_text("Delimiter", self.text(self.delimiter)))
        return root

    def folders(self, found: Sequence[object]) -> list[Element]:
        return [element("CommonPrefixes", Prefix=self.text(each)) for each in found if isinstance(each, str)]


def _text(name: str, value: str) -> Element:
    made = Element(name)
    made.text = value
    return made


def owner(project_id: str) -> Element:
    return element("Owner", ID=project_id, DisplayName=project_id)


def size_of(found: Object | Version) -> int:
    return found.size if found.large_size is None else found.large_size


def tag_of(found: Object | Version) -> str:
    return quoted(found.large_etag or found.etag)


def contents(asked: Asked, found: Object, *, owned: bool) -> Element:
    made = element(
        "Contents",
        Key=asked.text(found.name),
        LastModified=moment(found.updated_at),
        ETag=tag_of(found),
        Size=size_of(found),
        StorageClass="STANDARD",
    )
    if owned:
        made.append(owner(found.project_id))
    return made


def last_of(found: Sequence[Entry]) -> str:
    return found[-1] if isinstance(found[-1], str) else found[-1].name


@frozen
class Token:
    """Where the next page begins: after this name."""

    @staticmethod
    def of(name: str) -> str:
        return base64.urlsafe_b64encode(name.encode()).decode()

    @staticmethod
    def read(text: str) -> str:
        """Raises InvalidArgument."""
        try:
            name = base64.b64decode(text.encode("ascii"), b"-_", validate=True).decode()
            check_text(name)
            return name
        except (binascii.Error, ValueError, PreconditionFailed):
            raise error("InvalidArgument", "The continuation token provided is incorrect") from None


def page_of(root: Element, asked: Asked, found: Sequence[Entry], *, owned: bool) -> str:
    """Adds what is shown. Returns the last name of the page if there are more, else empty."""
    more, shown = len(found) > asked.most, found[: asked.most]
    root.append(_text("IsTruncated", "true" if more and asked.most else "false"))
    root.extend(contents(asked, each, owned=owned) for each in shown if not isinstance(each, str))
    root.extend(asked.folders(shown))
    return last_of(shown) if more and shown else ""


def first_version(call: Call, asked: Asked, container: Container, found: Sequence[Entry], marker: str) -> Element:
    """ListObjects."""
    root = asked.said(container)
    root.append(_text("Marker", asked.text(marker)))
    last = page_of(root, asked, found, owned=True)
    if last:
        root.append(_text("NextMarker", asked.text(last)))
    return root


def second_version(call: Call, asked: Asked, container: Container, found: Sequence[Entry]) -> Element:
    """ListObjectsV2."""
    root, query = asked.said(container), call.query
    root.append(_text("KeyCount", str(min(len(found), asked.most))))
    last = page_of(root, asked, found, owned=query.get("fetch-owner") == "true")
    if last:
        root.append(_text("NextContinuationToken", Token.of(last)))
    if (token := query.get("continuation-token")) is not None:
        root.append(_text("ContinuationToken", token))
    if (start := query.get("start-after")) is not None:
        root.append(_text("StartAfter", asked.text(start)))
    return root
