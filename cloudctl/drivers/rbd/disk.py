"""An image as described to hypervisors (the answer of `connect`), and the key that they need to open it.

The answer is stored in the database and shown to administrators, so it names the key's file and contains no secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import field, frozen

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.specs import ConnectionInfo, VolumeConnection

KIND = "rbd"
KEY = re.compile(r"^\s*key\s*=\s*(\S+)\s*$", re.MULTILINE)


@frozen
class RbdDisk:
    """`monitors`: address and port of each."""

    pool: str
    namespace: str
    image: str
    user: str
    keyring: str
    monitors: tuple[tuple[str, str], ...] = field()

    @property
    def info(self) -> ConnectionInfo:
        """With the field names that others use."""
        hosts, ports = zip(*self.monitors, strict=True)
        data = {
            "name": "/".join(filter(None, (self.pool, self.namespace, self.image))),
            "hosts": list(hosts),
            "ports": list(ports),
            "auth_enabled": True,
            "auth_username": self.user,
            "keyring": self.keyring,
        }
        return {"driver_volume_type": KIND, "data": data}

    @property
    def secret_id(self) -> UUID:
        """A host's name of the key, one per user of a cluster."""
        return uuid5(NAMESPACE_URL, f"rbd://{self.user}@{','.join(':'.join(each) for each in self.monitors)}")

    def key(self) -> str:
        """The key in base64. Raises DriverError."""
        try:
            found = KEY.search(Path(self.keyring).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise DriverError(f"{self.keyring} cannot be read") from error
        if found is None:
            raise DriverError(f"{self.keyring} has no key")
        return found[1]


def rbd_disk(data: Mapping[str, Any]) -> RbdDisk:
    """The disk that `info` describes."""
    pool, *namespace, image = data["name"].split("/")
    monitors = tuple(zip(data["hosts"], data["ports"], strict=True))
    return RbdDisk(pool, "".join(namespace), image, data["auth_username"], data["keyring"], monitors)


def rbd_disks(volumes: Iterable[VolumeConnection]) -> Iterator[RbdDisk]:
    """The disks of those volumes that are in Ceph."""
    return (rbd_disk(each.info["data"]) for each in volumes if each.info["driver_volume_type"] == KIND)


def monitors(addresses: list[str]) -> tuple[tuple[str, str], ...]:
    """Address and port of each "ADDRESS:PORT"."""
    return tuple((address.strip("[]"), port) for address, _colon, port in (each.rpartition(":") for each in addresses))
