"""`/rbac-policies`. Reference: network.md, section 11."""

from __future__ import annotations

from typing import Any, Literal

from cloudctl.db import Connection
from cloudctl.network import rbac_policies
from cloudctl.network.api.attributes import Id, Project, owners
from cloudctl.network.api.resource import Declared
from cloudctl.network.rbac_policies import NewRbacPolicy
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import RbacPolicy
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import REQUIRED, Attribute

Type = Literal["address_group", "address_scope", "network", "qos_policy", "security_group", "subnetpool"]
Action = Literal["access_as_shared", "access_as_external"]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> RbacPolicy:
    return rbac_policies.create(conn, call.caller, owner_of_new(call.caller, owner), NewRbacPolicy(**values))


def change(conn: Connection, call: Call, policy: RbacPolicy, changes: dict[str, Any]) -> RbacPolicy:
    return rbac_policies.change(conn, call.caller, policy, changes)


def remove(conn: Connection, call: Call, policy: RbacPolicy) -> None:
    rbac_policies.remove(conn, policy, call.now, call.caller)


_c = RbacPolicy
RBAC_POLICIES = Declared(
    name="rbac_policy",
    plural="rbac_policies",
    path="/rbac-policies",
    id="rbac_policy_id",
    title="RBAC policies",
    noun="an RBAC policy",
    record=RbacPolicy,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("object_type", _c.object_type, Type, post=REQUIRED, filter=any_of, sort=True),
        Attribute("object_id", _c.object_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("action", _c.action, Action, post=REQUIRED, filter=any_of, sort=True),
        Attribute("target_tenant", _c.target, Project, post=REQUIRED, put=True, filter=any_of, sort=True),
        *owners(RbacPolicy),
    ),
    visible=rbac_policies.visible,
    visible_to=rbac_policies.visible_to,
    not_found=rbac_policies.not_found,
    create=create,
    change=change,
    remove=remove,
    says={
        "list": "List RBAC policies: which of one's records others may use.",
        "create": "Share a record with a project or with everybody, or several.",
        "update": "Share with somebody else instead.",
        "delete": "Share a record no more.",
    },
)
