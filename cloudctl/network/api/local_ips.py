"""`/local_ips` and the ports that they lead to. Neutron's extension `local_ip`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import ILocalIps
from cloudctl.errors import Invalid
from cloudctl.network import local_ip_ports, local_ips, networks, ports
from cloudctl.network.api.attributes import NAMED_OWNER, Id, IpText, Text, standard
from cloudctl.network.api.children import Children
from cloudctl.network.api.resource import Declared
from cloudctl.network.extension_tables import LocalIp, LocalIpAssociation
from cloudctl.network.local_ips import RECORDS, NewLocalIp
from cloudctl.network.standard import owner_of_new
from cloudctl.rest.body import MISSING
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> LocalIp:
    project = owner_of_new(call.caller, owner)
    port_id, network_id = values.get("local_port_id"), values.get("network_id")
    said = {name: values[name] for name in ("name", "description", "ip_mode")}
    new = NewLocalIp(**said, address=values.get("local_ip_address"))
    if port_id is not None:
        port = ports.usable(conn, call.caller, port_id, lock=True)
        return local_ips.create(conn, project, new, port, call.now)
    if network_id is None:
        message = "Either Port ID or Network ID must be specified for Local IP create."
        raise Invalid(message, type="LocalIPPortOrNetworkRequired")
    network = networks.attachable(conn, call.caller, network_id)
    if new.address is not None:
        networks.check_choice(call.caller, network)
    return local_ips.create_on(conn, project, new, network, call.now, call.caller)


def change(conn: Connection, call: Call, row: LocalIp, changes: dict[str, Any]) -> LocalIp:
    return local_ips.change(conn, row, changes, call.now)


def remove(conn: Connection, call: Call, row: LocalIp) -> None:
    local_ips.remove(conn, row, call.now, call.caller)


_c = LocalIp
LOCAL_IPS = Declared(
    name="local_ip",
    title="Local IPs",
    noun="a local IP",
    record=LocalIp,
    needs=ILocalIps,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("local_port_id", _c.local_port_id, Id | None, post=MISSING, filter=any_of, sort=True),
        Attribute("network_id", _c.network_id, Id | None, post=MISSING, filter=any_of, sort=True),
        Attribute("local_ip_address", _c.local_ip_address, IpText | None, post=MISSING, filter=any_of, sort=True),
        Attribute(
            "ip_mode", _c.ip_mode, Literal["translate", "passthrough"], post="translate", filter=any_of, sort=True
        ),
        *standard(LocalIp, tags=None),
    ),
    visible=local_ips.visible,
    visible_to=RECORDS.visible_to,
    not_found=RECORDS.not_found,
    create=create,
    change=change,
    remove=remove,
    says={"delete": "Delete a local IP that leads to no port."},
)


# -- the ports that one leads to


def addresses(conn: Connection, call: Call, rows: Sequence[LocalIpAssociation]) -> list[str]:
    found = {id: RECORDS.get(conn, id).local_ip_address for id in {row.local_ip_id for row in rows}}
    return [found[row.local_ip_id] for row in rows]


def hosts(conn: Connection, call: Call, rows: Sequence[LocalIpAssociation]) -> list[str]:
    return [ports.get(conn, row.fixed_port_id).host for row in rows]


def associate(conn: Connection, call: Call, ip: LocalIp, values: dict[str, Any]) -> LocalIpAssociation:
    port = ports.visible(conn, call.caller, values["fixed_port_id"], lock=True)
    call.require(project_id=port.project_id)
    return local_ip_ports.associate(conn, ip, port, values["fixed_ip"], call.caller)


def dissociate(conn: Connection, call: Call, ip: LocalIp, row: LocalIpAssociation) -> None:
    local_ip_ports.dissociate(conn, row, ports.get(conn, row.fixed_port_id, lock=True), call.caller)


_a = LocalIpAssociation
LOCAL_IP_ASSOCIATIONS = Children(
    name="port_association",
    title="Local IPs",
    record=LocalIpAssociation,
    path="/local_ips/<local_ip_id>/port_associations",
    parent_id="local_ip_id",
    parent=local_ips.visible,
    belongs=_a.local_ip_id,
    key=_a.fixed_port_id,
    id="fixed_port_id",
    rules="local_ip_port_associations",
    noun="an association of a local IP with a port",
    attributes=(
        Attribute("local_ip_id", _a.local_ip_id),
        Attribute("local_ip_address", view=addresses),
        Attribute("fixed_port_id", _a.fixed_port_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("fixed_ip", _a.fixed_ip, IpText | None, post=None, filter=any_of, sort=True),
        Attribute("host", view=hosts),
        *NAMED_OWNER,
    ),
    not_found=local_ip_ports.not_found,
    create=associate,
    remove=dissociate,
)
