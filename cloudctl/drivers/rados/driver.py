"""The objects driver `rados`: contents are pieces in a pool of a Ceph cluster.

    <id>.<number>       a piece
    index-<digit>       the ids that begin with this digit: a key of its omap is "ID SECONDS BYTES MIB-OF-A-PIECE"
    index               the digits for which there are such objects

A content exists once its key does; the key is written after the pieces and removed after them. While they are written
there is a key with a "+" in front, by which the pieces that a killed process left are found a day later.

Ceph's own programs do the work, each with a deadline at which it is killed; librados would wait in threads of its own.
An opened content is fetched into an unnamed file first, so that it can be read although it is removed.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import IO, cast

from attrs import field, frozen
from attrs.validators import ge, matches_re
from zope.interface import implementer

from cloudctl.drivers.errors import DriverError, NoCapacity, UnknownContent, Unreachable, Unusable
from cloudctl.drivers.interfaces import IElsewhere, IFarData, IObjectData
from cloudctl.drivers.objects_interface import ContentState
from cloudctl.drivers.programs import ProgramFailed, require, run_blocking
from cloudctl.drivers.rbd.options import WORD, Cluster
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError

MIB = 1 << 20
# In the complaints of `rados`: its exit code says less.
MISSING, FULL = "(2) No such file or directory", ("(28) No space left on device", "(122) Disk quota exceeded")
INDEX = "index"
ARRIVING = "+"
ABANDONED = 86_400.0  # seconds after which an unfinished content is considered abandoned


@frozen
class Config(Cluster):
    """`[driver.objects.rados]`. The user has the rights mon "allow r", osd "allow rwx pool=objects"."""

    # A pool for this alone, which must exist before the cloud starts, and a namespace in it, for a second cloud.
    pool: str = field(default="objects", validator=matches_re(WORD))
    namespace: str = field(default="", validator=matches_re(f"({WORD})?"))
    # Size of the pieces that contents are cut into; Ceph's own limit is 128.
    piece_mib: int = field(default=32, validator=ge(1))


def create(config: Config, resources: DriverResources) -> RadosContents:
    """Raises ConfigError in a cloud in memory: contents pass through files."""
    if resources.state_dir is None:
        raise ConfigError([f"driver.objects.{resources.name}: needs a cloud with a state directory"])
    namespace = f"{config.namespace}.{resources.part}" if resources.part else config.namespace
    return RadosContents(config, namespace, resources.state_dir.absolute())


@implementer(IObjectData, IFarData, IElsewhere)
@frozen
class RadosContents:
    """`directory`: for files that exist as long as somebody reads them."""

    config: Config
    namespace: str
    directory: Path
    _indexed: set[str] = field(factory=set)  # digits known to be in the index

    elsewhere = True

    async def check(self) -> None:
        require("rados")
        self.config.demand_key()
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Unusable(f"cannot keep files in {self.directory}: {error.strerror}") from error

    async def close(self) -> None:
        """Nothing is open."""

    def ensure_kept(self, id: str, path: str) -> None:
        if self._found(id):
            return
        try:
            with open(path, "rb") as source:
                self._keep(id, source)
        except OSError as error:
            raise DriverError(f"{path}: {error.strerror}") from error

    def _keep(self, id: str, source: IO[bytes]) -> None:
        key = f"{id} {time.time():.3f} {os.stat(source.fileno()).st_size} {self.config.piece_mib}"
        if id[0] not in self._indexed:
            self._rados("setomapval", INDEX, id[0], "")
            self._indexed.add(id[0])
        self._rados("setomapval", _index(id), ARRIVING + key, "")
        for number, piece in enumerate(iter(lambda: source.read(self.config.piece_mib * MIB), b"")):
            self._rados("put", f"{id}.{number}", "-", stdin=piece)
        self._rados("setomapval", _index(id), key, "")
        self._rados("rmomapkey", _index(id), ARRIVING + key)

    def open(self, id: str) -> IO[bytes]:
        found = self._found(id)
        if not found:
            raise UnknownContent(id)
        try:
            file = cast(IO[bytes], tempfile.TemporaryFile(dir=self.directory))  # noqa: SIM115  # the caller closes it
        except OSError as error:
            raise Unreachable(f"{self.directory}: {error.strerror}") from error
        try:
            for number in range(self._pieces(found[0])):
                file.write(self._rados("get", f"{id}.{number}", "-"))
            if file.tell() != _size(found[0]):
                raise DriverError(f"content {id} has {file.tell()} bytes, and had {_size(found[0])}")
            file.seek(0)
        except BaseException as error:
            file.close()
            if isinstance(error, ProgramFailed) and MISSING in error.complaint:
                raise UnknownContent(id) from error  # it has just been removed
            if isinstance(error, OSError):
                raise Unreachable(f"{self.directory}: {error.strerror}") from error
            raise
        return file

    def ensure_absent(self, id: str) -> None:
        """Removes the keys last: a repeat finds the pieces by them."""
        keys = [key for key in self._keys(_index(id)) if _id(key) == id]
        for number in range(max(map(self._pieces, keys), default=0)):
            try:
                self._rados("rm", f"{id}.{number}")
            except ProgramFailed as error:
                if MISSING not in error.complaint:
                    raise
        for key in keys:
            self._rados("rmomapkey", _index(id), key)

    def inventory(self, after: str) -> tuple[ContentState, ...]:
        """Including contents whose writing began so long ago that it must have been abandoned."""
        for digit in self._keys(INDEX):
            if digit >= after[:1]:
                # The same content may have been kept twice at the same time.
                states = {_id(key): _state(key) for key in self._keys(_index(digit)) if not _is_under_way(key)}
                if found := sorted(id for id in states if id > after):
                    return tuple(states[id] for id in found)
        return ()

    def _found(self, id: str) -> list[str]:
        """Its keys: none, one, or one for each call that kept it at the same time."""
        return [key for key in self._keys(_index(id)) if key.startswith(f"{id} ")]

    def _keys(self, object: str) -> list[str]:
        try:
            return self._rados("listomapkeys", object).decode().splitlines()
        except ProgramFailed as error:
            if MISSING not in error.complaint:
                raise
            return []

    def _pieces(self, key: str) -> int:
        """How many it was cut into. Keys of earlier releases do not say how large they are."""
        _id, _seconds, _bytes, *piece_mib = key.split(" ")
        return -(-_size(key) // (int(piece_mib[0] if piece_mib else self.config.piece_mib) * MIB))

    def _rados(self, *words: str, stdin: bytes = b"") -> bytes:
        """Raises ProgramFailed, ProgramTimedOut, NoCapacity."""
        return _run(self.config, self.namespace, words, stdin)


def _run(config: Config, namespace: str, words: tuple[str, ...], stdin: bytes) -> bytes:
    limit = config.answer_timeout
    # With a key that the cluster does not know it would retry for minutes.
    who = ("--id", config.user, "--keyring", str(config.keyring), f"--client-mount-timeout={int(limit) + 1}")
    where = ("--conf", "/dev/null", "-m", ",".join(config.monitors), f"--pool={config.pool}")
    named = (f"--namespace={namespace}",) if namespace else ()
    try:
        return run_blocking("rados", *where, *who, *named, *words, stdin=stdin, timeout=limit)
    except ProgramFailed as error:
        if any(each in error.complaint for each in FULL):
            raise NoCapacity(error.complaint) from error
        raise


def _index(id: str) -> str:
    return f"{INDEX}-{id[0]}"


def _id(key: str) -> str:
    return key.removeprefix(ARRIVING).partition(" ")[0]


def _size(key: str) -> int:
    return int(key.split(" ")[2])


def _state(key: str) -> ContentState:
    return ContentState(_id(key), float(key.split(" ")[1]))


def _is_under_way(key: str) -> bool:
    return key.startswith(ARRIVING) and _state(key).since > time.time() - ABANDONED
