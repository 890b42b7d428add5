"""What the southbound database shows about the hosts: which of them answer.

A number in the northbound database is incremented; OVN's own daemon passes it on to the southbound one, where each
chassis writes the last number that it has received. A chassis that lags behind for too long is silent. Nothing else
shows that a chassis died: its row stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ovs.db.idl import ROW_DELETE

from cloudctl.drivers.ovn.replica import Southbound

ASKED, HEARD, CHASSIS, NUMBER = "SB_Global", "Chassis_Private", "Chassis", "nb_cfg"
TABLES = {ASKED: (NUMBER,), HEARD: ("name", "chassis", NUMBER), CHASSIS: ("name", "hostname")}


class Hearing(Southbound):
    """A copy of the rows that show this."""

    def __init__(self, seconds: Callable[[], float], remotes: str, schema: dict[str, Any], probe_seconds: int) -> None:
        self.seconds = seconds
        self.asked: list[tuple[int, float]] = []  # the numbers that were passed on, and when we saw each
        super().__init__(remotes, schema, TABLES, probe_seconds)

    def notify(self, event: str, row: Any, updates: Any = None) -> None:
        if row._table.name == ASKED and event != ROW_DELETE:
            number = int(getattr(row, NUMBER))
            if self.asked and number < self.asked[-1][0]:
                # The database was restored from a backup: the count starts again.
                self.asked.clear()
            if not self.asked or number > self.asked[-1][0]:
                self.asked.append((number, self.seconds()))

    def has_passed_on(self, number: int) -> bool:
        """Whether this copy also has what chassis answered before that."""
        return bool(self.asked) and self.asked[-1][0] >= number

    def silent(self, seconds: float) -> frozenset[str]:
        """Chassis, by `system-id` and `hostname`, that have not received a number passed on at least `seconds` ago."""
        before = self.seconds() - seconds
        due = [each for each in self.asked if each[1] <= before]
        if not due:
            return frozenset()
        self.asked = [each for each in self.asked if each >= due[-1]]
        silent, heard = set[str](), set[str]()
        for row in self.tables[HEARD].rows.values():
            names = {row.name, *(each.hostname for each in row.chassis)} - {""}
            (silent if getattr(row, NUMBER) < due[-1][0] else heard).update(names)
        # A host that was set up again has left its previous row behind.
        return frozenset(silent - heard)
