"""The networking API v2.0: its resources, versions and faults. Reference: network.md, discovery.md."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from zope.interface import Interface

from cloudctl.db import Database
from cloudctl.drivers.interfaces import (
    IConntrackHelpers,
    IDhcpPorts,
    IGatewayLimits,
    ILocalIps,
    IManyGateways,
    IMetering,
    INdpProxies,
    IPacketLogs,
    IPortForwarding,
    IRouterKinds,
    IRouters,
    ISegments,
    ITrunks,
)
from cloudctl.network.api import agents, extensions, networks, qos_rules, routers, segments
from cloudctl.network.api.address_groups import ADDRESS_GROUPS, GroupAddresses
from cloudctl.network.api.address_scopes import ADDRESS_SCOPES
from cloudctl.network.api.auto_topology import AutoTopologies
from cloudctl.network.api.availability import AVAILABILITIES
from cloudctl.network.api.conntrack_helpers import CONNTRACK_HELPERS
from cloudctl.network.api.extensions import Extensions
from cloudctl.network.api.faults import FAULTS
from cloudctl.network.api.flavors import FLAVORS_OF_ROUTERS, SERVICE_PROFILES, ProfilesOfFlavor
from cloudctl.network.api.floating_ip_pools import FloatingIpPools
from cloudctl.network.api.floating_ips import FLOATING_IPS
from cloudctl.network.api.local_ips import LOCAL_IP_ASSOCIATIONS, LOCAL_IPS
from cloudctl.network.api.logs import LOGS, LoggableResources
from cloudctl.network.api.metering import LABELS_OF_METERS, RULES_OF_METERS
from cloudctl.network.api.ndp_proxies import NDP_PROXIES
from cloudctl.network.api.port_bindings import PortBindings
from cloudctl.network.api.port_forwardings import PortForwardings
from cloudctl.network.api.ports import PORTS
from cloudctl.network.api.qos_policies import QOS_POLICIES
from cloudctl.network.api.qos_rule_types import QosRuleTypes
from cloudctl.network.api.qos_tags import QosPolicyTags
from cloudctl.network.api.quotas import ProjectQuotas
from cloudctl.network.api.rbac_policies import RBAC_POLICIES
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.router_interfaces import RouterInterfaces
from cloudctl.network.api.routers import RouterGateways, RouterRoutes
from cloudctl.network.api.rule_templates import RULE_TEMPLATES
from cloudctl.network.api.security_group_rules import SECURITY_GROUP_RULES
from cloudctl.network.api.security_groups import SECURITY_GROUPS
from cloudctl.network.api.segments import PATHS_OF_RANGES, ranges
from cloudctl.network.api.subnet_pools import SUBNET_POOLS, PoolPrefixes
from cloudctl.network.api.subnets import SERVED_SUBNETS, SUBNETS
from cloudctl.network.api.tags import ResourceTags
from cloudctl.network.api.trunks import TRUNKS, TrunkSubPorts
from cloudctl.network.api.versions import Version, VersionList
from cloudctl.network.api.zones import Zones, kinds_of
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.declared import Resource
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.sight import Sight

# What access rules may also call this service.
TYPES = ("networking",)
# Methods for which OpenStack's networking looks up the record first.
CHANGING = ("PUT", "DELETE")


def build(http: Http, db: Database, driver: Any, driver_name: str, options: NetworkOptions) -> ApiApp:
    """The tree under `/networking`. `driver_name`: the driver's name in the configuration."""
    offered = resources(db, driver, driver_name, options)
    declared = [each.declared for each in offered if isinstance(each, Resource) and isinstance(each.declared, Declared)]
    sight = Sight(db, {each.id: (f"network:{each.rules}:show", each.visible) for each in declared}, CHANGING)
    return ApiApp(
        Pipeline(http, "network", FAULTS, types=TYPES, bodies_first="network:writing", sight=sight),
        [("", VersionList()), *(("/v2.0", resource) for resource in offered)],
        suffixed=True,
        heads=False,
    )


def resources(db: Database, driver: Any, driver_name: str, options: NetworkOptions) -> tuple[Any, ...]:
    """What there is with this driver. If it has no routers, there are neither routers nor floating IPs."""
    has_routers = IRouters.providedBy(driver)
    tags = ResourceTags(db)
    has_kinds, has_limits = IRouterKinds.providedBy(driver), IGatewayLimits.providedBy(driver)
    has_segments = ISegments.providedBy(driver)
    of_routers = routers.declared(options, has_kinds, has_limits).of(driver)
    of_agents, types = agents.declared(driver), networks.types_of(driver)
    of_networks = networks.declared(options, types, has_segments).of(driver)
    parts, chosen = agents.kinds_of(driver), agents.places(driver)
    of_rules = qos_rules.offered(driver)

    def capable(needed: type[Interface], *made: Any) -> tuple[Any, ...]:
        """`made`, if the driver is capable of it."""
        return made if needed.providedBy(driver) else ()

    return (
        Version(has_routers),
        Extensions(extensions.offered(driver)),
        Resource(db, of_networks),
        Resource(db, of_agents),
        *((agents.Scheduling(db, parts, of_agents, of_networks),) if chosen else ()),
        *((agents.RouterScheduling(db, parts, of_agents, of_routers),) if chosen and has_routers else ()),
        Resource(db, (SERVED_SUBNETS if IDhcpPorts.providedBy(driver) else SUBNETS).of(driver)),
        Resource(db, PORTS.of(driver)),
        Resource(db, SECURITY_GROUPS),
        Resource(db, SECURITY_GROUP_RULES),
        Resource(db, RULE_TEMPLATES),
        Resource(db, RBAC_POLICIES),
        Resource(db, ADDRESS_SCOPES),
        Resource(db, SUBNET_POOLS),
        PoolPrefixes(db),
        Resource(db, segments.declared(options, types, has_segments)),
        *(Resource(db, evolve(ranges(options), path=path)) for path in PATHS_OF_RANGES),
        Resource(db, FLAVORS_OF_ROUTERS),
        ProfilesOfFlavor(db),
        Resource(db, SERVICE_PROFILES),
        PortBindings(db),
        *capable(IPortForwarding, PortForwardings(db)),
        *capable(ITrunks, Resource(db, TRUNKS), TrunkSubPorts(db)),
        *capable(ILocalIps, Resource(db, LOCAL_IPS), Resource(db, LOCAL_IP_ASSOCIATIONS)),
        *capable(IPacketLogs, Resource(db, LOGS), LoggableResources()),
        *capable(IConntrackHelpers, Resource(db, CONNTRACK_HELPERS)),
        *capable(INdpProxies, Resource(db, NDP_PROXIES)),
        *capable(IMetering, Resource(db, LABELS_OF_METERS), Resource(db, RULES_OF_METERS)),
        *capable(IManyGateways, RouterGateways(db, of_routers, has_limits)),
        Resource(db, ADDRESS_GROUPS),
        GroupAddresses(db),
        Resource(db, QOS_POLICIES),
        *(Resource(db, each) for each in of_rules),
        Resource(db, AVAILABILITIES),
        QosRuleTypes(driver_name, of_rules),
        tags,
        QosPolicyTags(tags),
        ProjectQuotas(db),
        Zones(options, has_routers, kinds_of(driver)),
        *(
            (
                AutoTopologies(db, options),
                Resource(db, of_routers),
                RouterRoutes(db, of_routers),
                RouterInterfaces(db),
                Resource(db, FLOATING_IPS.of(driver)),
                FloatingIpPools(db),
            )
            if has_routers
            else ()
        ),
    )
