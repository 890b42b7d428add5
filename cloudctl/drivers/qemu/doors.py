"""Who may reach a volume that is served on this machine by a UNIX socket: the users of the guests that have it.

A socket has a list of users besides its mode. A socket that replaces it inherits the list (`nbd.daemon`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from cloudctl.drivers import access_lists
from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.specs import VolumeConnection

ROOT = 0


def let_in(volumes: Iterable[VolumeConnection], uid: int) -> None:
    """The user may connect to them. Raises Unreachable if one is not served yet; DriverError."""
    for path in map(_socket, guarded(volumes)):
        try:
            there = access_lists.users(path)
            if uid != ROOT and uid not in there:
                access_lists.put(path, there | {uid})
        except FileNotFoundError as error:
            raise Unreachable(f"a volume is not served yet at {path}") from error
        except OSError as error:
            raise _Unlisted(path, error) from error


def keep_out(volume: VolumeConnection, uids: Set[int | None]) -> None:
    """These users may not connect to it from now on. Raises DriverError."""
    path = _socket(volume)
    try:
        there = access_lists.users(path)
        if there & uids:
            access_lists.put(path, there - uids)
    except FileNotFoundError:
        pass  # nothing is served there any more
    except OSError as error:
        raise _Unlisted(path, error) from error


def guarded(volumes: Iterable[VolumeConnection]) -> Iterator[VolumeConnection]:
    """Those among them that have such a socket."""
    for each in volumes:
        if each.info["driver_volume_type"] == "nbd" and each.info["data"]["server"]["type"] == "unix":
            yield each


def _socket(volume: VolumeConnection) -> Path:
    return Path(volume.info["data"]["server"]["path"])


class _Unlisted(DriverError):
    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"who may connect to {path} cannot be changed: {error.strerror}")
