"""`/extensions`: what this API offers beyond the core, no more and no less. Reference: network.md, section 18.

Clients check here before they use a feature.
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
    """`needs`: the capability that the network driver must have; None: any driver will do."""

    name: str
    description: str
    needs: type[Interface] | None = None

    def view(self, alias: str) -> Json:
        words = {"name": self.name, "description": self.description}
        return {"alias": alias, **words, "updated": UPDATED, "links": []}


# alias → extension. Those without `needs` are offered with every driver.
KNOWN = {
    "address-group": Extension("Address Group", "Groups of addresses that rules name."),
    "address-scope": Extension("Address Scope", "Within one, addresses do not overlap."),
    "default-subnetpools": Extension("Default Subnetpools", "Subnet pools that are used by default."),
    "rbac-address-group": Extension("RBAC Address Groups", "Shares address groups with projects."),
    "rbac-address-scope": Extension("RBAC Address Scopes", "Shares address scopes with projects."),
    "rbac-subnetpool": Extension("RBAC Subnet Pools", "Shares subnet pools with projects."),
    "security-groups-remote-address-group": Extension(
        "Remote Address Group", "Security group rules may refer to address groups."
    ),
    "subnet_allocation": Extension("Subnet Allocation", "Subnets are allocated from subnet pools."),
    "subnet_onboard": Extension("Subnet Onboard", "Moves existing subnets into a subnet pool."),
    "agent": Extension("Agents", "The parts of the network driver on each host."),
    "agent-resources-synced": Extension(
        "Agent's Resources Synced", "Whether agents have synchronised their resources with placement."
    ),
    "agent_sort_key": Extension("Agents Sort Key", "Agents can be sorted by every attribute."),
    "availability_zone_filter": Extension("Availability Zone Filter", "Finds zones by name, resource and state."),
    "dhcp_agent_scheduler": Extension(
        "DHCP Agent Scheduler", "Shows which hosts serve DHCP for a network.", IServiceHosts
    ),
    "l3_agent_scheduler": Extension("L3 Agent Scheduler", "Shows which hosts a router is on.", IServiceHosts),
    "floating-ip-port-forwarding": Extension(
        "Port Forwarding", "Forwards single ports of a floating IP.", IPortForwarding
    ),
    "floating-ip-port-forwarding-description": Extension(
        "Port Forwarding Description", "Descriptions of port forwardings.", IPortForwarding
    ),
    "floating-ip-port-forwarding-detail": Extension(
        "Port Forwarding Detail", "Shows the internal port of a port forwarding.", IPortForwarding
    ),
    "floating-ip-port-forwarding-port-ranges": Extension(
        "Port Forwarding Ranges", "Forwards ranges of ports.", IPortForwarding
    ),
    "expose-port-forwarding-in-fip": Extension(
        "Port Forwarding in Floating IP", "Shows port forwardings in floating IPs.", IPortForwarding
    ),
    "auto-allocated-topology": Extension(
        "Auto-allocated Topology", "Makes a network, a subnet and a router for a project that has none.", IRouters
    ),
    "network-ip-availability": Extension(
        "Network IP Availability", "Shows how many addresses of a network are in use."
    ),
    "network-ip-availability-details": Extension(
        "Network IP Availability Details", "Shows use in allocation pools and in whole subnets."
    ),
    "trunk": Extension("Trunks", "Trunk ports that carry subports by VLAN ids.", ITrunks),
    "trunk-details": Extension("Trunk Details", "Shows the subports of a trunk in its parent port.", ITrunks),
    "extra_dhcp_opt": Extension("Extra DHCP Options", "DHCP options of a port.", IDhcpOptions),
    "data-plane-status": Extension("Data Plane Status", "The state of the data plane behind a port."),
    "dns-domain-ports": Extension("DNS Domain of Ports", "The domain of a port's name."),
    "dns-integration": Extension("DNS Integration", "Names of ports, networks and floating IPs."),
    "ip_allocation": Extension("IP Allocation", "When a port is given its addresses."),
    "port-device-profile": Extension("Port Device Profile", "Keeps the device profile of a port."),
    "port-hints": Extension("Port Hints", "Keeps hints for drivers."),
    "port-numa-affinity-policy": Extension("Port NUMA Affinity Policy", "The NUMA affinity policy of a port."),
    "port-numa-affinity-policy-socket": Extension(
        "Port NUMA Affinity Policy Socket", "The NUMA affinity policy socket."
    ),
    "port-trusted-vif": Extension("Trusted Port", "Whether the guest of a port is trusted."),
    "tag-ports-during-bulk-creation": Extension("Tags of Many Ports", "Tags in a bulk request that creates ports."),
    "uplink-status-propagation": Extension("Uplink Status Propagation", "Whether a port's link follows the uplink."),
    "uplink-status-propagation-updatable": Extension(
        "Uplink Status Propagation Update", "Uplink status propagation can be changed."
    ),
    "subnetpool-prefix-ops": Extension("Subnet Pool Prefixes", "Adds and removes prefixes of a pool."),
    "binding-extended": Extension("Port Bindings Extended", "Further bindings of a port, for live migration."),
    "dvr": Extension("Distributed Virtual Router", "Routers that work on every host.", IRouterKinds),
    "l3-ha": Extension("HA Router", "Highly available routers.", IRouterKinds),
    "router-admin-state-down-before-update": Extension(
        "Router Down Before Update", "A router must be down while its kind is changed.", IRouterKinds
    ),
    "expose-l3-conntrack-helper": Extension(
        "Expose Conntrack Helpers", "Shows conntrack helpers in routers.", IConntrackHelpers
    ),
    "enable-default-route-bfd": Extension("Default Route BFD", "Watches default routes by BFD.", IWatchedGateways),
    "enable-default-route-ecmp": Extension(
        "Default Route ECMP", "Balances traffic over default routes.", IManyGateways
    ),
    "external-gateway-multihoming": Extension("External Gateway Multihoming", "Several gateways.", IManyGateways),
    "evpn": Extension("EVPN", "Announces routers by EVPN.", IEvpn),
    "ovn-bgp": Extension("OVN BGP", "Announces subnets by BGP.", IRouteLeaks),
    "pvlan": Extension("Private VLAN", "Isolated and community ports in one network.", IPrivateVlans),
    "flavors": Extension("Service Flavors", "Service flavors and their profiles."),
    "l3-conntrack-helper": Extension("L3 Conntrack Helper", "Conntrack helpers of routers.", IConntrackHelpers),
    "l3-ext-ndp-proxy": Extension("Router NDP Proxy", "Enables NDP proxies on a router.", INdpProxies),
    "l3-flavors": Extension("Router Flavors", "Routers of a flavor.", IRouters),
    "l3-ndp-proxy": Extension("L3 NDP Proxy", "NDP proxies for addresses behind a router.", INdpProxies),
    "local_ip": Extension("Local IP", "Addresses that lead to a port on the same host.", ILocalIps),
    "logging": Extension("Logging", "Logs packets that security groups accept or drop.", IPacketLogs),
    "metering": Extension("Metering", "Measures traffic through routers.", IMetering),
    "metering_source_and_destination_fields": Extension(
        "Metering by Both Ends", "Metering rules with source and destination addresses.", IMetering
    ),
    "network-segment-range": Extension("Network Segment Range", "Ranges of segmentation ids for project networks."),
    "qos-fip": Extension("Floating IP QoS", "QoS policies of floating IPs.", IGatewayLimits),
    "qos-fip-network-policy": Extension(
        "Floating IP QoS of the Network", "Shows the QoS policy of a floating IP's network.", IGatewayLimits
    ),
    "qos-gateway-ip": Extension("Gateway IP QoS", "QoS policies of routers' gateways.", IGatewayLimits),
    "segment": Extension("Segment", "The segments of networks."),
    "standard-attr-segment": Extension("Standard Attributes of Segments", "Descriptions, times and revisions."),
    "multi-provider": Extension("Multi Provider Network", "Networks with several segments.", ISegments),
    "subnet-segmentid-enforce": Extension("Subnet SegmentID Enforce", "A policy rule for the segment of a subnet."),
    "subnet-segmentid-writable": Extension("Subnet SegmentID Writable", "The segment of a subnet can be set later."),
    "subnet-dns-publish-fixed-ip": Extension(
        "Subnet DNS Publish Fixed IP", "Whether names of fixed addresses are published in DNS."
    ),
    "allowed-address-pairs": Extension("Allowed Address Pairs", "Further addresses that a port may send from."),
    "availability_zone": Extension("Availability Zone", "Lists availability zones."),
    "binding": Extension("Port Binding", "Shows administrators how and where a port is bound."),
    "empty-string-filtering": Extension("Empty String Filtering", "An empty filter matches empty values."),
    "external-net": Extension("Neutron external network", "External networks."),
    "filter-validation": Extension("Filter Validation", "Unknown filters are rejected."),
    "ip-substring-filtering": Extension("IP Address Substring Filtering", "Filters ports by a part of an IP address."),
    "net-mtu": Extension("Network MTU", "Shows a network's MTU."),
    "net-mtu-writable": Extension("Network MTU (writable)", "Sets a network's MTU."),
    "network_availability_zone": Extension("Network Availability Zone", "Availability zone hints of networks."),
    "pagination": Extension("Pagination", "Lists in pages."),
    "port-mac-address-regenerate": Extension("MAC Address Regenerate", "A MAC address of null regenerates it."),
    "port-security": Extension("Port Security", "Port security can be disabled."),
    "port-security-groups-filtering": Extension("Port Security Groups Filtering", "Filters ports by security group."),
    "project-id": Extension("Project ID", "Accepts and shows project_id beside tenant_id."),
    "provider": Extension(
        "Provider Network", "Shows the physical realisation of a network, which administrators can choose."
    ),
    "qos": Extension("QoS", "Policies that limit the bandwidth of ports."),
    "qos-bw-minimum-ingress": Extension(
        "QoS Minimum Bandwidth", "Guaranteed bandwidth in both directions.", IGuaranteedRates
    ),
    "qos-pps": Extension("QoS Packet Rate Limit", "Limits the rate of packets.", IPacketLimits),
    "qos-pps-minimum": Extension("QoS Minimum Packet Rate", "Guaranteed rate of packets."),
    "qos-pps-minimum-rule-alias": Extension(
        "QoS Minimum Packet Rate Alias", "Minimum packet rate rules without the policy in the path."
    ),
    "port-resource-request": Extension("Port Resource Request", "Resources that a port requests of its host."),
    "port-resource-request-groups": Extension(
        "Port Resource Request Groups", "Resources that a port requests, in groups."
    ),
    "qos-bw-limit-direction": Extension("QoS Bandwidth Limit Direction", "Bandwidth limits for each direction."),
    "qos-default": Extension("QoS Default Policy", "The default QoS policy of a project's new networks."),
    "qos-port-network-policy": Extension("QoS Port Network Policy", "Shows the policy of a port's network."),
    "qos-rule-type-details": Extension("QoS Rule Type Details", "Shows the drivers and parameters of a rule type."),
    "qos-rules-alias": Extension("QoS Rules Alias", "QoS rules without the policy in the path."),
    "rbac-policies": Extension("RBAC Policies", "Shares networks and QoS policies with projects."),
    "rbac-security-groups": Extension("RBAC Security Groups", "Shares security groups with projects."),
    "floatingip-pools": Extension("Floating IP Pools", "Lists networks that offer floating IPs.", IRouters),
    "l2_adjacency": Extension("L2 Adjacency", "Shows whether a network is one L2 segment."),
    "qos-rule-type-filter": Extension(
        "QoS Rule Type Filter", "Lists the rule types that all drivers support, or all types."
    ),
    "quota-check-limit-default": Extension(
        "Quota Check Limit by Default", "Quota limits are checked against use unless forced."
    ),
    "sort-key-validation": Extension("Sort Key Validation", "Unknown sort keys are rejected."),
    "quota-check-limit": Extension("Quota Check Limit", "Quota limits below the present use are refused."),
    "quota_details": Extension("Quota Details", "Shows limits and use."),
    "quotas": Extension("Quota Management", "Limits of projects."),
    "revision-if-match": Extension(
        "If-Match on Revisions", "Changes a resource only if its revision matches If-Match."
    ),
    "security-group": Extension("Security Groups", "Security groups and their rules."),
    "security-groups-normalized-cidr": Extension(
        "Security Groups Normalized CIDR", "Shows the normalised CIDR of a rule."
    ),
    "security-groups-default-rules": Extension(
        "Default Security Group Rules", "Templates for the rules of new security groups."
    ),
    "security-groups-shared-filtering": Extension(
        "Shared Security Groups Filtering", "Filters security groups by shared."
    ),
    "security-groups-rules-belongs-to-default-sg": Extension(
        "Security Group Rules of the Default Group",
        "Shows whether a rule belongs to the default group.",
    ),
    "service-type": Extension("Service Type", "Lists the providers of services."),
    "sorting": Extension("Sorting", "Sorted lists."),
    "standard-attr-description": Extension("Standard Attribute Description", "Descriptions of resources."),
    "standard-attr-revisions": Extension("Standard Attribute Revisions", "Revision numbers of resources."),
    "standard-attr-tag": Extension("Standard Attribute Tags", "Tags on resources."),
    "standard-attr-timestamp": Extension("Standard Attribute Timestamps", "Times of creation and of the last change."),
    "stateful-security-group": Extension("Stateful Security Group", "Security groups can be stateless."),
    "subnet-external-network": Extension(
        "Subnet of an External Network", "Shows whether a subnet's network is external."
    ),
    "subnet-service-types": Extension("Subnet Service Types", "Restricts a subnet to ports of given device owners."),
    "tag": Extension("Tag Support", "Tags of networks, by the older name of the extension."),
    "tag-creation": Extension("Tag Creation", "Tags in the request that creates a resource."),
    "ext-gw-mode": Extension("External Gateway Mode", "A router's gateway with or without source NAT.", IRouters),
    "extraroute": Extension("Extra Routes", "Static routes of routers.", IRouters),
    "extraroute-atomic": Extension("Extra Routes (atomic)", "Adds and removes some of a router's routes.", IRouters),
    "floating-ip-router-writable": Extension(
        "Floating IP Router", "Floating IPs that lead through a router without an interface on the subnet.", IRouters
    ),
    "fip-port-details": Extension("Floating IP Port Details", "Shows the port that a floating IP leads to.", IRouters),
    "router": Extension("Routers", "Routers between networks, and floating IPs.", IRouters),
    "router_availability_zone": Extension("Router Availability Zone", "Availability zone hints of routers.", IRouters),
}
UPDATED = "2026-01-01T00:00:00-00:00"


def offered(driver: Any) -> Mapping[str, Extension]:
    """The extensions offered with this network driver, by alias."""
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
