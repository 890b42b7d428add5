"""`/ports`. Reference: network.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import orjson
from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import macs, networks, port_security, ports, qos_policies, router_ports, standard, tags
from cloudctl.network.addresses import parse_address
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import (
    Flag,
    Id,
    IpText,
    Json,
    MacText,
    Project,
    Rows,
    Tags,
    Text,
    Views,
    default,
    enveloped,
    listed,
    owner_named,
)
from cloudctl.network.api.attributes import standard as standard_view
from cloudctl.network.api.matching import check_match
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.ports import NewPort
from cloudctl.network.tables import IpAllocation, Port, PortSecurityGroup
from cloudctl.rest.body import MISSING, Body, Check, Items, Missing, ValueProblem, given, wire
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, any_of
from cloudctl.rest.route import Routes

# -- filters


def _with_fixed_ips(values: Sequence[str]) -> Condition:
    """`ip_address=…`, `ip_address_substr=…` and `subnet_id=…`: one address of the port meets all of them."""
    wanted: dict[str, list[str]] = {"ip_address": [], "ip_address_substr": [], "subnet_id": []}
    for value in values:
        name, _, rest = value.partition("=")
        if name not in wanted or not rest:
            raise lists.bad(f"Invalid input for fixed_ips. Reason: {value[:64]!r} is not of the form ip_address=VALUE.")
        wanted[name].append(_canonical(rest) if name == "ip_address" else rest)
    a = IpAllocation.table.c
    found = select(a.port_id)
    if wanted["ip_address"]:
        found = found.where(a.ip_address.in_(wanted["ip_address"]))
    for part in wanted["ip_address_substr"]:
        found = found.where(a.ip_address.contains(part, autoescape=True))
    if wanted["subnet_id"]:
        found = found.where(a.subnet_id.in_(wanted["subnet_id"]))
    return Port.id.in_(found)


def _canonical(text: str) -> str:
    try:
        return str(parse_address(text))
    except Invalid:
        # No port has it.
        return text


def _with_mac(values: Sequence[str]) -> Condition:
    found = []
    for value in values:
        try:
            found.append(macs.parse(value))
        except Invalid:
            found.append(value)
    return Port.mac_address.in_(found)


def _with_groups(values: Sequence[str]) -> Condition:
    return Port.id.in_(select(PortSecurityGroup.port_id).where(PortSecurityGroup.security_group_id.in_(values)))


COLLECTION = lists.collection(
    "ports",
    Port.table,
    ports.not_found,
    filters={
        "name": any_of(Port.name),
        "network_id": any_of(Port.network_id),
        "status": any_of(Port.status),
        "admin_state_up": lists.truths(Port.admin_state_up),
        "mac_address": _with_mac,
        "device_id": any_of(Port.device_id),
        "device_owner": any_of(Port.device_owner),
        "port_security_enabled": lists.truths(Port.port_security_enabled),
        "fixed_ips": _with_fixed_ips,
        "security_groups": _with_groups,
        "binding:host_id": any_of(Port.host),
        "qos_policy_id": any_of(Port.qos_policy_id),
    },
    sort_keys={
        "name": Port.name,
        "network_id": Port.network_id,
        "status": Port.status,
        "admin_state_up": Port.admin_state_up,
        "mac_address": Port.mac_address,
        "device_id": Port.device_id,
        "device_owner": Port.device_owner,
    },
)

# -- bodies


@frozen
class FixedIp:
    subnet_id: Id | None = None
    ip_address: IpText | None = None


@frozen
class AddressPair:
    ip_address: IpText
    mac_address: MacText | None = None


FixedIps = Annotated[list[FixedIp], Items(0, 100)]
# More than the domain takes, so that its own error is the one that is seen.
AddressPairs = Annotated[list[AddressPair], Items(0, 100)]
Groups = Annotated[list[Id], Items(0, 100)]
VnicType = Literal["normal"]
PROFILE_BYTES = 4096
PROFILE_DEPTH = 16
NUMBER_MOST = 2**53


def _check_profile(profile: dict[str, Any]) -> dict[str, Any]:
    _check_levels(profile, PROFILE_DEPTH)
    if len(orjson.dumps(profile)) > PROFILE_BYTES:
        raise ValueProblem(f"it has more than {PROFILE_BYTES} bytes")
    return profile


def _check_levels(value: Any, left: int) -> None:
    if left < 0:
        raise ValueProblem(f"it has more than {PROFILE_DEPTH} levels")
    # PostgreSQL gives 1e30 back as an integer, which no answer can hold.
    if isinstance(value, int | float) and abs(value) > NUMBER_MOST:
        raise ValueProblem(f"{value} is beyond {NUMBER_MOST}")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_levels(each, left - 1)


Profile = Annotated[dict[str, Any], Check(_check_profile)]


@frozen
class CreatePort:
    network_id: Id
    name: Text = ""
    description: Text = ""
    admin_state_up: Flag = True
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    mac_address: MacText | None = None
    fixed_ips: FixedIps | Missing | None = MISSING
    device_id: Text = ""
    device_owner: Text = ""
    security_groups: Groups | Missing | None = MISSING
    port_security_enabled: Flag | Missing = MISSING
    address_pairs: AddressPairs | Missing | None = wire("allowed_address_pairs", default=MISSING)
    vnic_type: VnicType = wire("binding:vnic_type", default="normal")
    host: Text | Missing | None = wire("binding:host_id", default=MISSING)
    profile: Profile | Missing | None = wire("binding:profile", default=MISSING)
    qos_policy_id: Id | None = None
    tags: Tags | Missing = MISSING


@frozen
class UpdatePort:
    name: Text | Missing = MISSING
    description: Text | Missing = MISSING
    admin_state_up: Flag | Missing = MISSING
    mac_address: MacText | Missing | None = MISSING
    fixed_ips: FixedIps | Missing | None = MISSING
    device_id: Text | Missing | None = MISSING
    device_owner: Text | Missing | None = MISSING
    security_groups: Groups | Missing | None = MISSING
    port_security_enabled: Flag | Missing = MISSING
    address_pairs: AddressPairs | Missing | None = wire("allowed_address_pairs", default=MISSING)
    vnic_type: VnicType | Missing = wire("binding:vnic_type", default=MISSING)
    host: Text | Missing | None = wire("binding:host_id", default=MISSING)
    profile: Profile | Missing | None = wire("binding:profile", default=MISSING)
    qos_policy_id: Id | Missing | None = MISSING


def requests(wanted: Sequence[FixedIp] | None) -> tuple[FixedIpRequest, ...]:
    """What a body asks for as the domain takes it."""
    return tuple(FixedIpRequest(each.subnet_id, each.ip_address) for each in wanted or ())


def _pairs(wanted: Sequence[AddressPair] | None) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.ip_address, macs.parse(each.mac_address) if each.mac_address else None) for each in wanted or ())


def _check_fields(call: Call, network: Any, sent: dict[str, Any]) -> None:
    """Raises Forbidden for fields that only the network's owner, or only the platform, may set."""
    exact = any(each.ip_address is not None for each in sent.get("fixed_ips") or ())
    mine = {"mac_address", "port_security_enabled", "address_pairs"} & sent.keys()
    if exact or mine or port_security.is_network_owned(sent.get("device_owner") or ""):
        standard.refuse_foreign(call.caller, network, "network:ports:network_owner")
    if {"host", "profile"} & sent.keys():
        call.require("network:ports:binding")


