"""Volumes on the wire. Reference: volume.md, section 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from cloudctl import tasks
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.body import MISSING, Body, LooseBool, Missing, Text, Uuid, extra, given, wire
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.listing import Condition, Page, equals, flag
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields
from cloudctl.volume import attachments, consistency, creation, kinds, search, snapshots, types, volumes
from cloudctl.volume.api import gates, lists, views
from cloudctl.volume.api.fields import Label, Metadata, Object, Size
from cloudctl.volume.api.lists import By, always
from cloudctl.volume.api.views import Shown
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Attachment, Volume

NOTHING_TO_UPDATE = "At least one of name, description, display_name, display_description and metadata is required."


def _bootable(call: Call, values: Sequence[str]) -> Condition:
    make = flag(Volume.bootable) if call.version in gates.BOOTABLE_WORDS else search.lenient_flag(Volume.bootable)
    return make(values)


FILTERS = {
    "name": lists.text(Volume.name),
    "status": lists.text(Volume.status),
    "metadata": By(always(search.holds(Volume.metadata))),
    "bootable": By(_bootable),
    "migration_status": By(always(search.migration_status)),
    "availability_zone": lists.text(Volume.availability_zone),
    "group_id": By(always(search.nullable(Volume.group_id)), span=since(3, 10)),
    "size": By(always(search.whole(Volume.size))),
    "created_at": lists.moment(Volume.created_at),
    "updated_at": lists.moment(Volume.updated_at),
    "glance_metadata": By(always(search.holds(Volume.image_metadata)), span=since(3, 4)),
    "consumes_quota": By(always(search.constant(True)), span=since(3, 65)),
    "id": By(always(equals(Volume.id)), admin=True),
    "project_id": By(always(equals(Volume.project_id)), admin=True),
    "user_id": By(always(equals(Volume.user_id)), admin=True),
    "host": lists.text(Volume.host, admin=True),
    "description": lists.text(Volume.description, admin=True),
    "volume_type_id": By(always(equals(Volume.volume_type_id)), admin=True),
    "volume_type": By(always(search.of_type_named), admin=True),
    "snapshot_id": By(always(equals(Volume.snapshot_id)), admin=True),
    "source_volid": By(always(equals(Volume.source_volid)), admin=True),
    "multiattach": By(always(flag(Volume.multiattach)), admin=True),
    "attach_status": By(always(equals(Volume.attach_status)), admin=True),
}


SUMMARY = Fields[[Connection, Sequence[Condition]]](
    "the summary of volumes", {"metadata": (since(3, 36), lambda conn, where: search.metadata_values(conn, *where))}
)

# How a volume that is not encrypted is: no backend encrypts.
PLAIN: Mapping[str, str | None] = {"encryption_key_id": None}


@frozen
class CreateVolume:
    size: Size | None = None
    name: Label | None = None
    description: Label | None = None
    display_name: Label | None = None
    display_description: Label | None = None
    volume_type: Text | None = None
    availability_zone: Text | None = None
    imageRef: Text | None = None
    image_id: Text | None = None
    snapshot_id: Uuid | None = None
    source_volid: Uuid | None = None
    backup_id: Uuid | None = None
    group_id: Uuid | None = None
    consistencygroup_id: Uuid | None = None
    metadata: Metadata | None = None
    multiattach: LooseBool | None = None

    def wanted(self, call: Call) -> NewVolume:
        """Raises Invalid for two sources, two groups, a flag that types decide, or a group without a type."""
        backup_id = self.backup_id if call.version in gates.FROM_BACKUP else None
        group_id = self.group_id if call.version in gates.GROUPS else None
        if group_id and self.consistencygroup_id:
            raise Invalid("Invalid input received: a volume can be in only one group.")
        group_id = group_id or self.consistencygroup_id
        image_id = self.imageRef or self.image_id
        sources = [source for source in (image_id, self.snapshot_id, self.source_volid, backup_id) if source]
        if len(sources) > 1:
            raise Invalid(
                "Invalid input received: a volume can be created from only one image, snapshot, volume or backup."
            )
        if self.multiattach:
            raise Invalid(
                "multiattach parameter has been removed. The default behavior is to use multiattach enabled "
                "volume types."
            )
        if group_id and not self.volume_type:
            raise Invalid("Invalid input received: volume_type must be provided when creating a volume in a group.")
        return NewVolume(
            group_id=group_id or None,
            size=self.size,
            name=self.name if self.name is not None else self.display_name,
            description=self.description if self.description is not None else self.display_description,
            volume_type=self.volume_type,
            availability_zone=self.availability_zone,
            # It may be a URL.
            image_id=image_id.rstrip("/").rpartition("/")[2] if image_id else None,
            snapshot_id=self.snapshot_id,
            source_volid=self.source_volid,
            backup_id=backup_id,
            metadata=self.metadata or {},
        )


@frozen
class LooseCreateVolume(CreateVolume):
    """Before 3.53 unknown fields were ignored."""

    others: dict[str, Any] = extra()


@frozen
class Create:
    """Hints choose between backends; they have no effect here."""

    volume: CreateVolume
    hints: Object | Missing | None = wire("OS-SCH-HNT:scheduler_hints", default=MISSING)
    old_hints: Object | Missing | None = wire("scheduler_hints", default=MISSING)


@frozen
class LooseCreate:
    volume: LooseCreateVolume
    hints: Object | Missing | None = wire("OS-SCH-HNT:scheduler_hints", default=MISSING)
    others: dict[str, Any] = extra()


@frozen
class UpdateVolume:
    name: Label | Missing | None = MISSING
    description: Label | Missing | None = MISSING
    display_name: Label | Missing | None = MISSING
    display_description: Label | Missing | None = MISSING
    metadata: Metadata | Missing | None = MISSING

    def values(self) -> dict[str, Any]:
        """Column → value."""
        sent = given(self)
        found = {column: sent[name] for name, column in SYNONYMS.items() if name in sent}
        if "metadata" in sent:
            found["metadata"] = sent["metadata"] or {}
        return found


# The later ones win.
SYNONYMS = {
    "display_name": "name",
    "display_description": "description",
    "name": "name",
    "description": "description",
}


@frozen
class LooseUpdateVolume(UpdateVolume):
    others: dict[str, Any] = extra()


LISTED = lists.Collection("volumes", search.LISTING, FILTERS, volumes.not_found)


@frozen
class Volumes:
    routes = Routes("Volumes")

    db: Database
    options: VolumeOptions

    @routes.get("/volumes", policy="volume:volumes:list", pure=True, query=lists.names(FILTERS))
    async def list(self, call: Call) -> Any:
        """List volumes."""
        return await LISTED.answer(self.db, call, views.volume_summary)

    @routes.get("/volumes/detail", policy="volume:volumes:list", pure=True, query=lists.names(FILTERS))
    async def list_detail(self, call: Call) -> Any:
        """List volumes with all fields."""
        page, total, shown = await self.db.scan(_details, call)
        return lists.answer(call, "volumes", [views.volume_detail(call, each) for each in shown], page, total)

    @routes.get(
        "/volumes/summary",
        policy="volume:volumes:list",
        pure=True,
        since=(3, 12),
        query=lists.names(FILTERS),
    )
    async def summary(self, call: Call) -> Any:
        """Show the number and total size of all volumes."""
        return {"volume-summary": await self.db.scan(_summary, call)}

    @routes.post(
        "/volumes",
        policy="volume:volumes:create",
        status=202,
        body={(3, 0): Body(LooseCreate), (3, 53): Body(Create)},
    )
    async def create(self, call: Call, body: Create | LooseCreate) -> Any:
        """Make a volume, empty or from an image, a snapshot, a backup or another volume."""
        wanted, consistent = body.volume.wanted(call), bool(body.volume.consistencygroup_id)
        made = await self.db.run(_create, call, wanted, consistent, self.options)
        return {"volume": views.volume(call, made)}

    @routes.get("/volumes/<volume_id>", policy="volume:volumes:show", pure=True)
    async def show(self, call: Call, volume_id: str) -> Any:
        """Show a volume."""
        return {"volume": views.volume_detail(call, await self.db.read(_visible, call, volume_id))}

    @routes.put(
        "/volumes/<volume_id>",
        policy="volume:volumes:update",
        body={(3, 0): Body(LooseUpdateVolume, key="volume"), (3, 53): Body(UpdateVolume, key="volume")},
    )
    async def update(self, call: Call, volume_id: str, body: UpdateVolume) -> Any:
        """Change the name, description or metadata of a volume."""
        values = body.values()
        if not values and call.version in gates.NO_EMPTY_CHANGE:
            raise Invalid(NOTHING_TO_UPDATE)
        return {"volume": views.volume(call, await self.db.run(_update, call, volume_id, values))}

    @routes.delete("/volumes/<volume_id>", policy="volume:volumes:delete", status=202)
    async def delete(self, call: Call, volume_id: str) -> None:
        """Delete a volume."""
        cascade = call.query.flag("cascade")
        force = call.version in gates.FORCE and call.query.flag("force")
        if force:
            call.require("volume:volumes:force_delete")
        await self.db.run(delete, call, volume_id, force, cascade)

    @routes.get("/volumes/<volume_id>/encryption", policy="volume:volumes:show")
    async def encryption(self, call: Call, volume_id: str) -> Any:
        """Show how a volume is encrypted; none is."""
        await self.db.read(volumes.visible, call.caller, volume_id)
        return dict(PLAIN)

    @routes.get("/volumes/<volume_id>/encryption/<key>", policy="volume:volumes:show")
    async def encryption_value(self, call: Call, volume_id: str, key: str) -> Reply:
        """Show one field of it as plain text; an empty one has no value."""
        await self.db.read(volumes.visible, call.caller, volume_id)
        if key not in PLAIN:
            raise NotFound(f"Volume {volume_id} has no encryption metadata with key {key[:255]}.")
        return Reply((PLAIN[key] or "").encode(), headers=(("Content-Type", "text/plain; charset=UTF-8"),))


def _details(conn: Connection, call: Call) -> tuple[Page, int | None, Sequence[Shown]]:
    """A page, and its volumes as they are shown."""
    page, total = LISTED.found(conn, call)
    return page, total, _shown(conn, page.rows)


def _summary(conn: Connection, call: Call) -> dict[str, Any]:
    where = LISTED.where(call)
    count, size = search.totals(conn, *where)
    later = SUMMARY.of(call.version, conn, where)
    return {"total_count": count, "total_size": size, **later}


def _shown(conn: Connection, found: Sequence[Volume]) -> list[Shown]:
    names = types.names(conn)
    attached = attachments.of_volume(conn, [row.id for row in found])
    consistent = consistency.among(conn, {row.group_id for row in found if row.group_id is not None})
    return [
        Shown(row, names[row.volume_type_id], attached.get(row.id, ()), row.group_id in consistent) for row in found
    ]


def _create(conn: Connection, call: Call, wanted: NewVolume, consistent: bool, options: VolumeOptions) -> Shown:
    """`consistent`: its group must be a consistency group."""
    if consistent:
        consistency.visible(conn, call.caller, wanted.group_id or "")
    made = creation.create(conn, call.caller, wanted, options)
    return _one(conn, made)


def _visible(conn: Connection, call: Call, volume_id: str) -> Shown:
    row = volumes.visible(conn, call.caller, volume_id)
    return _one(conn, row, attachments.of_volume(conn, [volume_id]).get(volume_id, ()))


def _one(conn: Connection, row: Volume, attached: Sequence[Attachment] = ()) -> Shown:
    is_consistent = row.group_id is not None and bool(consistency.among(conn, [row.group_id]))
    return Shown(row, types.get(conn, row.volume_type_id).name, attached, is_consistent)


def _update(conn: Connection, call: Call, volume_id: str, values: dict[str, Any]) -> Shown:
    volumes.change(conn, volumes.visible(conn, call.caller, volume_id, lock=True), values, call.now)
    return _visible(conn, call, volume_id)


def delete(conn: Connection, call: Call, volume_id: str, force: bool, cascade: bool = False) -> None:
    """Any work under way on it stops first. `cascade`: its snapshots go, too. Raises NotFound, Conflict."""
    volumes.visible(conn, call.caller, volume_id, lock=True)
    was = volumes.begin_delete(conn, volume_id, call.now, force, with_snapshots=cascade)
    if volumes.is_nowhere(was):
        tasks.cancel_open(conn, kinds.DELETE_VOLUME.resource, volume_id)
        volumes.forget(conn, volume_id)
        return
    if cascade:
        snapshots.remove_all(conn, call.caller, volume_id, force)
    tasks.supersede(conn, kinds.DELETE_VOLUME, volume_id, call.caller, keep=kinds.LENT)
