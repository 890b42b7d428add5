"""Choosing a pool for a new volume that has none: the first thing done with it."""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.drivers.backends import Backends
from cloudctl.drivers.errors import DriverError
from cloudctl.errors import CloudError, Unavailable
from cloudctl.tasks import Context
from cloudctl.volume import messages, placing, services, types, volumes
from cloudctl.volume.options import present
from cloudctl.volume.placing import Pool
from cloudctl.volume.tables import Volume, VolumeType

log = Logger()


class NoBackend(Unavailable):
    """No pool takes a volume of this type and size now."""

    def __init__(self) -> None:
        super().__init__(messages.NO_BACKEND.what)


class Gone(CloudError):
    """A backend that a task needs is not configured any more."""

    def __init__(self, host: str) -> None:
        super().__init__(f"The backend of {host} is not configured any more.")


def backend_at(ctx: Context, host: str) -> Any:
    """The backend of a pool, which may have been named before the node was renamed. Raises Gone."""
    backends = ctx.drivers.volume
    at = backends.at if isinstance(backends, Backends) else {}
    found = present(at, host)
    if found is None:
        raise Gone(host)
    return at[found]


async def ensure_placed(ctx: Context) -> Volume:
    """Ensure that it has a pool whose service takes volumes. Returns it as it was found. Raises NotFound, NoBackend."""
    volume, type_, taken = await ctx.read(_wanted, ctx.resource_id)
    if volume.host is None:
        chosen = placing.choose(await enabled(ctx), type_.extra_specs, volume.size)
        if chosen is None:
            raise NoBackend
        await ctx.write(volumes.place, volume.id, chosen.host)
    elif not taken or not await _suits(ctx, volume.host, type_.extra_specs):
        raise NoBackend
    return volume


async def _suits(ctx: Context, host: str, specs: placing.Specs) -> bool:
    """Whether the pool that was the only choice meets the type's extra specs. Most types have none."""
    if not specs:
        return True
    backends = ctx.drivers.volume
    backend = backends.at.get(present(backends.at, host) or "") if isinstance(backends, Backends) else backends
    if backend is None:
        return False  # it is not configured any more
    return placing.suits(Pool(host, await backend.capacity()), specs)


def _wanted(conn: Connection, volume_id: str) -> tuple[Volume, VolumeType, bool]:
    """The volume, its type, and whether the service of its pool takes volumes."""
    volume = volumes.get(conn, volume_id)
    return volume, types.get(conn, volume.volume_type_id), services.takes_volumes(conn, volume.host or "")


async def enabled(ctx: Context) -> list[Pool]:
    """The pools that answer and whose services take volumes."""
    backends = ctx.drivers.volume
    found = []
    for host, backend in backends.at.items() if isinstance(backends, Backends) else ():
        if await ctx.read(services.takes_volumes, host):
            try:
                found.append(Pool(host, await backend.capacity()))
            except DriverError as error:
                log.warn("pool {host} does not answer and gets no volumes: {why}", host=host, why=error)
    return found
