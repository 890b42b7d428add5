"""What backends have outside the cloud's volumes and snapshots, on the wire.

The lists come from a driver, so they are sorted and paged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeAdoption, IVolumeBackend, IVolumeSnapshots
from cloudctl.drivers.specs import Unmanaged
from cloudctl.errors import Invalid, NotFound, NotImplementedHere
from cloudctl.rest.body import Body, LooseBool, Missing, Uuid, gated, wire
from cloudctl.rest.call import Call
from cloudctl.rest.resource import Json
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.volume import managing, types, volumes
from cloudctl.volume.api import lists, views
from cloudctl.volume.api.actions import ACTION as VOLUME_ACTION
from cloudctl.volume.api.fields import HostName, Label, Metadata
from cloudctl.volume.api.snapshots import ACTION as SNAPSHOT_ACTION
from cloudctl.volume.api.views import Shown
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.managing import Managed
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.snapshots import NewSnapshot

LISTED, CLUSTERED = since(3, 8), since(3, 16)
CLUSTERS_LISTED = since(3, 17)
KNOWN = ("host", "limit", "marker", "offset", "sort", "sort_key", "sort_dir")
QUERY = dict.fromkeys(KNOWN, ALWAYS) | {"cluster": CLUSTERS_LISTED}


@frozen
class Entry:
    """A volume or snapshot on a backend. `id`: its id in the cloud, if it has one."""

    name: str
    size: int
    volume: str = ""  # of a snapshot: the name of its volume
    id: str | None = None
    objection: str = ""

    def view(self, *, detail: bool) -> Json:
        body: Json = {"reference": {"source-name": self.name}, "size": self.size, "safe_to_manage": not self.objection}
        if self.volume:
            body["source_reference"] = {"source-name": self.volume}
        if detail:
            body |= {"reason_not_safe": self.objection or None, "cinder_id": self.id, "extra_info": None}
        return body


SORT_KEYS: Mapping[str, Callable[[Entry], Any]] = {
    "reference": lambda entry: entry.name,
    "size": lambda entry: entry.size,
}


def page(call: Call, entries: Iterable[Entry]) -> list[Entry]:
    """The entries that the query asks for. Raises Invalid, NotFound for an unknown marker."""
    paging = lists.paging(call)
    found = sorted(entries, key=lambda entry: entry.name)
    for key, direction in reversed(paging.order or (("reference", "desc"),)):
        if key not in SORT_KEYS:
            raise Invalid(f"Invalid sort key {key[:64]!r}: it is one of {', '.join(SORT_KEYS)}.")
        found.sort(key=SORT_KEYS[key], reverse=direction == "desc")
    marker = call.query.get("marker")
    if marker:
        name = _named(marker)
        place = next((number for number, entry in enumerate(found) if entry.name == name), None)
        if place is None:
            raise NotFound(f"Marker {marker[:64]} could not be found.")
        found = found[place + 1 :]
    return found[paging.offset :][: paging.limit]


def _named(marker: str) -> str:
    """The name in a marker: a reference as it was shown, or only its name."""
    try:
        told = orjson.loads(marker)
    except orjson.JSONDecodeError:
        return marker
    return str(told.get("source-name", "")) if isinstance(told, dict) else marker


@frozen
class Reference:
    """The backend's name for it. No backend has ids besides names."""

    source_name: str | None = wire("source-name", default=None)
    source_id: str | None = wire("source-id", default=None)

    @property
    def name(self) -> str:
        """Raises Invalid."""
        found = self.source_name or self.source_id
        if not found:
            raise Invalid("Invalid input received: a reference has a 'source-name' or a 'source-id'.")
        return found


@frozen
class Manage:
    ref: Reference
    host: HostName | None = None
    cluster: HostName | Missing | None = gated(CLUSTERED)
    name: Label | None = None
    description: Label | None = None
    volume_type: Label | None = None
    availability_zone: Label | None = None
    metadata: Metadata | None = None
    bootable: LooseBool = False

    @property
    def place(self) -> str:
        """Raises Invalid, and NotFound for a cluster."""
        return _place(self.host, self.cluster or None)

    def managed(self, found: Unmanaged, pool: str) -> Managed:
        wanted = NewVolume(
            size=max(1, found.size_gib),
            name=self.name,
            description=self.description,
            volume_type=self.volume_type,
            availability_zone=self.availability_zone,
            metadata=self.metadata or {},
        )
        return Managed(pool, found.name, wanted, self.bootable)


@frozen
class ManageSnapshot:
    volume_id: Uuid
    ref: Reference
    name: Label | None = None
    description: Label | None = None
    metadata: Metadata | None = None

    def wanted(self) -> NewSnapshot:
        return NewSnapshot(self.volume_id, self.name, self.description, self.metadata or {}, force=True)


def _place(host: str | None, cluster: str | None) -> str:
    if cluster:
        raise NotFound(f"Cluster {cluster[:255]} could not be found.")
    if not host:
        raise Invalid("Invalid input received: 'host' is required.")
    return host


