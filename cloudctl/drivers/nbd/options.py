"""What an operator can set: the table `[driver.volume.nbd]` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, gt

from cloudctl.drivers.accounts import Account, account, optional_account


def endpoint(text: str) -> tuple[str, str]:
    """Host and port of "192.0.2.1:10809" or "[2001:db8::1]:10809". Raises ValueError."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not of the form address:port")
    return host, port


def _is_endpoint(_instance: object, _attribute: object, value: str) -> None:
    if value:
        endpoint(value)


@frozen
class Place:
    """Where volumes are kept, and where they are served."""

    # Where the volumes of this cloud alone are kept. Empty: in the volume driver's own state directory.
    directory: str = ""
    # Where hosts reach the daemons: "address:port" of this machine. The first connected volume has this port, each
    # further one the lowest free port above. Whoever reaches them can use the connected volumes, so it must be a
    # network of the hosts only. Empty: UNIX sockets, for hosts that are all on this machine.
    listen: str = field(default="", validator=_is_endpoint)
    # Where sockets and process ids live. The paths of sockets are limited to 107 bytes, so it must be short.
    runtime_dir: Path = Path("/run/cloudctl")
    # Seconds until an answer of a daemon is given up.
    answer_timeout: float = field(default=20.0, validator=gt(0))


@frozen
class Config(Place):
    """`[driver.volume.nbd]`"""

    # Whose group may connect to the UNIX socket of every volume: the user of all guests, if the hypervisor does not
    # give each guest a user of its own and admit that, as `qemu` does. Empty: nobody but root.
    user: str = field(default="", validator=optional_account)
    # How many times the size of the file system may be allocated. Volumes take up room only as they are written.
    overcommit: float = field(default=20.0, validator=ge(1.0))
    # Seconds until a copy of a volume or an image is given up.
    copy_timeout: float = field(default=3600.0, validator=gt(0))
    # Seconds between attempts to start a daemon that has ended, as long as they fail.
    retry_seconds: float = field(default=2.0, validator=gt(0))
    # Log what would be changed, and change nothing.
    dry_run: bool = False

    @property
    def account(self) -> Account | None:
        return account(self.user) if self.user else None


def server(listen: str, socket: Path, place: int = 0) -> Mapping[str, Any]:
    """A daemon's address as QEMU's SocketAddress. `place`: how many ports above the first one."""
    if not listen:
        return {"type": "unix", "path": str(socket)}
    host, port = endpoint(listen)
    return {"type": "inet", "host": host, "port": str(int(port) + place)}
