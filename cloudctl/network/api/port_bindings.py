"""`/ports/{id}/bindings`. Reference: network.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.network import port_bindings, ports
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.api.ports import Profile, VnicType
from cloudctl.network.extension_tables import PortBinding
from cloudctl.network.port_bindings import ACTIVE, NewBinding
from cloudctl.network.tables import Port
from cloudctl.rest.body import MISSING, Body, Length, Missing, given
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

KEY, RULE = "binding", "network:ports:binding"
ALL = "/ports/<port_id>/bindings"
ONE = f"{ALL}/<host>"
HOST = Annotated[str, Length(1, 255, blank=False)]
FILTERS = frozenset({"host", "vif_type", "vnic_type", "status"})


@frozen
class CreateBinding:
    host: HOST
    vnic_type: VnicType = "normal"
    profile: Profile | None = None


@frozen
class UpdateBinding:
    vnic_type: VnicType | Missing = MISSING
    profile: Profile | Missing | None = MISSING


def view(port: Port, row: PortBinding, status: str) -> Json:
    return {
        "host": row.host,
        "vif_type": row.vif_type,
        "vif_details": row.vif_details,
        "vnic_type": row.vnic_type,
        "profile": row.profile,
        "status": status,
        "project_id": port.project_id,
    }


@frozen
class PortBindings:
    routes = Routes("Ports")

    db: Database

    @routes.get(ALL, policy=RULE, pure=True)
    async def list(self, call: Call, port_id: str) -> Json:
        """List the bindings of a port: the active one, and those of hosts that it may move to."""
        return {"bindings": await self.db.scan(self._list, call, port_id)}

    def _list(self, conn: Connection, call: Call, port_id: str) -> Sequence[Json]:
        unknown = [name[:64] for name in call.query if name not in FILTERS | lists.RESERVED]
        if unknown:
            raise lists.bad(f"{unknown} is invalid attribute for filtering")
        port = ports.visible(conn, call.caller, port_id)
        views = [view(port, row, status) for row, status in port_bindings.of_port(conn, port)]
        asked = [(name, call.query.all(name)) for name in FILTERS if name in call.query]
        return [lists.narrowed(call, each) for each in views if all(each[name] in values for name, values in asked)]

    @routes.post(ALL, policy=RULE, status=201, body=Body(CreateBinding, KEY))
    async def create(self, call: Call, port_id: str, body: CreateBinding) -> Json:
        """Bind a port to a further host; it stays where it is."""
        return {KEY: await self.db.run(self._create, call, port_id, body)}

    def _create(self, conn: Connection, call: Call, port_id: str, body: CreateBinding) -> Json:
        port = ports.visible(conn, call.caller, port_id, lock=True)
        new = NewBinding(body.host, body.vnic_type, body.profile or {})
        return view(port, port_bindings.create(conn, port, new, call.now, call.caller), port_bindings.INACTIVE)

    @routes.get(ONE, policy=RULE, pure=True)
    async def show(self, call: Call, port_id: str, host: str) -> Json:
        """Show the binding of a port to a host."""
        return {KEY: lists.narrowed(call, await self.db.read(self._show, call, port_id, host))}

    def _show(self, conn: Connection, call: Call, port_id: str, host: str) -> Json:
        port = ports.visible(conn, call.caller, port_id)
        return view(port, *port_bindings.get(conn, port, host))

    @routes.put(ONE, policy=RULE, body=Body(UpdateBinding, KEY))
    async def update(self, call: Call, port_id: str, host: str, body: UpdateBinding) -> Json:
        """Change the binding of a port to a host."""
        return {KEY: await self.db.run(self._update, call, port_id, host, body)}

    def _update(self, conn: Connection, call: Call, port_id: str, host: str, body: UpdateBinding) -> Json:
        port = ports.visible(conn, call.caller, port_id, lock=True)
        changes = {name: {} if value is None else value for name, value in given(body).items()}
        return view(port, *port_bindings.change(conn, port, host, changes, call.now, call.caller))

    @routes.delete(ONE, policy=RULE)
    async def delete(self, call: Call, port_id: str, host: str) -> None:
        """Delete the binding of a port to a host."""
        await self.db.run(self._delete, call, port_id, host)

    def _delete(self, conn: Connection, call: Call, port_id: str, host: str) -> None:
        port = ports.visible(conn, call.caller, port_id, lock=True)
        port_bindings.remove(conn, port, host, call.now, call.caller)

    @routes.put(f"{ONE}/activate", policy=RULE)
    async def activate(self, call: Call, port_id: str, host: str) -> Json:
        """Move a port to a host that it has a binding to."""
        return {KEY: await self.db.run(self._activate, call, port_id, host)}

    def _activate(self, conn: Connection, call: Call, port_id: str, host: str) -> Json:
        port = ports.visible(conn, call.caller, port_id, lock=True)
        return view(port, port_bindings.activate(conn, port, host, call.now, call.caller), ACTIVE)
