"""Call: one request being answered, as a handler sees it; Reply: an answer that is more than a JSON body."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, urlencode

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.web.http_headers import Headers

from cloudctl.errors import Invalid
from cloudctl.rest.body import INTEGER_MOST, truth
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.versions import Version

QUERY_FIELDS = 200

# `fn(*args)` in a thread.
Run = Callable[..., Deferred[Any]]


class Query:
    """The query string: names may repeat.

    `hidden`: names that the request's microversion does not have. They are read as if they had not been sent.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs
        self.hidden: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, raw: bytes) -> Query:
        """Raises Invalid for bytes that are not UTF-8, for NUL, and for more than 200 fields."""
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS)
        except UnicodeDecodeError:
            raise Invalid("The query string is not valid UTF-8.") from None
        except ValueError:
            raise Invalid(f"The query string has more than {QUERY_FIELDS} fields.") from None
        if b"%00" in raw or b"\0" in raw:
            raise Invalid("The query string contains a NUL character.")
        return cls(pairs)

    def __contains__(self, name: str) -> bool:
        return name not in self.hidden and any(found == name for found, _ in self.pairs)

    def __iter__(self) -> Iterator[str]:
        """Every name that was sent."""
        return iter(dict(self.pairs))

    def get(self, name: str) -> str | None:
        """The last value of `name`, as the stock services read it."""
        values = self.all(name)
        return values[-1] if values else None

    def all(self, name: str) -> list[str]:
        if name in self.hidden:
            return []
        return [value for found, value in self.pairs if found == name]

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value; a bare `?name` is true. Raises Invalid."""
        value = self.get(name)
        if value is None:
            return default
        if value == "":
            return True
        found = truth(value)
        if found is None:
            raise Invalid(f"Invalid value {value[:64]!r} for the query parameter {name!r}: a boolean is expected.")
        return found

    def integer(self, name: str, minimum: int = 0) -> int | None:
        """At most INTEGER_MOST: clients that want all items ask for more than there can be. Raises Invalid."""
        value = self.get(name)
        if value is None:
            return None
        if re.fullmatch(r"[+-]?\d{1,20}", value, re.ASCII) is None:
            raise Invalid(f"Invalid value {value[:64]!r} for the query parameter {name!r}: an integer is expected.")
        number = min(int(value), INTEGER_MOST)
        if number < minimum:
            raise Invalid(f"Invalid value {number} for the query parameter {name!r}: it must be at least {minimum}.")
        return number

    def having(self, **changes: str | None) -> str:
        """The same query with these names set, or dropped where None, encoded."""
        kept = [(name, value) for name, value in self.pairs if name not in changes]
        return urlencode([*kept, *((name, value) for name, value in changes.items() if value is not None)])


@define(eq=False)
class Call:
    """What a handler knows of its request. The domain knows only its `caller`."""

    caller: Caller
    version: Version
    query: Query
    host_url: str  # where this cloud's APIs are mounted, without a trailing slash
    root_url: str  # of this API: {host_url}/compute
    path: str  # below the API's root, as it was routed: /v2.1/servers
    headers: Headers  # of the request
    content: IO[bytes]
    rule: str | None = None  # the Operation's
    path_project: str = ""  # the project id that was cut out of the path, for links in the same form
    method: str = ""
    arriving: bool = False  # its body has not come: the only question is whether it may
    asked: datetime | None = None  # when that was the question
    # Headers of the answer, whatever it is, an error included.
    also: dict[str, str] = field(factory=dict, init=False)

    @property
    def identity(self) -> Identity:
        return self.caller.identity

    @property
    def project_id(self) -> str:
        return self.caller.identity.project_id

    @property
    def user_id(self) -> str:
        return self.caller.identity.user_id

    @property
    def now(self) -> datetime:
        """When the request came, naive UTC."""
        return self.caller.now

    @property
    def began(self) -> datetime:
        """What was valid then is valid, however long the body has taken to come."""
        return self.asked or self.now

    @property
    def url(self) -> str:
        """The URL of this request, without its query."""
        return self.root_url + self.path

    def header(self, name: str) -> str | None:
        """The last value of a request header. What is no text in it is U+FFFD: see `headers_are_text`."""
        values = self.headers.getRawHeaders(name.encode())
        return values[-1].decode("utf-8", "replace") if values else None

    def may(self, rule: str, **target: str) -> bool:
        """Whether the caller passes another rule, for example `compute:servers:all_projects`."""
        return self.caller.may(rule, **target)

    def require(self, rule: str | None = None, **target: str) -> None:
        """Check a rule (by default the Operation's own) once the target's attributes are known. Raises Forbidden."""
        name = rule or self.rule
        assert name is not None, "a public Operation has no rule"
        self.caller.require(name, **target)


@frozen
class Download:
    """A part of a file as a response body. `file`: it is open already, since it may be gone when it is sent."""

    open: Callable[[], IO[bytes]] = field(eq=False)
    offset: int
    length: int
    file: IO[bytes] | None = field(default=None, eq=False)

    @classmethod
    def of(cls, path: Path, offset: int, length: int) -> Download:
        return cls(lambda: path.open("rb"), offset, length)

    def chunks(self, size: int) -> Generator[bytes, None, None]:
        """Raises OSError, also if the file is shorter than it should be."""
        with self.file or self.open() as file:
            file.seek(self.offset)
            left = self.length
            while left:
                data = file.read(min(size, left))
                if not data:
                    raise OSError(f"{getattr(file, 'name', 'a file')} ends {left} bytes early")
                left -= len(data)
                yield data


@frozen
class Parts:
    """Parts of files, and what stands between them, as one response body. Files are opened when their turn comes."""

    parts: Sequence[Download | bytes]
    length: int
    # For files behind a network: opens and reads them in a thread, since that would block the reactor.
    run: Run | None = field(default=None, eq=False)

    def chunks(self, size: int) -> Generator[bytes, None, None]:
        try:
            for part in self.parts:
                if isinstance(part, bytes):
                    yield part
                else:
                    yield from part.chunks(size)
        finally:
            self.close()

    def close(self) -> None:
        """Close what was opened before."""
        for part in self.parts:
            if isinstance(part, Download) and part.file is not None:
                part.file.close()


@frozen
class Reply:
    """An answer with a status, headers or a body of its own.

    `body`: bytes are sent as they are, a Download or Parts from files, Pages one by one, a Stream as it comes, anything
    else but None as JSON.
    """

    body: Any = None
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    # Seconds since the epoch: a pure answer may not be used after that.
    until: float = math.inf
