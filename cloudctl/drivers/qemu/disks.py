"""The files of a guest's disks: a qcow2 over a converted image that all guests of that image share.

A root disk may be in Ceph instead (`rbd.roots`); a guest's other disks are always files.

An image is converted once. Everything appears whole: it is written beside its place and renamed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
HEADER = 512  # bytes in which the size of a qcow2 is
TABLES = 16 * MIB  # that a small qcow2 may have besides its data; those of a large one are less than a hundredth of it
LOCKED = "Is another process using the image"
LABEL = "config-2"  # by which a guest recognizes its config drive


@define(eq=False)
class Disks:
    """Makes the files of guests. For one call per guest at a time."""

    programs: Programs
    reactor: Any
    cache: Path
    keep_seconds: float
    copy_timeout: float
    roots: RootDisks | None = None  # None: root disks are files
    _converting: Locks = field(factory=Locks)
    _pinned: Counter[str] = field(factory=Counter)

    async def ensure(self, record: Record, files: Files) -> RbdDisk | None:
        """All disks of a guest that is off exist, as large as its spec says; returns its root disk if it is not a file.

        Raises Unfit, NoCapacity, Busy.
        """
        spec, root = record.spec, None
        if not self.programs.dry_run:
            files.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if spec.image is not None:
            # A root disk that was made as a file stays one.
            roots = None if files.root.exists() else self.roots_of(record)
            if roots is None:
                await self.ensure_overlay(spec.image, files.root, spec.disk_gib)
            else:
                root = await roots.ensure(spec.id, spec.image, spec.disk_gib)
            await self.ensure_kernel(spec.image, files, record.base or spec.image)
        await self._ensure_ephemeral(files.ephemeral, spec.ephemeral_gib)
        await self.in_thread(ensure_swap, files.swap, spec.swap_mib * MIB)
        return root

    def demand_root(self, record: Record, files: Files) -> None:
        """The root disk of a guest that exists is not made anew. Raises Unfit if it is a file, and missing."""
        if record.spec.image is None or record.root is not None or self.programs.dry_run or files.root.exists():
            return
        raise Unfit(f"the root disk of guest {record.spec.id}, {files.root}, is missing; a rebuild makes a new one")

    def roots_of(self, record: Record) -> RootDisks | None:
        """Raises Unfit."""
        if self.roots is None and record.root is not None:
            raise Unfit(f"the root disk of guest {record.spec.id} is in Ceph, and root_disks says that there is none")
        return self.roots

    def let_go(self, record: Record) -> None:
        """The guest is about to be removed: it has used its images until now. Raises Unfit: a disk would be left."""
        self.roots_of(record)
        for image in () if self.programs.dry_run else record.images:
            with suppress(FileNotFoundError):
                os.utime(self.cached(image))

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
            # -u (unsafe): do not check the backing file, which qemu-img could not open.
            over = ("-u", "-F", "qcow2", "-b", str(base))
            made = Lent(beside, writable=True)
            await self._run("qemu-img", "create", "-q", "-f", "qcow2", *over, made, str(max(wished, size)))

    def cached(self, image: ImageSource) -> Path:
        return self.cache / f"{quote(image.id, safe='')}.qcow2"

    async def converted(self, image: ImageSource, most: int = 0) -> Path:
        """The image as a qcow2 in the cache. Raises Unfit, NoCapacity.

        `most`: bytes after which the conversion of an image is given up; 0: never. A few bytes of a compressed image
        can claim to be terabytes.
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
                # Writeback: flushed to the disk before the rename, because all later guests of the image rely on it.
                how = ("-q", "-t", "writeback", "-f", format, "-O", "qcow2")
                limit = most + most // 100 + TABLES if most else None
                files = (Lent(Path(image.path)), Lent(beside, writable=True))
                await self._run("qemu-img", "convert", *how, *files, file_bytes=limit)
            except ProgramFailed as error:
                why = error.complaint or "it is larger than the disk, or takes too much"
                raise Unfit(f"image {image.id} cannot be read as {format}: {why}") from error

    async def ensure_kernel(self, image: ImageSource, files: Files, base: ImageSource) -> None:
        """The guest has its own kernel and ramdisk of the image: it can start after the images are deleted.

        `base`: as in `kernel_file`.
        """
        for source, name in ((image.kernel_path, "kernel"), (image.ramdisk_path, "ramdisk")):
            if source is not None and not (target := kernel_file(files, base, name)).exists():
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
        """What the guest may know about itself, as a small disk."""
        await self.pack(guest_data.files(spec), files)

    async def pack(self, content: Mapping[str, bytes], files: Files) -> None:
        """A config drive of these files. Path → content."""
        tree = files.config_drive.with_suffix(".tree")
        # A tree left by a call that was killed may be out of date.
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
        """The size of what holds root disks: the pool, or the file system of this directory."""
        return host.disk_gib(directory) if self.roots is None else await self.roots.size_gib()

    async def copy_root(self, record: Record, target: Path) -> str:
        """Copy a root disk that is not a file, as it is now; returns the format. Raises Unfit."""
        roots = self.roots_of(record)
        assert roots is not None, "there it is"
        return await roots.copy(record.spec.id, target)

    async def copy(self, source: Path, image: ImageSource | None, target: Path) -> None:
        """Make a complete qcow2 that needs no other file. The source, which may be over an image, is not in use."""
        whole = {**top(source, writable=False).options}
        if not self.programs.dry_run:
            self.demand_over(source, image)
        if image is not None:
            whole["backing"] = top(self.cached(image), writable=False).options
        await self._run("qemu-img", "convert", "-q", "-O", "qcow2", Node(whole), Lent(target, writable=True))

    async def create(self, target: Path, size: int) -> None:
        """Make an empty qcow2 of `size` bytes at a new path."""
        await self._run("qemu-img", "create", "-q", "-f", "qcow2", Lent(target, writable=True), str(size))

    def demand_own(self, record: Record, files: Files) -> None:
        """Nothing that the guest's QEMU is about to open refers to files that are not the guest's. Blocks.

        Raises DriverError.
        """
        spec = record.spec
        self.demand_over(files.root, record.root_over)
        if record.rescued:
            # Otherwise it is left of a rescue from whatever image, until the guest has been started again.
            self.demand_over(files.rescue, record.rescue_image or spec.image)
        self.demand_over(files.ephemeral, None)
        for each in spec.volumes:
            if each.info["driver_volume_type"] == "qcow2":
                self.demand_over(Path(each.info["data"]["path"]), None)

    def demand_over(self, disk: Path, image: ImageSource | None) -> None:
        """The qcow2, if it exists, needs no other file than that image. Blocks.

        The guest's QEMU writes to it and may be under the guest's control; the next QEMU opens the files that it names
        before it drops its rights. Raises DriverError.
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
        """Inside the block these images stay in the cache, though no record names them yet."""
        ids = [image.id for image in images if image is not None]
        self._pinned.update(ids)
        try:
            yield
        finally:
            self._pinned.subtract(ids)

    def sweep(self, used: Iterable[str]) -> None:
        """Drop cached images that are not among these ids and have been unused for long enough."""
        kept = {f"{quote(id, safe='')}.qcow2" for id in (*used, *+self._pinned)}
        oldest = time.time() - self.keep_seconds
        # Also half-made ones whose maker was killed.
        for file in (*self.cache.glob("*.qcow2"), *self.cache.glob("*.qcow2.new")):
            if file.name.removesuffix(".new") not in kept and file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)

    async def in_thread(self, function: Callable[..., None], *args: Any) -> None:
        """For file changes that would block the reactor for too long."""
        if self.programs.dry_run:
            _log.info("would {function} {path}", function=function.__name__, path=args[0])
        else:
            with room_for(f"{function.__name__} {args[0]}"):
                await deferToThreadPool(self.reactor, self.reactor.getThreadPool(), function, *args)

    def size(self, path: Path) -> int:
        """The size in bytes of a qcow2 of ours, as its guest sees it; it may be in use."""
        if self.programs.dry_run and not path.exists():
            return 0
        with path.open("rb") as file:
            return qcow2_header(file.read(HEADER)).size_bytes

    @contextmanager
    def whole(self, target: Path) -> Iterator[Path]:
        """A path beside `target` at which to make it; the file is renamed to `target` if all went well."""
        beside = target.with_name(f"{target.name}.new")
        # A program whose caller was killed may still write there and hold locks: unlinking takes the file from it.
        beside.unlink(missing_ok=True)
        try:
            yield beside
            if not self.programs.dry_run:
                beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    async def _run(self, program: str, *arguments: Argument, file_bytes: int | None = None) -> None:
        try:
            await self.programs.change(program, *arguments, timeout=self.copy_timeout, file_bytes=file_bytes)
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
    """Whether QEMU can read it as it is, once its header is checked."""
    return QEMU_FORMATS.get(image.disk_format) in ("raw", "qcow2")


def kernel_file(files: Files, base: ImageSource, name: str) -> Path:
    """`name`: kernel or ramdisk. A rescue image has its own file.

    `base`: the image under the disk that is started. It stays when the guest's spec names another image, which may be
    when the images of the kernel and the ramdisk are gone.
    """
    return files.directory / f"{name}-{quote(base.id, safe='')}"


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
    """A swap area of `size` bytes, with the header that mkswap(8) would write; 0: no file."""
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
    """The first page of a swap area of `size` bytes."""
    page = 4096
    header = (1).to_bytes(4, "little") + (size // page - 1).to_bytes(4, "little") + bytes(4) + uuid4().bytes
    return (bytes(1024) + header).ljust(page - 10, b"\0") + b"SWAPSPACE2"
