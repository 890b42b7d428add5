"""`/extensions`: what this API offers beyond the core, no more and no less. Reference: network.md, section 18.

Clients ask here before they use a feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from zope.interface import Interface

from cloudctl.drivers.interfaces import (
    IConntrackHelpers,
    IDhcpOptions,
    IEvpn,
    IGatewayLimits,
    IGuaranteedRates,
    ILocalIps,
    IManyGateways,
    IMetering,
    INdpProxies,
    IPacketLimits,
    IPacketLogs,
    IPortForwarding,
    IPrivateVlans,
    IRouteLeaks,
    IRouterKinds,
    IRouters,
    ISegments,
    IServiceHosts,
    ITrunks,
    IWatchedGateways,
)
from cloudctl.errors import NotFound
from cloudctl.network.api.attributes import Json
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Extension:
    """`needs`: the capability of a network driver without which there is nothing behind it."""

    name: str
    description: str
    needs: type[Interface] | None = None

    def view(self, alias: str) -> Json:
        words = {"name": self.name, "description": self.description}
        return {"alias": alias, **words, "updated": UPDATED, "links": []}


# alias → what it is. Those without `needs` are true with every driver.
KNOWN = {
    "address-group": Extension("Address Group", "Groups of addresses that rules name."),
    "address-scope": Extension("Address Scope", "Within one, addresses do not overlap."),
    "default-subnetpools": Extension("Default Subnetpools", "The pool that is meant where none is named."),
    "rbac-address-group": Extension("RBAC Address Groups", "Shares address groups with projects."),
    "rbac-address-scope": Extension("RBAC Address Scopes", "Shares address scopes with projects."),
    "rbac-subnetpool": Extension("RBAC Subnet Pools", "Shares subnet pools with projects."),
    "security-groups-remote-address-group": Extension("Remote Address Group", "Rules may name address groups."),
    "subnet_allocation": Extension("Subnet Allocation", "Subnets are given a part of a pool."),
    "subnet_onboard": Extension("Subnet Onboard", "Subnets that there are become a pool's."),
    "agent": Extension("Agents", "The parts of the network driver on each host."),
    "agent-resources-synced": Extension("Agent's Resources Synced", "Shows that agents tell placement nothing."),
    "agent_sort_key": Extension("Agents Sort Key", "Agents are sorted by all that is shown of them."),
    "availability_zone_filter": Extension("Availability Zone Filter", "Finds zones by name, resource and state."),
    "dhcp_agent_scheduler": Extension("DHCP Agent Scheduler", "Which host gives out addresses.", IServiceHosts),
    "l3_agent_scheduler": Extension("L3 Agent Scheduler", "Which host a router is on.", IServiceHosts),
    "floating-ip-port-forwarding": Extension("Port Forwarding", "Ports of a floating IP lead on.", IPortForwarding),
    "floating-ip-port-forwarding-description": Extension("Port Forwarding Description", "Says why.", IPortForwarding),
    "floating-ip-port-forwarding-detail": Extension("Port Forwarding Detail", "Its id and port, too.", IPortForwarding),
    "floating-ip-port-forwarding-port-ranges": Extension("Port Forwarding Ranges", "Many at once.", IPortForwarding),
    "expose-port-forwarding-in-fip": Extension("Port Forwarding in Floating IP", "Shows them there.", IPortForwarding),
    "auto-allocated-topology": Extension("Auto-allocated Topology", "A network for who has none.", IRouters),
    "network-ip-availability": Extension("Network IP Availability", "How many addresses are taken."),
    "network-ip-availability-details": Extension("Network IP Availability Details", "In pools, and in all."),
    "trunk": Extension("Trunks", "A port carries others, by VLAN ids.", ITrunks),
    "trunk-details": Extension("Trunk Details", "Shows what a port carries.", ITrunks),
    "extra_dhcp_opt": Extension("Extra DHCP Options", "What guests are told by DHCP.", IDhcpOptions),
    "data-plane-status": Extension("Data Plane Status", "What is found of the wire behind a port."),
    "dns-domain-ports": Extension("DNS Domain of Ports", "The domain of a port's name."),
    "dns-integration": Extension("DNS Integration", "Names of ports, networks and floating IPs."),
    "ip_allocation": Extension("IP Allocation", "When a port is given its addresses."),
    "port-device-profile": Extension("Port Device Profile", "Keeps the device profile of a port."),
    "port-hints": Extension("Port Hints", "Keeps hints for drivers."),
    "port-numa-affinity-policy": Extension("Port NUMA Affinity Policy", "Keeps how a port is placed."),
    "port-numa-affinity-policy-socket": Extension("Port NUMA Affinity Policy Socket", "One more of these policies."),
    "port-trusted-vif": Extension("Trusted Port", "Whether the guest of a port is trusted."),
    "tag-ports-during-bulk-creation": Extension("Tags of Many Ports", "Tags in a request that creates ports."),
    "uplink-status-propagation": Extension("Uplink Status Propagation", "Keeps whether links follow the uplink."),
    "uplink-status-propagation-updatable": Extension("Uplink Status Propagation Update", "Changes that."),
    "subnetpool-prefix-ops": Extension("Subnet Pool Prefixes", "Adds and removes prefixes of a pool."),
    "binding-extended": Extension("Port Bindings Extended", "A port may be bound to hosts that it may move to."),
    "dvr": Extension("Distributed Virtual Router", "Routers that work on every host.", IRouterKinds),
    "l3-ha": Extension("HA Router", "Routers that take each other's place.", IRouterKinds),
    "router-admin-state-down-before-update": Extension(
        "Router Down Before Update", "A router becomes of another kind while it is down.", IRouterKinds
    ),
    "expose-l3-conntrack-helper": Extension("Expose Conntrack Helpers", "Shows them in routers.", IConntrackHelpers),
    "enable-default-route-bfd": Extension("Default Route BFD", "Those that do not answer are left.", IWatchedGateways),
    "enable-default-route-ecmp": Extension("Default Route ECMP", "All gateways are taken in turns.", IManyGateways),
    "external-gateway-multihoming": Extension("External Gateway Multihoming", "Several gateways.", IManyGateways),
    "evpn": Extension("EVPN", "Routers are told of in a VPN over the wires below.", IEvpn),
    "ovn-bgp": Extension("OVN BGP", "Subnets that the wires below know the way to.", IRouteLeaks),
    "pvlan": Extension("Private VLAN", "Ports of one network that do not all reach each other.", IPrivateVlans),
    "flavors": Extension("Service Flavors", "Kinds of routers by name."),
    "l3-conntrack-helper": Extension("L3 Conntrack Helper", "Routers follow some protocols.", IConntrackHelpers),
    "l3-ext-ndp-proxy": Extension("Router NDP Proxy", "Turns a router's NDP proxies on.", INdpProxies),
    "l3-flavors": Extension("Router Flavors", "Routers of a flavor.", IRouters),
    "l3-ndp-proxy": Extension("L3 NDP Proxy", "Routers answer outside for addresses inside.", INdpProxies),
    "local_ip": Extension("Local IP", "Addresses that lead to a port of the same host.", ILocalIps),
    "logging": Extension("Logging", "Writes down what security groups let through and drop.", IPacketLogs),
    "metering": Extension("Metering", "Counts what passes routers.", IMetering),
    "metering_source_and_destination_fields": Extension("Metering by Both Ends", "By both addresses.", IMetering),
    "network-segment-range": Extension("Network Segment Range", "Which numbers networks get on a wire."),
    "qos-fip": Extension("Floating IP QoS", "Policies of floating IPs.", IGatewayLimits),
    "qos-fip-network-policy": Extension("Floating IP QoS of the Network", "Shows that, too.", IGatewayLimits),
    "qos-gateway-ip": Extension("Gateway IP QoS", "Policies of routers' gateways.", IGatewayLimits),
    "segment": Extension("Segment", "The wires that networks are on."),
    "standard-attr-segment": Extension("Standard Attributes of Segments", "Descriptions, times and revisions."),
    "multi-provider": Extension("Multi Provider Network", "Networks of several wires.", ISegments),
    "subnet-segmentid-enforce": Extension("Subnet SegmentID Enforce", "A rule says who may tell where a subnet is."),
    "subnet-segmentid-writable": Extension("Subnet SegmentID Writable", "A subnet may say later where it is."),
    "subnet-dns-publish-fixed-ip": Extension("Subnet DNS Publish Fixed IP", "Keeps whether names are published."),
    "allowed-address-pairs": Extension("Allowed Address Pairs", "Further addresses that a port may send from."),
    "availability_zone": Extension("Availability Zone", "Lists the zones of networks."),
    "binding": Extension("Port Binding", "Tells administrators where a port is."),
    "empty-string-filtering": Extension("Empty String Filtering", "An empty filter finds empty values."),
    "external-net": Extension("Neutron external network", "Networks that lead out of the cloud."),
    "filter-validation": Extension("Filter Validation", "Unknown filters are rejected."),
    "ip-substring-filtering": Extension("IP Address Substring Filtering", "Finds ports by a part of an address."),
    "net-mtu": Extension("Network MTU", "Shows a network's MTU."),
    "net-mtu-writable": Extension("Network MTU (writable)", "Sets a network's MTU."),
    "network_availability_zone": Extension("Network Availability Zone", "Zones that networks are asked to be in."),
    "pagination": Extension("Pagination", "Pages of lists."),
    "port-mac-address-regenerate": Extension("MAC Address Regenerate", "A port's MAC of null is a new one."),
    "port-security": Extension("Port Security", "Filtering can be turned off."),
    "port-security-groups-filtering": Extension(
        "Port Security Groups Filtering", "Finds the ports in a security group."
    ),
    "project-id": Extension("Project ID", "project_id beside tenant_id."),
    "provider": Extension("Provider Network", "Tells and lets administrators choose the wire of a network."),
    "qos": Extension("QoS", "Policies that limit the bandwidth of ports."),
    "qos-bw-minimum-ingress": Extension("QoS Minimum Bandwidth", "A part of the wire for a port.", IGuaranteedRates),
    "qos-pps": Extension("QoS Packet Rate Limit", "Limits of packets.", IPacketLimits),
    "qos-pps-minimum": Extension("QoS Minimum Packet Rate", "Packets that a port's host must manage."),
    "qos-pps-minimum-rule-alias": Extension("QoS Minimum Packet Rate Alias", "These without the policy in the path."),
    "port-resource-request": Extension("Port Resource Request", "What a port asks of its host."),
    "port-resource-request-groups": Extension("Port Resource Request Groups", "The same, in several groups."),
    "qos-bw-limit-direction": Extension("QoS Bandwidth Limit Direction", "Limits in either direction."),
    "qos-default": Extension("QoS Default Policy", "A policy that new networks of a project get."),
    "qos-port-network-policy": Extension("QoS Port Network Policy", "Shows the policy of a port's network."),
    "qos-rule-type-details": Extension(
        "QoS Rule Type Details", "Shows what a rule may say, and which driver obeys it."
    ),
    "qos-rules-alias": Extension("QoS Rules Alias", "Rules without the policy in the path."),
    "rbac-policies": Extension("RBAC Policies", "Shares networks and QoS policies with projects."),
    "rbac-security-groups": Extension("RBAC Security Groups", "Shares security groups with projects."),
    "floatingip-pools": Extension("Floating IP Pools", "Lists where floating IPs can be had.", IRouters),
    "l2_adjacency": Extension("L2 Adjacency", "Shows that a network is one wire."),
    "qos-rule-type-filter": Extension("QoS Rule Type Filter", "Lists types that the driver obeys, or all."),
    "quota-check-limit-default": Extension("Quota Check Limit by Default", "Limits are checked unless forced."),
    "sort-key-validation": Extension("Sort Key Validation", "Unknown sort keys are rejected."),
    "quota-check-limit": Extension("Quota Check Limit", "Limits below the present use are refused."),
    "quota_details": Extension("Quota Details", "Shows limits and use."),
    "quotas": Extension("Quota Management", "Limits of projects."),
    "revision-if-match": Extension("If-Match on Revisions", "Changes only the revision that the client knows."),
    "security-group": Extension("Security Groups", "Rules that let traffic to and from ports through."),
    "security-groups-normalized-cidr": Extension(
        "Security Groups Normalized CIDR", "Shows the network of a rule's prefix."
    ),
    "security-groups-default-rules": Extension("Default Security Group Rules", "Which rules new groups have."),
    "security-groups-shared-filtering": Extension("Shared Security Groups Filtering", "Finds groups by `shared`."),
    "security-groups-rules-belongs-to-default-sg": Extension(
        "Security Group Rules of the Default Group",
        "Shows whether a rule belongs to the default group.",
    ),
    "service-type": Extension("Service Type", "Lists the providers of services."),
    "sorting": Extension("Sorting", "Sorted lists."),
    "standard-attr-description": Extension("Standard Attribute Description", "Descriptions of all records."),
    "standard-attr-revisions": Extension("Standard Attribute Revisions", "A number that grows on every change."),
    "standard-attr-tag": Extension("Standard Attribute Tags", "Tags on records."),
    "standard-attr-timestamp": Extension("Standard Attribute Timestamps", "When records were made and changed."),
    "stateful-security-group": Extension("Stateful Security Group", "Groups whose replies need rules of their own."),
    "subnet-external-network": Extension(
        "Subnet of an External Network", "Shows whether a subnet's network is external."
    ),
    "subnet-service-types": Extension("Subnet Service Types", "Which ports have their addresses of a subnet."),
    "tag": Extension("Tag Support", "Tags of networks, by the name that older clients know."),
    "tag-creation": Extension("Tag Creation", "Tags in the request that creates a record."),
    "ext-gw-mode": Extension("External Gateway Mode", "A router's gateway with or without source NAT.", IRouters),
    "extraroute": Extension("Extra Routes", "Static routes of routers.", IRouters),
    "extraroute-atomic": Extension("Extra Routes (atomic)", "Adds and removes some of a router's routes.", IRouters),
    "fip-port-details": Extension("Floating IP Port Details", "Shows the port that a floating IP leads to.", IRouters),
    "router": Extension("Routers", "Routers between networks, and floating IPs.", IRouters),
    "router_availability_zone": Extension(
        "Router Availability Zone", "Zones that routers are asked to be in.", IRouters
    ),
}
UPDATED = "2026-01-01T00:00:00-00:00"


def offered(driver: Any) -> Mapping[str, Extension]:
    """What there is with this network driver, by alias."""
    return {alias: each for alias, each in sorted(KNOWN.items()) if each.needs is None or each.needs.providedBy(driver)}


@frozen
class Extensions:
    routes = Routes("Extensions")

    offered: Mapping[str, Extension]

    @routes.get("/extensions", policy="network:extensions:list")
    async def list(self, call: Call) -> Json:
        """List the extensions that are offered."""
        return {"extensions": [each.view(alias) for alias, each in self.offered.items()]}

    @routes.get("/extensions/<alias>", policy="network:extensions:show")
    async def show(self, call: Call, alias: str) -> Json:
        """Show an extension."""
        if alias not in self.offered:
            message = f"Extension with alias {alias[:64]} does not exist"
            raise NotFound(message, type="ExtensionsNotFound")
        return {"extension": self.offered[alias].view(alias)}
