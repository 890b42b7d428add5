"""Keys that a host's libvirtd hands to guests that open volumes with them: a domain only names them.

They are private, so nobody can read them back from libvirtd. Source: libvirt's document «Secret XML format».
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from cloudctl.drivers.rbd.disk import RbdDisk


def ensure(connection: Any, disks: Iterable[RbdDisk]) -> None:
    """The host has the current keys of these disks. Blocks. Raises DriverError."""
    for disk in {disk.secret_id: disk for disk in disks}.values():
        connection.secretDefineXML(definition(disk), 0).setValue(b64decode(disk.key()), 0)


def definition(disk: RbdDisk) -> str:
    secret = Element("secret", ephemeral="no", private="yes")
    SubElement(secret, "uuid").text = str(disk.secret_id)
    usage = SubElement(secret, "usage", type="ceph")
    SubElement(usage, "name").text = f"{disk.user} {disk.secret_id}"
    return tostring(secret, encoding="unicode")
