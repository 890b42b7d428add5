"""Groups and their snapshots on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import func, true

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import MISSING, Body, Items, LooseBool, Missing, Name, Text, Uuid, given, wire
from cloudctl.rest.call import Call
from cloudctl.rest.resource import REQUIRED, Attribute, always
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import group_snapshots, groups
from cloudctl.volume.api import lists
from cloudctl.volume.api.fields import Label, Word, resettable
from cloudctl.volume.api.lists import By
from cloudctl.volume.api.resource import Declared, created
from cloudctl.volume.group_snapshots import NewGroupSnapshot, Source
from cloudctl.volume.groups import Change, NewGroup
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Group, GroupSnapshot

SPAN, COPIES, REPLICATED, OWNED = since(3, 13), since(3, 14), since(3, 38), since(3, 58)
RESET, RESET_SNAPSHOT = since(3, 20), since(3, 19)
MEMBERS = since(3, 25, "a group is shown with its volumes, where `list_volume` asks for them")
BRIEF = ("id", "name")
MOST_TYPES = 100  # that a group names
ONE, SNAPSHOT = "/groups/<group_id>/action", "/group_snapshots/<group_snapshot_id>/action"


def visible(conn: Connection, call: Call, group_id: str) -> Group:
    return groups.visible(conn, call.caller, group_id)


def volumes_of(conn: Connection, call: Call, found: Sequence[Group]) -> list[Any]:
    if call.version not in MEMBERS or not call.query.flag("list_volume"):
        return [MISSING] * len(found)
    members = groups.ids_of_members(conn, [group.id for group in found])
    return [members.get(group.id, []) for group in found]


BY_NAME = func.coalesce(Group.name, "")
ATTRIBUTES = (
    Attribute("id", Group.id, filter=lists.exact, sort=True),
    Attribute("status", Group.status, filter=lists.text, sort=True),
    Attribute("availability_zone", Group.availability_zone, Text | None, post=None, filter=lists.text, sort=True),
    created(Group),
    Attribute("group_type", Group.group_type_id, Name, post=REQUIRED, filter=lists.exact, named="group_type"),
    Attribute("name", Group.name, Label | None, post=None, filter=lists.text, sort=BY_NAME),
    Attribute("description", Group.description, Label | None, post=None, filter=lists.text),
    Attribute("volume_types", Group.volume_types, Annotated[list[Name], Items(1, MOST_TYPES)], post=REQUIRED),
    Attribute("volumes", view=volumes_of),
    Attribute("group_snapshot_id", Group.group_snapshot_id, filter=lists.exact, span=COPIES),
    Attribute("source_group_id", Group.source_group_id, filter=lists.exact, span=COPIES),
    Attribute("replication_status", view=always("disabled"), span=REPLICATED),
    Attribute("project_id", Group.project_id, filter=lists.for_admins, rule="volume:groups:owner", span=OWNED),
)


def volume_groups(options: VolumeOptions, freezing: Sequence[str]) -> Declared[Group]:
    """`freezing`: the pools whose backends freeze several volumes at one moment."""

    def create(conn: Connection, call: Call, values: dict[str, Any]) -> Group:
        return groups.create(conn, call.caller, NewGroup(**values), options, freezing)

    return Declared(
        name="group",
        record=Group,
        attributes=ATTRIBUTES,
        shows={"list": BRIEF, "create": BRIEF},
        visible=visible,
        not_found=groups.not_found,
        create=create,
        span=SPAN,
        # In lists it is among the filters, and leaves out nothing.
        query={"show": ("list_volume",)},
        filters={"list_volume": By(lists.always(lambda values: true()))},
    )


@frozen
class UpdateGroup:
    name: Label | Missing | None = MISSING
    description: Label | Missing | None = MISSING
    add_volumes: str | None = None  # ids, separated by commas
    remove_volumes: str | None = None

    def change(self) -> Change:
        """Raises Invalid if there is nothing to change."""
        values = {key: value for key, value in given(self).items() if key in ("name", "description")}
        add, gone = ([id[:64] for id in split(ids)] for ids in (self.add_volumes, self.remove_volumes))
        if not (values or add or gone):
            raise Invalid("At least one of name, description, add_volumes and remove_volumes is needed.")
        if set(add) & set(gone):
            raise Invalid("Invalid volume: a volume cannot be both added and removed.")
        return Change(values, add, gone)


def split(text: str | None) -> list[str]:
    """What commas separate, each once."""
    return list(dict.fromkeys(each.strip() for each in (text or "").split(",") if each.strip()))


@frozen
class DeleteGroup:
    with_volumes: LooseBool = wire("delete-volumes", default=False)


@frozen
class ResetStatus:
    status: Word


@frozen
class CreateFrom:
    name: Label | None = None
    description: Label | None = None
    group_snapshot_id: Uuid | None = None
    source_group_id: Uuid | None = None


@frozen
class FailOver:
    allow_attached_volume: LooseBool = False
    secondary_backend_id: Text | None = None


@frozen
class GroupActions:
    routes = Routes("Groups")

    db: Database
    options: VolumeOptions
    freezing: Sequence[str]

    @routes.put(
        "/groups/<group_id>",
        policy="volume:groups:update",
        status=202,
        since=SPAN.since,
        body=Body(UpdateGroup, key="group"),
    )
    async def update(self, call: Call, group_id: str, body: UpdateGroup) -> None:
        """Change the name, the description or the volumes of a group."""
        await self.db.run(_update, call, group_id, body.change(), self.options)

    @routes.action(ONE, "delete", policy="volume:groups:delete", since=SPAN.since, body=Body(DeleteGroup))
    async def delete(self, call: Call, group_id: str, body: DeleteGroup) -> None:
        """Delete a group, and with `delete-volumes` its volumes."""
        await self.db.run(_delete, call, group_id, body.with_volumes)

    @routes.action(ONE, "reset_status", policy="volume:groups:reset_status", since=RESET.since, body=Body(ResetStatus))
    async def reset(self, call: Call, group_id: str, body: ResetStatus) -> None:
        """Set the status manually."""
        await self.db.run(_reset, call, group_id, resettable(body.status, groups.RESETTABLE))

    @routes.action(
        "/groups/action",
        "create-from-src",
        policy="volume:groups:create",
        since=COPIES.since,
        body=Body(CreateFrom),
    )
    async def create_from(self, call: Call, body: CreateFrom) -> Any:
        """Make a group with a copy of each volume of another group or group snapshot."""
        return await self.db.run(_create_from, call, body, self.options, self.freezing)

    # -- replication, which no backend supports

    @routes.action(ONE, "enable_replication", policy="volume:groups:replicate", since=REPLICATED.since)
    async def enable_replication(self, call: Call, group_id: str) -> None:
        """Refuse: no backend is replicated."""
        await self.db.read(_refuse_replication, call, group_id)

    @routes.action(ONE, "disable_replication", policy="volume:groups:replicate", since=REPLICATED.since)
    async def disable_replication(self, call: Call, group_id: str) -> None:
        """Refuse: no backend is replicated."""
        await self.db.read(_refuse_replication, call, group_id)

    @routes.action(
        ONE, "failover_replication", policy="volume:groups:replicate", since=REPLICATED.since, body=Body(FailOver)
    )
    async def fail_over(self, call: Call, group_id: str, body: FailOver) -> None:
        """Refuse: no backend is replicated."""
        await self.db.read(_refuse_replication, call, group_id)

    @routes.action(ONE, "list_replication_targets", policy="volume:groups:replicate", since=REPLICATED.since)
    async def list_targets(self, call: Call, group_id: str) -> None:
        """Refuse: no backend is replicated."""
        await self.db.read(_refuse_replication, call, group_id)


def _update(conn: Connection, call: Call, group_id: str, wanted: Change, options: VolumeOptions) -> None:
    groups.alter(conn, call.caller, visible(conn, call, group_id), wanted, options)


def _delete(conn: Connection, call: Call, group_id: str, with_volumes: bool) -> None:
    groups.remove(conn, call.caller, visible(conn, call, group_id), with_volumes)


def _reset(conn: Connection, call: Call, group_id: str, status: str) -> None:
    groups.reset(conn, call.caller, visible(conn, call, group_id), status)


def _create_from(
    conn: Connection, call: Call, body: CreateFrom, options: VolumeOptions, freezing: Sequence[str]
) -> Any:
    source = Source(body.group_snapshot_id, body.source_group_id)
    made = group_snapshots.create_group(conn, call.caller, source, body.name, body.description, options, freezing)
    return {"group": {"id": made.id, "name": made.name}}


def _refuse_replication(conn: Connection, call: Call, group_id: str) -> None:
    group = visible(conn, call, group_id)
    raise Invalid(f"Invalid group type: the type of group {group.id} is not replicated.")


# -- snapshots of groups


SNAPSHOTS_BY_NAME = func.coalesce(GroupSnapshot.name, "")
OF_SNAPSHOTS = (
    Attribute("id", GroupSnapshot.id, filter=lists.exact, sort=True),
    Attribute("group_id", GroupSnapshot.group_id, Uuid, post=REQUIRED, filter=lists.exact, sort=True),
    Attribute("group_type_id", GroupSnapshot.group_type_id),
    Attribute("status", GroupSnapshot.status, filter=lists.text, sort=True),
    created(GroupSnapshot),
    Attribute("name", GroupSnapshot.name, Label | None, post=None, filter=lists.text, sort=SNAPSHOTS_BY_NAME),
    Attribute("description", GroupSnapshot.description, Label | None, post=None),
    Attribute(
        "project_id",
        GroupSnapshot.project_id,
        filter=lists.for_admins,
        rule="volume:group_snapshots:owner",
        span=OWNED,
    ),
)


def group_snapshots_of(options: VolumeOptions, freezing: Sequence[str]) -> Declared[GroupSnapshot]:
    def seen(conn: Connection, call: Call, id: str) -> GroupSnapshot:
        return group_snapshots.visible(conn, call.caller, id)

    def create(conn: Connection, call: Call, values: dict[str, Any]) -> GroupSnapshot:
        return group_snapshots.create(conn, call.caller, NewGroupSnapshot(**values), options, freezing)

    def delete(conn: Connection, call: Call, record: GroupSnapshot) -> None:
        group_snapshots.remove(conn, call.caller, record)

    return Declared(
        name="group_snapshot",
        record=GroupSnapshot,
        attributes=OF_SNAPSHOTS,
        shows={"list": BRIEF, "create": ("id", "name", "group_type_id")},
        visible=seen,
        not_found=group_snapshots.not_found,
        create=create,
        remove=delete,
        span=COPIES,
    )


@frozen
class GroupSnapshotActions:
    routes = Routes("Group snapshots")

    db: Database

    @routes.action(
        SNAPSHOT,
        "reset_status",
        policy="volume:group_snapshots:reset_status",
        since=RESET_SNAPSHOT.since,
        body=Body(ResetStatus),
    )
    async def reset(self, call: Call, group_snapshot_id: str, body: ResetStatus) -> None:
        """Set the status manually."""
        status = resettable(body.status, group_snapshots.RESETTABLE)
        await self.db.run(_reset_snapshot, call, group_snapshot_id, status)


def _reset_snapshot(conn: Connection, call: Call, id: str, status: str) -> None:
    group_snapshots.reset(conn, call.caller, group_snapshots.visible(conn, call.caller, id), status)
