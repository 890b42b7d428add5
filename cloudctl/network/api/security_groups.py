"""`/security-groups`. Reference: network.md, section 9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudctl.db import Connection, Database
from cloudctl.network import security_groups, shares
from cloudctl.network.api import lists, sharing
from cloudctl.network.api.attributes import Flag, Json, Text, standard
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.security_group_rules import ATTRIBUTES as OF_RULES
from cloudctl.network.api.sharing import shared
from cloudctl.network.security_groups import NewGroup
from cloudctl.network.standard import owner_of_new, sees_all
from cloudctl.network.tables import SecurityGroup
from cloudctl.rest import resource
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import Attribute


def rules(conn: Connection, call: Call, groups: Sequence[SecurityGroup]) -> list[list[Json]]:
    """The rules of each group, the oldest first."""
    found = security_groups.rules_of(conn, [group.id for group in groups])
    shown: dict[str, list[Json]] = {}
    for view in resource.views(conn, call, OF_RULES, [rule for some in found.values() for rule in some]):
        shown.setdefault(view["security_group_id"], []).append(view)
    return [shown.get(group.id, []) for group in groups]


ATTRIBUTES = (
    Attribute("id", SecurityGroup.id, filter=any_of, sort=True),
    Attribute("name", SecurityGroup.name, Text, post="", put=True, filter=any_of, sort=True),
    Attribute("stateful", SecurityGroup.stateful, Flag, post=True, put=True, filter=lists.truths, sort=True),
    Attribute("shared", view=shared, at_first=False),
    Attribute("security_group_rules", view=rules),
    *standard(SecurityGroup),
)


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> SecurityGroup:
    return security_groups.create(conn, owner_of_new(call.caller, owner), NewGroup(**values), call.now)


def check(conn: Connection, call: Call, group: SecurityGroup, changes: dict[str, Any]) -> dict[str, Any]:
    if changes.get("name", group.name) != group.name:
        security_groups.lock_members(conn, group.id)
    return changes


def change(conn: Connection, call: Call, group: SecurityGroup, changes: dict[str, Any]) -> SecurityGroup:
    return security_groups.change(conn, group, changes, call.now, call.caller)


def remove(conn: Connection, call: Call, group: SecurityGroup) -> None:
    default_too = call.may("network:security_groups:delete_default")
    security_groups.remove(conn, group, call.now, call.caller, default_too)


async def ensure_default(db: Database, call: Call) -> None:
    """Make a project's `default` group when it is first looked for."""
    project = call.project_id
    named = call.query.all("project_id") or call.query.all("tenant_id")
    if len(named) == 1 and sees_all(call.caller):
        project = named[0][:64]
    if project and await db.read(security_groups.default_of, project) is None:
        await db.run(security_groups.ensure_default, project, call.now)


SECURITY_GROUPS = Declared(
    name="security_group",
    path="/security-groups",
    id="group_id",
    record=SecurityGroup,
    attributes=ATTRIBUTES,
    of_caller=sharing.filters(SecurityGroup.id, shares.SECURITY_GROUP),
    visible=security_groups.visible,
    visible_to=security_groups.visible_to,
    not_found=security_groups.not_found,
    create=create,
    check=check,
    locks_first=True,
    change=change,
    to_remove=security_groups.to_remove,
    remove=remove,
    before_list=ensure_default,
    says={
        "list": "List security groups; a project's `default` group is made when it is first looked for.",
        "show": "Show a security group with its rules.",
        "delete": "Delete a security group that no port is in.",
    },
    pure=False,
)
