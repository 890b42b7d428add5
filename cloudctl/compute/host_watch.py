"""Which hosts exist and which of them answer: queried at the start and every few seconds. Each round also records that
this process, which schedules and conducts, is alive.

Reference: compute-scheduling.md, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve, frozen
from twisted.internet.interfaces import IReactorTime

from cloudctl.compute import notices, services
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.placing import promises
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.drivers.specs import HostInventory
from cloudctl.placement import hosts
from cloudctl.tasks.rounds import Rounds

PERIOD = 10.0  # seconds
# How often every record of a host is compared with what is found, even if nothing is known to have changed.
THOROUGH = timedelta(minutes=15)
FEW = 100  # at most so many hosts are looked up by name


@frozen
class Written:
    """What this process has recorded of all hosts, when, and what they have provided since."""

    found: Sequence[HostInventory]
    at: datetime
    provided: tuple[Any, ...]
    changes: Any  # the counters of `provided`'s tables, taken before it was read


class HostWatch(Rounds):
    def __init__(self, clock: IReactorTime, db: Database, hypervisor: IHypervisor, options: ComputeOptions) -> None:
        super().__init__(clock, PERIOD, "the hypervisor's hosts could not be read")
        self.db = db
        self.hypervisor = hypervisor
        self.options = options
        self._written: Written | None = None

    async def look(self) -> None:
        """One round. Raises what the driver raises."""
        found = await self.hypervisor.hosts()
        self._written = await self.db.run(self._write, found, self.db.changes(hosts.PROVIDED))

    def _write(self, conn: Connection, found: Sequence[HostInventory], changes: Any) -> Written:
        now = utc(self.db.now(conn))
        written = self._written
        news = None if written is None else self._news(conn, written, found, now, changes)
        if written is None or news is None:
            self._compare(conn, found, now, are_all=True)
            written = Written(found, now, hosts.summary(conn), changes)
        elif news:
            self._compare(conn, news, now, are_all=False)
            written = Written(found, written.at, hosts.summary(conn), changes)
        else:
            hosts.seen_again(conn, now)
            written = evolve(written, changes=changes)
        services.beat(conn, self.options.host, now)
        return written

    def _news(
        self, conn: Connection, written: Written, found: Sequence[HostInventory], now: datetime, changes: Any
    ) -> Sequence[HostInventory] | None:
        """The hosts about which the driver reports something new, usually few. None: all of them are to be compared.

        That is done now and then, when the set of hosts differs, and when somebody else has changed what was written.
        """
        was = written.found
        if (
            now - written.at >= THOROUGH
            or ((changes is None or changes != written.changes) and hosts.summary(conn) != written.provided)
            or hosts.down(conn) != {host.name for host in was if not host.up}
        ):
            return None
        if found == was:
            return ()
        if [host.name for host in found] != [host.name for host in was]:
            return None
        news = [host for host, before in zip(found, was, strict=True) if host != before]
        return news if len(news) <= FEW else None

    def _compare(self, conn: Connection, found: Sequence[HostInventory], now: datetime, *, are_all: bool) -> None:
        before, after = hosts.sync(conn, found, now, promises(self.options), are_all=are_all)
        were_up = {each.name for each in before if hosts.is_alive(each)}
        for each in after:
            if each.name in were_up and not each.up:
                notices.host_error(conn, each.name, each.id, each.seen_at, now, forced=False)
