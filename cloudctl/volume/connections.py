"""Connecting hosts while a request waits: the one place where this API itself calls the backend.

State recorded before a call allows undoing it after a crash; both calls may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from cloudctl.drivers.errors import DriverError, Unknown
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.drivers.specs import Capacity, ConnectionInfo
from cloudctl.errors import CloudError, Conflict, Unavailable
from cloudctl.tasks import Transient

T = TypeVar("T")


async def connect(backend: IVolumeBackend, volume_id: str, host: str) -> ConnectionInfo:
    """Raises Conflict if the backend has no such volume, Unavailable if it does not answer."""
    return await _asked(backend.connect(volume_id, host))


async def disconnect(backend: IVolumeBackend, volume_id: str, host: str) -> None:
    """Raises Unavailable if the backend does not answer."""
    await _asked(backend.disconnect(volume_id, host))


async def hosts(backend: IVolumeBackend, volume_id: str) -> tuple[str, ...]:
    """The hosts that can use the volume; none if the backend has no such volume. Raises Unavailable."""
    try:
        return (await _asked(backend.observe(volume_id))).hosts
    except Conflict:
        return ()


async def capacity(backend: IVolumeBackend) -> Capacity:
    """Raises Unavailable if the backend does not answer."""
    return await _asked(backend.capacity())


async def _asked(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except DriverError as error:
        raise refusal(error) from None


def refusal(error: DriverError) -> CloudError:
    """The error that a client gets for a backend's error."""
    if isinstance(error, Unknown):
        return Conflict(f"Invalid volume: {error}")
    if isinstance(error, Transient):
        return Unavailable("The volume backend is not responding.", headers={"Retry-After": "5"})
    return Unavailable(f"The volume backend refused: {error}")
