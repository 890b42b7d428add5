"""`[volume]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, in_, min_len

from cloudctl.config import Config
from cloudctl.options import DERIVED, limit, named


def part_of_a_host(_instance: object, _attribute: Any, value: str) -> None:
    if not value or set(value) & set("@#"):
        raise ValueError(f"{value!r} cannot be a part of host@backend#backend")


@frozen
class VolumeOptions:
    """The options of block storage."""

    # The zones that volumes may be in; the first one is the default.
    availability_zones: tuple[str, ...] = field(default=("nova",), validator=and_(min_len(1), named))
    # The type of volumes created without one, unless the project has a default type of its own.
    default_type: str = field(default="__DEFAULT__", validator=named)
    # The names of this node and its backend, as administrators see them: `host@backend#backend`. Several backends have
    # the names that [drivers] gives them.
    host: str = field(default="cloudctl", validator=part_of_a_host)
    backend: str = field(default="volumes", validator=part_of_a_host)
    # Quotas of a project that has none of its own; -1 is no limit. The last three are in GiB.
    volumes: int = field(default=10, validator=limit)
    snapshots: int = field(default=10, validator=limit)
    backups: int = field(default=10, validator=limit)
    groups: int = field(default=10, validator=limit)
    gigabytes: int = field(default=1000, validator=limit)
    backup_gigabytes: int = field(default=1000, validator=limit)
    per_volume_gigabytes: int = field(default=-1, validator=limit)
    # Where new backups are kept: "objects" in the object store, in their project's account, or a "directory". An
    # incremental one is kept where its parent is.
    backup_store: str = field(default="objects", validator=in_(("objects", "directory")))
    # That directory; data on its way to a backup or a volume is in it in either case. Empty: `backups` in the state
    # directory.
    backup_directory: str = ""
    # Bytes per piece of a full backup: an incremental one stores only the pieces that have changed.
    backup_piece: int = field(default=2**20, validator=ge(512))
    # Bytes of the objects into which pieces are packed.
    backup_object: int = field(default=32 * 2**20, validator=ge(512))
    # Threads that read and write backups.
    backup_threads: int = field(default=2, validator=ge(1))
    # From [drivers], if that names several.
    backends: tuple[str, ...] = field(default=(), metadata=DERIVED)

    @property
    def default_zone(self) -> str:
        return self.availability_zones[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all backends; the first is for volumes whose type leaves the choice."""
        return self.backends or (self.backend,)

    @property
    def pools(self) -> tuple[str, ...]:
        """`host@backend#pool`, where volumes are: each backend is one pool."""
        return tuple(self.pool_of(name) for name in self.names)

    @property
    def pool(self) -> str:
        return self.pools[0]

    def pool_of(self, name: str) -> str:
        return f"{self.service_of(name)}#{name}"

    def find_pool(self, host: str) -> str | None:
        """The pool named in full, or without its part after `#`."""
        return next((pool for pool in self.pools if host in (pool, pool.partition("#")[0])), None)

    def is_one(self, pool: str, other: str) -> bool:
        """Whether two pools are one. The only backend has everything, whatever it was called earlier."""
        return len(self.names) == 1 or is_same(pool, other)

    def service_of(self, name: str) -> str:
        """`host@backend`, the name of the service of a backend."""
        return f"{self.host}@{name}"


def chosen(config: Config) -> VolumeOptions:
    """The section, with the backends that [drivers] names."""
    drivers, options = config.drivers.volume, config.section(VolumeOptions)
    return options if isinstance(drivers, str) else evolve(options, backends=tuple(drivers))


def backend_of(host: str) -> str:
    """The backend of `host@backend#pool` or `host@backend`."""
    return host.partition("#")[0].partition("@")[2]


def is_same(one: str, other: str) -> bool:
    """Whether two pools are one: what was made before the node was renamed keeps its older name."""
    return backend_of(one) == backend_of(other)


def present(pools: Iterable[str], host: str | None) -> str | None:
    """The name that a pool has now; None if it is not among these any more."""
    return next((pool for pool in pools if host is not None and is_same(pool, host)), None)
