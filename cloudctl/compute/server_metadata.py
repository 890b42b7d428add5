"""Metadata and tags of servers. Reference: compute.md, sections 8.1 and 8.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cloudctl.compute import quotas, servers
from cloudctl.compute.creation import joined_tags, split_tags
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.caller import Caller

MOST_TAGS = 50


def no_item() -> NotFound:
    return NotFound("Metadata item was not found")


def merge(conn: Connection, caller: Caller, server_id: str, more: Mapping[str, str]) -> dict[str, str]:
    """Add these items; returns all of them. Raises NotFound, Conflict, OverQuota."""
    row = servers.allowed(conn, caller, server_id, "update metadata", lock=True)
    return _put(conn, caller, row, {**row.metadata, **more})


def replace(conn: Connection, caller: Caller, server_id: str, items: Mapping[str, str]) -> dict[str, str]:
    """Raises NotFound, Conflict, OverQuota."""
    row = servers.allowed(conn, caller, server_id, "update metadata", lock=True)
    return _put(conn, caller, row, dict(items))


def remove(conn: Connection, caller: Caller, server_id: str, key: str) -> None:
    """Raises NotFound, Conflict."""
    row = servers.allowed(conn, caller, server_id, "delete metadata", lock=True)
    if key not in row.metadata:
        raise no_item()
    left = {name: value for name, value in row.metadata.items() if name != key}
    servers.change(conn, row, {"metadata": left}, caller.now)


def _put(conn: Connection, caller: Caller, server: Server, items: dict[str, str]) -> dict[str, str]:
    quotas.check_metadata(conn, server.project_id, len(items))
    servers.change(conn, server, {"metadata": items}, caller.now)
    return items


# -- tags


def tags(conn: Connection, caller: Caller, server_id: str) -> list[str]:
    """Raises NotFound."""
    return split_tags(servers.visible(conn, caller, server_id).tags)


def replace_tags(conn: Connection, caller: Caller, server_id: str, wanted: Sequence[str]) -> list[str]:
    """Raises NotFound, Conflict."""
    row = servers.allowed(conn, caller, server_id, "update tags", lock=True)
    servers.change(conn, row, {"tags": joined_tags(wanted)}, caller.now)
    return sorted(set(wanted))


def add_tag(conn: Connection, caller: Caller, server_id: str, tag: str) -> bool:
    """Whether it is new. Raises NotFound, Conflict, Invalid for one too many."""
    row = servers.allowed(conn, caller, server_id, "update tag", lock=True)
    present = split_tags(row.tags)
    if tag in present:
        return False
    if len(present) >= MOST_TAGS:
        raise Invalid(f"The number of tags exceeded the per-server limit {MOST_TAGS}")
    servers.change(conn, row, {"tags": joined_tags([*present, tag])}, caller.now)
    return True


def remove_tag(conn: Connection, caller: Caller, server_id: str, tag: str) -> None:
    """Raises NotFound, Conflict."""
    row = servers.allowed(conn, caller, server_id, "delete tag", lock=True)
    present = split_tags(row.tags)
    if tag not in present:
        raise no_tag(server_id, tag)
    servers.change(conn, row, {"tags": joined_tags([other for other in present if other != tag])}, caller.now)


def remove_tags(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = servers.allowed(conn, caller, server_id, "delete tags", lock=True)
    servers.change(conn, row, {"tags": ""}, caller.now)


def no_tag(server_id: str, tag: str) -> NotFound:
    return NotFound(f"Server {server_id} has no tag '{tag[:60]}'")
