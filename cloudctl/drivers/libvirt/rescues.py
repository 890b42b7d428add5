"""Guests that run from another image for a while, with their root disk beside it. Plain functions block.

That a guest is rescued is noted in its domain. Its rescue disk is where a root disk would be made, a file on its host
or a clone in Ceph, and is noted before it is made, so that none is left behind.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import libvirt
from attrs import evolve, frozen

from cloudctl.drivers import config_drive
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.libvirt import domain, guests, rescuing, secrets
from cloudctl.drivers.libvirt.domain import Paths
from cloudctl.drivers.libvirt.fleet import Fleet
from cloudctl.drivers.libvirt.host import Host
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import RoomFor, Storage
from cloudctl.drivers.qemu.disks import Disks
from cloudctl.drivers.qemu.records import Files
from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.rbd.roots import RootDisks
from cloudctl.drivers.specs import ImageSource

CONFIG = "config"


@frozen
class Rescues:
    config: Config
    fleet: Fleet
    disks: Disks  # for config drives, which are made here
    roots: RootDisks | None  # None: root disks are files on the hosts

    async def begun(self, id: str, image: ImageSource | None, password: str) -> None:
        async with self.fleet.at(id) as host:
            rescued, is_file = await self.fleet.run(host, look, self.config, id, image is not None)
            if not rescued:
                await self.fleet.run(host, turn_off, id)
                with tempfile.TemporaryDirectory(prefix="cloudctl-") as directory:
                    drive = await self._drive(host, id, password, Path(directory))
                    remote = None
                    if self.roots is not None and not is_file:
                        remote = await self.roots.make_rescue(id, image)
                    # Two guests of one image must not copy it at the same time.
                    async with self.fleet.locks.hold(host.name, image.id if image is not None else id):
                        if image is not None and remote is None:
                            image = await self.disks.plain(image)
                        await self.fleet.copy(host, begin, self.config, id, image, drive, remote)
            await self.fleet.run(host, guests.start, id)

    async def ended(self, id: str) -> None:
        async with self.fleet.at(id) as host:
            if await self.fleet.run(host, end, id):
                await self.fleet.run(host, guests.start, id)
                # The disk goes last: while it is noted, the guest may not have been started again yet.
                await self.fleet.run(host, clear, self.config, id)
                if self.roots is not None:
                    await self.roots.remove_rescue(id)
                await self.fleet.run(host, done, id)

    async def _drive(self, host: Host, id: str, password: str, directory: Path) -> Path | None:
        """The guest's config drive, with this password."""
        found = directory / CONFIG
        if not await self.fleet.copy(host, fetch_drive, self.config, id, found):
            return None
        files = Files(directory, directory)
        await self.disks.pack(config_drive.with_password(config_drive.files(found.read_bytes()), password), files)
        return files.config_drive


def look(connection: Any, config: Config, id: str, named: bool) -> tuple[bool, bool]:
    """Whether a guest is rescued, and whether its root disk is a file. `named`: an image was given. Raises Unfit."""
    xml = guests.get(connection, id).XMLDesc(0)
    if not named and domain.device(xml, "ua-root") is None:
        raise Unfit(f"guest {id} boots from a volume; a rescue image must be given")
    is_file = Storage(config, connection).find(Paths(config.directory, id).volume("root")) is not None
    return domain.seen(xml).notes.rescued, is_file


def turn_off(connection: Any, id: str) -> None:
    """The guest is off, and it is noted that it may have a rescue disk from now on."""
    guest = guests.get(connection, id)
    guests.cut(guest)
    if guest.hasManagedSaveImage(0):
        guest.managedSaveRemove(0)
    notes = domain.seen(guest.XMLDesc(0)).notes
    if not notes.rescuing:
        guests.note(guest, evolve(notes, rescuing=True))


def fetch_drive(connection: Any, config: Config, id: str, target: Path) -> bool:
    """Copy the guest's config drive to `target`; whether it has one."""
    storage, name = Storage(config, connection), Paths(config.directory, id).volume(CONFIG)
    storage.refreshed()
    if storage.find(name) is None:
        return False
    storage.fetch(name, target)
    return True


def begin(
    connection: Any, config: Config, id: str, image: ImageSource | None, drive: Path | None, remote: RbdDisk | None
) -> None:
    """A guest that is off is rescued. `image`: None for its own; `remote`: the rescue disk, if it is not a file.

    Raises Unfit, NoCapacity.
    """
    guest, storage, paths = guests.get(connection, id), Storage(config, connection), Paths(config.directory, id)
    # A call that was killed may have left some files, from another image.
    clear(connection, config, id)
    with RoomFor(f"a disk to rescue guest {id}"):
        if remote is None:
            _make_disk(storage, paths, image)
        if drive is not None:
            storage.replace(drive, paths.volume(CONFIG))
        kernel = None if image is None else _kernel(storage, paths, config, image)
    tree = fromstring(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    rescuing.begin(tree, domain.image_disk(paths, rescuing.NAME, "", remote), kernel)
    secrets.ensure(connection, [] if remote is None else [remote])
    connection.defineXML(domain.text(tree))


def _make_disk(storage: Storage, paths: Paths, image: ImageSource | None) -> None:
    if image is not None:
        storage.over(image, paths.volume(rescuing.NAME), 0)
    else:
        storage.create_beside(paths.volume("root"), paths.volume(rescuing.NAME))


def _kernel(storage: Storage, paths: Paths, config: Config, image: ImageSource) -> dict[str, str]:
    """The kernel of an image, as in `Start`; empty if it has none."""
    if image.kernel_path is None:
        return {}
    found = {"kernel": paths(rescuing.KERNEL), "cmdline": domain.kernel_arguments(config, image)}
    storage.copy(Path(image.kernel_path), paths.volume(rescuing.KERNEL))
    if image.ramdisk_path is not None:
        found["initrd"] = paths(rescuing.RAMDISK)
        storage.copy(Path(image.ramdisk_path), paths.volume(rescuing.RAMDISK))
    return found


def end(connection: Any, id: str) -> bool:
    """A rescued guest is off and no longer rescued. Returns whether something of the rescue may be left."""
    guest = guests.get(connection, id)
    notes = domain.seen(guest.XMLDesc(0)).notes
    if notes.rescued:
        guests.cut(guest)
        tree: Element = fromstring(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        rescuing.end(tree)
        connection.defineXML(domain.text(tree))
    return notes.rescuing


def clear(connection: Any, config: Config, id: str) -> None:
    """The guest has no rescue files on its host."""
    storage, paths = Storage(config, connection), Paths(config.directory, id)
    storage.refreshed()
    for name in (rescuing.NAME, rescuing.KERNEL, rescuing.RAMDISK):
        storage.forget(paths.volume(name))


def done(connection: Any, id: str) -> None:
    guest = guests.get(connection, id)
    guests.note(guest, evolve(domain.seen(guest.XMLDesc(0)).notes, rescuing=False))
