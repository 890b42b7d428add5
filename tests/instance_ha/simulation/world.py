"""A cloud in memory whose hosts, links, fencers, processes and database die and come back by chance for weeks, and what
must hold meanwhile.

Beside the fakes there is what fakes do not know: a host that is cut off by its cable goes on running its guests until
it is fenced. While nothing happens and nothing is waited for the Clock leaps, so that a month is some minutes of work;
`check` is called after every step and raises AssertionError with all that has happened.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

from attrs import define, field
from sqlalchemy import Select, bindparam, select
from sqlalchemy.exc import OperationalError

from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import OFF, FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.instance_ha import fencing, notifications, vmoves
from cloudctl.instance_ha.kinds import OF_HOST, RETURN
from cloudctl.instance_ha.lifecycle.host import BROKEN
from cloudctl.instance_ha.segments import METHODS
from cloudctl.instance_ha.tables import OPEN, Member, Notification, Proof
from cloudctl.placement import hosts
from cloudctl.placement.tables import Allocation, Host
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import OPEN as UNDER_WAY
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.volume.states import IN_USE
from cloudctl.volume.tables import Volume
from tests.instance_ha.asking import Ha
from tests.instance_ha.simulation.machines import Machines
from tests.instance_ha.simulation.population import Populated, Size, drivers, populated

STEP = 10.0  # seconds, while something is done
HASTE = 20.0  # while everything is being repaired
START_STEP = 120.0  # while hosts start
HELD_STEP = 600.0  # while all that is open waits for somebody
ALERT = 180.0  # for how long it is looked at closely after something has happened
GAP = 18 * 3600.0  # between two bouts of trouble, on average
PATIENCE = timedelta(minutes=30)  # who has not moved for so long says what it waits for
BACK = 120.0  # until a host is in service again that its operator let return, and that both channels see
DAY = 86_400.0

_open = select(Notification).where(Notification.status.in_(OPEN))
_tasks = select(TaskRow.id).where(TaskRow.state.in_(UNDER_WAY)).limit(1)
_others = _tasks.where(TaskRow.kind != RETURN.name)
_taken = select(Member).where(Member.reserved_for.is_not(None))
_servers = select(Server.id, Server.host, Server.vm_state, Server.task_state, Server.fault_message).where(
    Server.deleted_at.is_(None)
)
_moved = select(Notification).where(Notification.number > bindparam("after")).order_by(Notification.number)


@define(eq=False)
class World:
    chance: Random
    cloud: MemoryCloud
    size: Size
    people: Populated
    dead: set[str] = field(factory=set)  # hosts without power, or cut off
    cut_off: dict[str, set[str]] = field(factory=dict)  # host that only its cable keeps away → what it still runs
    let_go: set[str] = field(factory=set)  # hosts that got their power back, and of which nobody has complained since
    awaited: dict[str, float | None] = field(factory=dict)  # those not in service yet → since when they have started
    told: list[str] = field(factory=list)  # what has happened
    counts: Counter[str] = field(factory=Counter)
    looked_at: int = 0  # the last notification that was seen to have ended
    alert_until: float = 0.0
    away_until: float = 0.0  # of the database
    logged_in_at: float = 0.0
    machines: Machines = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.machines = Machines(self.chance, self.cloud.clock, self._up, self.network.silent.discard)
        self.fencer.starts = self._let_go

    @classmethod
    def of(cls, seed: int, size: Size | None = None) -> World:
        """The same seed is the same world, and the same weeks in it."""
        chance = Random(seed)
        size = size or Size.by(chance)
        limits = {
            "segment_share": chance.choice((0.4, 1.0)),
            "cliff_share": chance.choice((0.3, 1.0)),
            "add_reserved_host_to_aggregate": chance.random() < 0.5,
            "process_all_instances": chance.random() < 0.5,
        }
        people = populated(size, chance)
        more = {"instance_ha": limits, "tasks": {"audit_period": chance.choice((300.0, 3600.0))}}
        made = cls(chance, people.start(size, more), size, people)
        made.cloud.cloud.engine.chance = chance.random
        for segment in people.segments:
            made.ha.ask("PUT", f"/segments/{segment}", {"segment": {"recovery_method": chance.choice(METHODS)}})
        transact = made.cloud.db.transact

        def unless_away(*args: Any, **kwargs: Any) -> Any:
            if made.cloud.clock.seconds() < made.away_until:
                raise OperationalError("SELECT 1", {}, Exception("the database is away"))
            return transact(*args, **kwargs)

        made.cloud.db.transact = unless_away  # type: ignore[method-assign]  # which is what a broken link does
        return made

    @property
    def now(self) -> float:
        return self.cloud.clock.seconds()

    @property
    def ha(self) -> Ha:
        if self.now - self.logged_in_at > 1800:
            # A token lives for an hour.
            self.cloud._tokens.clear()
            self.logged_in_at = self.now
        return Ha(self.cloud.client("admin"))

    @property
    def hypervisor(self) -> FakeHypervisor:
        return drivers(self.cloud)[0]

    @property
    def backend(self) -> FakeVolumeBackend:
        return drivers(self.cloud)[1]

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

    def play(self, days: float) -> None:
        end, bout = self.now + days * DAY, self.now
        while self.now < end:
            if self.now >= bout:
                for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
                    self.happen()
                bout = self.now + self.chance.expovariate(1 / GAP)
            step = self._step(bout)
            if self.chance.random() < {STEP: 0.02, START_STEP: 0.02, HELD_STEP: 0.3}.get(step, 0.0):
                # While it is being recovered from; and who is waited for comes sooner than by chance.
                self.happen()
            self.advance(step)

    def _step(self, bout: float) -> float:
        """In seconds: as long as nothing that matters can happen meanwhile."""
        if self.now < max(self.alert_until, self.away_until):
            return STEP
        # Who hangs is waited for as long as an operator does.
        waiting, busy = self.cloud.transact(_waiting, _others)
        if self.machines.starting.keys() - self.machines.hanging and all(each.held for each in waiting):
            return START_STEP
        if not waiting and not busy:
            return max(STEP, bout - self.now)
        return HELD_STEP if all(each.held for each in waiting) else STEP

    def advance(self, seconds: float) -> None:
        self.cloud.advance(seconds)
        self.check()

    def happen(self) -> None:
        """One thing; dying and being repaired are as frequent, so that there are always some hosts of either kind."""
        if self.now < self.away_until:
            return
        events = [self.host_dies, self.cable_breaks, self.rack_dies, self.host_flaps, self.guest_dies]
        events += [self.fencer_breaks, self.fencer_works, self.operator_looks, self.process_dies, self.monitor_tells]
        events += [self.monitor_tells, self.engine_dies, self.database_goes, self.host_returns, self.host_returns]
        events += [self.host_returns, self.host_returns]
        what = self.chance.choice(events)
        host = self._any()
        if what == self.host_returns and self.dead:
            host = self.chance.choice(sorted(self.dead))
        self.told.append(f"{self.now:.0f} {what.__name__} {host}")
        self.counts[what.__name__] += 1
        self.alert_until = self.now + ALERT
        what(host)

    def _any(self) -> str:
        return f"fake-{self.chance.randint(1, self.size.hosts)}"

    def host_dies(self, host: str) -> None:
        if host not in self.dead:
            self._gone(host)

    def rack_dies(self, host: str) -> None:
        """Several at once."""
        for name in sorted({host, self._any(), self._any()}):
            self.host_dies(name)

    def cable_breaks(self, host: str) -> None:
        """Nobody sees the host any more, and its guests go on."""
        if host not in self.dead:
            running = {each.spec.id for each in self.hypervisor.guests.values() if _runs_on(each, host)}
            self._gone(host)
            self.cut_off[host] = running

    def host_flaps(self, host: str) -> None:
        """It is away for less than it takes to be taken for dead, some times, and tells of itself each time."""
        for _ in range(3):
            if host in self.dead or self.now < self.away_until:
                return
            self._gone(host, silent=True)
            self.advance(20.0)
            self.ha.report(host, event="STOPPED", host_status="UNKNOWN")
            if host in self.fencer.fenced:
                return
            self.dead.discard(host)
            self.network.silent.discard(host)
            self.hypervisor.recover_host(host)
            self.advance(20.0)

    def _gone(self, host: str, silent: bool | None = None) -> None:
        self.dead.add(host)
        self.machines.lose_power(host)
        self._is_complained_of(host)
        self.counts["deaths"] += 1
        if self.hypervisor.machines[host].up:
            # It is not, if it was fenced, or is not let go yet.
            self.hypervisor.fail_host(host)
        if self.chance.random() < 0.8 if silent is None else silent:
            self.network.silent.add(host)

    def fencer_breaks(self, _host: str) -> None:
        self.fencer.behaviour.fail("ensure_fenced", times=None, error=Unreachable("no answer"))

    def fencer_works(self, _host: str) -> None:
        self.fencer.behaviour.clear()

    def operator_looks(self, _host: str) -> None:
        """And says of what waits that it shall go on, or pulls the plugs of a host that no fencer reaches."""
        for each in self.cloud.transact(notifications.held):
            if "no proof" in (each.message or ""):
                self.cut_off.pop(each.hostname, None)
                if each.hostname not in self.dead:
                    self._gone(each.hostname, silent=True)
                self.cloud.transact(fencing.vouch, each.hostname, "its plugs are in my hand", utc(self.now))
            else:
                self._is_complained_of(each.hostname)
                self.cloud.transact(_let_go_on, each)

    def process_dies(self, host: str) -> None:
        if self.ha.report(host, "COMPUTE_PROCESS", event="STOPPED").status == 202:
            self.cloud.advance(STEP)
            if self.now >= self.away_until:
                self.ha.compute.put("/os-services/enable", {"host": host, "binary": "nova-compute"})

    def guest_dies(self, _host: str) -> None:
        alive = [each for each in self.hypervisor.guests.values() if self.hypervisor.machines[each.spec.host].up]
        if alive:
            self.hypervisor.crash(self.chance.choice(alive).spec.id)

    def monitor_tells(self, host: str) -> None:
        """Of a host that is gone, and sometimes of one that is not: then it is not sure."""
        if self.dead and self.chance.random() < 0.8:
            host = self.chance.choice(sorted(self.dead))
        sure = host in self.dead and self.chance.random() < 0.7
        if sure:
            self._is_complained_of(host)
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

    def database_goes(self, _host: str) -> None:
        self.away_until = self.now + self.chance.choice((20.0, 60.0))

    def host_returns(self, host: str) -> None:
        """It is repaired. One that was recovered from is told to return by its operator, who looks that it is over."""
        if host not in self.dead:
            return
        member = self.ha.get(self.people.members[host])["host"]
        if member["on_maintenance"]:
            changed = self.ha.ask("PUT", self.people.members[host], {"host": {"on_maintenance": False}})
            if changed.status == 409:
                return
        self.dead.discard(host)
        if host in self.fencer.fenced:
            return
        if self.cut_off.pop(host, None) is not None:
            # It is plugged in again.
            self.hypervisor.recover_host(host)
            self.network.silent.discard(host)
        else:
            if member["on_maintenance"]:
                self.awaited[host] = None
                # Without a proof what it had is not elsewhere, and is recovered if it does not come soon.
                if self.cloud.transact(_is_proven, host):
                    self.let_go.add(host)
            self.machines.lose_power(host)
            self.machines.start(host)

    def _let_go(self, host: str) -> None:
        """It has its power again."""
        # Without a proof it is recovered from anew if it is not there, as in `host_returns`.
        if self.cloud.transact(_is_proven, host):
            self.let_go.add(host)
        self.awaited[host] = None
        self.network.silent.add(host)
        if host not in self.dead:
            self.machines.start(host)

    def _up(self, host: str) -> None:
        self.hypervisor.recover_host(host)
        self.alert_until = max(self.alert_until, self.now + ALERT)

    def _is_complained_of(self, host: str) -> None:
        """Whatever becomes of it, it is not because it starts slowly."""
        self.let_go.discard(host)
        self.awaited.pop(host, None)

    # -- what must hold

    def check(self) -> None:
        for host in self.fencer.fenced:
            self.cut_off.pop(host, None)
            if host not in self.let_go:
                self.awaited.pop(host, None)
            if host in self.machines.starting:
                self.machines.lose_power(host)
                self.dead.add(host)
            assert host not in self.let_go, self._story(f"{host} is fenced again, and did not die")
        self.dead |= self.machines.hanging
        for host, running in self.cut_off.items():
            for id in running:
                guest = self.hypervisor.guests.get(id)
                twice = guest is not None and guest.spec.host != host and guest.power not in OFF
                assert not twice, self._story(f"guest {id} runs on {host} and on another host")
        if self.now >= self.away_until:
            self.cloud.transact(self._check)

    def _check(self, conn: Connection) -> None:
        waiting = {each.id: each for each in conn.execute(_open).all()}
        for each in waiting.values():
            if each.kind == OF_HOST and each.hostname not in self.let_go:
                # It was let return without a proof, was not there in time, and is recovered from anew.
                self.awaited.pop(each.hostname, None)
        self._check_returned(conn)
        for member in conn.execute(_taken).all():
            assert member.reserved_for in waiting, self._story(f"the reserve {member.name} is leaked")
        for each in waiting.values():
            moved = each.updated_at or each.created_at
            is_told = each.held or utc(self.now) - moved < PATIENCE
            assert is_told, self._story(f"{each.id} of {each.hostname} is {each.status} since {moved}: {each.message}")
        for each in conn.execute(_moved, {"after": self.looked_at}).all():
            arrived = sum(move.status == vmoves.SUCCEEDED for move in vmoves.of_notification(conn, each.id))
            if arrived:
                assert fencing.find(conn, each.id) is not None, self._story(f"{each.id} recovered without a proof")
            if each.number == self.looked_at + 1 and each.id not in waiting:
                self.looked_at = each.number
                self.counts[each.status] += 1
                self.counts["moved"] += arrived

    def _check_returned(self, conn: Connection) -> None:
        """Who starts, however slowly, is in service soon after."""
        for name in sorted(self.awaited.keys() - self.dead - self.machines.starting.keys()):
            since = self.awaited[name] = max(self.awaited[name] or self.now, self.away_until)
            host = hosts.find(conn, name)
            if host is not None and hosts.is_alive(host) and host.disabled_reason != BROKEN:
                del self.awaited[name]
                self.counts["back in service"] += 1
            else:
                late = self.now - since > BACK
                assert not late, self._story(f"{name} has started at {since:.0f}, and is not in service")

    def rest(self) -> None:
        """Everything is repaired, and operators let go on what waits. In the end nothing is left to be done."""
        while self.now < self.away_until:
            self.advance(STEP)
        self.fencer.behaviour.clear()
        self.machines.hurried = True
        for _ in range(60):
            self.operator_looks("")
            # One may have been fenced when it had returned already.
            self.dead |= self.fencer.fenced
            for host in sorted(self.dead):
                self.host_returns(host)
            # What was on a host that nobody was told of is found to be off by the next audit.
            for _ in range(int(self.cloud.config.tasks.audit_period / HASTE) + 1):
                self.advance(HASTE)
            waiting, busy = self.cloud.transact(_waiting)
            if not (self.dead or self.fencer.fenced or self.machines.starting or waiting or busy):
                break
        waiting, _busy = self.cloud.transact(_waiting)
        left = [(each.hostname, each.status, each.message) for each in waiting]
        assert left == [], self._story("notifications never end")
        self.cloud.settle()
        self.cloud.advance(20)
        self.cloud.transact(self._check_rest)

    def _check_rest(self, conn: Connection) -> None:
        """No guest is lost, and each is in one place, by the records, the claims and the hypervisor alike."""
        host_of = {host.id: host.name for host in conn.execute(select(Host))}
        claims: dict[str, set[str]] = {}
        users: dict[str, set[str | None]] = {}  # volume → the hosts of the servers that have it
        for consumer_id, provider_id in conn.execute(select(Allocation.consumer_id, Allocation.provider_id)):
            claims.setdefault(consumer_id, set()).add(host_of[provider_id])
        for host in conn.execute(select(Host)).all():
            assert host.up and not host.forced_down, self._story(f"{host.name} is not used again")
        for server, on, vm_state, task_state, fault in conn.execute(_servers):
            guest = self.hypervisor.guests.get(server)
            story = f"{server} is {vm_state} on {on}: {fault}"
            assert task_state is None and vm_state in ("active", "stopped", "error"), self._story(story)
            assert claims.get(server) == {on}, self._story(f"{story}; it claims {claims.get(server)}")
            if vm_state == "active":
                assert guest is not None and guest.power not in OFF, self._story(f"{story}; its guest is not on")
            if guest is not None:
                assert guest.spec.host == on, self._story(f"{story}; its guest is on {guest.spec.host}")
            volumes = {each.volume_id for each in guest.spec.volumes} if guest is not None else set()
            assert volumes == self.people.volumes[server], self._story(f"{story}; it has the volumes {volumes}")
            for id in volumes:
                users.setdefault(id, set()).add(on)
        status = dict(conn.execute(select(Volume.id, Volume.status)).all())
        for disk in self.backend.volumes.values():
            where = users.pop(disk.id)
            assert set(disk.hosts) == where, self._story(f"{disk.id} is for {where}, and offered to {disk.hosts}")
            assert status[disk.id] == IN_USE, self._story(f"{disk.id} is {status[disk.id]}")
        assert not users, self._story(f"these disks are lost: {users}")

    def _story(self, end: str) -> str:
        return "\n".join([*self.told, f"{self.now:.0f} {end}"])


def _runs_on(guest: Any, host: str) -> bool:
    return bool(guest.spec.host == host and guest.power not in OFF)


def _waiting(conn: Connection, tasks: Select[Any] = _tasks) -> tuple[list[Notification], bool]:
    """The notifications that are open, and whether one of these tasks is under way."""
    return list(conn.execute(_open).all()), conn.execute(tasks).first() is not None


def _is_proven(conn: Connection, host: str) -> bool:
    """Whether somebody's word holds that it is off."""
    holds = select(Proof.number).where(Proof.host == host, Proof.lifted_at.is_(None)).limit(1)
    return conn.execute(holds).first() is not None


def _let_go_on(conn: Connection, each: Notification) -> None:
    if each.subject is not None and notifications.open_of(conn, each.hostname) is not None:
        fencing.let_go_on(conn, each.hostname, each.created_at)
