"""Conntrack helpers of routers: they follow protocols that open further connections. `l3-conntrack-helper`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.drivers.specs import ConntrackHelper as Spec
from cloudctl.errors import Invalid, NotFound
from cloudctl.network import kinds, standard
from cloudctl.network.extension_tables import ConntrackHelper
from cloudctl.network.tables import Router
from cloudctl.tasks import Origin

# Helpers of the kernel → the protocols that they understand.
HELPERS = {
    "amanda": ("tcp", "udp"),
    "ftp": ("tcp",),
    "h323": ("tcp", "udp"),
    "irc": ("tcp",),
    "netbios-ns": ("udp",),
    "pptp": ("tcp",),
    "sane": ("tcp",),
    "sip": ("tcp", "udp"),
    "snmp": ("udp",),
    "tftp": ("udp",),
}


@frozen
class NewHelper:
    protocol: str
    port: int
    helper: str


# Whether a router has any: to be queried together with the router.
any_of_router = select(ConntrackHelper.id).where(ConntrackHelper.router_id == Router.id).exists()
# Built once: building a statement costs more than running it.
_of_routers = (
    select(ConntrackHelper)
    .where(ConntrackHelper.router_id.in_(bindparam("routers", expanding=True)))
    .order_by(ConntrackHelper.router_id, ConntrackHelper.protocol, ConntrackHelper.port)
)


def not_found(id: str) -> NotFound:
    return NotFound(f"Conntrack Helper {id[:64]} could not be found.", type="ConntrackHelperNotFound")


def of_routers(conn: Connection, router_ids: Sequence[str]) -> dict[str, list[ConntrackHelper]]:
    """Router id → its helpers. Routers without any are missing."""
    return standard.grouped((row.router_id, row) for row in standard.rows(conn, _of_routers, routers=router_ids))


# -- changes, each of a locked router


def create(conn: Connection, router: Router, new: NewHelper, now: datetime, by: Origin) -> ConntrackHelper:
    """Raises Invalid."""
    made = ConntrackHelper(id=new_id(), router_id=router.id, protocol=new.protocol, port=new.port, helper=new.helper)
    _check(conn, made)
    conn.execute(insert(ConntrackHelper).values(**made._asdict()))
    _changed(conn, router, now, by)
    return made


def change(
    conn: Connection, router: Router, row: ConntrackHelper, changes: Mapping[str, Any], now: datetime, by: Origin
) -> ConntrackHelper:
    """Raises Invalid."""
    changed = row._replace(**changes)
    _check(conn, changed)
    conn.execute(update(ConntrackHelper).where(ConntrackHelper.id == row.id).values(**changes))
    _changed(conn, router, now, by)
    return changed


def remove(conn: Connection, router: Router, row: ConntrackHelper, now: datetime, by: Origin) -> None:
    table = ConntrackHelper.table
    conn.execute(table.delete().where(table.c.id == row.id))
    _changed(conn, router, now, by)


def _check(conn: Connection, wanted: ConntrackHelper) -> None:
    protocols = HELPERS.get(wanted.helper)
    if protocols is None:
        message = f"Conntrack helper {wanted.helper[:64]} is not allowed: it is one of {', '.join(HELPERS)}."
        raise Invalid(message, type="ConntrackHelperNotAllowed")
    if wanted.protocol not in protocols:
        message = f"Conntrack helper {wanted.helper} does not understand {wanted.protocol}."
        raise Invalid(message, type="InvalidProtocolForHelper")
    for row in of_routers(conn, [wanted.router_id]).get(wanted.router_id, ()):
        if row.id != wanted.id and (row.protocol, row.port) == (wanted.protocol, wanted.port):
            message = (
                "Bad conntrack_helper request: A duplicate conntrack helper entry with same attributes already exists, "
                f"conflicting values are {row.protocol}, {row.port}."
            )
            raise Invalid(message, type="BadRequest")


def _changed(conn: Connection, router: Router, now: datetime, by: Origin) -> None:
    standard.change(conn, Router.table, router.id, now)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)


def driver_specs(conn: Connection, router_id: str) -> tuple[Spec, ...]:
    rows = of_routers(conn, [router_id]).get(router_id, ())
    return tuple(Spec(row.protocol, row.port, row.helper) for row in rows)
