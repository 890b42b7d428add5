"""Indexes for the columns that lists filter and sort by, besides those in `tables` for networking's own queries.

Each ends with the id, the order in which pages come, and there are two: one that begins with the project, and one
without it for callers who see all. SQLite keeps no statistics of its tables and takes the index that covers most of a
query, so a single one would be taken for both. Where nearly all rows have one value, an index holds only the other
rows: it costs nothing unless its column is used (see `rest.ways`). What has none, and why: docs/internals.md, «A
request».
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, Boolean, Column, ColumnDefault, Index

from cloudctl.network.extension_tables import LocalIp, MeteringLabel, MeteringRule, NdpProxy, NetworkLog, ServiceProfile
from cloudctl.network.tables import (
    AddressGroup,
    AddressScope,
    Flavor,
    FloatingIp,
    Network,
    Port,
    QosPolicy,
    RbacPolicy,
    Router,
    RuleTemplate,
    SecurityGroup,
    SecurityGroupRule,
    Segment,
    Standard,
    Subnet,
    SubnetPool,
    Trunk,
)
from cloudctl.rest.ways import declare_usual

Named = tuple[Any, ...]  # an index: its name and its columns

# Whose lists filter and sort by every column: where one has a default, nearly all rows have that, or no description.
BY_EVERY_COLUMN: Sequence[type[Standard]] = (Trunk, QosPolicy, NdpProxy, LocalIp)
# Of the others: columns whose values single out a row, or very many rows. For times see `TIMED`.
TELLING: Mapping[type[Standard], Sequence[Column[Any]]] = {
    Network: (Network.name, Network.status, Network.mtu, Network.qos_policy_id),
    Subnet: (Subnet.name, Subnet.network_id, Subnet.cidr, Subnet.gateway_ip, Subnet.subnetpool_id, Subnet.segment_id),
    Port: (
        Port.name,
        Port.network_id,
        Port.mac_address,
        Port.status,
        Port.device_id,
        Port.device_owner,
        Port.qos_policy_id,
    ),
    Router: (Router.name, Router.status, Router.flavor_id),
    FloatingIp: (
        FloatingIp.status,
        FloatingIp.floating_network_id,
        FloatingIp.floating_ip_address,
        FloatingIp.fixed_ip_address,
        FloatingIp.port_id,
        FloatingIp.router_id,
        FloatingIp.qos_policy_id,
    ),
    SecurityGroup: (SecurityGroup.name,),
    SecurityGroupRule: (
        SecurityGroupRule.security_group_id,
        SecurityGroupRule.protocol,
        SecurityGroupRule.remote_ip_prefix,
    ),
    SubnetPool: (
        SubnetPool.name,
        SubnetPool.min_prefixlen,
        SubnetPool.max_prefixlen,
        SubnetPool.default_prefixlen,
        SubnetPool.address_scope_id,
    ),
    AddressGroup: (AddressGroup.name,),
    AddressScope: (AddressScope.name,),
    RbacPolicy: (RbacPolicy.object_type, RbacPolicy.object_id, RbacPolicy.action, RbacPolicy.target),
}
# Shown only to callers who see all; segments, templates, profiles and flavors belong to no project.
TOLD_TO_ALL: Mapping[type[Standard], Sequence[Column[Any]]] = {
    Network: (Network.network_type,),
    Segment: (Segment.network_id, Segment.physical_network, Segment.segmentation_id, Segment.name),
    RuleTemplate: (
        RuleTemplate.direction,
        RuleTemplate.ethertype,
        RuleTemplate.protocol,
        RuleTemplate.port_range_min,
        RuleTemplate.port_range_max,
        RuleTemplate.remote_ip_prefix,
        RuleTemplate.remote_group_id,
        RuleTemplate.remote_address_group_id,
    ),
    Flavor: (Flavor.name, Flavor.service_type),
    ServiceProfile: (ServiceProfile.driver, ServiceProfile.metainfo),
    MeteringLabel: (MeteringLabel.name,),
    MeteringRule: (MeteringRule.project_id, MeteringRule.direction),
    NetworkLog: (
        NetworkLog.name,
        NetworkLog.resource_type,
        NetworkLog.event,
        NetworkLog.resource_id,
        NetworkLog.target_id,
    ),
}
# Values that nearly all rows have.
USUALLY: Mapping[type[Standard], Mapping[Column[Any], Any]] = {
    Network: {
        Network.description: "",
        Network.dns_domain: "",
        Network.port_security_enabled: True,
        Network.admin_state_up: True,
        Network.external: False,
        Network.pvlan: False,
        Network.is_default: False,
        Network.physical_network: None,
        Network.segmentation_id: None,
    },
    Subnet: {
        Subnet.description: "",
        Subnet.ip_version: 4,
        Subnet.enable_dhcp: True,
        Subnet.ipv6_ra_mode: None,
        Subnet.ipv6_address_mode: None,
    },
    Port: {
        Port.description: "",
        Port.admin_state_up: True,
        Port.port_security_enabled: True,
        Port.vnic_type: "normal",
        Port.dns_name: "",
        Port.dns_domain: "",
        Port.ip_allocation: "immediate",
        Port.data_plane_status: None,
        Port.pvlan_type: None,
        Port.pvlan_community: None,
    },
    Router: {
        Router.description: "",
        Router.admin_state_up: True,
        Router.distributed: False,
        Router.ha: False,
        Router.enable_ndp_proxy: False,
        Router.enable_default_route_ecmp: False,
        Router.enable_default_route_bfd: False,
        Router.evpn_vni: None,
    },
    FloatingIp: {
        FloatingIp.description: "",
        FloatingIp.dns_name: "",
        FloatingIp.dns_domain: "",
    },
    SecurityGroup: {SecurityGroup.description: "", SecurityGroup.stateful: True},
    SecurityGroupRule: {
        SecurityGroupRule.description: "",
        SecurityGroupRule.direction: "ingress",
        SecurityGroupRule.ethertype: "IPv4",
        SecurityGroupRule.port_range_min: None,
        SecurityGroupRule.port_range_max: None,
        SecurityGroupRule.remote_group_id: None,
        SecurityGroupRule.remote_address_group_id: None,
    },
    SubnetPool: {
        SubnetPool.description: "",
        SubnetPool.ip_version: 4,
        SubnetPool.is_default: False,
        SubnetPool.default_quota: None,
    },
    AddressGroup: {AddressGroup.description: ""},
    AddressScope: {AddressScope.ip_version: 4},
}
# As above, for columns shown only to callers who see all.
USUALLY_OF_ALL: Mapping[type[Standard], Mapping[Column[Any], Any]] = {
    Segment: {Segment.description: ""},
    RuleTemplate: {
        RuleTemplate.description: "",
        RuleTemplate.used_in_default_sg: False,
        RuleTemplate.used_in_non_default_sg: True,
    },
    Flavor: {Flavor.description: "", Flavor.enabled: True},
    ServiceProfile: {ServiceProfile.description: "", ServiceProfile.enabled: True},
    MeteringLabel: {MeteringLabel.description: "", MeteringLabel.shared: False},
    MeteringRule: {
        MeteringRule.remote_ip_prefix: None,
        MeteringRule.source_ip_prefix: None,
        MeteringRule.destination_ip_prefix: None,
        MeteringRule.excluded: False,
    },
    NetworkLog: {
        NetworkLog.description: "",
        NetworkLog.enabled: True,
    },
}
# Records that show when they were made. Indexing when they changed would make a change cost as much as a creation.
TIMED = (Network, Subnet, Port, Router, FloatingIp, SecurityGroup, SecurityGroupRule, SubnetPool)
TIMED_OF_ALL = (Segment, NetworkLog)


def _own(record: type[Standard], column: Column[Any]) -> Named:
    return f"ix_{record.table.name}_own_{column.name}", record.project_id, column, record.id


def _all(record: type[Standard], column: Column[Any]) -> Named:
    return f"ix_{record.table.name}_all_{column.name}", column, record.id


def _declare_every_column(record: type[Standard]) -> None:
    without = (record.id, record.project_id, record.updated_at, record.revision)
    for column in record.table.c:
        if column in without or isinstance(column.type, JSON):
            continue
        default = column.default.arg if isinstance(column.default, ColumnDefault) else None
        indexes = [made(record, column) for made in (_own, _all)]
        if default or isinstance(column.type, Boolean) or column.nullable or column is record.description:
            declare_usual(column, default, *indexes)
        else:
            for index in indexes:
                Index(*index)


def _declare() -> None:
    for each in BY_EVERY_COLUMN:
        _declare_every_column(each)
    for told, named, timed in ((TELLING, (_own, _all), TIMED), (TOLD_TO_ALL, (_all,), TIMED_OF_ALL)):
        for record, columns in told.items():
            for column in (*columns, record.created_at) if record in timed else columns:
                if column.nullable:
                    declare_usual(column, None)
                for made in named:
                    Index(*made(record, column))
    for usually, named in ((USUALLY, (_own, _all)), (USUALLY_OF_ALL, (_all,))):
        for record, values in usually.items():
            for column, value in values.items():
                declare_usual(column, value, *(made(record, column) for made in named))


_declare()
# A host has ports of any project, and only callers who see all are shown hosts.
Index("ix_ports_host", Port.host, Port.id)
