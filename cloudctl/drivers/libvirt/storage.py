"""The files of guests on a host, as volumes of one storage pool: everything is queried from the host's libvirtd.

An image is copied to a host once, and each guest's disk is a qcow2 over it. Everything here blocks, in threads of the
host, and is called once at a time per guest or image.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from os import SEEK_CUR
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, fromstring

import libvirt
from attrs import frozen

from cloudctl.drivers.disk_formats import HEAD, format_of, qcow2_header
from cloudctl.drivers.errors import Busy, DriverError, NoCapacity, Unfit
from cloudctl.drivers.libvirt.domain import Paths, text
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.waiting import rest
from cloudctl.drivers.qemu.disks import swap_header
from cloudctl.drivers.specs import GuestSpec, ImageSource

GIB, MIB = 1 << 30, 1 << 20
IMAGE = "image-"  # and its id: what root disks are based on
WHOLE = ".whole"  # beside a copied file: the copy is complete
PATIENCE, PAUSE = 10.0, 0.1  # seconds: with a pool in which a volume is being created
STILL = 5.0  # seconds in which a copy that somebody is making must have grown
# libvirt's errors for a file that exists when it looks, and that appears just before it creates its own.
TAKEN = ("already exists", "File exists")


@frozen
class Storage:
    """The storage of one host, for the length of a call. `connection` is libvirt's."""

    config: Config
    connection: Any

    # -- the pool

    def prepare(self) -> None:
        """The pool exists and is active. Raises DriverError if it is elsewhere: guests look for their disks by path."""
        try:
            pool = self.connection.storagePoolLookupByName(self.config.pool)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise
            tree = Element("pool", type="dir")
            SubElement(tree, "name").text = self.config.pool
            SubElement(SubElement(tree, "target"), "path").text = self.config.directory
            pool = self.connection.storagePoolDefineXML(text(tree), 0)
            pool.setAutostart(1)
        there = fromstring(pool.XMLDesc(0)).findtext("target/path", "")
        if PurePosixPath(there) != PurePosixPath(self.config.directory):
            raise DriverError(
                f"the storage pool {self.config.pool} is in {there or 'no directory'}, "
                f"and directory says {self.config.directory}"
            )
        if not pool.isActive():
            try:
                pool.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
            except libvirt.libvirtError:
                # libvirt looks for the directory and then creates it; hosts that share it may do so at the same time.
                if not pool.isActive():
                    pool.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)

    def pool(self) -> Any:
        return self.connection.storagePoolLookupByName(self.config.pool)

    def refreshed(self) -> Any:
        """The pool, including what others have put there. Raises Busy."""
        pool, ends = self.pool(), time.monotonic() + PATIENCE
        while True:
            try:
                pool.refresh(0)
                return pool
            except libvirt.libvirtError as error:
                # A volume is just being created in the pool. libvirt has no code for that.
                if "asynchronous jobs" not in str(error):
                    raise
                if time.monotonic() >= ends:
                    raise Busy(str(error)) from None
            rest(PAUSE)

    def size_gib(self) -> int:
        _state, capacity, _allocation, _available = self.pool().info()
        return int(capacity) >> 30

    # -- guests

    def ensure(self, spec: GuestSpec, config_drive: Path | None, root: bool = True, *, has_root: bool = False) -> None:
        """All disks of a guest that is off exist, as large as `spec` says; `root`: the root disk, too.

        `has_root`: it has been made already, and is not made anew. Raises Unfit, NoCapacity.
        """
        paths = Paths(self.config.directory, spec.id)
        # Hosts that see the same directory do not learn of each other's files by themselves.
        self.refreshed()
        with RoomFor(f"the disks of guest {spec.id}"):
            if spec.image is not None:
                if has_root and self.find(paths.volume("root")) is None:
                    raise Unfit(
                        f"the root disk of guest {spec.id}, {self.config.directory}/{paths.volume('root')}, is missing "
                        "from its host; is the file system with the disks mounted? A rebuild makes a new one"
                    )
                if root:
                    self.over(spec.image, paths.volume("root"), spec.disk_gib * GIB)
                for source, name in ((spec.image.kernel_path, "kernel"), (spec.image.ramdisk_path, "ramdisk")):
                    if source is not None:
                        self.copy(Path(source), paths.volume(name))
            self._blank(paths.volume("ephemeral"), spec.ephemeral_gib * GIB)
            self._swap(paths.volume("swap"), spec.swap_mib * MIB)
            if config_drive is not None:
                # Replaced, so that it is up to date.
                self.replace(config_drive, paths.volume("config"))

    def remove_all(self, id: str) -> None:
        """Remove all files of a guest."""
        pool = self.refreshed()
        for name in pool.listVolumes():
            if name.startswith(f"{id}."):
                self.remove(name)

    def over(self, image: ImageSource, name: str, wished: int) -> None:
        """A disk over the image, raw or a qcow2, of at least `wished` bytes (0: the image's size). Raises Unfit."""
        found = self.find(name)
        if found is not None:
            if wished > found.info()[1]:
                found.resize(wished, 0)
            return
        format = format_of(image)
        assert image.path is not None and format in ("raw", "qcow2"), "others are converted before"
        size = _virtual_size(Path(image.path), format)
        if wished and size > wished:
            raise Unfit(f"image {image.id} needs a disk of {-(-size // GIB)} GiB, not {wished // GIB}")
        base = f"{IMAGE}{quote(image.id, safe='')}"
        self._copy_beside_others(Path(image.path), base)
        self.create(name, "qcow2", max(wished, size), (f"{self.config.directory}/{base}", format))

    def _copy_beside_others(self, source: Path, name: str) -> None:
        """As `copy`, when hosts that see the same directory may be doing the same."""
        ends = time.monotonic() + PATIENCE
        while True:
            self._wait_for_copy_of(name)
            try:
                return self.copy(source, name)
            except libvirt.libvirtError as error:
                # Another host has begun since we checked. libvirt has no code for that.
                if not any(words in str(error) for words in TAKEN) or time.monotonic() >= ends:
                    raise
            self.refreshed()

    def _wait_for_copy_of(self, name: str) -> None:
        """Wait while a copy that another process, or a host that sees the same directory, is making still grows."""
        before: list[int] | None = None
        while (found := self.find(name)) is not None and self.find(name + WHOLE) is None:
            size: list[int] = found.info()
            if size == before:
                return
            before = size
            rest(STILL)
            self.refreshed()

    def _swap(self, name: str, size: int) -> None:
        found = self.find(name)
        if found is not None and found.info()[1] == size:
            return
        self.remove(name)
        if size:
            self._upload(self.create(name, "raw", size), BytesIO(swap_header(size)))

    def _blank(self, name: str, size: int) -> None:
        """An empty disk of at least `size` bytes; 0: no disk."""
        found = self.find(name)
        if not size:
            self.remove(name)
        elif found is None:
            self.create(name, "qcow2", size)
        elif size > found.info()[1]:
            found.resize(size, 0)

    # -- volumes

    def find(self, name: str) -> Any:
        """The volume of this name, or None."""
        try:
            return self.pool().storageVolLookupByName(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
                return None
            raise

    def remove(self, name: str) -> None:
        found = self.find(name)
        if found is None:
            return
        try:
            found.delete(0)
        except libvirt.libvirtError as error:
            # Another process that cleans up after the same guest was first.
            if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
                raise

    def copy(self, source: Path, name: str) -> None:
        """The volume has the bytes of a file of this machine. An incomplete copy is made again."""
        if self.find(name + WHOLE) is not None:
            return
        self.remove(name)
        try:
            with source.open("rb") as file:
                self._upload(self.create(name, "raw", source.stat().st_size), file)
        except FileNotFoundError as error:
            raise Unfit(f"{name} cannot be made: its image does not exist") from error
        self.create(name + WHOLE, "raw", 0)

    def replace(self, source: Path, name: str) -> None:
        """As `copy`, even if another file was copied there before."""
        self.remove(name + WHOLE)
        self.copy(source, name)

    def forget(self, name: str) -> None:
        """There is no such file, whether created here or copied."""
        self.remove(name + WHOLE)
        self.remove(name)

    def tail(self, name: str, most: int) -> bytes:
        """The last `most` bytes of a file that others write to; empty if there is no such file."""
        self.refreshed()
        found = self.find(name)
        if found is None:
            return b""
        size = int(found.info()[1])
        length = min(size, most)
        if not length:
            return b""
        got = BytesIO()
        with streamed(self.connection) as stream:
            found.download(stream, size - length, length, 0)
            stream.recvAll(lambda _stream, data, _opaque: got.write(data), None)
        return got.getvalue()

    def create_beside(self, name: str, new: str) -> None:
        """A new qcow2 of the same size over the same backing file. Raises Unfit if `name` has none."""
        found: Any = self.find(name)
        tree = fromstring(found.XMLDesc(0))
        path, under = tree.findtext("backingStore/path"), tree.find("backingStore/format")
        if path is None or under is None:
            raise Unfit(f"{name} is not made of an image; one must be given")
        self.create(new, "qcow2", found.info()[1], (path, under.get("type", "raw")))

    def flatten(self, source: Any, name: str) -> None:
        """A new qcow2 with the content of this volume and of what it is based on."""
        tree = self._described(name, "qcow2", source.info()[1])
        self.pool().createXMLFrom(text(tree), source, 0)

    def fetch(self, name: str, target: Path) -> None:
        """`target`, a new file on this machine, has the bytes of a file that QEMU may have made."""
        self.refreshed()
        with target.open("wb") as file, streamed(self.connection) as stream:
            self.find(name).download(stream, 0, 0, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
            # Holes take no time, and no room here.
            stream.sparseRecvAll(
                lambda _stream, data, _opaque: file.write(data),
                lambda _stream, length, _opaque: file.seek(length, SEEK_CUR),
                None,
            )
            file.truncate()

    def create(self, name: str, format: str, size: int, over: tuple[str, str] | None = None) -> Any:
        tree = self._described(name, format, size)
        if over is not None:
            backing = SubElement(tree, "backingStore")
            SubElement(backing, "path").text = over[0]
            SubElement(backing, "format", type=over[1])
        return self.pool().createXML(text(tree), 0)

    def _described(self, name: str, format: str, size: int) -> Element:
        tree = Element("volume")
        SubElement(tree, "name").text = name
        SubElement(tree, "capacity").text = str(size)
        SubElement(tree, "allocation").text = "0"
        SubElement(SubElement(tree, "target"), "format", type=format)
        return tree

    def _upload(self, volume: Any, source: IO[bytes]) -> None:
        with streamed(self.connection) as stream:
            volume.upload(stream, 0, 0, 0)
            stream.sendAll(lambda _stream, count, file: file.read(count), source)


@contextmanager
def streamed(connection: Any) -> Iterator[Any]:
    """A stream, whose other end is closed at the end, too: that would last as long as the connection otherwise."""
    stream = connection.newStream(0)
    try:
        yield stream
        stream.finish()
    except BaseException:
        with suppress(libvirt.libvirtError):
            stream.abort()
        raise


class RoomFor:
    """libvirt's error for a full file system becomes NoCapacity."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, libvirt.libvirtError) and "No space left" in str(error):
            raise NoCapacity(f"no room for {self.what}") from error


def _virtual_size(path: Path, format: str) -> int:
    """Bytes that a guest sees. A qcow2 was checked before."""
    if format == "raw":
        return path.stat().st_size
    with path.open("rb") as file:
        return qcow2_header(file.read(HEAD)).size_bytes
