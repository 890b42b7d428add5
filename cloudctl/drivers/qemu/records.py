"""What is stored of a guest on disk, and the paths of everything a guest has.

    STATE_DIR/guests/<id>/guest.json   its record: the requested state, and what only the driver knows
                          root.qcow2, rescue.qcow2, ephemeral.qcow2, swap.raw, config.iso, kernel, ramdisk
                          memory       while it is suspended
                          console.log  what it wrote to its serial console
                          serial       a link to the socket of that console
    RUNTIME_DIR/<hash>.pid, .qmp, .serial, .vnc

All hosts are this machine and see the same files. A guest that is migrated live has two processes for a moment, so it
has two seats with different names in RUNTIME_DIR (`<hash>-2.pid`, …) and alternates between them: see `moves`.

Whether a guest runs is never taken from the record: see `processes` and `power`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

import orjson
from attrs import evolve, field, frozen
from cattrs import Converter
from cattrs.errors import BaseValidationError
from twisted.logger import Logger

from cloudctl.drivers.errors import DriverError, NoCapacity, UnknownVolume
from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.specs import GuestSpec, ImageSource, PortBinding, Power, VolumeConnection

RECORD = "guest.json"
SEATS = ("", "-2")  # suffixes of the names of a process's files

_converter = Converter()
_log = Logger()


@frozen
class Trip:
    """The migration of a guest to another host: its spec there, and the seat of its process there."""

    spec: GuestSpec
    seat: str
    power: Power  # when it left: RUNNING or PAUSED


@frozen
class Lead:
    """A volume that is led elsewhere, once both places hold the same: its new place, and the name of the node there."""

    connection: VolumeConnection
    node: str


@frozen
class Record:
    """`power` is the state last brought about: STOPPED, RUNNING or SUSPENDED. A guest that should run and has no
    process has crashed."""

    spec: GuestSpec
    power: Power = Power.STOPPED
    slots: Mapping[str, int] = field(factory=dict)  # device name → root port
    reboot_token: str | None = None  # of the latest reboot
    reboot_done: bool = False  # that reboot has stopped the guest
    rescued: bool = False
    rescue_image: ImageSource | None = None  # None while rescued: the guest's own
    uid: int | None = None  # of the user that its process runs as, and no other guest's
    interrupt_token: str | None = None  # of the latest non-maskable interrupt
    root: RbdDisk | None = None  # its root disk; None: that is a file, or the guest boots from a volume
    # The image under the root disk. The spec may name another one later: for an unshelved server it is the saved disk
    # at first, and then the server's own image again. None: that of the spec, as in records of an earlier release.
    base: ImageSource | None = None
    seat: str = ""  # of its process: one of SEATS
    trip: Trip | None = None
    lead: Lead | None = None

    @property
    def root_over(self) -> ImageSource | None:
        return self.base or self.spec.image

    @property
    def images(self) -> list[ImageSource]:
        """The images that its disks need, or will need."""
        return [each for each in (self.root_over, self.spec.image, self.rescue_image) if each is not None]

    def wishing(self, spec: GuestSpec) -> Record:
        """The same guest with a new spec."""
        return evolve(self, spec=spec, base=self.root_over)

    def volume(self, id: str) -> VolumeConnection:
        """Raises UnknownVolume."""
        for each in self.spec.volumes:
            if each.volume_id == id:
                return each
        raise UnknownVolume(id)

    @property
    def led(self) -> Record:
        """The same guest, with the volume that is led elsewhere there."""
        if self.lead is None:
            return self
        there = self.lead.connection
        volumes = (there if each.volume_id == there.volume_id else each for each in self.spec.volumes)
        return evolve(self, spec=evolve(self.spec, volumes=tuple(volumes)), lead=None)

    def leaving(self, spec: GuestSpec, power: Power) -> Record:
        """The same guest, with a trip that makes it what `spec` says, in the other seat."""
        (seat,) = (each for each in SEATS if each != self.seat)
        return evolve(self, trip=Trip(spec, seat, power))

    @property
    def arrived(self) -> Record:
        """The same guest at the end of its trip."""
        return self if self.trip is None else evolve(self, spec=self.trip.spec, seat=self.trip.seat, trip=None)


@frozen
class Files:
    """The paths of one guest."""

    directory: Path
    runtime: Path  # without the suffix

    @property
    def record(self) -> Path:
        return self.directory / RECORD

    @property
    def root(self) -> Path:
        return self.directory / "root.qcow2"

    @property
    def rescue(self) -> Path:
        return self.directory / "rescue.qcow2"

    @property
    def ephemeral(self) -> Path:
        return self.directory / "ephemeral.qcow2"

    @property
    def swap(self) -> Path:
        return self.directory / "swap.raw"

    @property
    def config_drive(self) -> Path:
        return self.directory / "config.iso"

    @property
    def memory(self) -> Path:
        return self.directory / "memory"

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    @property
    def pid(self) -> Path:
        return self.runtime.with_suffix(".pid")

    def key(self, name: str) -> Path:
        """A file that exists while the guest starts."""
        return self.directory / f"{name}.secret"

    @property
    def qmp(self) -> Path:
        return self.runtime.with_suffix(".qmp")

    @property
    def serial(self) -> Path:
        """The socket of the serial console: what is written there is typed, what the guest writes comes back."""
        return self.runtime.with_suffix(".serial")

    @property
    def vnc(self) -> Path:
        """The socket of its screen."""
        return self.runtime.with_suffix(".vnc")

    @property
    def of_process(self) -> tuple[Path, ...]:
        """The files that exist as long as the process does, and that it may leave behind."""
        return self.pid, self.qmp, self.serial, self.vnc

    @property
    def serial_link(self) -> Path:
        """The link by which an operator finds the socket."""
        return self.directory / "serial"


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """A full file system is NoCapacity."""
    try:
        yield
    except OSError as error:
        if error.errno in (EDQUOT, ENOSPC):
            raise NoCapacity(f"no room for {what}: {error.strerror}") from error
        raise


@frozen
class Records:
    """All guests of one driver. A record is written beside its place and renamed: it is the old one or the new one."""

    state_dir: Path  # absolute
    runtime_dir: Path
    dry: dict[str, Record] | None = None  # in a dry run: the records are here and not on disk

    @property
    def directory(self) -> Path:
        return self.state_dir / "guests"

    def files(self, id: str, seat: str = "") -> Files:
        # A UNIX socket's path has room for 107 bytes; several drivers may share the runtime directory.
        short = sha256(f"{self.state_dir}\0{id}".encode()).hexdigest()[:20]
        return Files(self.directory / quote(id, safe=""), self.runtime_dir / f"{short}{seat}")

    def files_of(self, record: Record) -> Files:
        """Those of the process that the guest has."""
        return self.files(record.spec.id, record.seat)

    def ids(self) -> list[str]:
        """Sorted. A directory without a record is left over from a deletion."""
        if self.dry is not None:
            return sorted(self.dry)
        if not self.directory.is_dir():
            return []
        return sorted(unquote(each.name) for each in self.directory.iterdir() if (each / RECORD).exists())

    def get(self, id: str) -> Record | None:
        """Raises DriverError for a damaged file."""
        if self.dry is not None:
            return self.dry.get(id)
        file = self.files(id).record
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return _converter.structure(orjson.loads(data), Record)
        except (orjson.JSONDecodeError, BaseValidationError) as error:
            raise DriverError(f"{file} is damaged: {error}") from error

    def readable(self) -> list[Record]:
        """Of all guests, sorted by id. A damaged one is logged and left out: other guests must not suffer from it."""
        found = []
        for id in self.ids():
            try:
                record = self.get(id)
            except DriverError as error:
                _log.error("guest {id} is left out: {error}", id=id, error=error)
            else:
                found += [record] if record is not None else []
        return found

    def image_ids(self) -> set[str]:
        """The ids of all images that guests need. Raises DriverError for a damaged file."""
        records = [record for id in self.ids() if (record := self.get(id))]
        return {image.id for record in records for image in record.images}

    def put(self, record: Record) -> None:
        """Raises NoCapacity."""
        if self.dry is not None:
            self.dry[record.spec.id] = record
            return
        file = self.files(record.spec.id).record
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = file.with_suffix(".new")
        with room_for(f"the record of guest {record.spec.id}"):
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as opened:
                opened.write(orjson.dumps(_converter.unstructure(record)))
                opened.flush()
                # A power cut after the rename must not leave an empty file. It is short, so this takes no thread.
                os.fsync(descriptor)
            beside.replace(file)

    def remove(self, id: str) -> None:
        if self.dry is not None:
            self.dry.pop(id, None)
        self.files(id).record.unlink(missing_ok=True)


def shape(spec: GuestSpec) -> tuple[object, ...]:
    """What cannot change while a guest is on."""
    return spec.host, spec.vcpus, spec.memory_mib, spec.disk_gib, spec.ephemeral_gib, spec.swap_mib


def wiring(spec: GuestSpec) -> dict[str, PortBinding | None]:
    """How the guest's ports are plugged."""
    return {each.id: each.binding for each in spec.ports}


def plugs(spec: GuestSpec) -> tuple[object, ...]:
    """Which devices a guest has, whatever their options."""
    return {each.volume_id for each in spec.volumes}, {each.id for each in spec.ports}
