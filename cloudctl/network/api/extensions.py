"""`/extensions`: what this API offers beyond the core, no more and no less. Reference: network.md, section 18.

Clients ask here before they use a feature.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.network.api.attributes import Json
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

# alias → (name, description)
OFFERED = {
    "allowed-address-pairs": ("Allowed Address Pairs", "Further addresses that a port may send from."),
    "availability_zone": ("Availability Zone", "Lists the zones of networks."),
    "binding": ("Port Binding", "Tells administrators where a port is."),
    "empty-string-filtering": ("Empty String Filtering", "An empty filter finds empty values."),
    "external-net": ("Neutron external network", "Networks that lead out of the cloud."),
    "filter-validation": ("Filter Validation", "Unknown filters are rejected."),
    "ip-substring-filtering": ("IP Address Substring Filtering", "Finds ports by a part of an address."),
    "net-mtu": ("Network MTU", "Shows a network's MTU."),
    "net-mtu-writable": ("Network MTU (writable)", "Sets a network's MTU."),
    "network_availability_zone": ("Network Availability Zone", "Zones that networks are asked to be in."),
    "pagination": ("Pagination", "Pages of lists."),
    "port-mac-address-regenerate": ("MAC Address Regenerate", "A port's MAC of null is a new one."),
    "port-security": ("Port Security", "Filtering can be turned off."),
    "port-security-groups-filtering": ("Port Security Groups Filtering", "Finds the ports in a security group."),
    "project-id": ("Project ID", "project_id beside tenant_id."),
    "provider": ("Provider Network", "Tells and lets administrators choose the wire of a network."),
    "qos": ("QoS", "Policies that limit the bandwidth of ports."),
    "qos-bw-limit-direction": ("QoS Bandwidth Limit Direction", "Limits in either direction."),
    "qos-default": ("QoS Default Policy", "A policy that new networks of a project get."),
    "qos-port-network-policy": ("QoS Port Network Policy", "Shows the policy of a port's network."),
    "qos-rule-type-details": ("QoS Rule Type Details", "Shows what a rule may say, and which driver obeys it."),
    "qos-rules-alias": ("QoS Rules Alias", "Rules without the policy in the path."),
    "quota-check-limit": ("Quota Check Limit", "Limits below the present use are refused."),
    "quota_details": ("Quota Details", "Shows limits and use."),
    "quotas": ("Quota Management", "Limits of projects."),
    "revision-if-match": ("If-Match on Revisions", "Changes only the revision that the client knows."),
    "security-group": ("Security Groups", "Rules that let traffic to and from ports through."),
    "security-groups-normalized-cidr": ("Security Groups Normalized CIDR", "Shows the network of a rule's prefix."),
    "security-groups-rules-belongs-to-default-sg": (
        "Security Group Rules of the Default Group",
        "Shows whether a rule belongs to the default group.",
    ),
    "service-type": ("Service Type", "Lists the providers of services."),
    "sorting": ("Sorting", "Sorted lists."),
    "standard-attr-description": ("Standard Attribute Description", "Descriptions of all records."),
    "standard-attr-revisions": ("Standard Attribute Revisions", "A number that grows on every change."),
    "standard-attr-tag": ("Standard Attribute Tags", "Tags on records."),
    "standard-attr-timestamp": ("Standard Attribute Timestamps", "When records were made and changed."),
    "stateful-security-group": ("Stateful Security Group", "Groups whose replies need rules of their own."),
    "subnet-external-network": ("Subnet of an External Network", "Shows whether a subnet's network is external."),
    "tag-creation": ("Tag Creation", "Tags in the request that creates a record."),
}
# Beside these, with a network driver that has routers.
WITH_ROUTERS = {
    "ext-gw-mode": ("External Gateway Mode", "A router's gateway with or without source NAT."),
    "extraroute": ("Extra Routes", "Static routes of routers."),
    "extraroute-atomic": ("Extra Routes (atomic)", "Adds and removes some of a router's routes."),
    "fip-port-details": ("Floating IP Port Details", "Shows the port that a floating IP leads to."),
    "router": ("Routers", "Routers between networks, and floating IPs."),
    "router_availability_zone": ("Router Availability Zone", "Zones that routers are asked to be in."),
}
UPDATED = "2026-01-01T00:00:00-00:00"


def _view(alias: str, name: str, description: str) -> Json:
    return {"alias": alias, "name": name, "description": description, "updated": UPDATED, "links": []}


@frozen
class Extensions:
    routes = Routes("Extensions")

    has_routers: bool

    @property
    def offered(self) -> Mapping[str, tuple[str, str]]:
        return dict(sorted((OFFERED | WITH_ROUTERS).items())) if self.has_routers else OFFERED

    @routes.get("/extensions", policy="network:extensions:list")
    async def list(self, call: Call) -> Json:
        """List the extensions that are offered."""
        return {"extensions": [_view(alias, *words) for alias, words in self.offered.items()]}

    @routes.get("/extensions/<alias>", policy="network:extensions:show")
    async def show(self, call: Call, alias: str) -> Json:
        """Show an extension."""
        if alias not in self.offered:
            message = f"Extension with alias {alias[:64]} does not exist"
            raise NotFound(message, type="ExtensionsNotFound")
        return {"extension": _view(alias, *self.offered[alias])}
