"""`/floatingips/{id}/port_forwardings`. Reference: network.md, section 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import associations, floating_ips, port_forwardings, ports
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Id, IpText, Json, Project, Text, check_owner
from cloudctl.network.associations import Target
from cloudctl.network.port_forwardings import NewForwarding
from cloudctl.network.tables import FloatingIp, PortForwarding
from cloudctl.rest.body import MISSING, Body, Length, Loose, Missing, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Listing, any_of, number
from cloudctl.rest.route import Routes

KEY, PLURAL = "port_forwarding", "port_forwardings"
ALL = "/floatingips/<floatingip_id>/port_forwardings"
ONE = f"{ALL}/<port_forwarding_id>"
SHOW, CHANGE = "network:port_forwardings:show", "network:port_forwardings:change"

PortNumber = Annotated[int, Loose(), Range(1, 65535)]
PortRange = Annotated[str, Length(1, 11)]
Protocol = Literal["tcp", "udp"]


@frozen
class CreateForwarding:
    internal_port_id: Id
    protocol: Protocol
    internal_ip_address: IpText | None = None
    internal_port: PortNumber | None = None
    external_port: PortNumber | None = None
    internal_port_range: PortRange | None = None
    external_port_range: PortRange | None = None
    description: Text = ""
    project_id: Project | Missing = MISSING
    tenant_id: Project | Missing = MISSING


@frozen
class UpdateForwarding:
    internal_port_id: Id | Missing = MISSING
    internal_ip_address: IpText | Missing = MISSING
    protocol: Protocol | Missing = MISSING
    internal_port: PortNumber | Missing = MISSING
    external_port: PortNumber | Missing = MISSING
    internal_port_range: PortRange | Missing = MISSING
    external_port_range: PortRange | Missing = MISSING
    description: Text | Missing = MISSING


c = PortForwarding
COLLECTION = lists.Collection(
    PLURAL,
    Listing(
        c.table,
        sort_keys={"id": c.id, "external_port": c.external, "internal_port": c.internal, "protocol": c.protocol},
        order=(("id", "asc"),),
        filters={
            "id": any_of(c.id),
            "protocol": any_of(c.protocol),
            "internal_port_id": any_of(c.internal_port_id),
            "internal_ip_address": any_of(c.internal_ip_address),
            "internal_port": number(c.internal),
            "external_port": number(c.external),
            "description": any_of(c.description),
        },
    ),
    port_forwardings.not_found,
)


def view(row: PortForwarding) -> Json:
    return {
        "id": row.id,
        "protocol": row.protocol,
        "internal_port_id": row.internal_port_id,
        "internal_ip_address": row.internal_ip_address,
        "internal_port": row.internal if row.count == 1 else None,
        "external_port": row.external if row.count == 1 else None,
        "internal_port_range": f"{row.internal}:{row.internal + row.count - 1}",
        "external_port_range": f"{row.external}:{row.external + row.count - 1}",
        "description": row.description,
    }


def within(conn: Connection, call: Call, records: Sequence[FloatingIp]) -> list[list[Json]]:
    """`port_forwardings` of floating IPs."""
    found = port_forwardings.of_ips(conn, [ip.id for ip in records])
    names = ("id", "protocol", "internal_port", "external_port", "internal_ip_address", "internal_port_id")
    return [[{name: view(row)[name] for name in names} for row in found.get(ip.id, ())] for ip in records]


@frozen
class PortForwardings:
    routes = Routes("Port forwardings")

    db: Database

    @routes.get(ALL, policy=SHOW, pure=True)
    async def list(self, call: Call, floatingip_id: str) -> Json:
        """List the port forwardings of a floating IP."""
        return await self.db.scan(self._list, call, floatingip_id)

    def _list(self, conn: Connection, call: Call, ip_id: str) -> Json:
        ip = floating_ips.visible(conn, call.caller, ip_id)
        page = lists.fetch(conn, call, COLLECTION, c.floatingip_id == ip.id)
        return lists.answer(call, COLLECTION, page, [view(row) for row in page.rows])

    @routes.post(ALL, policy=CHANGE, status=201, body=Body(CreateForwarding, KEY))
    async def create(self, call: Call, floatingip_id: str, body: CreateForwarding) -> Json:
        """Forward a port of a floating IP, or several, to ports of a fixed address."""
        return {KEY: await self.db.run(self._create, call, floatingip_id, body)}

    def _create(self, conn: Connection, call: Call, ip_id: str, body: CreateForwarding) -> Json:
        sent = given(body)
        check_owner(call.caller, sent)
        ip, spans = _owned(conn, call, ip_id), _spans(sent)
        if not {"internal", "external"} <= spans.keys():
            raise _bad("internal_port and external_port, or ranges of them, are needed")
        to = _target(conn, call, ip, body.internal_port_id, body.internal_ip_address)
        new = NewForwarding(body.protocol, **spans, description=body.description)
        ip = floating_ips.visible(conn, call.caller, ip_id, lock=True)
        return view(port_forwardings.create(conn, ip, to, new, call.now, call.caller))

    @routes.get(ONE, policy=SHOW, pure=True)
    async def show(self, call: Call, floatingip_id: str, port_forwarding_id: str) -> Json:
        """Show a port forwarding."""
        return {KEY: lists.narrowed(call, await self.db.read(self._show, call, floatingip_id, port_forwarding_id))}

    def _show(self, conn: Connection, call: Call, ip_id: str, id: str) -> Json:
        return view(port_forwardings.get(conn, floating_ips.visible(conn, call.caller, ip_id), id))

    @routes.put(ONE, policy=CHANGE, body=Body(UpdateForwarding, KEY))
    async def update(self, call: Call, floatingip_id: str, port_forwarding_id: str, body: UpdateForwarding) -> Json:
        """Change a port forwarding."""
        return {KEY: await self.db.run(self._update, call, floatingip_id, port_forwarding_id, body)}

    def _update(self, conn: Connection, call: Call, ip_id: str, id: str, body: UpdateForwarding) -> Json:
        ip, sent = _owned(conn, call, ip_id), given(body)
        row = port_forwardings.get(conn, ip, id)
        port_id = sent.get("internal_port_id", row.internal_port_id)
        same = row.internal_ip_address if port_id == row.internal_port_id else None
        to = _target(conn, call, ip, port_id, sent.get("internal_ip_address", same))
        spans = _spans(sent)
        ip = floating_ips.visible(conn, call.caller, ip_id, lock=True)
        row = port_forwardings.get(conn, ip, id)
        if not {"internal", "external"} <= spans.keys() and spans.get("count", row.count) != row.count:
            raise _lengths_differ()
        changes = spans | {name: sent[name] for name in ("protocol", "description") if name in sent}
        return view(port_forwardings.change(conn, ip, row, changes, to, call.now, call.caller))

    @routes.delete(ONE, policy=CHANGE)
    async def delete(self, call: Call, floatingip_id: str, port_forwarding_id: str) -> None:
        """Delete a port forwarding."""
        await self.db.run(self._delete, call, floatingip_id, port_forwarding_id)

    def _delete(self, conn: Connection, call: Call, ip_id: str, id: str) -> None:
        _owned(conn, call, ip_id)
        ip = floating_ips.visible(conn, call.caller, ip_id, lock=True)
        port_forwardings.remove(conn, ip, port_forwardings.get(conn, ip, id), call.now, call.caller)


def _owned(conn: Connection, call: Call, ip_id: str) -> FloatingIp:
    ip = floating_ips.visible(conn, call.caller, ip_id)
    call.require(project_id=ip.project_id)
    return ip


def _target(conn: Connection, call: Call, ip: FloatingIp, port_id: str, address: str | None) -> Target:
    """Where it leads. Locks the router and the port, which come before the floating IP: see `associations`."""
    seen = ports.visible(conn, call.caller, port_id)
    to = associations.target(conn, seen, ip.project_id, ip.floating_network_id, address)
    port = ports.visible(conn, call.caller, port_id, lock=True)
    if port != seen and associations.target(conn, port, ip.project_id, ip.floating_network_id, address) != to:
        raise Conflict(f"Port {port_id} was changed at the same time.")
    return to


def _spans(sent: dict[str, Any]) -> dict[str, int]:
    """The first ports of the ranges in a body, and the ranges' length. Raises Invalid."""
    found: dict[str, int] = {}
    counts = set()
    for side in ("internal", "external"):
        port, several = sent.get(f"{side}_port"), sent.get(f"{side}_port_range")
        if port is not None and several is not None:
            raise _bad(f"{side}_port and {side}_port_range cannot both be specified")
        if port is not None:
            found[side] = port
            counts.add(1)
        elif several is not None:
            found[side], last = _parsed(side, several)
            counts.add(last - found[side] + 1)
    if len(counts) > 1:
        raise _lengths_differ()
    return found | ({"count": counts.pop()} if counts else {})


def _parsed(side: str, text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    ends = [int(each) for each in (first, last or first) if each.isascii() and each.isdigit()]
    if len(ends) != 2 or not 1 <= ends[0] <= ends[1] <= 65535:
        raise _bad(f"{side}_port_range {text} is not of the form 80:90")
    return ends[0], ends[1]


def _lengths_differ() -> Invalid:
    return _bad("the ranges of internal and external ports are not of the same length")


def _bad(reason: str) -> Invalid:
    return Invalid(f"Bad port_forwarding request: {reason}.", type="BadRequest")