# -- the resource


class Ports:
    routes = Routes("Ports")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/ports", policy="network:ports:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List ports: one's own, and all on one's networks."""
        if "binding:host_id" in call.query:
            call.require("network:ports:show:binding")
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, ports.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, _views(conn, call, page.rows))

    @routes.post("/ports", policy="network:ports:create", status=201, body=Body(CreatePort, "port", "ports"))
    async def create(self, call: Call, body: Any) -> Json:
        """Create a port, or several at once."""
        return enveloped(body, "port", "ports", await self.db.run(self._create, call, listed(body)))

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            network = networks.attachable(conn, call.caller, each.network_id)
            _check_fields(call, network, given(each) if each.mac_address else _without(given(each), "mac_address"))
            router_ports.check_device(conn, call.caller, each.device_id, each.device_owner)
            owner = standard.owner_of_new(call.caller, owner_named(each.tenant_id, each.project_id))
            everybodys = call.may("network:ports:foreign_security_groups")
            qos_policies.check_set(conn, call.caller, None, each.qos_policy_id)
            row = ports.create(conn, owner, _new(each), now, call.caller, everybodys)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(row)
        return _views(conn, call, rows)

    @routes.get("/ports/<port_id>", policy="network:ports:show", pure=True)
    async def show(self, call: Call, port_id: str) -> Json:
        """Show a port."""
        return {"port": lists.narrowed(call, await self.db.read(self._show, call, port_id))}

    def _show(self, conn: Connection, call: Call, port_id: str) -> Json:
        return _views(conn, call, [ports.visible(conn, call.caller, port_id)])[0]

    @routes.put("/ports/<port_id>", policy="network:ports:update", body=Body(UpdatePort, "port"))
    async def update(self, call: Call, port_id: str, body: UpdatePort) -> Json:
        """Change a port."""
        return {"port": await self.db.run(self._update, call, port_id, body)}

    def _update(self, conn: Connection, call: Call, port_id: str, body: UpdatePort) -> Json:
        row = ports.visible(conn, call.caller, port_id, lock=True)
        call.require(project_id=row.project_id)
        sent = given(body)
        network = networks.held(conn, row.network_id)
        _check_fields(call, network, sent)
        check_match(call, row)
        changes = _changes(conn, row, sent)
        if {"device_id", "device_owner"} & changes.keys():
            device_id, owner = (changes.get(name, getattr(row, name)) for name in ("device_id", "device_owner"))
            router_ports.check_device(conn, call.caller, device_id, owner)
        if "qos_policy_id" in changes:
            qos_policies.check_set(conn, call.caller, row.qos_policy_id, changes["qos_policy_id"])
        if changes:
            everybodys = call.may("network:ports:foreign_security_groups")
            row = ports.change(conn, row, changes, self.db.now(conn), call.caller, everybodys)
        return _views(conn, call, [row])[0]

    @routes.delete("/ports/<port_id>", policy="network:ports:delete")
    async def delete(self, call: Call, port_id: str) -> None:
        """Delete a port; its addresses are free at once."""
        await self.db.run(self._delete, call, port_id)

    def _delete(self, conn: Connection, call: Call, port_id: str) -> None:
        row = ports.visible(conn, call.caller, port_id, lock=True)
        _require_for_delete(call, row)
        check_match(call, row)
        ports.delete_by_user(conn, row, self.db.now(conn), call.caller, standard.sees_all(call.caller))


def _require_for_delete(call: Call, row: Any) -> None:
    """The owner of the network may delete what others have put on it."""
    owner = row.network_project_id if row.network_project_id == call.project_id else row.project_id
    call.require(project_id=owner)


def _without(sent: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in sent.items() if key != name}


def _new(body: CreatePort) -> NewPort:
    return NewPort(
        network_id=body.network_id,
        name=body.name,
        description=body.description,
        admin_state_up=body.admin_state_up,
        fixed_ips=None if isinstance(body.fixed_ips, Missing) else requests(body.fixed_ips),
        mac_address=body.mac_address,
        device_id=body.device_id,
        device_owner=body.device_owner,
        security_groups=None if isinstance(body.security_groups, Missing) else tuple(body.security_groups or ()),
        port_security_enabled=None if isinstance(body.port_security_enabled, Missing) else body.port_security_enabled,
        address_pairs=_pairs(default(body.address_pairs, None)),
        host=default(body.host, "") or "",
        profile=(None if isinstance(body.profile, Missing) else body.profile) or {},
        qos_policy_id=body.qos_policy_id,
    )


def _changes(conn: Connection, row: Any, sent: dict[str, Any]) -> dict[str, Any]:
    """A body as `ports.change` takes it: null empties a field, and a MAC of null is a new one."""
    changes = _without(sent, "vnic_type")
    for name in ("device_id", "device_owner", "host"):
        if name in changes:
            changes[name] = changes[name] or ""
    if "profile" in changes:
        changes["profile"] = changes["profile"] or {}
    if "security_groups" in changes:
        changes["security_groups"] = changes["security_groups"] or []
    if "fixed_ips" in changes:
        changes["fixed_ips"] = requests(changes["fixed_ips"])
    if "address_pairs" in changes:
        changes["address_pairs"] = _pairs(changes["address_pairs"])
    if "mac_address" in changes and not changes["mac_address"]:
        changes["mac_address"] = macs.choose(conn, row.network_id)
    return changes


def _views(conn: Connection, call: Call, rows: Rows) -> Views:
    ids = [row.id for row in rows]
    addresses, groups, tagged = ports.fixed_ips_of(conn, ids), ports.groups_of(conn, ids), tags.of(conn, ids)
    policies = qos_policies.of_networks(conn, [row.network_id for row in rows])
    binding = call.may("network:ports:show:binding")
    return [
        view(
            row,
            addresses.get(row.id, []),
            [id for id, _ in groups.get(row.id, [])],
            policies.get(row.network_id),
            tagged.get(row.id, []),
            binding,
        )
        for row in rows
    ]


def view(row: Any, addresses: Any, groups: Any, network_policy: str | None, tagged: Any, binding: bool) -> Json:
    """`binding`: whether the caller may know where the port is."""
    shown = {
        "id": row.id,
        "name": row.name,
        "network_id": row.network_id,
        "mac_address": row.mac_address,
        "admin_state_up": row.admin_state_up,
        "status": row.status,
        "device_id": row.device_id,
        "device_owner": row.device_owner,
        "fixed_ips": addresses,
        "security_groups": groups,
        "port_security_enabled": row.port_security_enabled,
        "allowed_address_pairs": row.allowed_address_pairs,
        "binding:vnic_type": "normal",
        "qos_policy_id": row.qos_policy_id,
        "qos_network_policy_id": network_policy,
        **standard_view(row, tagged),
    }
    if binding:
        shown["binding:host_id"] = row.host
        shown["binding:profile"] = row.profile
        shown["binding:vif_type"] = row.vif_type
        shown["binding:vif_details"] = row.vif_details
    return shown
