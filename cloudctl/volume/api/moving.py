"""Changing types and backends on the wire. Reference: volume.md, section 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IHypervisor, ISwapVolume, IVolumeBackend
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.body import Body, LooseBool, Missing, Name, Uuid, gated
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import connections, moving, volumes
from cloudctl.volume.api.actions import ACTION
from cloudctl.volume.api.fields import HostName
from cloudctl.volume.options import VolumeOptions, present
from cloudctl.volume.placing import Pool


@frozen
class Retype:
    new_type: Name
    migration_policy: Literal["never", "on-demand"] = "never"


@frozen
class Migrate:
    """The bytes are always copied by this service, and nobody else may have the volume meanwhile."""

    host: HostName | None = None
    cluster: HostName | Missing | None = gated(since(3, 16))
    force_host_copy: LooseBool = False
    lock_volume: LooseBool = False


@frozen
class Completed:
    new_volume: Uuid
    error: LooseBool = False


@frozen
class Extended:
    error: LooseBool = False


@frozen
class Moving:
    routes = Routes("Volume actions")

    db: Database
    pools: Mapping[str, IVolumeBackend]
    options: VolumeOptions
    hypervisor: IHypervisor

    @property
    def _swaps(self) -> bool:
        return bool(ISwapVolume.providedBy(self.hypervisor))

    @routes.action(ACTION, "os-retype", policy="volume:volumes:retype", body=Body(Retype))
    async def retype(self, call: Call, volume_id: str, body: Retype) -> None:
        """Give a volume another type, and move it to a backend of that type if the policy allows."""
        pool = await self._place(call, volume_id, body.new_type)
        wanted = body.new_type, body.migration_policy
        await self.db.run(moving.retype, call.caller, volume_id, *wanted, self.options, pool, swaps=self._swaps)

    async def _place(self, call: Call, volume_id: str, new_type: str) -> Pool | None:
        """Where the volume is, if the type asks for more than a name. Raises NotFound, Unavailable."""
        host = present(self.pools, await self.db.read(moving.asked, call.caller, volume_id, new_type))
        if host is None:
            return None
        return Pool(host, await connections.capacity(self.pools[host]))

    @routes.action(ACTION, "os-migrate_volume", policy="volume:volumes:migrate", body=Body(Migrate))
    async def migrate(self, call: Call, volume_id: str, body: Migrate) -> None:
        """Move a volume to another backend, even one in use if the hypervisor can do that."""
        if body.host is None or body.cluster:
            raise NotFound(f"Cluster {body.cluster or None} could not be found.")
        await self.db.run(moving.migrate, call.caller, volume_id, body.host, self.options, swaps=self._swaps)

    @routes.action(
        ACTION, "os-migrate_volume_completion", policy="volume:volumes:migrate", status=200, body=Body(Completed)
    )
    async def complete(self, call: Call, volume_id: str, body: Completed) -> Any:
        """Report that another service has moved a volume; the new volume is the one that stays."""
        return {"save_volume_id": await self.db.run(moving.complete, call.caller, volume_id, body.new_volume)}

    @routes.action(
        ACTION,
        "os-extend_volume_completion",
        policy="volume:volumes:migrate",
        since=(3, 71),
        body=Body(Extended),
    )
    async def complete_extension(self, call: Call, volume_id: str, body: Extended) -> None:
        """Refuse: no backend here leaves extending a volume to another service."""
        await self.db.read(_refuse_extension, call, volume_id)


def _refuse_extension(conn: Connection, call: Call, volume_id: str) -> None:
    volume = volumes.visible(conn, call.caller, volume_id)
    raise Conflict(f"Invalid volume: Volume {volume.id} is not waiting for another service to make it larger.")
