"""Metadata that users set on accounts, containers and objects: X-Object-Meta-Color. Reference: object-store.md, A4."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cloudctl.errors import Invalid

# Headers with this prefix are stored, but never shown.
PRIVATE = "S3:"
SUM = f"{PRIVATE}X-Amz-Checksum-"  # of the data
ACCOUNT, CONTAINER, OBJECT = "X-Account-Meta-", "X-Container-Meta-", "X-Object-Meta-"

MOST_OF_NAME = 128  # bytes
MOST_OF_VALUE = 256
MOST_COUNT = 90
MOST_OVERALL = 4096


# Of a header: RFC 9110. Forms bring names and values that never were headers.
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
NOT_IN_HEADERS = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises Invalid for anything that no header of an answer can contain."""
    for name, value in headers.items():
        if not TOKEN.fullmatch(name.removeprefix(PRIVATE)):
            raise Invalid(f"This is not a header name: {name[:160]!r}")
        if NOT_IN_HEADERS.search(value):
            raise Invalid(f"The value of {name[:160]} holds a character that no header can.")


def merged(headers: Mapping[str, str], changes: Mapping[str, str | None], prefix: str) -> dict[str, str]:
    """The headers with these changes; None removes one. Raises Invalid."""
    both = {**headers, **changes}
    result = {name: value for name, value in both.items() if value is not None}
    check(result, prefix)
    return result


def check(headers: Mapping[str, str], prefix: str) -> None:
    """Raises Invalid if the metadata exceeds the limits."""
    size = count = 0
    for header, value in headers.items():
        if not header.startswith(prefix):
            continue
        name, length = header[len(prefix) :], len(value.encode())
        count += 1
        size += len(name.encode()) + length
        if not name:
            raise Invalid("Metadata name cannot be empty")
        if len(name.encode()) > MOST_OF_NAME:
            raise Invalid(f"Metadata name too long: {header[:160]}")
        if length > MOST_OF_VALUE:
            raise Invalid(f"Metadata value longer than {MOST_OF_VALUE}: {header}")
    if count > MOST_COUNT:
        raise Invalid(f"Too many metadata items; max {MOST_COUNT}")
    if size > MOST_OVERALL:
        raise Invalid(f"Total metadata too large; max {MOST_OVERALL}")


def number(headers: Mapping[str, str], name: str) -> int | None:
    """The number that a header holds; None if there is none."""
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
