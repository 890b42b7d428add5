"""`/qos/policies`. Reference: network.md, section 10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudctl.db import Connection
from cloudctl.network import qos_policies, qos_rules, shares
from cloudctl.network.api import lists, sharing
from cloudctl.network.api.attributes import Flag, Json, standard
from cloudctl.network.api.qos_rules import views_in_policy
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.sharing import shared
from cloudctl.network.qos_policies import NewPolicy
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import QosPolicy
from cloudctl.rest.body import Name
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute


def rules(conn: Connection, call: Call, policies: Sequence[QosPolicy]) -> list[list[Json]]:
    found = qos_rules.of_policies(conn, [policy.id for policy in policies])
    return [views_in_policy(conn, call, found.get(policy.id, ())) for policy in policies]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> QosPolicy:
    return qos_policies.create(conn, owner_of_new(call.caller, owner), NewPolicy(**values), call.now)


def change(conn: Connection, call: Call, policy: QosPolicy, changes: dict[str, Any]) -> QosPolicy:
    return qos_policies.change(conn, policy, changes, call.now)


def remove(conn: Connection, call: Call, policy: QosPolicy) -> None:
    qos_policies.remove(conn, policy)


QOS_POLICIES = Declared(
    name="policy",
    plural="policies",
    path="/qos/policies",
    rules="qos_policies",
    title="QoS policies",
    noun="a QoS policy",
    record=QosPolicy,
    attributes=(
        Attribute("id", QosPolicy.id, filter=any_of, sort=True),
        Attribute("name", QosPolicy.name, Name, post=REQUIRED, put=True, filter=any_of, sort=True),
        Attribute("shared", None, Flag, post=False, put=True, view=shared, at_first=False),
        Attribute("is_default", QosPolicy.is_default, Flag, post=False, put=True, filter=lists.truths, sort=True),
        Attribute("rules", view=rules),
        *standard(QosPolicy),
    ),
    of_caller=sharing.filters(QosPolicy.id, shares.QOS_POLICY),
    visible=qos_policies.visible,
    visible_to=qos_policies.visible_to,
    not_found=qos_policies.not_found,
    create=create,
    change=change,
    remove=remove,
    says={
        "list": "List QoS policies.",
        "show": "Show a QoS policy, one's own or a shared one, with its rules.",
        "delete": "Delete a QoS policy that no network and no port has.",
    },
)
