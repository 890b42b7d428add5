"""A cloud in memory whose hosts, links, fencers and processes die and come back by chance, and what must hold then.

Beside the fakes there is what fakes do not know: a host that is cut off by its cable goes on running its guests until
it is fenced. `check` is called after each step and raises AssertionError.
"""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import define, field
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.specs import Power
from cloudctl.instance_ha import fencing, notifications, vmoves
from cloudctl.instance_ha.segments import METHODS
from cloudctl.instance_ha.tables import OPEN, Member, Notification
from cloudctl.tasks.engine import Engine
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha

HOSTS, SERVERS = 6, 5
STEP = 5.0  # seconds


@define(eq=False)
class World:
    chance: Random
    cloud: MemoryCloud
    servers: list[str] = field(factory=list)
    members: dict[str, str] = field(factory=dict)  # host → its path in the API
    dead: set[str] = field(factory=set)  # hosts without power, or cut off
    cut_off: dict[str, set[str]] = field(factory=dict)  # host that only its cable keeps away → what it still runs
    told: list[str] = field(factory=list)  # what has happened

    @classmethod
    def of(cls, seed: int) -> World:
        """The same seed is the same world, and the same weeks in it."""
        chance = Random(seed)
        limits = {"segment_share": chance.choice((0.4, 1.0)), "cliff_share": chance.choice((0.3, 1.0))}
        tables = {"driver": {"hypervisor": {"fake": {"hosts": HOSTS}}}, "instance_ha": limits}
        made = cls(chance, MemoryCloud(tables))
        made.cloud.cloud.engine.chance = chance.random
        segment = made.ha.segment(recovery_method=chance.choice(METHODS))
        for number in range(1, HOSTS + 1):
            name = f"fake-{number}"
            made.members[name] = f"/segments/{segment}/hosts/{made.ha.host(segment, name, reserved=number == HOSTS)}"
        made.servers = [made.ha.compute.boot(metadata={"HA_Enabled": "True"}) for _ in range(SERVERS)]
        return made

    @property
    def ha(self) -> Ha:
        # A token lives for an hour, and this goes on for days.
        self.cloud._tokens.clear()
        return Ha(self.cloud.client("admin"))

    @property
    def hypervisor(self) -> FakeHypervisor:
        found = self.cloud.cloud.drivers.hypervisor
        assert isinstance(found, FakeHypervisor)
        return found

    @property
    def network(self) -> FakeNetworkBackend:
        found = self.cloud.cloud.drivers.network
        assert isinstance(found, FakeNetworkBackend)
        return found

    @property
    def fencer(self) -> FakeFencer:
        found = self.cloud.cloud.drivers.fencers["fake"]
        assert isinstance(found, FakeFencer)
        return found

    # -- what happens

    def play(self, steps: int) -> None:
        for _ in range(steps):
            if self.chance.random() < 0.1:
                self.happen()
            self.cloud.advance(STEP)
            self.check()

    def happen(self) -> None:
        events = [self.host_dies, self.cable_breaks, self.fencer_breaks, self.fencer_works, self.process_dies]
        events += [self.monitor_tells, self.engine_dies, self.host_returns, self.guest_dies]
        what = self.chance.choice(events)
        host = f"fake-{self.chance.randint(1, HOSTS)}"
        self.told.append(f"{self.cloud.clock.seconds():.0f} {what.__name__} {host}")
        what(host)

    def host_dies(self, host: str) -> None:
        if host not in self.dead:
            self._gone(host)

    def cable_breaks(self, host: str) -> None:
        """Nobody sees the host any more, and its guests go on."""
        if host not in self.dead:
            running = {each.spec.id for each in self.hypervisor.guests.values() if self._runs_on(each, host)}
            self._gone(host)
            self.cut_off[host] = running

    def _runs_on(self, guest: Any, host: str) -> bool:
        return bool(guest.spec.host == host and guest.power is Power.RUNNING)

    def _gone(self, host: str) -> None:
        self.dead.add(host)
        self.hypervisor.fail_host(host)
        if self.chance.random() < 0.8:
            self.network.silent.add(host)

    def fencer_breaks(self, _host: str) -> None:
        self.fencer.behaviour.fail("ensure_fenced", times=None, error=Unreachable("no answer"))

    def fencer_works(self, _host: str) -> None:
        self.fencer.behaviour.clear()

    def process_dies(self, host: str) -> None:
        self.ha.report(host, "COMPUTE_PROCESS", event="STOPPED")

    def guest_dies(self, _host: str) -> None:
        server = self.chance.choice(self.servers)
        host = self.ha.compute.server(server)["OS-EXT-SRV-ATTR:host"]
        guest = self.hypervisor.guests.get(server)
        if guest is not None and guest.spec.host not in self.dead:
            self.hypervisor.crash(server)
            self.ha.report(host, "COMPUTE_INSTANCE", event="STOPPED", instance_uuid=server)

    def monitor_tells(self, host: str) -> None:
        """Of a host that is gone, and sometimes of one that is not: then it is not sure."""
        sure = host in self.dead and self.chance.random() < 0.7
        self.ha.report(host, event="STOPPED", host_status="NORMAL" if sure else "UNKNOWN")

    def engine_dies(self, _host: str) -> None:
        """And another one takes over."""
        like = self.cloud.cloud.engine
        like.kill()
        anew = Engine(
            like.db, like.clock, like.drivers, like.workflows.values(), exclusive=True, expected=like.expected
        )
        anew.chance = self.chance.random
        self.cloud.cloud.engine = anew
        anew.startService()

    def host_returns(self, host: str) -> None:
        """It is repaired. One that was recovered from is told to return by its operator, who looks that it is over."""
        if host not in self.dead:
            return
        member = self.ha.get(self.members[host])["host"]
        if member["on_maintenance"]:
            changed = self.ha.ask("PUT", self.members[host], {"host": {"on_maintenance": False}})
            if changed.status == 409:
                return
        self.dead.discard(host)
        self.cut_off.pop(host, None)
        self.network.silent.discard(host)
        if host not in self.fencer.fenced:
            self.hypervisor.recover_host(host)

    # -- what must hold

    def check(self) -> None:
        for host in list(self.cut_off):
            if host in self.fencer.fenced:
                del self.cut_off[host]
        for host, running in self.cut_off.items():
            for guest in self.hypervisor.guests.values():
                twice = guest.spec.id in running and guest.spec.host != host and guest.power is Power.RUNNING
                assert not twice, self._story(f"guest {guest.spec.id} runs on {host} and on {guest.spec.host}")
        self.cloud.transact(self._check)

    def _check(self, conn: Connection) -> None:
        found = conn.execute(select(Notification)).all()
        taken = {each.reserved_for for each in conn.execute(select(Member)) if each.reserved_for is not None}
        ended = {each.id for each in found if each.status not in OPEN}
        assert not taken & ended, self._story("a reserve is leaked")
        for each in found:
            moves = vmoves.of_notification(conn, each.id)
            if any(move.status == vmoves.SUCCEEDED for move in moves):
                assert fencing.find(conn, each.id) is not None, self._story(f"{each.id} recovered without a proof")

    def rest(self) -> None:
        """Everything is repaired, and operators let go on what waits. In the end nothing is left to be done."""
        self.fencer.behaviour.clear()
        for _ in range(40):
            for each in self.cloud.transact(notifications.held):
                self.cloud.transact(_let_go_on, each)
            for host in sorted(self.dead):
                self.host_returns(host)
            for _ in range(int(200 / STEP)):
                self.cloud.advance(STEP)
                self.check()
            if not self.dead and not self.cloud.transact(_open):
                break
        assert self.cloud.transact(_open) == [], self._story("notifications never end")
        self.cloud.settle()
        self.cloud.advance(20)
        for server in self.servers:
            host, status = (self.ha.compute.server(server)[name] for name in ("OS-EXT-SRV-ATTR:host", "status"))
            assert host in self.members and status in ("ACTIVE", "SHUTOFF", "ERROR"), self._story(f"{server} is lost")

    def _story(self, end: str) -> str:
        return "\n".join([*self.told, end])


def _open(conn: Connection) -> list[tuple[str, str, str | None]]:
    found = conn.execute(select(Notification).where(Notification.status.in_(OPEN))).all()
    return [(each.hostname, each.status, each.message) for each in found]


def _let_go_on(conn: Connection, each: Notification) -> None:
    if each.subject is not None and notifications.open_of(conn, each.hostname) is not None:
        fencing.let_go_on(conn, each.hostname, each.created_at)
