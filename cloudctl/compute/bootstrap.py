"""The compute part of a new cloud: the usual flavors."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import or_, select

from cloudctl.compute import flavors
from cloudctl.compute.flavors import NewFlavor
from cloudctl.compute.tables import Flavor
from cloudctl.db import Connection

FLAVORS = (
    NewFlavor("m1.tiny", memory_mib=512, vcpus=1, disk_gib=1, id="1"),
    NewFlavor("m1.small", memory_mib=2048, vcpus=1, disk_gib=20, id="2"),
    NewFlavor("m1.medium", memory_mib=4096, vcpus=2, disk_gib=40, id="3"),
    NewFlavor("m1.large", memory_mib=8192, vcpus=4, disk_gib=80, id="4"),
    NewFlavor("m1.xlarge", memory_mib=16384, vcpus=8, disk_gib=160, id="5"),
)


def bootstrap(conn: Connection, now: datetime) -> None:
    """Create the flavors whose id and name are not taken. Repeating it changes nothing."""
    for flavor in FLAVORS:
        taken = or_(Flavor.id == flavor.id, Flavor.name == flavor.name)
        if conn.execute(select(Flavor.id).where(taken)).first() is None:
            flavors.create(conn, flavor, now)
