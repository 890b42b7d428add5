"""Copying a volume's bytes from one backend to another, through a file. Each part may be repeated."""

from __future__ import annotations

from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.interfaces import IVolumeData
from cloudctl.drivers.specs import ImageSource
from cloudctl.volume.archives import Archives


@frozen
class Copying:
    archives: Archives

    async def export(self, volume_id: str, backend: IVolumeData) -> None:
        """Raises Unfit unless the backend exports raw data, and the backend's own errors."""
        await self.archives.prepare()
        if (found := await backend.ensure_exported(volume_id, self._path(volume_id))) != "raw":
            raise Unfit(f"the backend exports volumes as {found}, but a move needs raw data")

    async def fill(self, volume_id: str, backend: IVolumeData) -> None:
        await backend.ensure_imported(volume_id, ImageSource(volume_id, self._path(volume_id), "raw"))

    async def discard(self, volume_id: str) -> None:
        await self.archives.discard(_work(volume_id))

    def _path(self, volume_id: str) -> str:
        return str(self.archives.work(_work(volume_id)))


def _work(volume_id: str) -> str:
    return f"{volume_id}.move"
