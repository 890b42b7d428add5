"""Listings as plain text, JSON or XML. Reference: object-store.md, A3, A4."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

import orjson
from attrs import frozen

from cloudctl.errors import NotAcceptable, PreconditionFailed
from cloudctl.object_store import links, numbered
from cloudctl.object_store.api.headers import Headers, is_true
from cloudctl.object_store.containers import Usage
from cloudctl.object_store.listing import MOST, Outline, Wanted
from cloudctl.object_store.names import check_text
from cloudctl.object_store.tables import Object, Version
from cloudctl.object_store.version_listing import Numbered
from cloudctl.rest.accept import preferred
from cloudctl.rest.call import Call, Reply

PLAIN, JSON, XML, TEXT_XML = "text/plain", "application/json", "application/xml", "text/xml"
FORMATS = {"json": JSON, "xml": XML, "plain": PLAIN}
PARAMETERS = ("limit", "marker", "end_marker", "prefix", "delimiter", "reverse", "format")
# No XML can hold these, escaped or not.
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

Entry = Mapping[str, Any]


def media(call: Call) -> str:
    """The requested format. Raises NotAcceptable."""
    named, accept = call.query.get("format"), call.header("accept")
    if "versions" in call.query:
        # Versions could not be told apart in lines of text.
        if (named.lower() != "json") if named else (preferred(accept or "*/*", [JSON]) is None):
            raise NotAcceptable("")
        return JSON
    if named:
        return FORMATS.get(named.lower(), PLAIN)
    if not accept:
        return PLAIN
    found = preferred(accept, [PLAIN, JSON, XML, TEXT_XML])
    if found is None:
        raise NotAcceptable("")
    return found


def wanted(call: Call) -> Wanted:
    """Raises PreconditionFailed."""
    query = call.query
    for name in PARAMETERS:
        check_text(query.get(name) or "")
    limit, given = MOST, query.get("limit") or ""
    if given.isascii() and given.isdecimal():
        limit = int(given[:10])
        if limit > MOST:
            raise PreconditionFailed(f"Maximum limit is {MOST}")
    path = query.get("path")
    prefix, delimiter = query.get("prefix") or "", query.get("delimiter") or ""
    if path is not None:
        prefix, delimiter = f"{path.rstrip('/')}/" if path else "", "/"
    return Wanted(
        limit,
        query.get("marker") or "",
        query.get("end_marker") or "",
        prefix,
        delimiter,
        is_true(query.get("reverse")),
        flat=path is not None,
    )


def of_container(found: tuple[Outline, Usage] | str) -> Entry:
    if isinstance(found, str):
        return {"subdir": found}
    container, usage = found
    return {
        "name": container.name,
        "count": usage.objects,
        "bytes": usage.bytes,
        "last_modified": moment(container.updated_at),
    }


def of_version(found: Numbered | str, account: str) -> Entry:
    if isinstance(found, str):
        return {"subdir": found}
    entry = of_object(found.row, account)
    return {**entry, "version_id": numbered.shown(found.row), "is_latest": found.is_latest}


def of_object(found: Object | Version | str, account: str) -> Entry:
    if isinstance(found, str):
        return {"subdir": found}
    entry: dict[str, Any] = {
        "name": found.name,
        "hash": found.etag,
        "bytes": found.size if found.large_size is None else found.large_size,
        "content_type": found.content_type,
        "last_modified": moment(found.updated_at),
    }
    if found.large_etag is not None:
        entry["slo_etag"] = f'"{found.large_etag}"'
    said = found.headers
    if (target := said.get(links.TARGET)) is not None:
        entry["symlink_path"] = quote(f"/v1/{said.get(links.TARGET_ACCOUNT, account)}/{target}")
    if (etag := said.get(links.TARGET_ETAG)) is not None:
        entry |= {"symlink_etag": etag, "symlink_bytes": int(said[links.TARGET_BYTES])}
    if (large := said.get(links.LARGE_ETAG)) is not None:
        entry["slo_etag"] = f'"{large}"'
    return entry


def moment(when: datetime) -> str:
    return when.isoformat(timespec="microseconds")


@frozen
class Kind:
    """The names of what is listed, in XML."""

    list: str
    item: str

    def written(self, form: str, name: str, entries: Sequence[Entry]) -> bytes:
        """A page of ten thousand takes a while, so call it in the thread that reads them."""
        if form == JSON:
            return orjson.dumps(entries)
        if form == PLAIN:
            return "".join(f"{each.get('name', each.get('subdir'))}\n" for each in entries).encode()
        return self._xml(name, entries).encode()

    def _xml(self, name: str, entries: Sequence[Entry]) -> str:
        items = "".join(self._item(entry) for entry in entries)
        start = '<?xml version="1.0" encoding="UTF-8"?>\n'
        return f"{start}<{self.list} name={quoteattr(shown(name))}>{items}</{self.list}>"

    def _item(self, entry: Entry) -> str:
        if "subdir" in entry:
            text = shown(entry["subdir"])
            return f"<subdir name={quoteattr(text)}><name>{escape(text)}</name></subdir>"
        parts = "".join(f"<{key}>{escape(shown(str(value)))}</{key}>" for key, value in entry.items())
        return f"<{self.item}>{parts}</{self.item}>"


def reply(form: str, body: bytes, headers: Headers) -> Reply:
    kept = (*headers, ("Content-Type", f"{form}; charset=utf-8"), ("Vary", "Accept"))
    if form == PLAIN and not body:
        return Reply(None, 204, kept)
    return Reply(body, 200, kept)


def shown(text: str) -> str:
    return NOT_IN_XML.sub("\ufffd", text)


ACCOUNT = Kind("account", "container")
CONTAINER = Kind("container", "object")
