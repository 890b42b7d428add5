"""The old extensions, which clients from the early years look for. Reference: compute.md, section 4."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

# Alias → name. Only what is offered.
EXTENSIONS = {
    "NMN": "Multinic",
    "os-access-ips": "AccessIPs",
    "os-admin-actions": "AdminActions",
    "os-admin-password": "AdminPassword",
    "os-aggregates": "Aggregates",
    "os-attach-interfaces": "AttachInterfaces",
    "os-availability-zone": "AvailabilityZone",
    "os-block-device-mapping": "BlockDeviceMapping",
    "os-block-device-mapping-v2-boot": "BlockDeviceMappingV2Boot",
    "os-config-drive": "ConfigDrive",
    "os-console-output": "ConsoleOutput",
    "os-consoles": "Consoles",
    "os-create-backup": "CreateBackup",
    "OS-DCF": "DiskConfig",
    "os-deferred-delete": "DeferredDelete",
    "os-evacuate": "Evacuate",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-IMG-SIZE": "ImageSize",
    "OS-EXT-IPS": "ExtendedIps",
    "OS-EXT-IPS-MAC": "ExtendedIpsMac",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "os-extended-evacuate-find-host": "ExtendedEvacuateFindHost",
    "os-extended-floating-ips": "ExtendedFloatingIps",
    "os-extended-hypervisors": "ExtendedHypervisors",
    "os-extended-rescue-with-image": "ExtendedRescueWithImage",
    "os-extended-services": "ExtendedServices",
    "os-extended-services-delete": "ExtendedServicesDelete",
    "os-extended-volumes": "ExtendedVolumes",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-flavor-rxtx": "FlavorRxtx",
    "os-flavor-swap": "FlavorSwap",
    "os-floating-ip-pools": "FloatingIpPools",
    "os-floating-ips": "FloatingIps",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "os-hosts": "Hosts",
    "os-hypervisor-status": "HypervisorStatus",
    "os-hypervisors": "Hypervisors",
    "os-instance-actions": "InstanceActions",
    "os-instance_usage_audit_log": "OSInstanceUsageAuditLog",
    "os-keypairs": "Keypairs",
    "os-lock-server": "LockServer",
    "os-migrate-server": "MigrateServer",
    "os-migrations": "Migrations",
    "os-multiple-create": "MultipleCreate",
    "os-networks": "Networks",
    "os-pause-server": "PauseServer",
    "os-personality": "Personality",
    "os-preserve-ephemeral-rebuild": "PreserveEphemeralOnRebuild",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-remote-consoles": "RemoteConsoles",
    "os-rescue": "Rescue",
    "OS-SCH-HNT": "SchedulerHints",
    "os-security-groups": "SecurityGroups",
    "os-server-diagnostics": "ServerDiagnostics",
    "os-server-external-events": "ServerExternalEvents",
    "os-server-group-quotas": "ServerGroupQuotas",
    "os-server-groups": "ServerGroups",
    "os-server-list-multi-status": "ServerListMultiStatus",
    "os-server-password": "ServerPassword",
    "os-server-sort-keys": "ServerSortKeys",
    "os-services": "Services",
    "os-shelve": "Shelve",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "OS-SRV-USG": "ServerUsage",
    "os-suspend-server": "SuspendServer",
    "os-tenant-networks": "TenantNetworks",
    "os-used-limits": "UsedLimits",
    "os-used-limits-for-admin": "UsedLimitsForAdmin",
    "os-user-data": "UserData",
    "os-volume-attachment-update": "VolumeAttachmentUpdate",
    "os-volumes": "Volumes",
    "server-start-stop": "ServerStartStop",
}


def view(alias: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "name": EXTENSIONS[alias],
        "description": "",
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
        "links": [],
    }


@frozen
class Extensions:
    routes = Routes("Extensions")

    @routes.get("/extensions", policy="compute:extensions:list")
    async def list(self, call: Call) -> dict[str, Any]:
        """List extensions."""
        return {"extensions": [view(alias) for alias in EXTENSIONS]}

    @routes.get("/extensions/<alias>", policy="compute:extensions:list")
    async def show(self, call: Call, alias: str) -> dict[str, Any]:
        """Show one extension."""
        if alias not in EXTENSIONS:
            raise NotFound(f"Extension {alias[:64]} could not be found.")
        return {"extension": view(alias)}
