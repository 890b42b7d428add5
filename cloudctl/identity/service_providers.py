"""The service providers that tokens list: other clouds that this one's users might go to.

Cached like catalogs, which change as rarely: see `catalogs`.
"""

from __future__ import annotations

from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.identity.federation_tables import ServiceProvider

TABLES = ("identity_service_providers",)

_enabled = (
    select(ServiceProvider.id, ServiceProvider.auth_url, ServiceProvider.sp_url)
    .where(ServiceProvider.enabled.is_(True))
    .order_by(ServiceProvider.id)
)

Shown = list[dict[str, str]]


class ServiceProviders:
    def __init__(self, db: Database) -> None:
        self.db = db
        self._kept: tuple[tuple[int, ...], Shown] | None = None

    async def shown(self, known_epoch: int) -> Shown:
        """The enabled ones, as a token shows them. `known_epoch`: as it was when this request began, or later."""
        generation = self.db.changes(TABLES) or (known_epoch,)
        if self._kept is None or self._kept[0] != generation:
            self._kept = (generation, await self.db.read(read))
        return self._kept[1]


def read(conn: Connection) -> Shown:
    return [{"id": id, "auth_url": auth_url, "sp_url": sp_url} for id, auth_url, sp_url in conn.execute(_enabled)]
