"""Symlinks, as clients request them. Reference: object-store.md, A6."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from attrs import evolve

from cloudctl.errors import Invalid, PreconditionFailed
from cloudctl.object_store.large import path_of
from cloudctl.object_store.links import LARGE_ETAG, TARGET, TARGET_ACCOUNT, TARGET_BYTES, TARGET_ETAG
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.tables import Object, Version
from cloudctl.rest.call import Call

TYPE = "application/symlink"


def wanted(call: Call, place: Place, target: str) -> dict[str, str]:
    """The headers to store for a link to be made at `place`. Raises PreconditionFailed, Invalid."""
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


def fixed(new: NewObject, target: Object | Version, *, keeps_type: bool) -> NewObject:
    """The static link to `target`, which is in the expected state."""
    size = target.size if target.large_size is None else target.large_size
    told = {TARGET_BYTES: str(size)}
    if target.large_etag is not None:
        told[LARGE_ETAG] = target.large_etag
    kind = new.content_type if keeps_type else target.content_type
    return evolve(new, headers={**new.headers, **told}, content_type=kind)


def url_path(call: Call, place: Place) -> str:
    """The path of an object's URL on this host."""
    path = quote(f"/v1/{place.account}/{place.container}/{place.name}")
    return f"{urlsplit(call.root_url).path}{path}"
