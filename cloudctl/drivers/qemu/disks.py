"""The files that a guest's disks are: a qcow2 over a converted image that all guests of that image share.

A root disk may be in Ceph instead (`rbd.roots`); what else a guest has are files in any case.

An image is converted once. Everything appears whole: it is written beside its place and renamed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from attrs import define, evolve, field
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cloudctl.drivers import guest_data
from cloudctl.drivers.disk_formats import HEAD, QEMU_FORMATS, format_of, qcow2_header
from cloudctl.drivers.errors import Busy, DriverError, NoCapacity, Unfit
from cloudctl.drivers.handed import Argument, Lent, Node
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qemu import host
from cloudctl.drivers.qemu.records import Files, Record, room_for
from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.rbd.roots import RootDisks
from cloudctl.drivers.specs import GuestSpec, ImageSource

_log = Logger()

GIB, MIB = 1 << 30, 1 << 20
COPY_SECONDS = 1800.0
HEADER = 512  # bytes in which the size of a qcow2 is
TABLES = 16 * MIB  # that a small qcow2 may have beside its disk; those of a large one are less than a hundredth of it
LOCKED = "Is another process using the image"
LABEL = "config-2"  # by which a guest knows its config drive


@define(eq=False)
class Disks:
    """Makes the files of guests. Not for two calls for one guest at a time."""

    programs: Programs
    reactor: Any
    cache: Path
    keep_seconds: float
    roots: RootDisks | None = None  # None: they are files
    _converting: Locks = field(factory=Locks)
    _pinned: Counter[str] = field(factory=Counter)

    async def ensure(self, record: Record, files: Files) -> RbdDisk | None:
        """All disks of a guest that is off, as large as its spec says; its root disk, if that is no file.

        Raises Unfit, NoCapacity, Busy.
        """
        spec, root = record.spec, None
        if not self.programs.dry_run:
            files.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if spec.image is not None:
            # What was made as a file stays one.
            roots = None if files.root.exists() else self.roots_of(record)
            if roots is None:
                await self.ensure_overlay(spec.image, files.root, spec.disk_gib)
            else:
                root = await roots.ensure(spec.id, spec.image, spec.disk_gib)
            await self.ensure_kernel(spec.image, files)
        await self._ensure_ephemeral(files.ephemeral, spec.ephemeral_gib)
        await self.in_thread(ensure_swap, files.swap, spec.swap_mib * MIB)
        return root

    def roots_of(self, record: Record) -> RootDisks | None:
        """Raises Unfit."""
        if self.roots is None and record.root is not None:
            raise Unfit(f"the root disk of guest {record.spec.id} is in Ceph, and root_disks says that there is none")
        return self.roots

    async def ensure_overlay(self, image: ImageSource, target: Path, size_gib: int) -> None:
        """`target` is a disk over the image, or stays what it is; it is grown to `size_gib` (0: the image's size).

        Raises Unfit for an image that cannot be read or is larger than that.
        """
        wished = size_gib * GIB
        if target.exists():
            if wished > self.size(target):
                await self._run("qemu-img", "resize", "-q", top(target), str(wished))
            return
        base = await self.converted(image, wished)
        size = self.size(base)
        if wished and size > wished:
            raise Unfit(f"image {image.id} needs a disk of {-(-size // GIB)} GiB, not {size_gib}")
        with self.whole(target) as beside:
            # Unsafe: it does not look whether the other file is there, which it could not open.
            over = ("-u", "-F", "qcow2", "-b", str(base))
            made = Lent(beside, writable=True)
            await self._run("qemu-img", "create", "-q", "-f", "qcow2", *over, made, str(max(wished, size)))

    def cached(self, image: ImageSource) -> Path:
        return self.cache / f"{quote(image.id, safe='')}.qcow2"

    async def converted(self, image: ImageSource, most: int = 0) -> Path:
        """The image as a qcow2 in the cache. Raises Unfit, NoCapacity.

        `most`: bytes after which an image that has not been converted yet is given up; 0: never. A few bytes of a
        compressed one can say that they are terabytes.
        """
        target = self.cached(image)
        async with self._converting.hold(image.id):
            if not target.exists():
                await self._convert(image, target, most)
            if not self.programs.dry_run:
                os.utime(target)
        return target

    async def plain(self, image: ImageSource, most: int = 0) -> ImageSource:
        """The image if it is raw or a qcow2, else converted to one. Raises as `converted`."""
        if is_plain(image):
            return image
        return evolve(image, path=str(await self.converted(image, most)), disk_format="qcow2")

    async def _convert(self, image: ImageSource, target: Path, most: int) -> None:
        format = format_of(image)
        assert image.path is not None
        if not self.programs.dry_run:
            self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.whole(target) as beside:
            try:
                # Writeback: it is flushed to the disk before it is renamed. All later guests of the image rely on it.
                how = ("-q", "-t", "writeback", "-f", format, "-O", "qcow2")
                limit = most + most // 100 + TABLES if most else None
                files = (Lent(Path(image.path)), Lent(beside, writable=True))
                await self._run("qemu-img", "convert", *how, *files, file_bytes=limit)
            except ProgramFailed as error:
                why = error.complaint or "it is larger than the disk, or takes too much"
                raise Unfit(f"image {image.id} cannot be read as {format}: {why}") from error

    async def ensure_kernel(self, image: ImageSource, files: Files) -> None:
        """Kernel and ramdisk of the image are the guest's own: it can start when the images are deleted."""
        for source, name in ((image.kernel_path, "kernel"), (image.ramdisk_path, "ramdisk")):
            if source is not None and not (target := kernel_file(files, image, name)).exists():
                try:
                    await self.in_thread(adopt, Path(source), target)
                except FileNotFoundError as error:
                    raise Unfit(f"the {name} of image {image.id} does not exist") from error

    async def _ensure_ephemeral(self, target: Path, size_gib: int) -> None:
        size = size_gib * GIB
        if not size:
            target.unlink(missing_ok=True)
        elif not target.exists():
            with self.whole(target) as beside:
                await self.create(beside, size)
        elif self.size(target) < size:
            await self._run("qemu-img", "resize", "-q", top(target), str(size))

    async def make_config_drive(self, spec: GuestSpec, files: Files) -> None:
        """What the guest may know of itself, as a small disk."""
        await self.pack(guest_data.files(spec), files)

    async def pack(self, content: Mapping[str, bytes], files: Files) -> None:
        """A config drive of these files. Path → content."""
        tree = files.config_drive.with_suffix(".tree")
        # One of a call that was killed tells things that may not be so any more.
        await self.in_thread(shutil.rmtree, tree, True)
        try:
            await self.in_thread(write_tree, tree, content)
            with self.whole(files.config_drive) as beside:
                await self._run(
                    "genisoimage", "-quiet", "-o", str(beside), "-ldots", "-allow-lowercase", "-allow-multidot", "-l",
                    "-joliet", "-rational-rock", "-volid", LABEL, "-publisher", "cloudctl", str(tree),
                )  # fmt: skip
        finally:
            await self.in_thread(shutil.rmtree, tree, True)

    async def size_gib(self, directory: Path) -> int:
        """Of what root disks are on: the pool, or the file system of this directory."""
        return host.disk_gib(directory) if self.roots is None else await self.roots.size_gib()

    async def copy_root(self, record: Record, target: Path) -> str:
        """Of one that is no file, at this moment; returns the format. Raises Unfit."""
        roots = self.roots_of(record)
        assert roots is not None, "there it is"
        return await roots.copy(record.spec.id, target)

    async def copy(self, source: Path, image: ImageSource | None, target: Path) -> None:
        """A complete qcow2 that needs no other file. The source, which may be over an image, is in nobody's use."""
        whole = {**top(source, writable=False).options}
        if not self.programs.dry_run:
            self.demand_over(source, image)
        if image is not None:
            whole["backing"] = top(self.cached(image), writable=False).options
        await self._run("qemu-img", "convert", "-q", "-O", "qcow2", Node(whole), Lent(target, writable=True))

    async def create(self, target: Path, size: int) -> None:
        """An empty qcow2 of so many bytes, at a new path."""
        await self._run("qemu-img", "create", "-q", "-f", "qcow2", Lent(target, writable=True), str(size))

    def demand_own(self, record: Record, files: Files) -> None:
        """Nothing that the guest's QEMU is about to open leads to files that are not the guest's. Blocks.

        Raises DriverError.
        """
        spec = record.spec
        self.demand_over(files.root, record.root_over)
        self.demand_over(files.rescue, record.rescue_image or spec.image)
        self.demand_over(files.ephemeral, None)
        for each in spec.volumes:
            if each.info["driver_volume_type"] == "qcow2":
                self.demand_over(Path(each.info["data"]["path"]), None)

    def demand_over(self, disk: Path, image: ImageSource | None) -> None:
        """The qcow2, if it is there, needs no other file than that image. Blocks.

        Its guest's QEMU writes to it, and may be in the guest's hands; the next one opens what it names before it is of
        a user without rights. Raises DriverError.
        """
        if not disk.exists():
            return
        with disk.open("rb") as file:
            head = file.read(HEAD)
        try:
            header = qcow2_header(head)
        except ValueError as error:
            raise DriverError(f"{disk} is damaged: {error}") from error
        where, length = header.backing_at
        found = os.fsdecode(head[where : where + length]) if header.backing_file else None
        if header.data_file or found != (None if image is None else str(self.cached(image))):
            raise DriverError(f"{disk} refers to a file that is not its image")

    async def remove(self, id: str, *seats: Files) -> None:
        """All disks and files of a guest. Raises Busy while somebody has its root disk open."""
        files = seats[0]
        if self.programs.dry_run:
            _log.info("would remove {directory}", directory=files.directory)
            return
        await self.in_thread(shutil.rmtree, files.directory, True)
        for path in (each for files in seats for each in files.of_process):
            path.unlink(missing_ok=True)
        if self.roots is not None:
            await self.roots.remove(id)

    @contextmanager
    def pinned(self, *images: ImageSource | None) -> Iterator[None]:
        """Meanwhile these images stay in the cache, though no record names them yet."""
        ids = [image.id for image in images if image is not None]
        self._pinned.update(ids)
        try:
            yield
        finally:
            self._pinned.subtract(ids)

    def sweep(self, used: Iterable[str]) -> None:
        """Drop what no guest of these image ids uses, and what has lain unused for long enough."""
        kept = {f"{quote(id, safe='')}.qcow2" for id in (*used, *+self._pinned)}
        oldest = time.time() - self.keep_seconds
        # Those that were half made when their maker was killed, too.
        for file in (*self.cache.glob("*.qcow2"), *self.cache.glob("*.qcow2.new")):
            if file.name.removesuffix(".new") not in kept and file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)

    async def in_thread(self, function: Callable[..., None], *args: Any) -> None:
        """For changes of files that take longer than the reactor may wait."""
        if self.programs.dry_run:
            _log.info("would {function} {path}", function=function.__name__, path=args[0])
        else:
            with room_for(f"{function.__name__} {args[0]}"):
                await deferToThreadPool(self.reactor, self.reactor.getThreadPool(), function, *args)

    def size(self, path: Path) -> int:
        """Bytes of a qcow2 of ours, as its guest sees it; it may be in use."""
        if self.programs.dry_run and not path.exists():
            return 0
        with path.open("rb") as file:
            return qcow2_header(file.read(HEADER)).size_bytes

    @contextmanager
    def whole(self, target: Path) -> Iterator[Path]:
        """A path beside `target` to make it at; it takes its place when all has gone well."""
        beside = target.with_name(f"{target.name}.new")
        # A program whose caller was killed may still write there, and hold locks: it loses the file.
        beside.unlink(missing_ok=True)
        try:
            yield beside
            if not self.programs.dry_run:
                beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    async def _run(self, program: str, *arguments: Argument, file_bytes: int | None = None) -> None:
        try:
            await self.programs.change(program, *arguments, timeout=COPY_SECONDS, file_bytes=file_bytes)
        except ProgramFailed as error:
            if "No space left on device" in error.complaint:
                raise NoCapacity(f"no room for a disk: {error.complaint}") from error
            if LOCKED in error.complaint:
                # By a program whose caller was killed; it ends by itself.
                raise Busy("another process has the disk open") from error
            raise


