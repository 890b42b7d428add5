"""Symlinks: objects that lead to whatever has a name, or to one state of it. Reference: object-store.md, A6.

Static: `X-Symlink-Target-Etag` says which state it is, and when that is gone the link leads nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from attrs import evolve

from cloudctl.errors import Conflict, Invalid, PreconditionFailed
from cloudctl.object_store import metadata
from cloudctl.object_store.large import path_of
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.tables import Object, Version
from cloudctl.rest.call import Call

MOST_LINKS = 2
TARGET, TARGET_ACCOUNT = "X-Symlink-Target", "X-Symlink-Target-Account"
TARGET_ETAG, TARGET_BYTES = "X-Symlink-Target-Etag", "X-Symlink-Target-Bytes"
# Of the static large object that a static link leads to: listings show it.
LARGE_ETAG = f"{metadata.PRIVATE}Symlink-Large-Etag"
HEADERS = (TARGET, TARGET_ACCOUNT, TARGET_ETAG, TARGET_BYTES, LARGE_ETAG)
TYPE = "application/symlink"


def wanted(call: Call, place: Place, target: str) -> dict[str, str]:
    """What is kept of a link that is to be made at `place`. Raises PreconditionFailed, Invalid."""
    container, slash, name = path_of(target).partition("/")
    account = call.header(TARGET_ACCOUNT) or place.account
    if not (container and slash and name):
        raise PreconditionFailed(f"{TARGET} header must be of the form <container name>/<object name>")
    if (where := placed(account, container, name)) == place:
        raise Invalid("Symlink cannot target itself")
    etag = (call.header(TARGET_ETAG) or "").strip('"')
    return {
        TARGET: f"{where.container}/{where.name}",
        **({TARGET_ACCOUNT: account} if account != place.account else {}),
        **({TARGET_ETAG: etag} if etag else {}),
    }


def target_of(place: Place, headers: Mapping[str, str]) -> Place | None:
    """Where a symlink at `place` leads."""
    target = headers.get(TARGET)
    if target is None:
        return None
    container, _, name = target.partition("/")
    return placed(headers.get(TARGET_ACCOUNT, place.account), container, name)


def check(found: Object | Version, etag: str, *, is_link: bool) -> None:
    """Whether what a static link leads to is in the state `etag`. Raises Conflict."""
    own = found.headers.get(TARGET_ETAG, found.etag) if is_link else found.etag
    if not etag or etag == own:
        return
    if is_link:
        raise Conflict(f"{TARGET_ETAG} headers do not match")
    raise Conflict(f"Object Etag {own!r} does not match {TARGET_ETAG} header {etag!r}")


def fixed(new: NewObject, target: Object | Version, *, keeps_type: bool) -> NewObject:
    """The static link that leads to `target`, which is as it should be."""
    size = target.size if target.large_size is None else target.large_size
    told = {TARGET_BYTES: str(size)}
    if target.large_etag is not None:
        told[LARGE_ETAG] = target.large_etag
    kind = new.content_type if keeps_type else target.content_type
    return evolve(new, headers={**new.headers, **told}, content_type=kind)


def url_path(call: Call, place: Place) -> str:
    """Of an object, on this host."""
    path = quote(f"/v1/{place.account}/{place.container}/{place.name}")
    return f"{urlsplit(call.root_url).path}{path}"
