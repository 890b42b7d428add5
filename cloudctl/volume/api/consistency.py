"""Consistency groups and their snapshots on the wire: the older paths of groups. Reference: `volume.consistency`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import func

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, Text, Uuid
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes
from cloudctl.volume import consistency, group_snapshots, groups
from cloudctl.volume.api import lists
from cloudctl.volume.api.fields import Label
from cloudctl.volume.api.groups import BRIEF, MOST_TYPES, UpdateGroup, split
from cloudctl.volume.api.resource import Declared, created
from cloudctl.volume.group_snapshots import NewGroupSnapshot, Source
from cloudctl.volume.groups import Change, NewGroup
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Group, GroupSnapshot

ONE = "/consistencygroups/<consistencygroup_id>"
RULE = "volume:consistencygroups"
# Names or ids, separated by commas.
VolumeTypes = Annotated[str, Length(1, MOST_TYPES * 256, blank=False)]
# Clients send them, and nobody reads them; nor a status, which is shown besides.
UNREAD = ("user_id", "project_id")
IGNORED = tuple(Attribute(name, type=Text | None, post=MISSING, view=None) for name in UNREAD)


def _read(values: dict[str, Any]) -> dict[str, Any]:
    """What is read of a body."""
    return {name: value for name, value in values.items() if name not in (*UNREAD, "status")}


def visible(conn: Connection, call: Call, group_id: str) -> Group:
    return consistency.visible(conn, call.caller, group_id)


def scope(call: Call) -> list[Condition]:
    return [*lists.scope(call, Group.table.c.project_id), consistency.GROUPS]


ATTRIBUTES = (
    Attribute("id", Group.id, filter=lists.exact, sort=True),
    Attribute("status", Group.status, Text | None, post=MISSING, filter=lists.text, sort=True),
    Attribute("availability_zone", Group.availability_zone, Text | None, post=None, filter=lists.text, sort=True),
    created(Group),
    Attribute(
        "name",
        Group.name,
        Label | None,
        post=None,
        filter=lists.text,
        sort=func.coalesce(Group.name, ""),
    ),
    Attribute("description", Group.description, Label | None, post=None, filter=lists.text),
    Attribute("volume_types", Group.volume_types, VolumeTypes, post=REQUIRED),
    *IGNORED,
)


def consistency_groups(options: VolumeOptions, freezing: Sequence[str]) -> Declared[Group]:
    """`freezing`: the pools whose backends freeze several volumes at one moment."""

    def create(conn: Connection, call: Call, values: dict[str, Any]) -> Group:
        wanted = _read(values)
        named = split(wanted.pop("volume_types"))
        if not 0 < len(named) <= MOST_TYPES:
            raise Invalid(f"Invalid input received: volume_types names 1 to {MOST_TYPES} types, separated by commas.")
        type_id = consistency.ensure_type(conn, call.now)
        return groups.create(conn, call.caller, NewGroup(type_id, named, **wanted), options, freezing)

    return Declared(
        name="consistencygroup",
        record=Group,
        attributes=ATTRIBUTES,
        shows={"list": BRIEF, "create": BRIEF},
        scope=scope,
        visible=visible,
        not_found=consistency.not_found,
        create=create,
        links="consistencygroup_links",
        title="Consistency groups",
        noun="a consistency group",
        says={
            "list": "List consistency groups: the groups of type `default_cgsnapshot_type`.",
            "details": "List consistency groups with all their fields.",
        },
    )


@frozen
class Deletion:
    force: LooseBool = False


@frozen
class DeleteConsistencyGroup:
    consistencygroup: Deletion = Deletion()
    consistency_group: Deletion = Deletion()  # as openstacksdk calls it

    @property
    def force(self) -> bool:
        return self.consistencygroup.force or self.consistency_group.force


@frozen
class CreateFromSource:
    name: Label | None = None
    description: Label | None = None
    cgsnapshot_id: Uuid | None = None
    source_cgid: Uuid | None = None
    # Clients send them, and nobody reads them.
    user_id: Text | None = None
    project_id: Text | None = None
    status: Text | None = None


@frozen
class ConsistencyGroupActions:
    routes = Routes("Consistency groups")

    db: Database
    options: VolumeOptions
    freezing: Sequence[str]

    @routes.post(
        "/consistencygroups/create_from_src",
        policy=f"{RULE}:create",
        status=202,
        body=Body(CreateFromSource, key="consistencygroup-from-src"),
    )
    async def create_from(self, call: Call, body: CreateFromSource) -> Any:
        """Make a consistency group with a copy of each volume of another or of a snapshot of one."""
        return await self.db.run(_create_from, call, body, self.options, self.freezing)

    @routes.put(f"{ONE}/update", policy=f"{RULE}:update", status=202, body=Body(UpdateGroup, key="consistencygroup"))
    @routes.put(ONE, policy=f"{RULE}:update", status=202, body=Body(UpdateGroup, key="consistencygroup"))
    async def update(self, call: Call, consistencygroup_id: str, body: UpdateGroup) -> None:
        """Change the name, the description or the volumes of a consistency group."""
        await self.db.run(_update, call, consistencygroup_id, body.change(), self.options)

    @routes.post(f"{ONE}/delete", policy=f"{RULE}:delete", status=202, body=Body(DeleteConsistencyGroup))
    async def delete(self, call: Call, consistencygroup_id: str, body: DeleteConsistencyGroup) -> None:
        """Delete a consistency group, and with `force` its volumes."""
        await self.db.run(_delete, call, consistencygroup_id, body.force)


def _create_from(
    conn: Connection, call: Call, body: CreateFromSource, options: VolumeOptions, freezing: Sequence[str]
) -> Any:
    if (body.cgsnapshot_id is None) is (body.source_cgid is None):
        raise Invalid("Exactly one of 'cgsnapshot_id' and 'source_cgid' is needed.")
    if body.cgsnapshot_id is not None:
        consistency.visible_snapshot(conn, call.caller, body.cgsnapshot_id)
    else:
        visible(conn, call, body.source_cgid or "")
    source = Source(body.cgsnapshot_id, body.source_cgid)
    made = group_snapshots.create_group(conn, call.caller, source, body.name, body.description, options, freezing)
    return {"consistencygroup": {"id": made.id, "name": made.name}}


def _update(conn: Connection, call: Call, group_id: str, wanted: Change, options: VolumeOptions) -> None:
    groups.alter(conn, call.caller, visible(conn, call, group_id), wanted, options)


def _delete(conn: Connection, call: Call, group_id: str, with_volumes: bool) -> None:
    groups.remove(conn, call.caller, visible(conn, call, group_id), with_volumes)


# -- snapshots of consistency groups


OF_SNAPSHOTS = (
    Attribute("id", GroupSnapshot.id, filter=lists.exact, sort=True),
    Attribute("consistencygroup_id", GroupSnapshot.group_id, Uuid, post=REQUIRED, filter=lists.exact, sort=True),
    Attribute("status", GroupSnapshot.status, Text | None, post=MISSING, filter=lists.text, sort=True),
    created(GroupSnapshot),
    Attribute(
        "name",
        GroupSnapshot.name,
        Label | None,
        post=None,
        filter=lists.text,
        sort=func.coalesce(GroupSnapshot.name, ""),
    ),
    Attribute("description", GroupSnapshot.description, Label | None, post=None),
    *IGNORED,
)


def cgsnapshots(options: VolumeOptions, freezing: Sequence[str]) -> Declared[GroupSnapshot]:
    def seen(conn: Connection, call: Call, id: str) -> GroupSnapshot:
        return consistency.visible_snapshot(conn, call.caller, id)

    def create(conn: Connection, call: Call, values: dict[str, Any]) -> GroupSnapshot:
        wanted = NewGroupSnapshot(**_read(values))
        visible(conn, call, wanted.group_id)
        return group_snapshots.create(conn, call.caller, wanted, options, freezing)

    def delete(conn: Connection, call: Call, record: GroupSnapshot) -> None:
        group_snapshots.remove(conn, call.caller, record)

    def mine(call: Call) -> list[Condition]:
        return [*lists.scope(call, GroupSnapshot.table.c.project_id), consistency.SNAPSHOTS]

    return Declared(
        name="cgsnapshot",
        record=GroupSnapshot,
        attributes=OF_SNAPSHOTS,
        shows={"list": BRIEF, "create": BRIEF},
        scope=mine,
        visible=seen,
        not_found=consistency.no_snapshot,
        create=create,
        remove=delete,
        links="cgsnapshot_links",
        title="Snapshots of consistency groups",
        noun="a snapshot of a consistency group",
        says={
            "list": "List snapshots of consistency groups.",
            "details": "List snapshots of consistency groups with all their fields.",
        },
    )