def top(disk: Path, *, writable: bool = True) -> Node:
    """A qcow2 of ours, without the image that it may be over."""
    file = {"driver": "file", "filename": Lent(disk, writable)}
    return Node({"driver": "qcow2", "backing": None, "file": file})


def is_plain(image: ImageSource) -> bool:
    """Whether QEMU can read it as it is, without more than a look at its head."""
    return QEMU_FORMATS.get(image.disk_format) in ("raw", "qcow2")


def kernel_file(files: Files, image: ImageSource, name: str) -> Path:
    """`name`: kernel or ramdisk. Of a rescue image it is another one."""
    return files.directory / f"{name}-{quote(image.id, safe='')}"


def adopt(source: Path, target: Path) -> None:
    beside = target.with_name(f"{target.name}.new")
    beside.unlink(missing_ok=True)
    try:
        os.link(source, beside)
    except OSError:
        # Another file system.
        shutil.copyfile(source, beside)
    beside.replace(target)


def write_tree(directory: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def ensure_swap(target: Path, size: int) -> None:
    """A swap area of so many bytes, with the header that mkswap(8) would write; none of 0 bytes."""
    if not size:
        target.unlink(missing_ok=True)
        return
    if target.exists() and target.stat().st_size == size:
        return
    beside = target.with_name(f"{target.name}.new")
    with beside.open("wb") as file:
        file.write(swap_header(size))
        file.truncate(size)
    beside.replace(target)


def swap_header(size: int) -> bytes:
    """The first page of a swap area of so many bytes."""
    page = 4096
    header = (1).to_bytes(4, "little") + (size // page - 1).to_bytes(4, "little") + bytes(4) + uuid4().bytes
    return (bytes(1024) + header).ljust(page - 10, b"\0") + b"SWAPSPACE2"
