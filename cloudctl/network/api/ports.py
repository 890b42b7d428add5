"""`/ports`. Reference: network.md, section 6."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import orjson
from attrs import asdict, frozen
from sqlalchemy import Column, select

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IDhcpOptions, IPrivateVlans, ITrunks
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import (
    macs,
    names,
    networks,
    port_security,
    ports,
    qos_policies,
    qos_rules,
    router_ports,
    trunk_ports,
)
from cloudctl.network.addresses import parse_address
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Family, Flag, Id, IpText, MacText, Text, each_once, standard
from cloudctl.network.api.resource import Declared
from cloudctl.network.fixed_ips import ROUTERS, FixedIpRequest
from cloudctl.network.ports import NewPort
from cloudctl.network.standard import owner_of_new, sees_all
from cloudctl.network.tables import IpAllocation, Network, Port, PortSecurityGroup, QosRule
from cloudctl.rest.body import MISSING, Check, Items, Length, ValueProblem
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition, Filter, any_of
from cloudctl.rest.resource import REQUIRED, Attribute, Beside
from cloudctl.rest.ways import linked, referred

BINDING = "network:ports:show:binding"

# -- filters


def _with_fixed_ips(values: Sequence[str]) -> Condition:
    """`ip_address=…`, `ip_address_substr=…` and `subnet_id=…`: one address of the port meets all of them."""
    wanted: dict[str, list[str]] = {"ip_address": [], "ip_address_substr": [], "subnet_id": []}
    for value in values:
        name, _, rest = value.partition("=")
        if name not in wanted or not rest:
            raise lists.bad(f"Invalid input for fixed_ips. Reason: {value[:64]!r} is not of the form ip_address=VALUE.")
        wanted[name].append(_canonical(rest) if name == "ip_address" else rest)
    a = IpAllocation
    met: list[Condition] = [a.ip_address.contains(part, autoescape=True) for part in wanted["ip_address_substr"]]
    if wanted["ip_address"]:
        met.append(a.ip_address.in_(wanted["ip_address"]))
    if wanted["subnet_id"]:
        met.append(a.subnet_id.in_(wanted["subnet_id"]))
    if wanted["ip_address"]:
        return Port.id.in_(select(a.port_id).where(*met))
    if wanted["subnet_id"]:
        return linked(Port.id, a.port_id, *met)
    # No index covers parts of addresses. So the ports that the caller sees are scanned until a page of them is full,
    # and not the addresses of everybody.
    return referred(Port.id, a.port_id, *met)


def _canonical(text: str) -> str:
    try:
        return str(parse_address(text))
    except Invalid:
        # No port has it.
        return text


def _mac(column: Column[str]) -> Filter:
    """In any notation."""

    def test(values: Sequence[str]) -> Condition:
        found = []
        for value in values:
            try:
                found.append(macs.parse(value))
            except Invalid:
                found.append(value)
        return column.in_(found)

    return test


def _with_groups(values: Sequence[str]) -> Condition:
    return linked(Port.id, PortSecurityGroup.port_id, PortSecurityGroup.security_group_id.in_(values))


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
# More than the domain accepts, so that the client sees the domain's own error.
AddressPairs = Annotated[list[AddressPair], Items(0, 100)]


Groups = Annotated[list[Id], Items(0, 100), Check(each_once)]
VnicType = Literal[
    "normal",
    "direct",
    "macvtap",
    "baremetal",
    "direct-physical",
    "virtio-forwarder",
    "smart-nic",
    "vdpa",
    "accelerator-direct",
    "accelerator-direct-physical",
    "remote-managed",
]
Affinity = Literal["required", "preferred", "legacy", "socket"]
PvlanType = Literal["promiscuous", "isolated", "community"]


def _community(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_.][a-zA-Z_.0-9]*", name):
        raise ValueProblem("it begins with a letter, '_' or '.', and has these and digits alone")
    return name


Community = Annotated[str, Length(1, 232), Check(_community)]
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
    # PostgreSQL returns 1e30 as an integer, which no answer can hold.
    if isinstance(value, int | float) and abs(value) > NUMBER_MOST:
        raise ValueProblem(f"{value} is beyond {NUMBER_MOST}")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_levels(each, left - 1)


Profile = Annotated[dict[str, Any], Check(_check_profile)]


def _check_line(text: str) -> str:
    """A second line would be an option of its own to a server that reads lines, perhaps of every port."""
    if not text.isprintable():
        raise ValueProblem("it is not one line of text")
    return text


@frozen
class DhcpOption:
    opt_name: Annotated[str, Length(1, 64, blank=False), Check(_check_line)]
    opt_value: Annotated[str, Length(0, 255), Check(_check_line)] | None = None
    ip_version: Family = 4


DhcpOptions = Annotated[list[DhcpOption], Items(0, 50)]
Label = Annotated[str, Length(0, 255), Check(names.check_label)]
# A label and a dot fit in before it.
Domain = Annotated[str, Length(0, 253), Check(names.check_domain)]


def requests(wanted: Sequence[FixedIp] | None) -> tuple[FixedIpRequest, ...]:
    """What a body requests, as the domain takes it."""
    return tuple(FixedIpRequest(each.subnet_id, each.ip_address) for each in wanted or ())


def _pairs(wanted: Sequence[AddressPair] | None) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.ip_address, macs.parse(each.mac_address) if each.mac_address else None) for each in wanted or ())


# -- views


@frozen
class Around:
    """By port id: what a port has, and the DNS domain and the QoS policy that its network has."""

    fixed_ips: Mapping[str, Sequence[dict[str, str]]]
    networks: Mapping[str, tuple[str, str | None]]


def around(conn: Connection, port_ids: Sequence[str]) -> Around:
    return Around(ports.fixed_ips_of(conn, port_ids), networks.around_ports(conn, port_ids))


def fixed_ips(found: Around, port: Port) -> Sequence[dict[str, str]]:
    return found.fixed_ips.get(port.id, [])


def groups(conn: Connection, call: Call, records: Sequence[Port]) -> list[list[str]]:
    found = ports.groups_of(conn, [port.id for port in records])
    return [[id for id, _ in found.get(port.id, ())] for port in records]


def network_policy(found: Around, port: Port) -> str | None:
    return found.networks.get(port.id, ("", None))[1]


def trunk_details(conn: Connection, call: Call, records: Sequence[Port]) -> list[Any]:
    found = trunk_ports.details_of(conn, [port.id for port in records])
    return [found.get(port.id, MISSING) for port in records]


def assignments(found: Around, port: Port) -> list[dict[str, str]]:
    domain = port.dns_domain or found.networks.get(port.id, ("", None))[0]
    return [names.assignment(port.dns_name, each["ip_address"], domain) for each in fixed_ips(found, port)]


def profiles(conn: Connection, call: Call, records: Sequence[Port]) -> list[dict[str, Any]]:
    """The profile also tells whoever binds the port whether the guest is trusted."""
    return [port.profile if port.trusted is None else {**port.profile, "trusted": port.trusted} for port in records]


# What a rule requests of a host: type and direction → resource class.
ASKED = {
    ("minimum_bandwidth", "egress"): "NET_BW_EGR_KILOBIT_PER_SEC",
    ("minimum_bandwidth", "ingress"): "NET_BW_IGR_KILOBIT_PER_SEC",
    ("minimum_packet_rate", "egress"): "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    ("minimum_packet_rate", "ingress"): "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    ("minimum_packet_rate", "any"): "NET_PACKET_RATE_KILOPACKET_PER_SEC",
}


def resource_requests(conn: Connection, call: Call, records: Sequence[Port]) -> list[dict[str, Any] | None]:
    """What the rules of each port's policy request of its server's host."""
    of_networks = qos_policies.of_networks(conn, [port.network_id for port in records])
    policies = {port.id: qos_rules.policy_for(port, of_networks.get(port.network_id)) for port in records}
    found = qos_rules.of_policies(conn, sorted({policy for policy in policies.values() if policy is not None}))
    if not found:
        return [None] * len(records)
    wires = networks.physical_of(conn, sorted({port.network_id for port in records}))
    return [_request(port, found.get(policies[port.id] or "", ()), wires.get(port.network_id)) for port in records]


def _request(port: Port, rules: Sequence[QosRule], wire: str | None) -> dict[str, Any] | None:
    kind = f"CUSTOM_VNIC_TYPE_{_trait(port.vnic_type)}"
    groups = []
    for type in qos_rules.PLACED_BY:
        asked = {ASKED[type, rule.direction]: rule.value for rule in rules if rule.type == type and rule.value}
        on_wire = type == qos_rules.GUARANTEED.name
        if not asked or (on_wire and wire is None):
            continue
        traits = [f"CUSTOM_PHYSNET_{_trait(wire)}", kind] if on_wire and wire is not None else [kind]
        # Always the same for a port and a type.
        id = str(uuid.uuid5(uuid.UUID(port.id), type))
        groups.append({"id": id, "required": traits, "resources": asked})
    if not groups:
        return None
    return {"request_groups": groups, "same_subtree": [group["id"] for group in groups]}


def _trait(name: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", name.upper())


# -- the resource


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Port:
    network = networks.attachable(conn, call.caller, values["network_id"])
    _check_fields(call, network, values if values["mac_address"] else _without(values, "mac_address"))
    _check_compute(call, "", values["device_owner"])
    router_ports.check_device(conn, call.caller, values["device_id"], values["device_owner"])
    project = owner_of_new(call.caller, owner)
    everybodys = call.may("network:ports:foreign_security_groups")
    qos_policies.check_set(conn, call.caller, None, values["qos_policy_id"])
    said = _said(values)
    del said["network_id"]
    kept = {name: said.pop(name) for name in KEPT if name in said}
    return ports.create(conn, project, NewPort(network, **said, kept=kept), call.now, call.caller, everybodys)


def to_change(conn: Connection, caller: Caller, port_id: str) -> Port:
    """The port, locked: after the router whose own it is, or the port that carries it.

    Raises NotFound, Conflict.
    """
    # SQLite has one writer, who needs no order.
    if conn.dialect.name == "sqlite":
        return ports.visible(conn, caller, port_id, lock=True)
    hold = _holder(ports.visible(conn, caller, port_id))
    if hold is not None:
        hold(conn, port_id)
    row = ports.visible(conn, caller, port_id, lock=True)
    if _holder(row) not in (None, hold):
        raise Conflict(f"Port {port_id} was changed at the same time.")
    return row


def _holder(port: Port) -> Callable[[Connection, str], None] | None:
    """What locks the record that comes before the port, if there may be one."""
    if port.device_owner.startswith(ROUTERS):
        return router_ports.hold_router_of
    return trunk_ports.hold_parent_of if port.device_owner == trunk_ports.OWNER else None


def check(conn: Connection, call: Call, port: Port, changes: dict[str, Any]) -> dict[str, Any]:
    # Not pinned, since the port is locked already and comes last: the network stays while it has ports.
    _check_fields(call, networks.get(conn, port.network_id), changes)
    _check_compute(call, port.device_owner, changes.get("device_owner") or "")
    return changes


def change(conn: Connection, call: Call, port: Port, changes: dict[str, Any]) -> Port:
    changes = _said(changes)
    if "mac_address" in changes and not changes["mac_address"]:
        changes["mac_address"] = macs.choose(conn, port.network_id)
    if {"device_id", "device_owner"} & changes.keys():
        device_id, owner = changes.get("device_id", port.device_id), changes.get("device_owner", port.device_owner)
        router_ports.check_device(conn, call.caller, device_id, owner)
    if "qos_policy_id" in changes:
        qos_policies.check_set(conn, call.caller, port.qos_policy_id, changes["qos_policy_id"])
    if not changes:
        return port
    everybodys = call.may("network:ports:foreign_security_groups")
    return ports.change(conn, port, changes, call.now, call.caller, everybodys)


def may_remove(call: Call, port: Port) -> None:
    """The owner of the network may delete what others have put on it."""
    owner = port.network_project_id if port.network_project_id == call.project_id else port.project_id
    call.require(project_id=owner)


def remove(conn: Connection, call: Call, port: Port) -> None:
    ports.remove(conn, port, call.now, call.caller, sees_all(call.caller))


def _check_fields(call: Call, network: Network, sent: dict[str, Any]) -> None:
    """Raises Forbidden for fields that only the network's owner, or only the platform, may set."""
    exact = any(each.ip_address is not None for each in sent.get("fixed_ips") or ())
    mine = {"mac_address", "port_security_enabled", "address_pairs"} & sent.keys()
    if exact or mine or port_security.is_network_owned(sent.get("device_owner") or ""):
        networks.check_choice(call.caller, network)
    if {"host", "profile"} & sent.keys():
        call.require("network:ports:binding")
    if {"data_plane_status", "hints", "trusted"} & sent.keys():
        call.require("network:ports:operation")


