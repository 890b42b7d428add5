"""Headers as they come and go: whether they are text, and how their names are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twisted.web.http_headers import Headers


class InLowerCase(Headers):
    """Headers whose names are sent in lower case."""

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, Sequence[bytes]]]:
        return ((name.lower(), values) for name, values in super().getAllRawHeaders())


# What somebody else was sent as a token: if it is no text, it is an unknown token, and no error of who asks about it.
PASSED_ON = b"x-subject-token"


def headers_are_text(headers: Headers) -> bool:
    """Whether all that must can be read as UTF-8; nearly all are ASCII."""
    try:
        for name, values in headers.getAllRawHeaders():
            for value in values:
                if not value.isascii() and name.lower() != PASSED_ON:
                    value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def tell(request: Any, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        request.setHeader(name, value)
