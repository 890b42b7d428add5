"""The services of block storage, as administrators see and switch them. Reference: volume.md, section 10.

All of them are this process; what an administrator sets for one is stored. A disabled `cinder-volume` takes no new
volumes, a disabled `cinder-backup` no new backups.
"""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.errors import NotFound
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import VolumeService

SCHEDULER, VOLUME, BACKUP = "cinder-scheduler", "cinder-volume", "cinder-backup"


@frozen
class Service:
    binary: str
    host: str
    disabled: bool = False
    disabled_reason: str | None = None
    frozen: bool = False


# Built once: building a statement costs more than running it.
_disabled = select(VolumeService.disabled).where(
    VolumeService.host == bindparam("on"), VolumeService.binary == bindparam("of")
)


def _present(options: VolumeOptions) -> tuple[tuple[str, str], ...]:
    backends = [(VOLUME, options.service_of(name)) for name in options.names]
    return (SCHEDULER, options.host), *backends, (BACKUP, options.host)


def listing(conn: Connection, options: VolumeOptions) -> list[Service]:
    said = {(row.binary, row.host): row for row in conn.execute(select(VolumeService))}
    return [
        Service(binary, host)
        if (row := said.get((binary, host))) is None
        else Service(binary, host, row.disabled, row.disabled_reason, row.frozen)
        for binary, host in _present(options)
    ]


def not_found(host: str, binary: str) -> NotFound:
    return NotFound(f"Service {binary[:64]} on host {host[:255]} could not be found.")


def get(conn: Connection, options: VolumeOptions, host: str, binary: str) -> Service:
    """Raises NotFound."""
    for each in listing(conn, options):
        if (each.host, each.binary) == (host, binary):
            return each
    raise not_found(host, binary)


def switch(
    conn: Connection,
    options: VolumeOptions,
    host: str,
    binary: str,
    disabled: bool,
    reason: str | None = None,
    *,
    frozen: bool = False,
) -> Service:
    """`frozen`: shown as such; only `disabled` keeps it from new volumes. Raises NotFound."""
    if (binary, host) not in _present(options):
        raise not_found(host, binary)
    values = {"disabled": disabled, "disabled_reason": reason, "frozen": frozen}
    key = (VolumeService.host == host, VolumeService.binary == binary)
    changed = update(VolumeService).where(*key).values(**values)
    if conn.execute(changed).rowcount == 0:
        try:
            with conn.begin_nested():
                conn.execute(insert(VolumeService).values(host=host, binary=binary, **values))
        except IntegrityError:
            # Another request was first.
            conn.execute(changed)
    return Service(binary, host, disabled, reason, frozen)


def takes_volumes(conn: Connection, pool: str) -> bool:
    """Whether the service of a pool, `host@backend#pool`, is enabled."""
    return _is_enabled(conn, pool.partition("#")[0], VOLUME)


def takes_backups(conn: Connection, options: VolumeOptions) -> bool:
    return _is_enabled(conn, options.host, BACKUP)


def _is_enabled(conn: Connection, host: str, binary: str) -> bool:
    return not conn.execute(_disabled, {"on": host, "of": binary}).scalar()
