"""The audit of hypervisors: what is on the hosts, compared with the servers. Reference: compute-states.md, section 5.

What can be repaired becomes a task; an unknown guest is reported and left alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from attrs import frozen
from sqlalchemy import ColumnElement, and_, exists, not_, select, update

from cloudctl import db, tasks
from cloudctl.compute import kinds, migrations, notices, servers
from cloudctl.compute.states import (
    ACTIVE,
    CAN_LOSE_PORTS,
    CRASHED,
    NO_STATE,
    PAUSED,
    POWER_PAUSED,
    POWER_SUSPENDED,
    RUNNING,
    SHUTDOWN,
    SOFT_DELETED,
    STOPPED,
    SUSPENDED,
)
from cloudctl.compute.tables import Migration, Server, ServerInterface
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.drivers.specs import GuestState, Power
from cloudctl.network.tables import Port
from cloudctl.placement import claims, hosts
from cloudctl.placement.tables import Allocation, Consumer
from cloudctl.tasks import Unasked
from cloudctl.tasks.audit import Finding, Well, mended
from cloudctl.tasks.tables import DONE, TaskRow
from cloudctl.tasks.workflow import TRIED

POWER_STATES = {
    Power.RUNNING: RUNNING,
    Power.PAUSED: POWER_PAUSED,
    Power.SUSPENDED: POWER_SUSPENDED,
    Power.STOPPED: SHUTDOWN,
    Power.CRASHED: CRASHED,
}


class Seen(NamedTuple):
    """The columns of a server that are compared: the audit reads all servers."""

    id: str
    vm_state: str
    task_state: str | None
    power_state: int
    host: str | None
    project_id: str
    was_launched: bool
    is_deleted: bool


COMPARED = select(
    Server.id,
    Server.vm_state,
    Server.task_state,
    Server.power_state,
    Server.host,
    Server.project_id,
    # Only whether, not when: reading a time is more work than all the other columns together.
    Server.launched_at.is_not(None),
    Server.deleted_at.is_not(None),
)

# They end when no host has the guest, unless they say that one has kept it.
REMOVES = tuple(kind.name for kind in (kinds.OFFLOAD, kinds.LEAVE_HOST, kinds.PURGE))

# Ids in one statement: SQLite takes at most 32,766.
BATCH = 500
ON_A_HOST = Server.deleted_at.is_(None) & Server.host.is_not(None)
# Nearly all servers: there is nothing to report about one of these if its guest runs.
RUNS = and_(
    ON_A_HOST,
    Server.vm_state == ACTIVE,
    Server.power_state == RUNNING,
    Server.task_state.is_(None),
    Server.launched_at.is_not(None),
)
RUNNING_IDS = select(Server.id).where(RUNS)
# Interfaces whose ports their owner has deleted, of servers that can give them up.
PORTLESS = (
    select(ServerInterface.server_id, ServerInterface.port_id, Server.host, Server.project_id)
    .join_from(ServerInterface, Server, Server.id == ServerInterface.server_id)
    .where(ON_A_HOST, CAN_LOSE_PORTS.condition(Server.vm_state), Server.task_state.is_(None))
    .where(not_(exists().where(Port.id == ServerInterface.port_id)))
    .order_by(ServerInterface.server_id, ServerInterface.position)
)
# The tables that decide whether guests, their interfaces, and shares of hosts, are as they should be.
SERVERS = (Server.table.name,)
INTERFACES = tuple(each.table.name for each in (Server, ServerInterface, Port))
SHARES = tuple(each.table.name for each in (Server, Migration, Consumer, Allocation))


@frozen
class Difference:
    """A server that does not match its guest. `stop`: the guest, or its recorded state, has to be off."""

    kind: str
    message: str
    stop: bool = False


def compare(vm_state: str, power_state: int) -> Difference | None:
    """What is wrong with a server that has no task and whose guest is in this power state; section 5.1."""
    if vm_state == ACTIVE and power_state in (SHUTDOWN, CRASHED, POWER_SUSPENDED):
        return Difference("guest-off", "the guest shut down on its own", stop=True)
    if vm_state == ACTIVE and power_state in (POWER_PAUSED, NO_STATE):
        return Difference("guest-odd", "the guest is not running although the server is active")
    if vm_state in (STOPPED, SOFT_DELETED) and power_state not in (SHUTDOWN, CRASHED, NO_STATE):
        return Difference("guest-on", f"the guest is running although the server's state is {vm_state}", stop=True)
    if vm_state == PAUSED and power_state in (SHUTDOWN, CRASHED):
        return Difference("guest-off", "the paused guest shut down", stop=True)
    return None


def check(database: Database, hypervisor: IHypervisor) -> Callable[[], Awaitable[Sequence[Finding]]]:
    """The check, for `tasks.audit.Audit`."""

    guests_are, interfaces_are, shares_are = Well(), Well(), Well()

    async def round() -> Sequence[Finding]:
        servers, interfaces, shares = (database.changes(each) for each in (SERVERS, INTERFACES, SHARES))
        found = await hypervisor.inventory()
        up = await database.read(hosts.alive)
        findings: list[Finding] = []
        if not guests_are.is_still(servers, found, up):
            findings, are_well = await database.run(_compare_all, found, up)
            guests_are.note(are_well, servers, found, up)
        if not interfaces_are.is_still(interfaces, up):
            portless = await database.scan(_portless, up)
            interfaces_are.note(not portless, interfaces, up)
            findings += await mended(database, _take_away, portless)
        if not shares_are.is_still(shares):
            leaks = await database.scan(_leaks)
            shares_are.note(not leaks, shares)
            findings += leaks
        return findings

    return round


def _compare_all(conn: Connection, guests: Sequence[GuestState], up: set[str]) -> tuple[list[Finding], bool]:
    """All differences, and whether there is none at all, not even one that a task is dealing with."""
    now = utc(db.now(conn))
    present = {guest.id: guest for guest in guests}
    findings, are_well = list[Finding](), True
    # Nearly all are unchanged, and there may be very many.
    unexplained, off = dict(present), list[str]()
    for id in conn.scalars(RUNNING_IDS):
        guest = unexplained.pop(id, None)
        if guest is None or guest.power is not Power.RUNNING:
            off.append(id)
    known = _seen(conn, ON_A_HOST & not_(RUNS))
    # Servers whose guests do not run, and guests whose servers were deleted or are on no host.
    others = [*off, *(unexplained.keys() - known.keys())]
    for start in range(0, len(others), BATCH):
        known |= _seen(conn, Server.id.in_(others[start : start + BATCH]))
    for server in known.values():
        guest = present.get(server.id)
        if _is_as_it_may_be(server, guest, up):
            continue
        are_well = False
        finding = _one(conn, server, guest, up, now)
        if finding is not None:
            findings.append(finding)
    unknown = sorted(unexplained.keys() - known.keys())
    findings += [_finding("guest-unknown", id, f"unknown guest on {present[id].host}", False) for id in unknown]
    return findings, are_well and not unknown


def compare_these(conn: Connection, guests: Sequence[GuestState]) -> tuple[list[Finding], frozenset[str]]:
    """What is wrong with these guests' servers, and the ids of those a task is working on, which are not judged.

    An unknown guest is left to `check`.
    """
    now = utc(db.now(conn))
    present = {guest.id: guest for guest in guests}
    findings, undecided = [], set()
    for server in _seen(conn, Server.id.in_(list(present)) & Server.deleted_at.is_(None)).values():
        if server.task_state is not None or tasks.has_open(conn, kinds.SERVER, server.id):
            undecided.add(server.id)
        elif (finding := _one(conn, server, present[server.id], set(), now)) is not None:
            findings.append(finding)
    return findings, frozenset(undecided)


def _seen(conn: Connection, which: ColumnElement[bool]) -> dict[str, Seen]:
    """By their ids."""
    found = (Seen(*row) for row in conn.execute(COMPARED.where(which)))
    return {server.id: server for server in found}


def _state(server: Seen, guest: GuestState | None) -> int:
    state = NO_STATE if guest is None else POWER_STATES[guest.power]
    if server.vm_state == SUSPENDED and state == POWER_SUSPENDED:
        # As the stock hypervisors report it: the memory is saved on disk, the machine is off.
        return SHUTDOWN
    return state


def _is_as_it_may_be(server: Seen, guest: GuestState | None, up: set[str]) -> bool:
    """There is nothing to report about the server, whatever tasks it has."""
    if _is_nowhere(server):
        return guest is None
    if server.task_state is not None or not server.was_launched or (guest is None and server.host not in up):
        return True
    state = _state(server, guest)
    return guest is not None and compare(server.vm_state, state) is None and server.power_state == state


def _is_nowhere(server: Seen) -> bool:
    """Whether no host is to have its guest: it is deleted, its boot was given up, or it is shelved."""
    return server.is_deleted or (server.host is None and server.task_state is None)


def _one(conn: Connection, server: Seen, guest: GuestState | None, up: set[str], now: datetime) -> Finding | None:
    # The tasks are queried last: nearly all servers are unchanged.
    if _is_as_it_may_be(server, guest, up) or tasks.has_open(conn, kinds.SERVER, server.id):
        return None
    if _is_nowhere(server):
        assert guest is not None
        if not server.is_deleted and not is_left_behind(conn, server.id):
            message = f"host {guest.host} has the guest of a server that is on no host"
            return _finding("guest-unexpected", server.id, message, False)
        tasks.submit(conn, kinds.PURGE, server.id, Unasked(server.project_id))
        which = "a deleted server" if server.is_deleted else "a server that is on no host"
        message = f"host {guest.host} still has the guest of {which}"
        return _finding("guest-left-behind", server.id, message, True)
    state = _state(server, guest)
    _note_power(conn, server, state, now)
    if guest is None:
        return _finding("guest-missing", server.id, f"host {server.host} does not have the guest", False)
    difference = compare(server.vm_state, state)
    if difference is None:
        return None
    stopped = difference.stop and _stop(conn, server, now)
    if stopped and difference.kind == "guest-off":
        notices.off(conn, server.id, state, difference.message, now)
    return _finding(difference.kind, server.id, difference.message, stopped)


def is_left_behind(conn: Connection, server_id: str) -> bool:
    """Whether a task has left the server's guest on a host that was down.

    Without that nothing is removed: the database may be restored from a time before the guest was made, perhaps of an
    image that is no more.
    """
    mine = TaskRow.resource_type == kinds.SERVER, TaskRow.resource_id == server_id
    query = select(TaskRow.kind, TaskRow.state, TaskRow.memo).where(*mine).order_by(TaskRow.id.desc())
    for kind, state, memo in conn.execute(query):
        for told in (memo, *memo.get(TRIED, ())):
            if any(isinstance(each, dict) and "left_behind" in each for each in told.values()):
                return True
        if state == DONE and kind in REMOVES:
            # What was left before, this has removed: a guest that is there was made since.
            return False
    return False


def _finding(kind: str, server_id: str, message: str, submitted: bool) -> Finding:
    return Finding(kind, kinds.SERVER, server_id, message, submitted)


def _note_power(conn: Connection, server: Seen, state: int, now: datetime) -> None:
    if server.power_state != state:
        conn.execute(update(Server).where(Server.id == server.id).values(power_state=state))


def _stop(conn: Connection, server: Seen, now: datetime) -> bool:
    # Deleted for the time being while its host was silent, it stays deleted.
    is_deleted = server.vm_state == SOFT_DELETED
    name, kind = ("soft delete as found", kinds.SOFT_DELETE) if is_deleted else ("stop as found", kinds.STOP)
    if not servers.try_move(conn, server.id, name, now, Server.vm_state == server.vm_state):
        return False
    tasks.submit(conn, kind, server.id, Unasked(server.project_id))
    return True


def _portless(conn: Connection, up: set[str]) -> list[Finding]:
    return [
        _finding("interface-portless", server_id, f"its port {port_id} was deleted", True)
        for server_id, port_id, host, _ in conn.execute(PORTLESS)
        if host in up
    ]


def _take_away(conn: Connection, wanted: Sequence[tuple[str, str]]) -> set[str]:
    """Have servers' guests give up the interfaces. A server that has other work by now is checked in the next round."""
    idle = [id for _, id in wanted if not tasks.has_open(conn, kinds.SERVER, id)]
    for server_id, port_id, _, project_id in conn.execute(PORTLESS.where(Server.id.in_(idle))):
        tasks.submit(conn, kinds.LOSE_PORT, server_id, Unasked(project_id), args={"port_id": port_id})
    return set(idle)


def _leaks(conn: Connection) -> list[Finding]:
    """Shares of hosts that are held neither for a server that exists nor for an open migration."""
    alive = select(Server.id).where(Server.deleted_at.is_(None)), migrations.open_ids()
    return [
        _finding(
            "allocation-leaked", consumer_id, f"host {host} has an allocation for a server that does not exist", False
        )
        for consumer_id, host in claims.held_by_others(conn, *alive)
    ]
