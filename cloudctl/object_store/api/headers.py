"""Headers of requests that set something on accounts, containers and objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import formatdate
from math import ceil
from urllib.parse import quote, unquote

from cloudctl.db.columns import seconds
from cloudctl.errors import Invalid
from cloudctl.object_store import account_acl, acl, metadata, numbered
from cloudctl.object_store.names import check_text
from cloudctl.rest.call import Call

Headers = tuple[tuple[str, str], ...]

VERSION_ID = "X-Object-Version-Id"
# No clock here shows a later second: what expires then stays for good.
LATEST = 10**10 - 1
# Times in the past, in seconds.
PAST = re.compile(r"-\d+|0+", re.ASCII)
TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
# For the owners' eyes only.
PRIVATE = frozenset(
    {acl.READ, acl.WRITE, account_acl.HEADER}
    | {f"{prefix}Temp-Url-Key{which}" for prefix in (metadata.ACCOUNT, metadata.CONTAINER) for which in ("", "-2")}
)
# Of containers, besides the metadata that users set freely.
OF_CONTAINERS = ("X-Versions-Location", "X-History-Location")
# Names are escaped in these.
QUOTED = frozenset({*OF_CONTAINERS, "X-Symlink-Target"})
# Of objects.
OF_OBJECTS = (
    "Content-Encoding",
    "Content-Disposition",
    "Content-Language",
    "Cache-Control",
    "Expires",
    "X-Robots-Tag",
    "X-Object-Manifest",
)


def is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() in TRUE


def sent(call: Call) -> Iterator[tuple[str, str]]:
    """All headers, by names such as X-Object-Meta-Color. Raises Invalid."""
    for name, values in call.headers.getAllRawHeaders():
        value = values[-1].decode()
        if "\0" in value:
            raise Invalid("A header contains a NUL character.")
        yield name.decode("utf-8", "replace").title(), value


def changes(call: Call, prefix: str) -> dict[str, str | None]:
    """The headers to set on an account or a container; None: to remove. Raises Invalid."""
    found: dict[str, str | None] = {}
    removing = prefix.replace("X-", "X-Remove-", 1)
    for name, value in sent(call):
        if name.startswith(removing):
            found[prefix + name[len(removing) :]] = None
        elif name.startswith(prefix):
            found[name] = value or None
    _check(found)
    return found


def _check(given: Mapping[str, str | None]) -> None:
    """Raises Invalid for what no answer could contain."""
    metadata.check_headers({name: value for name, value in given.items() if value is not None})


def container_changes(call: Call) -> dict[str, str | None]:
    """Raises Invalid."""
    found = changes(call, metadata.CONTAINER)
    for name in (acl.READ, acl.WRITE):
        if call.header(name.replace("X-", "X-Remove-", 1)) is not None:
            found[name] = None
        elif (value := call.header(name)) is not None:
            found[name] = acl.cleaned(name, value) or None
    for name in ("Bytes", "Count"):
        header = f"{metadata.CONTAINER}Quota-{name}"
        if (quota := found.get(header)) is not None and not (quota.isascii() and quota.isdecimal()):
            raise Invalid(f"Invalid {name.lower()} quota.")
    _check(found)
    return found | _versioning(call) | _numbered(call)


def _versioning(call: Call) -> dict[str, str | None]:
    """Where old versions go: to at most one place. Raises Invalid, PreconditionFailed."""
    found: dict[str, str | None] = {}
    for name, other in (OF_CONTAINERS, OF_CONTAINERS[::-1]):
        value = call.header(name)
        if value == "" or (value is None and call.header(name.replace("X-", "X-Remove-", 1)) is not None):
            found[name] = None
        elif value is not None:
            value = unquote(value)
            check_text(value)
            if call.header(other):
                raise Invalid(f"Only one of {' or '.join(OF_CONTAINERS)} may be specified")
            if "/" in value:
                raise Invalid(f"{name}: a container is expected")
            found |= {name: value, other: None}
    return found


def _numbered(call: Call) -> dict[str, str | None]:
    """Whether versions with ids are kept. Raises Invalid."""
    value = call.header(numbered.HEADER)
    if value is None:
        return {}
    if is_true(value) and any(call.header(name) for name in OF_CONTAINERS):
        raise Invalid(f"{numbered.HEADER} goes with none of {' and '.join(OF_CONTAINERS)}")
    return {numbered.HEADER: numbered.ON if is_true(value) else numbered.OFF}


def of_object(call: Call) -> dict[str, str]:
    """The headers of an object that are stored. Raises Invalid."""
    found = {name: value for name, value in sent(call) if name.startswith(metadata.OBJECT) or name in OF_OBJECTS}
    metadata.check_headers(found)
    metadata.check(found, metadata.OBJECT)
    manifest = found.get("X-Object-Manifest")
    if manifest is not None:
        container, slash, prefix = manifest.lstrip("/").partition("/")
        if not (container and slash and prefix) or "?" in manifest or "&" in manifest:
            raise Invalid("X-Object-Manifest must be in the format container/prefix")
    return found


def delete_at(call: Call) -> int | None:
    """When the object expires, in seconds since the epoch. Raises Invalid."""
    now = seconds(call.now)
    after, at = call.header("X-Delete-After"), call.header("X-Delete-At")
    if after is not None:
        return min(int(now) + _number("X-Delete-After", after), LATEST)
    if at is None:
        return None
    when = _number("X-Delete-At", at)
    if when <= now:
        raise Invalid("X-Delete-At in past")
    return when


def if_delete_at(call: Call) -> int | None:
    """The expiry that an object must have to be deleted; None: any. Raises Invalid."""
    given = call.header("X-If-Delete-At")
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 20):
        raise Invalid("Bad X-If-Delete-At header value")
    return int(given)


def _number(name: str, text: str) -> int:
    """At most LATEST. Raises Invalid."""
    if PAST.fullmatch(text.strip()):
        raise Invalid(f"{name} in past")
    if not (text.isascii() and text.isdecimal()):
        raise Invalid(f"Non-integer {name}")
    return min(int(text.lstrip("0")[:20]), LATEST)


def shown(headers: Mapping[str, str], *, owner: bool) -> Headers:
    kept = (each for each in headers.items() if not each[0].startswith(metadata.PRIVATE))
    told = ((name, value) for name, value in kept if owner or name not in PRIVATE)
    return tuple((name, quote(value) if name in QUOTED else value) for name, value in told)


def last_modified(when: datetime) -> str:
    """Never earlier than the change: rounded up to a second."""
    return formatdate(ceil(seconds(when)), usegmt=True)


def timestamp(when: datetime) -> str:
    return f"{seconds(when):.5f}"
