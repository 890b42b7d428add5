"""`/metering/metering-labels` and their rules. Neutron's extension `metering`."""

from __future__ import annotations

from typing import Any, Literal

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IMetering
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import metering
from cloudctl.network.addresses import parse_cidr
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Flag, Id, IpText, LongText, Text, owners
from cloudctl.network.api.resource import Declared
from cloudctl.network.extension_tables import MeteringLabel, MeteringRule
from cloudctl.network.metering import LABELS, RULES, NewLabel, NewRule
from cloudctl.network.standard import owner_of_new
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute

PREFIXES = ("remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix")


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> MeteringLabel:
    return metering.create(conn, owner_of_new(call.caller, owner), NewLabel(**values), call.now)


def remove(conn: Connection, call: Call, label: MeteringLabel) -> None:
    metering.remove(conn, label, call.caller)


_c = MeteringLabel
LABELS_OF_METERS = Declared(
    name="metering_label",
    path="/metering/metering-labels",
    sight="network:metering:see",
    record=MeteringLabel,
    needs=IMetering,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", filter=any_of, sort=True),
        Attribute("description", _c.description, LongText, post="", filter=any_of, sort=True),
        Attribute("shared", _c.shared, Flag, post=False, filter=lists.truths, sort=True),
        *owners(MeteringLabel),
    ),
    visible=LABELS.visible,
    visible_to=LABELS.visible_to,
    not_found=LABELS.not_found,
    create=create,
    remove=remove,
    says={"delete": "Delete a metering label with its rules."},
)


def create_rule(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> MeteringRule:
    said = {name: values[name] and str(parse_cidr(values[name], name)) for name in PREFIXES}
    if said["remote_ip_prefix"] and (said["source_ip_prefix"] or said["destination_ip_prefix"]):
        message = "remote_ip_prefix cannot be used together with source_ip_prefix or destination_ip_prefix."
        raise Invalid(message, type="InvalidInput")
    if not any(said.values()):
        raise Invalid("A metering label rule needs a prefix: remote, source or destination.", type="InvalidInput")
    label = LABELS.visible(conn, call.caller, values["metering_label_id"], lock=True)
    if owner not in (None, label.project_id):
        raise Conflict(f"Metering label {label.id} belongs to another project.")
    new = NewRule(values["direction"], **said, excluded=values["excluded"])
    return metering.add_rule(conn, label, new, call.now, call.caller)


def remove_rule(conn: Connection, call: Call, rule: MeteringRule) -> None:
    metering.remove_rule(conn, rule, call.caller)


_r = MeteringRule
RULES_OF_METERS = Declared(
    name="metering_label_rule",
    path="/metering/metering-label-rules",
    noun="a rule of a metering label",
    sight="network:metering:see",
    record=MeteringRule,
    needs=IMetering,
    attributes=(
        Attribute("id", _r.id, filter=any_of, sort=True),
        Attribute("metering_label_id", _r.metering_label_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("direction", _r.direction, Literal["ingress", "egress"], post=REQUIRED, filter=any_of, sort=True),
        *(Attribute(name, _r.table.c[name], IpText | None, post=None, filter=any_of, sort=True) for name in PREFIXES),
        Attribute("excluded", _r.excluded, Flag, post=False, filter=lists.truths, sort=True),
        *owners(MeteringRule),
    ),
    visible=RULES.visible,
    visible_to=RULES.visible_to,
    not_found=RULES.not_found,
    create=create_rule,
    remove=remove_rule,
)
