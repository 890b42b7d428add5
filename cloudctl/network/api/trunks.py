"""`/trunks`. Reference: network.md, section 16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import ITrunks
from cloudctl.network import trunk_ports, trunks
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Flag, Id, Json, Text, standard
from cloudctl.network.api.matching import check_match
from cloudctl.network.api.resource import Declared
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import Trunk
from cloudctl.network.trunks import NewSubPort, NewTrunk
from cloudctl.rest.body import Body, Items, Loose
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes


@frozen
class SubPortBody:
    port_id: Id
    segmentation_type: Literal["vlan", "inherit"]
    segmentation_id: Annotated[int, Loose()] | None = None


@frozen
class CarriedPort:
    port_id: Id
    segmentation_type: Text | None = None
    segmentation_id: Annotated[int, Loose()] | None = None


SubPorts = Annotated[list[SubPortBody], Items(0, 500)]


@frozen
class MorePorts:
    sub_ports: SubPorts


@frozen
class FewerPorts:
    sub_ports: Annotated[list[CarriedPort], Items(0, 500)]


def sub_ports(conn: Connection, call: Call, records: Sequence[Trunk]) -> list[list[Json]]:
    found = trunk_ports.of_trunks(conn, [trunk.id for trunk in records])
    return [[trunk_ports.view(row) for row in found.get(trunk.id, ())] for trunk in records]


def _new(wanted: Sequence[SubPortBody] | None) -> list[NewSubPort]:
    return [NewSubPort(each.port_id, each.segmentation_type, each.segmentation_id) for each in wanted or ()]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Trunk:
    new = NewTrunk(**{**values, "sub_ports": _new(values["sub_ports"])})
    return trunks.create(conn, call.caller, owner_of_new(call.caller, owner), new)


def change(conn: Connection, call: Call, trunk: Trunk, changes: dict[str, Any]) -> Trunk:
    return trunks.change(conn, call.caller, trunk, changes)


def remove(conn: Connection, call: Call, trunk: Trunk) -> None:
    trunks.remove(conn, call.caller, trunk)


_c = Trunk
TRUNKS = Declared(
    name="trunk",
    record=Trunk,
    needs=ITrunks,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("port_id", _c.port_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("status", _c.status, filter=any_of, sort=True),
        Attribute("admin_state_up", _c.admin_state_up, Flag, post=True, put=True, filter=lists.truths, sort=True),
        Attribute("sub_ports", None, SubPorts | None, post=None, view=sub_ports),
        *standard(Trunk),
    ),
    visible=trunks.visible,
    visible_to=trunks.visible_to,
    not_found=trunks.not_found,
    create=create,
    to_change=trunks.to_change,
    change=change,
    to_remove=trunks.to_change,
    remove=remove,
    says={"delete": "Delete a trunk that no device uses; its subports stay."},
)

ONE = "/trunks/<trunk_id>"


@frozen
class TrunkSubPorts:
    routes = Routes("Trunks")

    db: Database

    @routes.get(f"{ONE}/get_subports", policy="network:trunks:show", pure=True)
    async def list(self, call: Call, trunk_id: str) -> Json:
        """List the subports of a trunk."""
        return {"sub_ports": await self.db.scan(self._list, call, trunk_id)}

    def _list(self, conn: Connection, call: Call, id: str) -> Sequence[Json]:
        return sub_ports(conn, call, [trunks.visible(conn, call.caller, id)])[0]

    @routes.put(f"{ONE}/add_subports", policy="network:trunks:update", body=Body(MorePorts))
    async def add(self, call: Call, trunk_id: str, body: MorePorts) -> Json:
        """Add subports to a trunk."""
        return await self.db.run(self._add, call, trunk_id, body)

    def _add(self, conn: Connection, call: Call, id: str, body: MorePorts) -> Json:
        trunk = _changeable(conn, call, id)
        return TRUNKS.views(conn, call, [trunks.add_subports(conn, call.caller, trunk, _new(body.sub_ports))])[0]

    @routes.put(f"{ONE}/remove_subports", policy="network:trunks:update", body=Body(FewerPorts))
    async def remove(self, call: Call, trunk_id: str, body: FewerPorts) -> Json:
        """Remove subports from a trunk."""
        return await self.db.run(self._remove, call, trunk_id, body)

    def _remove(self, conn: Connection, call: Call, id: str, body: FewerPorts) -> Json:
        trunk = _changeable(conn, call, id)
        ids = [each.port_id for each in body.sub_ports]
        return TRUNKS.views(conn, call, [trunks.remove_subports(conn, call.caller, trunk, ids)])[0]


def _changeable(conn: Connection, call: Call, id: str) -> Trunk:
    """The trunk, locked, if the caller may change it and its revision is the expected one."""
    trunk = trunks.to_change(conn, call.caller, id)
    call.require(project_id=trunk.project_id)
    check_match(call, trunk)
    return trunk
