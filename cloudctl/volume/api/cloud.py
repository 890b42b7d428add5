"""What the service itself is: services, pools, zones, extensions, filters. Reference: volume.md, section 10."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Database
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.drivers.specs import Capacity
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.body import Body, Length
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.rest.views import Fields
from cloudctl.volume import connections, services
from cloudctl.volume.api import attachments, backups, messages, snapshots, transfers, volumes
from cloudctl.volume.api.fields import HostName
from cloudctl.volume.options import VolumeOptions

Reason = Annotated[str, Length(1, 255, blank=False)]


@frozen
class Switch:
    host: HostName
    binary: HostName | None = None
    service: HostName | None = None

    @property
    def name(self) -> str:
        """Raises Invalid."""
        found = self.binary or self.service
        if found is None:
            raise Invalid("'binary' or 'service' is a required property")
        return found


@frozen
class Disable(Switch):
    disabled_reason: Reason | None = None


@frozen
class DisableWithReason(Switch):
    disabled_reason: Reason = ""


# They are this process, which answers, and in no cluster.
SERVICE = Fields[[]]("a service", {"cluster": (since(3, 7), lambda: None)})
BACKEND = Fields[[]]("a service of volumes", {"backend_state": (since(3, 49), lambda: "up")})


@frozen
class Services:
    routes = Routes("Services")

    db: Database
    options: VolumeOptions

    @routes.get("/os-services", policy="volume:services:list", query=("host", "binary"))
    async def list(self, call: Call) -> Any:
        """List the services of block storage."""
        found = await self.db.read(services.listing, self.options)
        host, binary = call.query.get("host"), call.query.get("binary") or call.query.get("service")
        return {
            "services": [
                self._view(call, each)
                for each in found
                if host in (None, each.host, each.host.partition("@")[0]) and binary in (None, each.binary)
            ]
        }

    @routes.put("/os-services/enable", policy="volume:services:write", body=Body(Switch))
    async def enable(self, call: Call, body: Switch) -> Any:
        """Let a service take work."""
        return await self._switch(body, False)

    @routes.put("/os-services/disable", policy="volume:services:write", body=Body(Disable))
    async def disable(self, call: Call, body: Disable) -> Any:
        """Give a service no new work."""
        return await self._switch(body, True)

    @routes.put("/os-services/disable-log-reason", policy="volume:services:write", body=Body(DisableWithReason))
    async def disable_with_reason(self, call: Call, body: DisableWithReason) -> Any:
        """Give a service no new work, and say why."""
        if not body.disabled_reason:
            raise Invalid("'disabled_reason' is a required property")
        return await self._switch(body, True, body.disabled_reason)

    async def _switch(self, body: Switch, disabled: bool, reason: str | None = None) -> Any:
        found = await self.db.run(services.switch, self.options, body.host, body.name, disabled, reason)
        return {
            "host": found.host,
            "service": found.binary,
            "binary": found.binary,
            "status": "disabled" if disabled else "enabled",
            "disabled": disabled,
            "disabled_reason": reason,
        }

    def _view(self, call: Call, service: services.Service) -> dict[str, Any]:
        body: dict[str, Any] = {
            "binary": service.binary,
            "host": service.host,
            "zone": self.options.default_zone,
            "status": "disabled" if service.disabled else "enabled",
            # They are this process, which answers.
            "state": "up",
            "updated_at": micros(call.now),
            "disabled_reason": service.disabled_reason,
        }
        if service.binary == services.VOLUME:
            body |= {"replication_status": "disabled", "active_backend_id": None, "frozen": False}
            body |= BACKEND.of(call.version)
        return body | SERVICE.of(call.version)


@frozen
class Pools:
    routes = Routes("Services")

    backend: IVolumeBackend
    options: VolumeOptions

    @routes.get(
        "/scheduler-stats/get_pools", policy="volume:pools:list", query={"detail": ALWAYS, "name": since(3, 28)}
    )
    async def list(self, call: Call) -> Any:
        """Show where volumes can be, and with `detail` how much fits there."""
        name = call.query.get("name")
        if name not in (None, self.options.pool):
            return {"pools": []}
        pool: dict[str, Any] = {"name": self.options.pool}
        if call.query.flag("detail"):
            pool["capabilities"] = self._capabilities(call, await connections.capacity(self.backend))
        return {"pools": [pool]}

    def _capabilities(self, call: Call, capacity: Capacity) -> dict[str, Any]:
        return {
            "updated": micros(call.now),
            "total_capacity_gb": capacity.total_gib,
            "free_capacity_gb": capacity.free_gib,
            "allocated_capacity_gb": capacity.allocated_gib,
            "provisioned_capacity_gb": capacity.allocated_gib,
            "reserved_percentage": 0,
            "volume_backend_name": self.options.backend,
            "storage_protocol": capacity.storage_protocol,
            "driver_version": "1.0",
            "vendor_name": "Open Source",
            "QoS_support": False,
            "multiattach": capacity.multiattach,
            "thin_provisioning_support": capacity.thin,
        }


@frozen
class Zones:
    routes = Routes("Availability zones")

    options: VolumeOptions

    @routes.get("/os-availability-zone", policy="volume:zones:list")
    async def list(self, call: Call) -> Any:
        """List the zones that volumes may be in."""
        zones = self.options.availability_zones
        return {"availabilityZoneInfo": [{"zoneName": zone, "zoneState": {"available": True}} for zone in zones]}


# Alias → (name, description) of what is served here.
EXTENSIONS = {
    "backups": ("Backups", "Backups of volumes."),
    "os-admin-actions": ("AdminActions", "Statuses set by hand, deletion by force."),
    "os-availability-zone": ("AvailabilityZones", "Availability zones."),
    "os-extended-services": ("ExtendedServices", "Why a service is disabled."),
    "os-extended-snapshot-attributes": ("ExtendedSnapshotAttributes", "Progress and project of a snapshot."),
    "os-quota-sets": ("Quotas", "Quotas of projects."),
    "os-services": ("Services", "The services of block storage."),
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


FILTERS = {
    "volume": volumes.FILTERS,
    "snapshot": snapshots.FILTERS,
    "backup": backups.FILTERS,
    "attachment": attachments.FILTERS,
    "transfer": transfers.TRANSFERS.collection.filters or {},
    "message": messages.MESSAGES.collection.filters or {},
}


@frozen
class ResourceFilters:
    """Which filters members may use."""

    routes = Routes("Filters")

    @routes.get("/resource_filters", policy="volume:extensions:list", since=(3, 33), query=("resource",))
    async def list(self, call: Call) -> Any:
        """List the filters of each list."""
        asked = call.query.get("resource")
        found = []
        for resource, known in FILTERS.items():
            if asked in (None, resource):
                names = [name for name, by in known.items() if not by.admin and call.version in by.span]
                found.append({"resource": resource, "filters": names})
        return {"resource_filters": found}
