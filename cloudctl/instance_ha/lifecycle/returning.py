"""Bringing a broken host back into use: its fencing is lifted, it agrees with the records, it is enabled.

Until then it stays as it is: disabled, and taken for dead. Its driver drops the copies of guests that run elsewhere by
now, as for evacuations; one that is still seen here keeps the host from being used.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, update
from twisted.logger import Logger

from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.specs import GuestState
from cloudctl.errors import NotFound
from cloudctl.instance_ha import kinds, members
from cloudctl.instance_ha.lifecycle.host import BROKEN
from cloudctl.instance_ha.tables import Member, Proof
from cloudctl.placement import hosts
from cloudctl.tasks import Context, Step, Wait, Workflow
from cloudctl.tasks.workflow import Memo

log = Logger()

POLL = 10.0  # seconds


async def lift(ctx: Context) -> Memo | Wait:
    """The fencers that fenced the host release it. A host that nobody has fenced needs nothing."""
    member = await _member(ctx)
    if member is None:
        return None
    proven = await ctx.read(_fencers, member.name)
    if not proven and not await ctx.read(_is_broken, member.name):
        return None
    for name, fencer in ctx.drivers.fencers.items():
        try:
            await call(fencer.ensure_unfenced, member.name)
        except DriverError as error:
            if name in proven:
                return _later(ctx, f"{name}: {error}")
            # It may have been tried and have done something without a proof, but nothing says that it has.
            log.warn("fencer {name} does not release {host}: {why}", name=name, host=member.name, why=error)
    return None


async def agree(ctx: Context) -> Memo | Wait:
    member = await _member(ctx)
    if member is None:
        return None
    if not await ctx.read(_fencers, member.name):
        # Its recovery was given up before there was a proof: its guests are still its own, and it is watched at once.
        await ctx.commit(_enable, member.id)
        return None
    try:
        inventory = {each.name: each for each in await ctx.drivers.hypervisor.hosts()}
        if member.name not in inventory or not inventory[member.name].up:
            return Wait(POLL)
        guests = [each for each in await ctx.drivers.hypervisor.inventory() if each.host == member.name]
    except DriverError as error:
        return _later(ctx, str(error))
    stale = await ctx.read(_stale, member.name, guests)
    if stale:
        ctx.remember(stale=list(stale[:20]))
        return Wait(POLL)
    await ctx.commit(_use, member.id, ctx.now)
    return None


def _later(ctx: Context, why: str) -> Wait:
    """A driver may be away for as long as it takes: nobody would begin this again."""
    if ctx.memo.get(ctx.step, {}).get("why") != why:
        log.warn("host {id} cannot return yet: {why}", id=ctx.resource_id, why=why)
    ctx.remember(why=why)
    return Wait(POLL)


async def _member(ctx: Context) -> Member | None:
    return await ctx.read(_let_back, ctx.resource_id)


def _let_back(conn: Connection, host_id: str, *, lock: bool = False) -> Member | None:
    """None: it was removed meanwhile, or is on maintenance again. `lock`: no recovery from it begins meanwhile."""
    try:
        found = members.get(conn, host_id, lock=lock)
    except NotFound:
        return None
    return None if found.on_maintenance else found


def _fencers(conn: Connection, host: str) -> Sequence[str]:
    """The fencers whose proofs are in force."""
    return conn.scalars(select(Proof.fencer).where(Proof.host == host, Proof.lifted_at.is_(None)).distinct()).all()


def _is_broken(conn: Connection, name: str) -> bool:
    """Whether a recovery has disabled it."""
    host = hosts.find(conn, name)
    return host is not None and host.disabled_reason == BROKEN


def _stale(conn: Connection, host: str, guests: Sequence[GuestState]) -> list[str]:
    """The guests that are here but, according to the records, should not be."""
    here = Server.host == host, Server.deleted_at.is_(None)
    known = set(conn.scalars(select(Server.id).where(*here)))
    return [each.id for each in guests if each.id not in known]


def _use(conn: Connection, host_id: str, now: datetime) -> None:
    """Unless it has died again while it was looked at: a newer proof stays in force."""
    member = _let_back(conn, host_id, lock=True)
    if member is None:
        return
    conn.execute(update(Proof).where(Proof.host == member.name, Proof.lifted_at.is_(None)).values(lifted_at=now))
    host = hosts.find(conn, member.name)
    if host is None:
        return
    # Its hypervisor has just reported it. A look before the next round of all hosts must not find it silent for hours.
    hosts.change(conn, host, {"forced_down": False, "seen_at": now})
    _enable(conn, host_id)


def _enable(conn: Connection, host_id: str) -> None:
    member = _let_back(conn, host_id, lock=True)
    host = hosts.find(conn, member.name) if member else None
    if host is not None and host.disabled_reason == BROKEN:
        hosts.change(conn, host, {"enabled": True, "disabled_reason": None})


WORKFLOW = Workflow(kinds.RETURN, (Step("lift", lift), Step("agree", agree)))
