"""The networking API v2.0: its resources, versions and faults. Reference: network.md, discovery.md."""

from __future__ import annotations

from cloudctl.db import Database
from cloudctl.network.api.extensions import Extensions
from cloudctl.network.api.networks import Networks
from cloudctl.network.api.ports import Ports
from cloudctl.network.api.quotas import ProjectQuotas
from cloudctl.network.api.security_group_rules import SecurityGroupRules
from cloudctl.network.api.security_groups import SecurityGroups
from cloudctl.network.api.subnets import Subnets
from cloudctl.network.api.tags import ResourceTags
from cloudctl.network.api.versions import Version, VersionList
from cloudctl.network.api.zones import Zones
from cloudctl.network.options import NetworkOptions
from cloudctl.rest import faults
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http, Pipeline


def build(http: Http, db: Database, options: NetworkOptions) -> ApiApp:
    """The tree under `/networking`."""
    resources = (
        Version(),
        Extensions(),
        Networks(db, options),
        Subnets(db),
        Ports(db),
        SecurityGroups(db),
        SecurityGroupRules(db),
        ResourceTags(db),
        ProjectQuotas(db),
        Zones(options),
    )
    return ApiApp(
        Pipeline(http, "network", faults.NETWORK),
        [("", VersionList()), *(("/v2.0", resource) for resource in resources)],
    )
