"""`/ndp_proxies`. Neutron's extension `l3-ndp-proxy`."""

from __future__ import annotations

from typing import Any

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import INdpProxies
from cloudctl.network import ndp_proxies, ports, routers
from cloudctl.network.api.attributes import Id, IpText, Text, standard
from cloudctl.network.api.resource import Declared
from cloudctl.network.extension_tables import NdpProxy
from cloudctl.network.ndp_proxies import RECORDS, NewNdpProxy
from cloudctl.network.standard import owner_of_new
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> NdpProxy:
    project = owner_of_new(call.caller, owner)
    router = routers.visible(conn, call.caller, values.pop("router_id"), lock=True)
    port = ports.visible(conn, call.caller, values.pop("port_id"), lock=True)
    for record in (router, port):
        call.require(project_id=record.project_id)
    return ndp_proxies.create(conn, project, NewNdpProxy(**values), router, port, call.now, call.caller)


def change(conn: Connection, call: Call, row: NdpProxy, changes: dict[str, Any]) -> NdpProxy:
    return ndp_proxies.change(conn, row, changes, call.now)


def remove(conn: Connection, call: Call, row: NdpProxy) -> None:
    ndp_proxies.remove(conn, row, call.caller)


_c = NdpProxy
NDP_PROXIES = Declared(
    name="ndp_proxy",
    plural="ndp_proxies",
    title="NDP proxies",
    noun="an NDP proxy",
    record=NdpProxy,
    needs=INdpProxies,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("router_id", _c.router_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("port_id", _c.port_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("ip_address", _c.ip_address, IpText | None, post=None, filter=any_of, sort=True),
        *standard(NdpProxy, tags=None),
    ),
    visible=RECORDS.visible,
    visible_to=RECORDS.visible_to,
    not_found=RECORDS.not_found,
    create=create,
    change=change,
    remove=remove,
)
