"""Our own watch: hosts that two channels agree to be dead, and notifications that nobody has picked up.

The channels are the hypervisor's connection, as compute has recorded it, and what the network driver hears from its
hosts. With a driver that does not hear from hosts, the watch is left to monitors: one channel alone proves only that it
is broken itself. What is noticed becomes a bus event, written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import new_id, utc
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IHostsHeard, INetworkBackend
from cloudctl.instance_ha import bus, members, notifications
from cloudctl.instance_ha.bus import HOST_ERROR, Message
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Member
from cloudctl.placement.hosts import Host
from cloudctl.tasks import Unasked
from cloudctl.tasks.rounds import Rounds
from cloudctl.trouble import Trouble

log = Logger()

PERIOD = 10.0  # seconds

# Built once: building costs more than running it.
_missed = (
    select(Member.name)
    .join(Host.table, Host.name == Member.name)
    .where(
        Member.name.in_(bindparam("silent", expanding=True)),
        Member.on_maintenance.is_(False),
        Host.up.is_(False),
        Host.seen_at <= bindparam("since"),
    )
)


class HaWatch(Rounds):
    def __init__(self, clock: IReactorTime, db: Database, network: INetworkBackend, options: InstanceHaOptions) -> None:
        super().__init__(clock, PERIOD, "hosts could not be watched", at_once=False)
        self.db = db
        self.network = network
        self.options = options
        heard = "which hosts are alive"
        self._unheard = Trouble(
            log, f"the network driver cannot tell {heard}", f"the network driver tells {heard} again"
        )

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        await self.db.run(self._write, await self._silent())

    async def _silent(self) -> Collection[str]:
        """No host is, while the driver cannot tell; the rest of the round does not wait for that."""
        if self.options.watch_hosts and IHostsHeard.providedBy(self.network):
            try:
                found: Collection[str] = await self.network.silent_hosts()
            except DriverError as error:
                self._unheard.is_met(error)
            else:
                self._unheard.is_over()
                return found
        return ()

    def _write(self, conn: Connection, silent: Collection[str]) -> None:
        now = utc(self.db.now(conn))
        self._pick_up(conn, now)
        for name in self._missed(conn, silent, now):
            if self._is_news(conn, name, now):
                told = {"host": name, "forced_down": False}
                message = Message(new_id(), HOST_ERROR, f"cloudctl:{name}", told, now)
                bus.take(conn, message, self.options, now)
        bus.forget(conn, now)

    def _pick_up(self, conn: Connection, now: datetime) -> None:
        """Begin notifications that were stored while the engine was off, except those that are too old by now."""
        if not self.options.engine_enabled:
            return
        before = now - timedelta(seconds=self.options.retry_notification_new_status_interval)
        expires = self.options.notifications_expired_interval
        for each in notifications.unclaimed(conn, before):
            if (now - each.created_at).total_seconds() < expires:
                notifications.begin(conn, each, Unasked(), self.options)
            else:
                # Its host may long be back.
                why = f"it was not acted upon within {expires:g} s"
                notifications.try_move(conn, each.id, "fail", now, message=why)

    def _missed(self, conn: Connection, silent: Collection[str], now: datetime) -> Sequence[str]:
        """Those of them that are watched and that the other channel has not seen for long enough. Sorted by name."""
        if not silent:
            return ()
        since = now - timedelta(seconds=self.options.unknown_silence)
        return sorted(conn.scalars(_missed, {"silent": list(silent), "since": since}))

    def _is_news(self, conn: Connection, name: str, now: datetime) -> bool:
        """Whether nobody has reported it yet, and nobody waits for it to return."""
        lately = now - timedelta(seconds=self.options.duplicate_notification_detection_interval)
        if notifications.open_of(conn, name) is not None or bus.told_lately(conn, name, lately):
            return False
        member = members.find(conn, name)
        return member is not None and not members.is_returning(conn, member.id)
