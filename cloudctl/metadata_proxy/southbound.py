"""What the southbound database shows of a host: the networks that have a guest on it."""

from __future__ import annotations

from typing import Any

from cloudctl.drivers.ovn.networks import METADATA
from cloudctl.drivers.ovn.replica import Southbound

CHASSIS, BINDING = "Chassis", "Port_Binding"
TABLES = {
    CHASSIS: ("name",),
    "Datapath_Binding": ("tunnel_key",),
    BINDING: ("logical_port", "type", "chassis", "datapath", "mac"),
}
GUEST, LOCAL = "", "localport"  # types of bindings


class Bindings(Southbound):
    """A copy of the rows that show this."""

    def __init__(self, remotes: str, schema: dict[str, Any], probe_seconds: int) -> None:
        super().__init__(remotes, schema, TABLES, probe_seconds)

    def networks(self, chassis: str) -> dict[str, str]:
        """The networks that have a guest on the chassis and a port for metadata → the MAC address of that port."""
        bindings = list(self.tables[BINDING].rows.values())
        here = {
            row.datapath.uuid
            for row in bindings
            if row.type == GUEST and any(each.name == chassis for each in row.chassis)
        }
        return {
            row.logical_port.removeprefix(METADATA): mac
            for row in bindings
            if row.type == LOCAL and row.logical_port.startswith(METADATA) and row.datapath.uuid in here
            # Its addresses follow the MAC address. A port may have none of them: that is nothing to other networks.
            for mac in " ".join(row.mac).split()[:1]
        }
