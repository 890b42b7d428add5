"""The extensions of old: what clients of the first years look for. Reference: compute.md, section 4."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

# Alias → name. Only what is offered.
EXTENSIONS = {
    "OS-DCF": "DiskConfig",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-IMG-SIZE": "ImageSize",
    "OS-EXT-IPS": "ExtendedIps",
    "OS-EXT-IPS-MAC": "ExtendedIpsMac",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "OS-SCH-HNT": "SchedulerHints",
    "OS-SRV-USG": "ServerUsage",
    "os-aggregates": "Aggregates",
    "os-attach-interfaces": "AttachInterfaces",
    "os-availability-zone": "AvailabilityZone",
    "os-block-device-mapping-v2-boot": "BlockDeviceMappingV2Boot",
    "os-config-drive": "ConfigDrive",
    "os-console-output": "ConsoleOutput",
    "os-consoles": "Consoles",
    "os-extended-volumes": "ExtendedVolumes",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-floating-ip-pools": "FloatingIpPools",
    "os-floating-ips": "FloatingIps",
    "os-hosts": "Hosts",
    "os-hypervisors": "Hypervisors",
    "os-instance_usage_audit_log": "OSInstanceUsageAuditLog",
    "os-instance-actions": "InstanceActions",
    "os-keypairs": "Keypairs",
    "os-multiple-create": "MultipleCreate",
    "os-networks": "Networks",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-security-groups": "SecurityGroups",
    "os-server-external-events": "ServerExternalEvents",
    "os-server-groups": "ServerGroups",
    "os-services": "Services",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-tenant-networks": "TenantNetworks",
    "os-used-limits": "UsedLimits",
    "os-user-data": "UserData",
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
