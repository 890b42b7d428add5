"""URLs in answers: with or without a project id, in the form of the request. volume.md, section 1.1."""

from __future__ import annotations

from cloudctl.rest.call import Call

VERSION = "/v3"


def url(call: Call, path: str, version: str = VERSION) -> str:
    """`path` is relative to the versioned root: `/volumes/ID`."""
    project = f"/{call.path_project}" if call.path_project else ""
    return f"{call.root_url}{version}{project}{path}"


def of(call: Call, path: str) -> list[dict[str, str]]:
    """The two links that a record has."""
    return [{"rel": "self", "href": url(call, path)}, {"rel": "bookmark", "href": url(call, path, "")}]


def next_page(call: Call, last_id: str, limit: int) -> list[dict[str, str]]:
    query = call.query.having(marker=last_id, limit=str(limit), offset=None)
    return [{"rel": "next", "href": f"{url(call, call.path.removeprefix(VERSION))}?{query}"}]
