"""Pools: where volumes can be, and the capabilities of each. Reference: volume.md, section 10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.errors import NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.volume import connections, placing, types
from cloudctl.volume.options import backend_of
from cloudctl.volume.placing import Pool
from cloudctl.volume.tables import VolumeType

FILTERS = {"name": since(3, 28), "volume_type": since(3, 35)}
# Capability → its description in /capabilities.
PROPERTIES = {
    "thin_provisioning": {"title": "Thin Provisioning", "description": "Sets thin provisioning.", "type": "boolean"},
    "multiattach": {"title": "Multiattach", "description": "Several hosts at once.", "type": "boolean"},
}


@frozen
class Pools:
    routes = Routes("Services")

    db: Database
    pools: Mapping[str, IVolumeBackend]

    @routes.get(
        "/scheduler-stats/get_pools",
        policy="volume:pools:list",
        query={"detail": ALWAYS, **FILTERS},
    )
    async def list(self, call: Call) -> Any:
        """List the pools, and with `detail` how much fits into each."""
        name, named_type = call.query.get("name"), call.query.get("volume_type")
        type_ = await self.db.read(_type, call, named_type) if named_type else None
        found: list[dict[str, Any]] = []
        for host, backend in self.pools.items():
            if name not in (None, host):
                continue
            if not call.query.flag("detail") and type_ is None:
                found.append({"name": host})
                continue
            pool = Pool(host, await connections.capacity(backend))
            if type_ is not None and not placing.fits(pool, type_.extra_specs, 0):
                continue
            told = {"capabilities": {"updated": micros(call.now), **pool.capabilities}}
            found.append({"name": host, **(told if call.query.flag("detail") else {})})
        return {"pools": found}

    @routes.get("/capabilities/<host>", policy="volume:pools:list")
    async def capabilities(self, call: Call, host: str) -> Any:
        """Show the capabilities of the backend of a host."""
        for pool, backend in self.pools.items():
            if host in (pool, pool.partition("#")[0]):
                told = Pool(pool, await connections.capacity(backend)).capabilities
                return {
                    "namespace": f"OS::Storage::Capabilities::{host}",
                    "vendor_name": told["vendor_name"],
                    "volume_backend_name": backend_of(pool),
                    "pool_name": pool.partition("#")[2],
                    "driver_version": told["driver_version"],
                    "storage_protocol": told["storage_protocol"],
                    "display_name": backend_of(pool),
                    "description": None,
                    "visibility": "public",
                    "replication_targets": [],
                    "properties": PROPERTIES,
                }
        raise NotFound(f"Service cinder-volume on host {host[:255]} could not be found.")


def _type(conn: Connection, call: Call, name_or_id: str) -> VolumeType:
    return types.by_name_or_id(conn, call.caller, name_or_id)