def _check_compute(call: Call, before: str, said: str) -> None:
    """Raises Forbidden for marking a port as a server's, unless the request only repeats what it says already."""
    if said.startswith(ports.SERVERS) and said != before:
        call.require("network:ports:compute_owner")


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


# What a null means in the domain.
NULLS: dict[str, Any] = {
    "device_id": "",
    "device_owner": "",
    "host": "",
    "profile": {},
    "security_groups": (),
    "dhcp_options": (),
}
# Stored as requested, once checked.
KEPT = (
    "vnic_type",
    "dns_name",
    "dns_domain",
    "propagate_uplink_status",
    "numa_affinity_policy",
    "device_profile",
    "hints",
    "trusted",
    "pvlan_type",
    "pvlan_community",
)


def _said(values: dict[str, Any]) -> dict[str, Any]:
    """A body as the domain takes it."""
    found = {name: NULLS[name] if value is None and name in NULLS else value for name, value in values.items()}
    if "dhcp_options" in found:
        found["dhcp_options"] = [asdict(each) for each in found["dhcp_options"]]
    if "fixed_ips" in found:
        found["fixed_ips"] = requests(found["fixed_ips"])
    if "address_pairs" in found:
        found["address_pairs"] = _pairs(found["address_pairs"])
    return found


c = Port
PORTS = Declared(
    name="port",
    record=Port,
    attributes=(
        Attribute("id", c.id, filter=any_of, sort=True),
        Attribute("name", c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("network_id", c.network_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("mac_address", c.mac_address, MacText | None, post=None, put=True, filter=_mac, sort=True),
        Attribute("admin_state_up", c.admin_state_up, Flag, post=True, put=True, filter=lists.truths, sort=True),
        Attribute("status", c.status, filter=any_of, sort=True),
        Attribute("device_id", c.device_id, Text, post="", put=Text | None, filter=any_of, sort=True),
        Attribute("device_owner", c.device_owner, Text, post="", put=Text | None, filter=any_of, sort=True),
        Attribute("fixed_ips", None, FixedIps | None, post=MISSING, put=True, view=Beside(around, fixed_ips)),
        Attribute("security_groups", None, Groups | None, post=MISSING, put=True, view=groups),
        Attribute("port_security_enabled", c.port_security_enabled, Flag, post=MISSING, put=True, filter=lists.truths),
        Attribute(
            "allowed_address_pairs",
            c.allowed_address_pairs,
            AddressPairs | None,
            post=MISSING,
            put=True,
            named="address_pairs",
        ),
        Attribute("binding:vnic_type", c.vnic_type, VnicType, post="normal", put=True, filter=any_of),
        Attribute("extra_dhcp_opts", c.dhcp_options, DhcpOptions | None, post=MISSING, put=True, needs=IDhcpOptions),
        Attribute("dns_name", c.dns_name, Label, post=MISSING, put=True, filter=any_of),
        Attribute("dns_domain", c.dns_domain, Domain, post=MISSING, put=True, filter=any_of),
        Attribute("dns_assignment", view=Beside(around, assignments)),
        Attribute("ip_allocation", c.ip_allocation, filter=any_of, sort=True),
        Attribute("trunk_details", view=trunk_details, needs=ITrunks, at_first=MISSING),
        Attribute("data_plane_status", c.data_plane_status, Literal["ACTIVE", "DOWN"] | None, put=True, filter=any_of),
        Attribute("propagate_uplink_status", c.propagate_uplink_status, Flag, post=MISSING, put=True),
        Attribute("numa_affinity_policy", c.numa_affinity_policy, Affinity | None, post=MISSING, put=True),
        Attribute("device_profile", c.device_profile, Text | None, post=MISSING),
        Attribute("resource_request", view=resource_requests, rule=BINDING),
        Attribute("hints", c.hints, Profile | None, post=MISSING, put=True, rule=BINDING),
        Attribute("trusted", c.trusted, Flag | None, post=MISSING, put=True, rule=BINDING),
        Attribute(
            "pvlan_type", c.pvlan_type, PvlanType | None, post=MISSING, put=True, filter=any_of, needs=IPrivateVlans
        ),
        Attribute(
            "pvlan_community",
            c.pvlan_community,
            Community | None,
            post=MISSING,
            put=True,
            filter=any_of,
            needs=IPrivateVlans,
        ),
        Attribute("qos_policy_id", c.qos_policy_id, Id | None, post=None, put=True, filter=any_of),
        Attribute("qos_network_policy_id", view=Beside(around, network_policy)),
        *standard(Port),
        Attribute("binding:host_id", c.host, Text | None, post=MISSING, put=True, filter=any_of, rule=BINDING),
        Attribute("binding:profile", c.profile, Profile | None, post=MISSING, put=True, view=profiles, rule=BINDING),
        Attribute("binding:vif_type", c.vif_type, rule=BINDING),
        Attribute("binding:vif_details", c.vif_details, rule=BINDING),
    ),
    filters={"fixed_ips": _with_fixed_ips, "security_groups": _with_groups},
    edition=Port.edition,
    visible=ports.visible,
    visible_to=ports.visible_to,
    not_found=ports.not_found,
    create=create,
    check=check,
    to_change=to_change,
    change=change,
    may_remove=may_remove,
    remove=remove,
    says={
        "list": "List ports: one's own, and all on one's networks.",
        "delete": "Delete a port; its addresses are free at once.",
    },
)
