"""Servers as JSON, cached until something that is shown of them changes.

A server is shown from the cache while its revision, the editions of its ports and the status of its host are the same:
these are read each time, and the server's row, its addresses, groups and volumes only if any of them has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import bindparam, select

from cloudctl.compute import networking, servers
from cloudctl.compute.api import server_views
from cloudctl.compute.servers import Outline
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.rest.call import Call
from cloudctl.rest.rendered import Rendered
from cloudctl.rest.versions import Version

# Built once: building costs more than running it.
_rows = select(Server).where(Server.id.in_(bindparam("wanted", expanding=True)))


class Shape(NamedTuple):
    """All that a server's JSON depends on besides the server."""

    root_url: str
    version: Version
    admin: bool
    user_data: bool
    alone: bool  # not on a page


class ServerPages:
    """The servers of one cloud."""

    def __init__(self) -> None:
        self.rendered = Rendered()

    def page(self, conn: Connection, call: Call, entries: Sequence[Outline]) -> list[orjson.Fragment]:
        """As `GET /servers/detail` shows them."""
        return self._shown(conn, call, entries, alone=False)

    def alone(self, conn: Connection, call: Call, entry: Outline) -> orjson.Fragment:
        """As `GET /servers/ID` shows it. Raises NotFound if its record has just been purged."""
        for shown in self._shown(conn, call, [entry], alone=True):
            return shown
        raise servers.not_found(entry.id)

    def _shown(self, conn: Connection, call: Call, entries: Sequence[Outline], *, alone: bool) -> list[orjson.Fragment]:
        admin, user_data = call.may(server_views.ADMIN_FIELDS), call.may(server_views.USER_DATA)
        shape = Shape(call.root_url, call.version, admin, user_data, alone)
        view = server_views.full if alone else server_views.detail
        plugged = networking.editions(conn, [entry.id for entry in entries])
        statuses = server_views.host_statuses(conn, call)
        editions = {
            entry.id: (
                entry.revision,
                statuses.get(entry.host or ""),
                tuple(plugged.get(entry.id, {}).items()),
            )
            for entry in entries
        }

        def render(ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
            rows = conn.execute(_rows, {"wanted": list(ids)}).all()
            around = server_views.gather(conn, call, rows, plugged)
            return {row.id: view(around, row) for row in rows}

        return self.rendered.shown(conn, shape, editions, render)
