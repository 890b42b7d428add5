"""What the southbound database tells of the hosts: which of them answer.

A number in the northbound database is made larger; OVN's own daemon passes it on to the southbound one, and each
chassis writes there, of itself, the last one that it has heard of. Who is behind for too long is silent. Nothing else
tells of a chassis that died: its row stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ovs.db.idl import ROW_DELETE, SchemaHelper

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.ovn.replica import Copy

ASKED, HEARD, CHASSIS, NUMBER = "SB_Global", "Chassis_Private", "Chassis", "nb_cfg"
TABLES = {ASKED: (NUMBER,), HEARD: ("name", "chassis", NUMBER), CHASSIS: ("name", "hostname")}


class Hearing(Copy):
    """A copy of what tells that."""

    def __init__(self, seconds: Callable[[], float], remotes: str, schema: dict[str, Any], probe_seconds: int) -> None:
        self.seconds = seconds
        self.asked: list[tuple[int, float]] = []  # the numbers that were passed on, and when we saw each
        helper = SchemaHelper(schema_json=schema)
        for table, columns in TABLES.items():
            if table not in schema["tables"]:
                raise DriverError(f"the southbound database has no table {table}")
            helper.register_columns(table, list(columns))
        super().__init__(remotes, helper, probe_interval=probe_seconds * 1000)

    def notify(self, event: str, row: Any, updates: Any = None) -> None:
        if row._table.name == ASKED and event != ROW_DELETE:
            number = int(getattr(row, NUMBER))
            if self.asked and number < self.asked[-1][0]:
                # Taken back to a backup: they count anew.
                self.asked.clear()
            if not self.asked or number > self.asked[-1][0]:
                self.asked.append((number, self.seconds()))

    def has_passed_on(self, number: int) -> bool:
        """What chassis had answered before is in this copy, too."""
        return bool(self.asked) and self.asked[-1][0] >= number

    def silent(self, seconds: float) -> frozenset[str]:
        """Chassis, by `system-id` and `hostname`, that have not heard of what was passed on so long ago."""
        before = self.seconds() - seconds
        due = [each for each in self.asked if each[1] <= before]
        if not due:
            return frozenset()
        self.asked = [each for each in self.asked if each >= due[-1]]
        silent, heard = set[str](), set[str]()
        for row in self.tables[HEARD].rows.values():
            names = {row.name, *(each.hostname for each in row.chassis)} - {""}
            (silent if getattr(row, NUMBER) < due[-1][0] else heard).update(names)
        # A host that was set up again has left the row behind that it had before.
        return frozenset(silent - heard)
