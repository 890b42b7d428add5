"""multipart/form-data, as browsers send it: part by part, in constant memory. RFC 7578."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from email.utils import collapse_rfc2231_value
from typing import IO

from attrs import frozen

from cloudctl.errors import Invalid

CHUNK = 65536
MOST_HEADERS = 16_384  # bytes of one part's

BOUNDARY = re.compile(r"boundary=(?:\"([^\"]{1,200})\"|([^\s;\"]{1,200}))")


def boundary_of(content_type: str) -> str | None:
    """None: it is not a form."""
    media, _, parameters = content_type.partition(";")
    found = BOUNDARY.search(parameters) if media.strip().lower() == "multipart/form-data" else None
    return None if found is None else found[1] or found[2]


@frozen
class Part:
    """`chunks` must be read before the next part is requested."""

    headers: Message
    chunks: Iterator[bytes]

    @property
    def name(self) -> str:
        return self._said("name") or ""

    @property
    def filename(self) -> str | None:
        return self._said("filename")

    def _said(self, name: str) -> str | None:
        """A parameter, which some clients escape as in mail. Raises Invalid."""
        found = self.headers.get_param(name, None, "content-disposition")
        try:
            return None if found is None else collapse_rfc2231_value(found)
        except UnicodeError:
            raise Invalid(f"The {name} of a part of the form is not text.") from None

    def text(self, most: int) -> str:
        """The value of a field. Raises Invalid."""
        value = b""
        for chunk in self.chunks:
            value += chunk
            if len(value) > most:
                raise Invalid(f"The field {self.name[:64]} of the form is too long.")
        if b"\0" in value:
            raise Invalid(f"The field {self.name[:64]} of the form holds the character NUL.")
        return value.decode("utf-8", "replace")


class Form:
    """Iterates over the parts of a body. It blocks, and raises Invalid for anything that is not a form."""

    def __init__(self, body: IO[bytes], boundary: str) -> None:
        body.seek(0)
        self._body = body
        self._delimiter = b"\r\n--" + boundary.encode()
        # The first delimiter may be the very first line.
        self._buffer = b"\r\n"

    def __iter__(self) -> Iterator[Part]:
        """Raises Invalid."""
        for _ in self._until_delimiter():
            """What stands before the first part is nobody's."""
        while self._take(2) != b"--":
            yield Part(self._headers(), chunks := self._until_delimiter())
            for _ in chunks:
                """What was not read."""

    def _fill(self) -> None:
        data = self._body.read(CHUNK)
        if not data:
            raise Invalid("The form ends too early.")
        self._buffer += data

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _headers(self) -> Message:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MOST_HEADERS:
                raise Invalid("The headers of a part of the form are too long.")
            self._fill()
        try:
            return HeaderParser().parsestr(self._take(end + 4).decode())
        except UnicodeDecodeError:
            raise Invalid("The headers of a part of the form are not valid UTF-8.") from None

    def _until_delimiter(self) -> Iterator[bytes]:
        keep = len(self._delimiter) - 1
        while (end := self._buffer.find(self._delimiter)) < 0:
            if len(self._buffer) > keep:
                yield self._take(len(self._buffer) - keep)
            self._fill()
        yield self._take(end)
        self._take(len(self._delimiter))
