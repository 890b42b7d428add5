"""Headers of S3, as the object store stores them: `x-amz-meta-color` is X-Object-Meta-Color."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlencode

from cloudctl.errors import Invalid
from cloudctl.object_store import metadata, numbered, tagging
from cloudctl.object_store.api import headers
from cloudctl.object_store.api.headers import Headers
from cloudctl.object_store.api.s3.checksums import ALGORITHMS, HEADER
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.signature import STREAMING
from cloudctl.object_store.metadata import PRIVATE
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.tables import Object, Version
from cloudctl.rest.call import Call

META = "x-amz-meta-"
TAGGING = tagging.KEPT
# What a checksum covers: all the data, unless something else is stored.
TYPE, WHOLE = "x-amz-checksum-type", "FULL_OBJECT"
KEPT_TYPE = f"{PRIVATE}X-Amz-Checksum-Type"
USUAL_TYPE = "binary/octet-stream"
KEPT = ("Content-Encoding", "Content-Disposition", "Content-Language", "Cache-Control", "Expires")
# The headers of an answer that a URL may override.
OVERRIDDEN = {f"response-{name.lower()}": name for name in ("Content-Type", *KEPT)}
# Headers that request what is not supported here.
REFUSED = (
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-website-redirect-location",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-write-offset-bytes",
)
# Conditions of deletions that are not supported here: without them, what must stay would go.
CONDITIONS = ("x-amz-if-match-last-modified-time", "x-amz-if-match-size")
# Lists for an object that is as open as its bucket.
OWN_ACLS = ("private", "bucket-owner-full-control", "bucket-owner-read")

MOST_TAGS = 10


def refuse(given: Callable[[str], str | None], names: Iterable[str] = REFUSED) -> None:
    """Refuse headers that request what is not supported here: `given(name)` is one. Raises NotImplemented,
    InvalidStorageClass.
    """
    for name in names:
        value = given(name)
        if value and value.lower() not in ("false", "off"):
            raise error(
                "NotImplemented", f"A header you provided implies functionality that is not implemented: {name}"
            )
    if (given("x-amz-storage-class") or "STANDARD") != "STANDARD":
        raise error("InvalidStorageClass", "The storage class you specified is not valid")


def version(call: Call) -> str:
    """The version of the object that is meant; empty: the current one. Raises InvalidArgument."""
    given = call.query.get("versionId")
    if given == "":
        told = {"ArgumentName": "versionId", "ArgumentValue": given}
        raise error("InvalidArgument", "Version id cannot be the empty string", told)
    return given or ""


def said(call: Call) -> dict[str, str]:
    """The headers of an object that are stored. Raises MetadataTooLarge."""
    found: dict[str, str] = {}
    for name, value in headers.sent(call):
        lower = name.lower()
        if lower.startswith(META):
            found[metadata.OBJECT + lower[len(META) :].title()] = value
        elif name in KEPT:
            found[name] = value
    coding = [each.strip() for each in found.pop("Content-Encoding", "").split(",")]
    if (call.header("x-amz-content-sha256") or "") in STREAMING:
        # How the body is sent is not a property of the object.
        coding = [each for each in coding if each != "aws-chunked"]
    if kept := ", ".join(filter(None, coding)):
        found["Content-Encoding"] = kept
    try:
        metadata.check(found, metadata.OBJECT)
    except Invalid:
        raise error("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size") from None
    return found


def new_object(call: Call) -> NewObject:
    """What a PUT makes, without its data. Raises what is wrong with the headers."""
    refuse(call.header)
    kept = said(call)
    if tags := tags_of_header(call.header("x-amz-tagging")):
        kept[TAGGING] = tags
    absent, present = call.header("if-none-match"), call.header("if-match")
    if absent is not None and absent.strip() != "*":
        raise error(
            "NotImplemented", "A header you provided implies functionality that is not implemented: If-None-Match"
        )
    if present is not None and present.strip() == "*":
        raise error("NotImplemented", "A header you provided implies functionality that is not implemented: If-Match")
    return NewObject(
        content_type=call.header("content-type") or USUAL_TYPE,
        headers=kept,
        only_if_absent=absent is not None,
        only_if_tag=(present or "").strip().strip('"'),
    )


def tags_of_header(text: str | None) -> str:
    """The tags of a header, checked. Raises InvalidTag."""
    if not text:
        return ""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise error(
            "InvalidArgument", "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded."
        ) from None
    return kept_tags(pairs)


def kept_tags(pairs: list[tuple[str, str]], most: int = MOST_TAGS) -> str:
    """Tags in the form in which they are stored. Raises InvalidTag."""
    names = [name for name, _ in pairs]
    if len(pairs) > most:
        raise error("InvalidTag", f"Object tags cannot be greater than {most}")
    if len(set(names)) < len(names):
        raise error("InvalidTag", "Cannot provide multiple Tags with the same key")
    if any(not 0 < len(name) <= 128 or len(value) > 256 for name, value in pairs):
        raise error("InvalidTag", "The TagKey or TagValue you have provided is invalid")
    return urlencode(pairs)


def quoted(etag: str) -> str:
    return f'"{etag.strip(chr(34))}"'


def shown(record: Object | Version, etag: str, call: Call, *, known: bool) -> Headers:
    """The headers of an object. `known`: versions are kept in its bucket."""
    kept = dict(record.headers)
    told = [
        ("ETag", quoted(etag)),
        ("Last-Modified", headers.last_modified(record.updated_at)),
        ("Accept-Ranges", "bytes"),
    ]
    told += [
        (META + name[len(metadata.OBJECT) :].lower(), value)
        for name, value in kept.items()
        if name.startswith(metadata.OBJECT)
    ]
    told += [(name, value) for name, value in kept.items() if name in KEPT]
    if count := len(tagging.tags(kept)):
        told.append(("x-amz-tagging-count", str(count)))
    if known:
        told.append(("x-amz-version-id", numbered.shown(record)))
    whole = call.header("range") is None and "partNumber" not in call.query
    if whole and (call.header("x-amz-checksum-mode") or "").upper() == "ENABLED" and (found := [*sums(kept)]):
        told += [*found, (TYPE, sum_type(kept))]
    return tuple(told)


def sums(kept: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The checksums that came with the data."""
    for name, value in kept.items():
        if name.startswith(PRIVATE) and name.removeprefix(PRIVATE).lower().removeprefix(HEADER) in ALGORITHMS:
            yield name.removeprefix(PRIVATE).lower(), value


def sum_type(kept: Mapping[str, str]) -> str:
    """What the checksums cover."""
    return kept.get(KEPT_TYPE, WHOLE)


def sums_in_xml(kept: Mapping[str, str]) -> dict[str, str]:
    """The checksums by their names in XML: ChecksumCRC32."""
    return {f"Checksum{name.removeprefix(HEADER).upper()}": value for name, value in sums(kept)}


def kept_sums(found: Mapping[str, str]) -> dict[str, str]:
    return {f"{PRIVATE}{name.title()}": value for name, value in found.items()}
