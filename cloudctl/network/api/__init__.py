"""The networking API v2.0: its resources, versions and faults. Reference: network.md, discovery.md."""

from __future__ import annotations

from typing import Any

from cloudctl.db import Database
from cloudctl.drivers.interfaces import IRouters
from cloudctl.network.api import networks, routers
from cloudctl.network.api.address_groups import ADDRESS_GROUPS, GroupAddresses
from cloudctl.network.api.address_scopes import ADDRESS_SCOPES
from cloudctl.network.api.bandwidth_limits import BandwidthLimits
from cloudctl.network.api.extensions import Extensions, offered
from cloudctl.network.api.faults import FAULTS
from cloudctl.network.api.floating_ips import FLOATING_IPS
from cloudctl.network.api.ports import PORTS
from cloudctl.network.api.qos_policies import QOS_POLICIES
from cloudctl.network.api.qos_rule_types import QosRuleTypes
from cloudctl.network.api.qos_tags import QosPolicyTags
from cloudctl.network.api.quotas import ProjectQuotas
from cloudctl.network.api.rbac_policies import RBAC_POLICIES
from cloudctl.network.api.resource import Resource
from cloudctl.network.api.router_interfaces import RouterInterfaces
from cloudctl.network.api.routers import RouterRoutes
from cloudctl.network.api.security_group_rules import SECURITY_GROUP_RULES
from cloudctl.network.api.security_groups import SECURITY_GROUPS
from cloudctl.network.api.subnet_pools import SUBNET_POOLS, PoolPrefixes
from cloudctl.network.api.subnets import SUBNETS
from cloudctl.network.api.tags import ResourceTags
from cloudctl.network.api.versions import Version, VersionList
from cloudctl.network.api.zones import Zones
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http, Pipeline

# What an access rule may call this service, too.
TYPES = ("networking",)


def build(http: Http, db: Database, driver: Any, driver_name: str, options: NetworkOptions) -> ApiApp:
    """The tree under `/networking`. Without routers in the driver there are none in the API, nor floating IPs.

    `driver_name`: what the configuration calls the driver.
    """
    has_routers = IRouters.providedBy(driver)
    tags = ResourceTags(db)
    of_routers = Resource(db, routers.declared(options))
    of_address_groups = Resource(db, ADDRESS_GROUPS)
    resources = (
        Version(has_routers),
        Extensions(offered(driver)),
        Resource(db, networks.declared(options)),
        Resource(db, SUBNETS),
        Resource(db, PORTS),
        Resource(db, SECURITY_GROUPS),
        Resource(db, SECURITY_GROUP_RULES),
        Resource(db, RBAC_POLICIES),
        Resource(db, ADDRESS_SCOPES),
        Resource(db, SUBNET_POOLS),
        PoolPrefixes(db),
        of_address_groups,
        GroupAddresses(db, of_address_groups),
        Resource(db, QOS_POLICIES),
        BandwidthLimits(db),
        QosRuleTypes(driver_name),
        tags,
        QosPolicyTags(tags),
        ProjectQuotas(db),
        Zones(options, has_routers),
        *(
            (of_routers, RouterRoutes(db, of_routers), RouterInterfaces(db), Resource(db, FLOATING_IPS))
            if has_routers
            else ()
        ),
    )
    return ApiApp(
        Pipeline(http, "network", FAULTS, types=TYPES),
        [("", VersionList()), *(("/v2.0", resource) for resource in resources)],
    )
