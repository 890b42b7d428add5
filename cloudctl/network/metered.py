"""What meters have counted, for the cloud's operator: neutron's API shows none of it. See `metering`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, field
from sqlalchemy import bindparam, select
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IMetering
from cloudctl.drivers.network_specs import Metered
from cloudctl.network.extension_tables import MeteringLabel
from cloudctl.network.standard import rows
from cloudctl.network.tables import Router
from cloudctl.trouble import Trouble

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_log = Logger()

COUNTERS = "the counters of meters"
FRESH_SECONDS = 5.0  # the driver is queried no more often: a scrape needs no token
LABELS = ("label_id", "label", "router_id", "project_id")

# Built once: building a statement costs more than running it.
_labels = select(MeteringLabel.id, MeteringLabel.name).where(MeteringLabel.id.in_(bindparam("ids", expanding=True)))
_routers = select(Router.id, Router.project_id).where(Router.id.in_(bindparam("ids", expanding=True)))


@define(eq=False)
class Meters:
    """Reads the counters when somebody scrapes."""

    db: Database
    driver: IMetering
    clock: IReactorTime
    _lock: DeferredLock = field(factory=DeferredLock)
    _read_at: float | None = None
    _read: tuple[Metered, ...] | None = None  # None: the driver could not report it
    _unread: Trouble = field(
        factory=lambda: Trouble(_log, f"{COUNTERS} cannot be read", f"{COUNTERS} can be read again")
    )

    async def look(self) -> Sequence[Metric]:
        # Imported at the first scrape: startup does not need it.
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        found = await self._counted()
        labels, routers = await self.db.scan(_names, found or ())
        packets = CounterMetricFamily("cloudctl_metering_packets", "Packets that labels have counted.", labels=LABELS)
        sizes = CounterMetricFamily("cloudctl_metering_bytes", "Bytes of these packets.", labels=LABELS)
        for each in found or ():
            # Counters of a label or a router that was just deleted are left out.
            if each.meter_id in labels and each.router_id in routers:
                values = [each.meter_id, labels[each.meter_id], each.router_id, routers[each.router_id]]
                packets.add_metric(values, each.packets)
                sizes.add_metric(values, each.bytes)
        told = GaugeMetricFamily(
            "cloudctl_metering_up", "Whether the network driver could tell.", value=int(found is not None)
        )
        return packets, sizes, told

    async def _counted(self) -> tuple[Metered, ...] | None:
        await self._lock.acquire()
        try:
            now = self.clock.seconds()
            if self._read_at is None or now - self._read_at >= FRESH_SECONDS:
                self._read_at, self._read = now, await self._ask()
            return self._read
        finally:
            self._lock.release()

    async def _ask(self) -> tuple[Metered, ...] | None:
        try:
            found = await self.driver.metered()
        except DriverError as error:
            # The rest of the page is still served.
            self._unread.is_met(error)
            return None
        self._unread.is_over()
        return found


def _names(conn: Connection, found: Sequence[Metered]) -> tuple[dict[str, str], dict[str, str]]:
    """The names of labels, and the projects of routers, by their ids."""
    labels, routers = {each.meter_id for each in found}, {each.router_id for each in found}
    return dict(rows(conn, _labels, ids=sorted(labels))), dict(rows(conn, _routers, ids=sorted(routers)))
