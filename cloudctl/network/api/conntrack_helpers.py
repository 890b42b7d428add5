"""`/routers/{id}/conntrack_helpers`. Neutron's extension `l3-conntrack-helper`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cloudctl.db import Connection
from cloudctl.network import conntrack_helpers, routers
from cloudctl.network.api.attributes import NAMED_OWNER, Json
from cloudctl.network.api.children import Children
from cloudctl.network.conntrack_helpers import NewHelper
from cloudctl.network.extension_tables import ConntrackHelper
from cloudctl.network.tables import Router
from cloudctl.rest.body import Length, Loose, Range
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute

PortNumber = Annotated[int, Loose(), Range(1, 65535)]
Protocol = Literal["tcp", "udp", "dccp", "icmp", "ipv6-icmp", "sctp"]


def within(conn: Connection, call: Call, records: Sequence[Router]) -> list[list[Json]]:
    """`conntrack_helpers` of routers."""
    found = conntrack_helpers.of_routers(conn, [router.id for router in records])
    return [
        [{"protocol": row.protocol, "port": row.port, "helper": row.helper} for row in found.get(router.id, ())]
        for router in records
    ]


def create(conn: Connection, call: Call, router: Router, values: dict[str, Any]) -> ConntrackHelper:
    return conntrack_helpers.create(conn, router, NewHelper(**values), call.now, call.caller)


def change(
    conn: Connection, call: Call, router: Router, row: ConntrackHelper, changes: dict[str, Any]
) -> ConntrackHelper:
    return conntrack_helpers.change(conn, router, row, changes, call.now, call.caller)


def remove(conn: Connection, call: Call, router: Router, row: ConntrackHelper) -> None:
    conntrack_helpers.remove(conn, router, row, call.now, call.caller)


_c = ConntrackHelper
CONNTRACK_HELPERS = Children(
    name="conntrack_helper",
    record=ConntrackHelper,
    path="/routers/<router_id>/conntrack_helpers",
    parent_id="router_id",
    parent=routers.visible,
    belongs=_c.router_id,
    key=_c.id,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("protocol", _c.protocol, Protocol, post=REQUIRED, put=True, filter=any_of, sort=True),
        Attribute("port", _c.port, PortNumber, post=REQUIRED, put=True, filter=number, sort=True),
        Attribute(
            "helper", _c.helper, Annotated[str, Length(1, 64)], post=REQUIRED, put=True, filter=any_of, sort=True
        ),
        *NAMED_OWNER,
    ),
    not_found=conntrack_helpers.not_found,
    create=create,
    change=change,
    remove=remove,
)
