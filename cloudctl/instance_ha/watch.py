"""Our own watch: hosts that two channels agree to be dead, and notifications that nobody has picked up.

The channels are the hypervisor's connection, by what compute has written down of it, and what the network's driver
hears of its hosts. A driver that hears nothing of hosts leaves the watch to monitors: one channel alone is no proof of
anything but that it is broken. What is noticed is an event of the bus, written in the transaction that notices.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import select
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id, utc
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IHostsHeard, INetworkBackend
from cloudctl.instance_ha import bus, notifications
from cloudctl.instance_ha.bus import HOST_ERROR, Message
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Member
from cloudctl.placement import hosts
from cloudctl.tasks import Unasked
from cloudctl.tasks.rounds import Rounds

log = Logger()

PERIOD = 10.0  # seconds


class HaWatch(Rounds):
    def __init__(self, clock: IReactorTime, db: Database, network: INetworkBackend, options: InstanceHaOptions) -> None:
        super().__init__(clock, PERIOD, "hosts could not be watched", at_once=False)
        self.db = db
        self.network = network
        self.options = options

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        await self.db.run(self._write, await self._silent())

    async def _silent(self) -> Collection[str]:
        """Nobody is, while the driver cannot tell; what else there is to do does not wait for that."""
        if self.options.watch_hosts and IHostsHeard.providedBy(self.network):
            try:
                return await self.network.silent_hosts()
            except DriverError as error:
                log.warn("the network cannot tell which hosts it hears of: {error}", error=error)
        return ()

    def _write(self, conn: Connection, silent: Collection[str]) -> None:
        now = utc(self.db.now(conn))
        self._pick_up(conn, now)
        for name in sorted(silent):
            if self._is_dead(conn, name, now):
                told = {"host": name, "forced_down": False}
                message = Message(new_id(), HOST_ERROR, f"cloudctl:{name}", told, now)
                bus.take(conn, message, self.options, now)
        bus.forget(conn, now)

    def _pick_up(self, conn: Connection, now: datetime) -> None:
        """They were stored while the engine was off."""
        if not self.options.engine_enabled:
            return
        before = now - timedelta(seconds=self.options.retry_notification_new_status_interval)
        for each in notifications.unclaimed(conn, before):
            notifications.begin(conn, each, Unasked(), self.options)

    def _is_dead(self, conn: Connection, name: str, now: datetime) -> bool:
        """Whether the other channel agrees, for long enough, and nobody has said so yet."""
        member = conn.execute(select(Member).where(Member.name == name)).first()
        host = hosts.find(conn, name)
        if member is None or member.on_maintenance or host is None or host.up:
            return False
        if now - host.seen_at < timedelta(seconds=self.options.unknown_silence):
            return False
        lately = now - timedelta(seconds=self.options.duplicate_notification_detection_interval)
        return notifications.open_of(conn, name) is None and not bus.told_lately(conn, name, lately)
