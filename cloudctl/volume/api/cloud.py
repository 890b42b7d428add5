"""The service itself: services, pools, zones, extensions, filters. Reference: volume.md, section 10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Span
from cloudctl.volume.api import (
    attachments,
    backups,
    gates,
    groups,
    lists,
    messages,
    pools,
    snapshots,
    transfers,
    volumes,
)
from cloudctl.volume.api.lists import By
from cloudctl.volume.options import VolumeOptions


@frozen
class Zones:
    routes = Routes("Availability zones")

    options: VolumeOptions

    @routes.get("/os-availability-zone", policy="volume:zones:list")
    async def list(self, call: Call) -> Any:
        """List the zones that volumes may be in."""
        zones = self.options.availability_zones
        return {"availabilityZoneInfo": [{"zoneName": zone, "zoneState": {"available": True}} for zone in zones]}


# Alias → (name, description) of the extensions served here.
EXTENSIONS = {
    "backups": ("Backups", "Backups of volumes."),
    "os-admin-actions": ("AdminActions", "Statuses set by hand, deletion by force."),
    "os-availability-zone": ("AvailabilityZones", "Availability zones."),
    "os-extended-services": ("ExtendedServices", "Why a service is disabled."),
    "os-extended-snapshot-attributes": ("ExtendedSnapshotAttributes", "Progress and project of a snapshot."),
    "os-hosts": ("Hosts", "What is on the hosts of the services."),
    "capabilities": ("Capabilities", "What backends are capable of."),
    "os-quota-sets": ("Quotas", "Quotas of projects."),
    "os-services": ("Services", "The services of block storage."),
    "os-snapshot-manage": ("SnapshotManage", "Snapshots that backends have already."),
    "os-snapshot-unmanage": ("SnapshotUnmanage", "Snapshots that are left to their backends."),
    "os-volume-manage": ("VolumeManage", "Volumes that backends have already."),
    "os-volume-unmanage": ("VolumeUnmanage", "Volumes that are left to their backends."),
    "os-snapshot-actions": ("SnapshotActions", "Statuses of snapshots, said by other services."),
    "os-types-extra-specs": ("TypesExtraSpecs", "Extra specs of volume types."),
    "os-types-manage": ("TypesManage", "Volume types made by administrators."),
    "os-used-limits": ("UsedLimits", "What a project uses, in its limits."),
    "os-vol-host-attr": ("VolumeHostAttribute", "Where a volume is."),
    "os-vol-image-meta": ("VolumeImageMetadata", "Metadata of the image that a volume was made from."),
    "os-vol-mig-status-attr": ("VolumeMigStatusAttribute", "Whether a volume is being moved."),
    "os-vol-tenant-attr": ("VolumeTenantAttribute", "The project of a volume."),
    "os-volume-actions": ("VolumeActions", "Actions on volumes."),
    "encryption": ("VolumeTypeEncryption", "How volumes of a type are to be encrypted."),
    "os-volume-encryption-metadata": ("VolumeEncryptionMetadata", "How a volume is encrypted."),
    "os-volume-type-access": ("VolumeTypeAccess", "Volume types of some projects only."),
    "os-volume-transfer": ("VolumeTransfer", "Volumes that change their project."),
    "qos-specs": ("Qos_specs_manage", "What volumes of a type may do."),
    "scheduler-stats": ("Scheduler_stats", "Pools and their capacity."),
}


@frozen
class Extensions:
    routes = Routes("Extensions")

    @routes.get("/extensions", policy="volume:extensions:list")
    async def list(self, call: Call) -> Any:
        """List the extensions that are offered."""
        return {"extensions": [_extension(alias) for alias in EXTENSIONS]}

    @routes.get("/extensions/<alias>", policy="volume:extensions:list")
    async def show(self, call: Call, alias: str) -> Any:
        """Show one extension."""
        if alias not in EXTENSIONS:
            raise NotFound(f"Extension with alias {alias[:64]} could not be found.")
        return {"extension": _extension(alias)}


def _extension(alias: str) -> dict[str, Any]:
    name, description = EXTENSIONS[alias]
    updated = "2026-01-01T00:00:00+00:00"
    return {"name": name, "alias": alias, "description": description, "updated": updated, "links": []}


def _of_members(known: Mapping[str, By]) -> dict[str, Span]:
    return lists.names({name: by for name, by in known.items() if not by.admin})


FILTERS: Mapping[str, Mapping[str, Span]] = {
    "volume": _of_members(volumes.FILTERS),
    "snapshot": _of_members(snapshots.FILTERS),
    "backup": _of_members(backups.FILTERS),
    "attachment": _of_members(attachments.FILTERS),
    "transfer": _of_members(transfers.TRANSFERS.collection.filters or {}),
    "message": _of_members(messages.MESSAGES.collection.filters or {}),
    "pool": pools.FILTERS,
    "volume_type": {"extra_specs": gates.SPECS_FILTER},
}


def _filters(options: VolumeOptions) -> Mapping[str, Mapping[str, Span]]:
    """Resource → filter → the versions that accept it."""
    of_groups = _of_members(groups.volume_groups(options, ()).collection.filters or {})
    of_copies = _of_members(groups.group_snapshots_of(options, ()).collection.filters or {})
    # What `list_volume` asks for is how groups are shown.
    of_groups = {name: span for name, span in of_groups.items() if name != "list_volume"}
    return {**FILTERS, "group": of_groups, "group_snapshot": of_copies}


@frozen
class ResourceFilters:
    """Which filters members may use."""

    routes = Routes("Filters")

    options: VolumeOptions

    @routes.get("/resource_filters", policy="volume:extensions:list", since=(3, 33), query=("resource",))
    async def list(self, call: Call) -> Any:
        """List the filters of each list."""
        asked = call.query.get("resource")
        found = []
        for resource, known in _filters(self.options).items():
            if asked in (None, resource):
                names = [name for name, span in known.items() if call.version in span]
                found.append({"resource": resource, "filters": names})
        return {"resource_filters": found}
