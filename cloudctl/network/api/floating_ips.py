"""`/floatingips`. Reference: network.md, section 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from sqlalchemy import Column, ColumnElement, func

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IGatewayLimits, IPortForwarding
from cloudctl.errors import Conflict
from cloudctl.network import associations, floating_ips, names, networks, ports, qos_policies, routers, subnets
from cloudctl.network.api.attributes import Id, IpText, Json, standard
from cloudctl.network.api.port_forwardings import within
from cloudctl.network.api.ports import Domain
from cloudctl.network.api.resource import Declared
from cloudctl.network.associations import Target
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import FloatingIp
from cloudctl.rest.body import Check, Length
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute

# A domain of a letter, with dots before and after it, fits in behind it.
RelativeName = Annotated[str, Length(0, 252), Check(names.check_relative)]
WAY = ("port_id", "fixed_ip_address", "router_id")
# What is shown of the port that one leads to.
DETAILS = ("name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner")


def port_details(conn: Connection, call: Call, records: Sequence[FloatingIp]) -> list[Json | None]:
    found = floating_ips.ports_of(conn, sorted({row.port_id for row in records if row.port_id is not None}))
    some = {id: {name: getattr(port, name) for name in DETAILS} for id, port in found.items()}
    return [None if row.port_id is None else some.get(row.port_id) for row in records]


def network_policy(conn: Connection, call: Call, records: Sequence[FloatingIp]) -> list[str | None]:
    found = qos_policies.of_networks(conn, [row.floating_network_id for row in records])
    return [found.get(row.floating_network_id) for row in records]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> FloatingIp:
    project = owner_of_new(call.caller, owner)
    if values["floating_ip_address"] is not None:
        call.require("network:floatingips:create:address")
    network = networks.RECORDS.usable(conn, call.caller, values["floating_network_id"])
    floating_ips.check_network(conn, network)
    if values["subnet_id"] is not None:
        subnets.visible(conn, call.caller, values["subnet_id"])
    way = values["port_id"], values["fixed_ip_address"], values["router_id"]
    to = _target(conn, call, project, network.id, *way)
    kept = {name: values[name] for name in ("qos_policy_id", "dns_name", "dns_domain") if name in values}
    qos_policies.check_set(conn, call.caller, None, kept.get("qos_policy_id"))
    new = NewFloatingIp(network.id, values["description"], values["floating_ip_address"], values["subnet_id"], **kept)
    return floating_ips.create(conn, project, new, to, call.now, call.caller)


def check(conn: Connection, call: Call, record: FloatingIp, changes: dict[str, Any]) -> dict[str, Any]:
    """The changes, with its new target under "to".

    Ports are locked before the floating IP (see `associations`): the new one, and the present one, which shows it.
    """
    # An empty request makes it lead nowhere.
    moves = "port_id" in changes or not changes
    port_id, fixed, through = (changes.get(name) for name in WAY)
    if through is not None and not moves and record.port_id is not None:
        moves, port_id, fixed = True, record.port_id, fixed or record.fixed_ip_address
    present = record.port_id if moves else None
    to = _target(conn, call, record.project_id, record.floating_network_id, port_id, fixed, through, present)
    led = {"to": to} if moves else {}
    return {name: value for name, value in changes.items() if name not in WAY} | led


def change(conn: Connection, call: Call, record: FloatingIp, changes: dict[str, Any]) -> FloatingIp:
    if "qos_policy_id" in changes:
        qos_policies.check_set(conn, call.caller, record.qos_policy_id, changes["qos_policy_id"])
    if "to" not in changes:
        return floating_ips.change(conn, record, changes, call.now, call.caller)
    return floating_ips.lead(conn, record, changes.pop("to"), call.now, call.caller, **changes)


def remove(conn: Connection, call: Call, record: FloatingIp) -> None:
    floating_ips.remove(conn, record, call.now, call.caller)


def _target(
    conn: Connection,
    call: Call,
    owner: str,
    network_id: str,
    port_id: str | None,
    fixed: str | None,
    through: str | None,
    present: str | None = None,
) -> Target | None:
    """Where a body wants a floating IP of `owner` to lead. Locks the router, the port and the one that is left.

    Raises Invalid, NotFound, Conflict.
    """
    if port_id is None:
        if fixed is not None:
            raise associations.bad("fixed_ip_address cannot be specified without a port_id")
        if through is not None:
            raise associations.bad("router_id cannot be specified without a port_id")
        if present is not None:
            ports.lock(conn, [present])
        return None
    if through is not None:
        routers.visible(conn, call.caller, through)
    seen = ports.visible(conn, call.caller, port_id)
    to = associations.target(conn, seen, owner, network_id, fixed, through)
    if present is not None:
        ports.lock(conn, [port_id, present])
    # What was read before the lock may be outdated by now: any change of what the port has also changes its row.
    port = ports.visible(conn, call.caller, port_id, lock=True)
    if port != seen and associations.target(conn, port, owner, network_id, fixed, through) != to:
        raise Conflict(f"Port {port_id} was changed at the same time.")
    return to


def _or_empty(column: Column[str | None]) -> ColumnElement[Any]:
    """For sorting: NULL has no place in an order."""
    return func.coalesce(column, "")


_ip = FloatingIp
FLOATING_IPS = Declared(
    name="floatingip",
    record=FloatingIp,
    title="Floating IPs",
    noun="a floating IP",
    attributes=(
        Attribute("id", _ip.id, filter=any_of, sort=True),
        Attribute("status", _ip.status, filter=any_of, sort=True),
        Attribute("floating_network_id", _ip.floating_network_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("floating_ip_address", _ip.floating_ip_address, IpText | None, post=None, filter=any_of, sort=True),
        Attribute("subnet_id", None, Id | None, post=None, view=None),
        Attribute(
            "fixed_ip_address",
            _ip.fixed_ip_address,
            IpText | None,
            post=None,
            put=True,
            filter=any_of,
            sort=_or_empty(_ip.fixed_ip_address),
        ),
        Attribute("port_id", _ip.port_id, Id | None, post=None, put=True, filter=any_of, sort=_or_empty(_ip.port_id)),
        Attribute(
            "router_id",
            _ip.router_id,
            Id | None,
            post=None,
            put=True,
            filter=any_of,
            sort=_or_empty(_ip.router_id),
        ),
        Attribute("port_details", view=port_details),
        Attribute("dns_name", _ip.dns_name, RelativeName, post="", filter=any_of),
        Attribute("dns_domain", _ip.dns_domain, Domain, post="", filter=any_of),
        Attribute(
            "qos_policy_id", _ip.qos_policy_id, Id | None, post=None, put=True, filter=any_of, needs=IGatewayLimits
        ),
        Attribute("qos_network_policy_id", view=network_policy, needs=IGatewayLimits),
        Attribute("port_forwardings", view=within, needs=IPortForwarding),
        *standard(FloatingIp),
    ),
    visible=floating_ips.visible,
    visible_to=floating_ips.visible_to,
    not_found=floating_ips.not_found,
    create=create,
    check=check,
    locks_first=True,
    change=change,
    to_remove=floating_ips.to_remove,
    remove=remove,
    says={
        "list": "List floating IPs.",
        "create": "Allocate a floating IP, or several at once.",
        "update": "Let a floating IP lead to a port, or to none; or change its description.",
        "delete": "Give the address of a floating IP back.",
    },
)
