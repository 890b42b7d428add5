"""The VPN in which a router is announced, by its number (VNI). Neutron's extension `evpn`.

No two routers have the same number. These are not the numbers that networks have on the wire.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.network.options import NetworkOptions
from cloudctl.network.tables import Router
from cloudctl.tasks import queue

MOST = 2**24 - 1
ANY = 0  # requests a free one

# Built once: building a statement costs more than running it.
_of = select(Router.id).where(Router.evpn_vni == bindparam("vni"))
_taken = select(Router.evpn_vni).where(Router.evpn_vni >= bindparam("least")).order_by(Router.evpn_vni)


def take(conn: Connection, wanted: int, options: NetworkOptions) -> int:
    """The number for a router made in this transaction. Raises Conflict if it is taken, or if all are."""
    # Concurrent requests take turns.
    queue.lock_resource(conn, "evpn", "numbers")
    if wanted == ANY:
        return _free(conn, options)
    if conn.scalar(_of, {"vni": wanted}) is not None:
        raise Conflict(f"EVPN VNI {wanted} is already in use.", type="EVPNVNIInUse")
    return wanted


def _free(conn: Connection, options: NetworkOptions) -> int:
    """The lowest free one in the configured range."""
    expected = options.vni_minimum
    for number in conn.scalars(_taken, {"least": options.vni_minimum}):
        if number != expected:
            break
        expected += 1
    if expected > options.vni_maximum:
        message = f"No EVPN VNI available in range [{options.vni_minimum}, {options.vni_maximum}]."
        raise Conflict(message, type="EVPNNoVniAvailable")
    return expected
