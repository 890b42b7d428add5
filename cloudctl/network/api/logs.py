"""`/log/logs`, and what can be logged. Neutron's extension `logging`."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IPacketLogs
from cloudctl.errors import Invalid, NotFound
from cloudctl.network import logs, ports, security_groups
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Flag, Id, Json, Text, standard
from cloudctl.network.api.resource import Declared
from cloudctl.network.extension_tables import NetworkLog
from cloudctl.network.logs import RECORDS, SECURITY_GROUP, NewLog
from cloudctl.network.standard import owner_of_new
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> NetworkLog:
    if values["resource_type"] != SECURITY_GROUP:
        raise Invalid(f"Invalid log resource_type: {values['resource_type']}.", type="InvalidLogResourceType")
    if values["resource_id"] is not None:
        try:
            security_groups.RECORDS.usable(conn, call.caller, values["resource_id"])
        except NotFound:
            message = f"Resource {values['resource_id']} could not be found."
            raise NotFound(message, type="ResourceNotFound") from None
    if values["target_id"] is not None:
        try:
            ports.visible(conn, call.caller, values["target_id"], lock=True)
        except NotFound:
            message = f"Target resource {values['target_id']} could not be found."
            raise NotFound(message, type="TargetResourceNotFound") from None
    return logs.create(conn, owner_of_new(call.caller, owner), NewLog(**values), call.now, call.caller)


def change(conn: Connection, call: Call, log: NetworkLog, changes: dict[str, Any]) -> NetworkLog:
    return logs.change(conn, log, changes, call.now, call.caller)


def remove(conn: Connection, call: Call, log: NetworkLog) -> None:
    logs.remove(conn, log, call.caller)


_c = NetworkLog
LOGS = Declared(
    name="log",
    path="/log/logs",
    noun="a log of packets",
    sight="network:logs:see",
    record=NetworkLog,
    needs=IPacketLogs,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("resource_type", _c.resource_type, Text, post=REQUIRED, filter=any_of, sort=True),
        Attribute("resource_id", _c.resource_id, Id | None, post=None, filter=any_of, sort=True),
        Attribute("target_id", _c.target_id, Id | None, post=None, filter=any_of, sort=True),
        Attribute("event", _c.event, Literal["ACCEPT", "DROP", "ALL"], post="ALL", filter=any_of, sort=True),
        Attribute("enabled", _c.enabled, Flag, post=True, put=True, filter=lists.truths, sort=True),
        *standard(NetworkLog, tags=None),
    ),
    visible=RECORDS.visible,
    visible_to=RECORDS.visible_to,
    not_found=RECORDS.not_found,
    create=create,
    change=change,
    remove=remove,
)


@frozen
class LoggableResources:
    routes = Routes("Logs")

    @routes.get("/log/loggable-resources", policy="network:logs:list")
    async def list(self, call: Call) -> Json:
        """List the types of resources that can be logged."""
        seen = call.may("network:logs:see")
        return {"loggable_resources": [{"type": SECURITY_GROUP}] if seen else []}
