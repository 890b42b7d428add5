"""What uses a port. Most ports have no such use, so all uses are queried at once before anything looks closer."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import BindParameter, bindparam, exists, or_, select

from cloudctl.db import Connection
from cloudctl.network.extension_tables import LocalIp, NdpProxy
from cloudctl.network.tables import FloatingIp, PortForwarding, RouterPort, SubPort, Trunk

_port: BindParameter[str] = bindparam("port")
# Built once: building a statement costs more than running it.
_uses = select(
    exists().where(FloatingIp.floating_port_id == _port),
    exists().where(RouterPort.port_id == _port),
    exists().where(FloatingIp.port_id == _port),
    or_(exists().where(Trunk.port_id == _port), exists().where(SubPort.port_id == _port)),
    exists().where(PortForwarding.internal_port_id == _port),
    exists().where(NdpProxy.port_id == _port),
    exists().where(LocalIp.local_port_id == _port),
)


class Uses(NamedTuple):
    """Whether there is any."""

    is_floating: bool  # it is the hidden port of a floating IP
    is_routers: bool
    has_floating_ips: bool
    is_of_trunk: bool  # it carries others, or goes through another one
    has_forwardings: bool
    has_proxies: bool
    has_local_ips: bool  # with addresses of the port


def of(conn: Connection, port_id: str) -> Uses:
    """The uses of a locked port: none is added or removed meanwhile."""
    return Uses(*conn.execute(_uses, {"port": port_id}).one())