@frozen
class Managing:
    """`pools`: where volumes are; `backend`: all of them as one."""

    routes = Routes("Manage")

    db: Database
    backend: IVolumeBackend
    pools: Mapping[str, IVolumeBackend]
    options: VolumeOptions

    # -- volumes

    @routes.get("/os-volume-manage", policy="volume:volumes:manageable", query=QUERY)
    @routes.get("/manageable_volumes", policy="volume:volumes:manageable", since=LISTED.since, query=QUERY)
    async def list(self, call: Call) -> Json:
        """List the volumes of a backend, including those that the cloud does not manage."""
        return {"manageable-volumes": await self._volumes(call, detail=False)}

    @routes.get("/os-volume-manage/detail", policy="volume:volumes:manageable", query=QUERY)
    @routes.get("/manageable_volumes/detail", policy="volume:volumes:manageable", since=LISTED.since, query=QUERY)
    async def details(self, call: Call) -> Json:
        """List the volumes of a backend, and why some cannot be managed."""
        return {"manageable-volumes": await self._volumes(call, detail=True)}

    @routes.post("/os-volume-manage", policy="volume:volumes:manage", status=202, body=Body(Manage, key="volume"))
    @routes.post(
        "/manageable_volumes",
        policy="volume:volumes:manage",
        status=202,
        since=LISTED.since,
        body=Body(Manage, key="volume"),
    )
    async def manage(self, call: Call, body: Manage) -> Json:
        """Take over an existing volume of a backend."""
        pool = await self.db.read(managing.pool, self.options, body.place)
        there = {each.name: each for each in await adopting(self.pools[pool]).unmanaged()}
        found = managing.demand_safe(body.ref.name, there.get(body.ref.name))
        shown = await self.db.run(_manage, call, body.managed(found, pool), self.options)
        return {"volume": views.volume(call, shown)}

    @routes.action(VOLUME_ACTION, "os-unmanage", policy="volume:volumes:unmanage")
    async def unmanage(self, call: Call, volume_id: str) -> None:
        """Remove a volume from the cloud, but leave it on its backend."""
        adopting(self.backend)
        await self.db.run(managing.unmanage, call.caller, volume_id)

    async def _volumes(self, call: Call, *, detail: bool) -> Sequence[Json]:
        backend = adopting(await self._asked(call))
        entries = [Entry(each.name, each.size_gib, objection=each.objection) for each in await backend.unmanaged()] + [
            Entry(managing.name_of(each.id), each.size_gib, id=each.id, objection="already managed")
            for each in await backend.inventory()
        ]
        return [each.view(detail=detail) for each in page(call, entries)]

    # -- snapshots

    @routes.get("/os-snapshot-manage", policy="volume:snapshots:manageable", query=QUERY)
    @routes.get("/manageable_snapshots", policy="volume:snapshots:manageable", since=LISTED.since, query=QUERY)
    async def list_snapshots(self, call: Call) -> Json:
        """List the snapshots of a backend, including those that the cloud does not manage."""
        return {"manageable-snapshots": await self._snapshots(call, detail=False)}

    @routes.get("/os-snapshot-manage/detail", policy="volume:snapshots:manageable", query=QUERY)
    @routes.get("/manageable_snapshots/detail", policy="volume:snapshots:manageable", since=LISTED.since, query=QUERY)
    async def snapshot_details(self, call: Call) -> Json:
        """List the snapshots of a backend, and why some cannot be managed."""
        return {"manageable-snapshots": await self._snapshots(call, detail=True)}

    @routes.post(
        "/os-snapshot-manage",
        policy="volume:snapshots:manage",
        status=202,
        body=Body(ManageSnapshot, key="snapshot"),
    )
    @routes.post(
        "/manageable_snapshots",
        policy="volume:snapshots:manage",
        status=202,
        since=LISTED.since,
        body=Body(ManageSnapshot, key="snapshot"),
    )
    async def manage_snapshot(self, call: Call, body: ManageSnapshot) -> Json:
        """Take over an existing snapshot of a volume from its backend."""
        volume = await self.db.read(volumes.visible, call.caller, body.volume_id)
        there = await adopting(self.backend).unmanaged_snapshots()
        named = [each for each in there if (each.volume_id, each.name) == (volume.id, body.ref.name)]
        found = managing.demand_safe(body.ref.name, named[0] if named else None)
        made = await self.db.run(managing.manage_snapshot, call.caller, found.name, body.wanted(), self.options)
        return {"snapshot": views.snapshot(call, made)}

    @routes.action(SNAPSHOT_ACTION, "os-unmanage", policy="volume:snapshots:unmanage")
    async def unmanage_snapshot(self, call: Call, snapshot_id: str) -> None:
        """Remove a snapshot from the cloud, but leave it on its backend."""
        adopting(self.backend)
        await self.db.run(managing.unmanage_snapshot, call.caller, snapshot_id)

    async def _snapshots(self, call: Call, *, detail: bool) -> Sequence[Json]:
        backend = adopting(await self._asked(call))
        of = managing.name_of
        entries = [
            Entry(each.name, each.size_gib, of(each.volume_id or ""), objection=each.objection)
            for each in await backend.unmanaged_snapshots()
        ]
        if IVolumeSnapshots.providedBy(backend):
            entries += (
                Entry(f"_snapshot-{each.id}", each.size_gib, of(each.volume_id), each.id, "already managed")
                for each in await backend.snapshots()
            )
        return [each.view(detail=detail) for each in page(call, entries)]

    async def _asked(self, call: Call) -> IVolumeBackend:
        """The backend that the query names. Raises Invalid, NotFound, Unavailable."""
        host = _place(call.query.get("host"), call.query.get("cluster"))
        return self.pools[await self.db.read(managing.pool, self.options, host)]


def adopting(backend: IVolumeBackend) -> Any:
    """The backend. Raises NotImplementedHere if it cannot hand anything over."""
    if not IVolumeAdoption.providedBy(backend):
        raise NotImplementedHere("The volume backend has nothing but the volumes of this cloud.")
    return backend


def _manage(conn: Connection, call: Call, new: Managed, options: VolumeOptions) -> Shown:
    made = managing.manage(conn, call.caller, new, options)
    return Shown(made, types.get(conn, made.volume_type_id).name)
