"""The networking service's tables. Times are naive UTC; `revision` grows on every change of a record."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy import text as sql

from cloudctl.db.columns import Field, Json, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record
from cloudctl.db.totals import Total

ADDRESS = String(39)
"""An address as a decimal number of 39 digits: in every database its order as text is its order as a number."""


LONG = 1024  # characters of a description, where there may be more than elsewhere


class Standard(Record):
    """Columns of every record with the standard attributes. Reference: network.md, section 1.5."""

    id: Field[str] = identifier(primary_key=True)
    project_id: Field[str] = text(64)
    description: Field[str] = text()
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()
    revision: Field[int] = column(Integer, default=0)


class RbacPolicy(Standard, table="rbac_policies"):
    """One share of a record: `target` may use this record of another project as if it were its own."""

    object_type: Field[str] = text(32)
    object_id: Field[str] = text(64)
    action: Field[str] = text(32)
    target: Field[str] = text(64)  # a project, or "*"


UniqueConstraint(RbacPolicy.object_id, RbacPolicy.action, RbacPolicy.target, name="uq_rbac_policies_share")
Index("ix_rbac_policies_target", RbacPolicy.target, RbacPolicy.object_type, RbacPolicy.object_id)
Index("ix_rbac_policies_project", RbacPolicy.project_id, RbacPolicy.id)


class QosPolicy(Standard, table="qos_policies"):
    name: Field[str] = text()
    # The policy that new networks of its project get; one at most.
    is_default: Field[bool] = flag(False)


Index("ix_qos_policies_project", QosPolicy.project_id, QosPolicy.id)


Index(
    "uq_qos_policies_default",
    QosPolicy.project_id,
    unique=True,
    sqlite_where=QosPolicy.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)


class QosRule(Record, table="qos_rules"):
    """One row per policy, type and direction."""

    id: Field[str] = identifier(primary_key=True)
    policy_id: Field[str] = column(String(64), ForeignKey("qos_policies.id"))
    type: Field[str] = text(32)
    direction: Field[str] = text(8)  # as the guest sees it; "": of a type that has none
    value: Field[int] = column(Integer)
    burst: Field[int] = column(Integer, default=0)


UniqueConstraint(QosRule.policy_id, QosRule.type, QosRule.direction, name="uq_qos_rules_direction")


class Network(Standard, table="networks"):
    name: Field[str] = text()
    status: Field[str] = text(16)
    admin_state_up: Field[bool] = flag(True)
    external: Field[bool] = flag(False)
    # The external network used where none is named; one at most.
    is_default: Field[bool] = flag(False)
    port_security_enabled: Field[bool] = flag(True)
    mtu: Field[int] = column(Integer)
    availability_zone_hints: Field[list[Any]] = json(list)
    network_type: Field[str] = text(16)
    physical_network: Field[str | None] = optional_text(64)
    segmentation_id: Field[int | None] = column(Integer)
    qos_policy_id: Field[str | None] = column(String(64), ForeignKey("qos_policies.id"))
    dns_domain: Field[str] = text()
    # Whether its ports may be isolated from each other.
    pvlan: Field[bool] = flag(False)
    # Whether it is on more wires than the one above, and whether its subnets name those that they are on.
    more_segments: Field[bool] = flag(False)
    routed: Field[bool] = flag(False)


Index("ix_networks_project", Network.project_id, Network.id)


Index(
    "uq_networks_default",
    Network.is_default,
    unique=True,
    sqlite_where=Network.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)


class Segment(Standard, table="segments"):
    """A wire that a network is on, and its id there. Two networks cannot share one; a network may be on several."""

    name: Field[str | None] = optional_text()
    network_id: Field[str] = column(String(64))
    network_type: Field[str] = text(16)
    physical_network: Field[str] = text(64)
    segmentation_id: Field[int] = column(Integer, default=0)
    position: Field[int] = column(Integer, default=0, server_default="0")  # among those of its network


UniqueConstraint(Segment.network_type, Segment.physical_network, Segment.segmentation_id, name="uq_segments_wire")


class AddressScope(Standard, table="address_scopes"):
    name: Field[str] = text()
    ip_version: Field[int] = column(Integer)


Index("ix_address_scopes_project", AddressScope.project_id, AddressScope.id)


class SubnetPool(Standard, table="subnet_pools"):
    name: Field[str] = text()
    ip_version: Field[int] = column(Integer)
    prefixes: Field[list[Any]] = json(list)  # CIDRs, sorted and joined
    min_prefixlen: Field[int] = column(Integer)
    max_prefixlen: Field[int] = column(Integer)
    default_prefixlen: Field[int] = column(Integer)
    # Per project: IPv4 addresses, or IPv6 networks of /64.
    default_quota: Field[int | None] = column(Integer)
    address_scope_id: Field[str | None] = column(String(64), ForeignKey("address_scopes.id"))
    # The one of its family used where none is named.
    is_default: Field[bool] = flag(False)


Index("ix_subnet_pools_project", SubnetPool.project_id, SubnetPool.id)
Index(
    "uq_subnet_pools_default",
    SubnetPool.ip_version,
    unique=True,
    sqlite_where=SubnetPool.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)


class Subnet(Standard, table="subnets"):
    network_id: Field[str] = column(String(64), ForeignKey("networks.id"))
    name: Field[str] = text()
    ip_version: Field[int] = column(Integer)
    cidr: Field[str] = text(64)
    gateway_ip: Field[str | None] = optional_text(64)
    enable_dhcp: Field[bool] = flag(True)
    allocation_pools: Field[list[Any]] = json(list)  # [{"start", "end"}]
    dns_nameservers: Field[list[Any]] = json(list)
    host_routes: Field[list[Any]] = json(list)  # [{"destination", "nexthop"}]
    ipv6_ra_mode: Field[str | None] = optional_text(32)
    ipv6_address_mode: Field[str | None] = optional_text(32)
    subnetpool_id: Field[str | None] = column(String(64), ForeignKey("subnet_pools.id"))
    segment_id: Field[str | None] = column(String(64), ForeignKey("segments.id"))
    dns_publish_fixed_ip: Field[bool] = flag(False)
    service_types: Field[list[Any]] = json(list)  # owners of devices whose ports it is for; []: any other's
    # Whether the wire below its router's gateway gets a route to it.
    leak_routes: Field[bool] = flag(False)
    # The owner of its network, who may see it, if that is another project.
    network_project_id: Field[str] = text(64, server_default="")


Index("ix_subnets_project", Subnet.project_id, Subnet.id)
Index("ix_subnets_network_project", Subnet.network_project_id, Subnet.id)
Index("ix_subnets_network", Subnet.network_id, Subnet.created_at, Subnet.id)


class FreeRange(Record, table="subnet_free_ranges"):
    """The free addresses within a subnet's pools, as ranges: taking or giving back one touches one or two rows."""

    subnet_id: Field[str] = column(String(64), ForeignKey("subnets.id", ondelete="CASCADE"), primary_key=True)
    pool: Field[int] = column(
        Integer, primary_key=True, autoincrement=False
    )  # position in the subnet's allocation_pools
    first: Field[str] = column(ADDRESS, primary_key=True)
    last: Field[str] = column(ADDRESS)


class Port(Standard, table="ports"):
    network_id: Field[str] = column(String(64), ForeignKey("networks.id"))
    # The owner of its network, who may see it, if that is another project.
    network_project_id: Field[str] = text(64)
    name: Field[str] = text()
    status: Field[str] = text(16)
    admin_state_up: Field[bool] = flag(True)
    mac_address: Field[str] = text(17)
    device_id: Field[str] = text()
    device_owner: Field[str] = text()
    port_security_enabled: Field[bool] = flag(True)
    allowed_address_pairs: Field[list[Any]] = json(list)  # [{"ip_address", "mac_address"}]
    host: Field[str] = text()  # binding:host_id; "" while unbound
    profile: Field[dict[str, Any]] = json(dict)
    vif_type: Field[str] = text(64)
    vif_details: Field[dict[str, Any]] = json(dict)
    # Raised by any change of what is shown of the port or of its server: see `shown`.
    edition: Field[int] = column(Integer, default=0, onupdate=sql("edition + 1"))
    # Whether a driver may hold something of this port.
    realised: Field[bool] = flag(False)
    qos_policy_id: Field[str | None] = column(String(64), ForeignKey("qos_policies.id"))
    vnic_type: Field[str] = column(String(32), default="normal")
    dhcp_options: Field[list[Any]] = json(list)  # [{"opt_name", "opt_value", "ip_version"}]
    dns_name: Field[str] = text()
    dns_domain: Field[str] = text()
    # Stored for others: nothing here uses it.
    data_plane_status: Field[str | None] = optional_text(16)
    propagate_uplink_status: Field[bool] = flag(True)
    numa_affinity_policy: Field[str | None] = optional_text(16)
    hints: Field[dict[str, Any] | None] = column(Json)
    device_profile: Field[str | None] = optional_text(255)
    trusted: Field[bool | None] = column(Boolean)
    # When it gets its addresses: immediate, deferred (until it has a host), none.
    ip_allocation: Field[str] = text(16, default="immediate", server_default="immediate")
    # Which ports it reaches on a network with `pvlan`; None: on one without.
    pvlan_type: Field[str | None] = optional_text(16)
    pvlan_community: Field[str | None] = optional_text()


UniqueConstraint(Port.network_id, Port.mac_address, name="uq_ports_mac_address")
Index("ix_ports_project", Port.project_id, Port.id)
Index("ix_ports_network_project", Port.network_project_id, Port.id)
# For the indexes that lists of ports use, see `list_indexes`.


class Trunk(Standard, table="trunks"):
    """A port, and those whose traffic goes through it."""

    name: Field[str] = text()
    port_id: Field[str] = column(String(64), ForeignKey("ports.id"), unique=True)
    status: Field[str] = text(16)
    admin_state_up: Field[bool] = flag(True)


Index("ix_trunks_project", Trunk.project_id, Trunk.id)


class SubPort(Record, table="trunk_subports"):
    port_id: Field[str] = column(String(64), ForeignKey("ports.id"), primary_key=True)
    trunk_id: Field[str] = column(String(64), ForeignKey("trunks.id"))
    segmentation_type: Field[str] = text(16)
    segmentation_id: Field[int] = column(Integer)


UniqueConstraint(SubPort.trunk_id, SubPort.segmentation_id, name="uq_trunk_subports_segmentation")


class IpAllocation(Record, table="ip_allocations"):
    subnet_id: Field[str] = column(String(64), ForeignKey("subnets.id"), primary_key=True)
    address: Field[str] = column(ADDRESS, primary_key=True)
    ip_address: Field[str] = text(64)
    port_id: Field[str] = column(String(64), ForeignKey("ports.id"))
    network_id: Field[str] = column(String(64))
    position: Field[int] = column(Integer, default=0)  # within the port's fixed_ips


# With the subnet: a port's address there is looked for among the port's few, and not among all of the subnet.
Index("ix_ip_allocations_port", IpAllocation.port_id, IpAllocation.subnet_id, IpAllocation.position)
# Tenants choose the same addresses: an address is looked for on one network.
Index("ix_ip_allocations_ip_address", IpAllocation.ip_address, IpAllocation.network_id)


class SecurityGroup(Standard, table="security_groups"):
    name: Field[str] = text()
    stateful: Field[bool] = flag(True)
    is_default: Field[bool] = flag(False)


Index("ix_security_groups_project", SecurityGroup.project_id, SecurityGroup.id)


# One `default` per project, whichever request comes first.
Index(
    "uq_security_groups_default",
    SecurityGroup.project_id,
    unique=True,
    sqlite_where=SecurityGroup.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)


class AddressGroup(Standard, table="address_groups"):
    name: Field[str] = text()
    description: Field[str] = text(LONG)
    addresses: Field[list[Any]] = json(list)  # CIDRs


Index("ix_address_groups_project", AddressGroup.project_id, AddressGroup.id)


class SecurityGroupRule(Standard, table="security_group_rules"):
    description: Field[str] = text(LONG)  # its template's may be as long
    security_group_id: Field[str] = column(String(64), ForeignKey("security_groups.id"))
    direction: Field[str] = text(8)
    ethertype: Field[str] = text(4)
    protocol: Field[str | None] = optional_text(32)
    port_range_min: Field[int | None] = column(Integer)
    port_range_max: Field[int | None] = column(Integer)
    remote_ip_prefix: Field[str | None] = optional_text(64)
    remote_group_id: Field[str | None] = column(String(64), ForeignKey("security_groups.id"), index=True)
    remote_address_group_id: Field[str | None] = column(String(64), ForeignKey("address_groups.id"), index=True)
    # Equal for rules that mean the same; see `rules.meaning`.
    meaning: Field[str] = text()


UniqueConstraint(SecurityGroupRule.security_group_id, SecurityGroupRule.meaning, name="uq_security_group_rules_meaning")
Index("ix_security_group_rules_project", SecurityGroupRule.project_id, SecurityGroupRule.id)


class RuleTemplate(Standard, table="default_security_group_rules"):
    """A rule that new groups get; it belongs to no project."""

    description: Field[str] = text(LONG)
    direction: Field[str] = text(8)
    ethertype: Field[str] = text(4)
    protocol: Field[str | None] = optional_text(32)
    port_range_min: Field[int | None] = column(Integer)
    port_range_max: Field[int | None] = column(Integer)
    remote_ip_prefix: Field[str | None] = optional_text(64)
    remote_group_id: Field[str | None] = optional_text(64)  # "PARENT": of the group itself
    remote_address_group_id: Field[str | None] = column(String(64), ForeignKey("address_groups.id"))
    meaning: Field[str] = text()
    used_in_default_sg: Field[bool] = flag(False)
    used_in_non_default_sg: Field[bool] = flag(True)


class PortSecurityGroup(Record, table="port_security_groups"):
    port_id: Field[str] = column(String(64), ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True)
    security_group_id: Field[str] = column(String(64), ForeignKey("security_groups.id"), primary_key=True)


Index("ix_port_security_groups_group", PortSecurityGroup.security_group_id, PortSecurityGroup.port_id)


class Flavor(Standard, table="network_flavors"):
    """A kind of router that users choose by name; it belongs to no project."""

    name: Field[str] = text()
    description: Field[str] = text(LONG)
    service_type: Field[str] = text(64)
    enabled: Field[bool] = flag(True)


class Router(Standard, table="routers"):
    name: Field[str] = text()
    status: Field[str] = text(16)
    admin_state_up: Field[bool] = flag(True)
    enable_snat: Field[bool] = flag(True)
    availability_zone_hints: Field[list[Any]] = json(list)
    routes: Field[list[Any]] = json(list)  # [{"destination", "nexthop"}]
    host: Field[str] = text()  # "": on none
    flavor_id: Field[str | None] = column(String(64), ForeignKey("network_flavors.id"))
    distributed: Field[bool] = flag(False)
    ha: Field[bool] = flag(False)
    enable_ndp_proxy: Field[bool] = flag(False)
    enable_default_route_ecmp: Field[bool] = flag(False)
    enable_default_route_bfd: Field[bool] = flag(False)
    # Of the VPN in which it is announced.
    evpn_vni: Field[int | None] = column(Integer)


Index("ix_routers_project", Router.project_id, Router.id)
Index("ix_routers_host", Router.host)
Index("uq_routers_evpn_vni", Router.evpn_vni, unique=True)


class RouterPort(Record, table="router_ports"):
    """The ports that are a router's own: its interfaces and its gateways, of which the one with the lowest `position`
    is meant where only one is."""

    port_id: Field[str] = column(String(64), ForeignKey("ports.id"), primary_key=True)
    router_id: Field[str] = column(String(64), ForeignKey("routers.id"))
    network_id: Field[str] = column(String(64))
    is_gateway: Field[bool] = flag(False)
    position: Field[int] = column(Integer, default=0, server_default="0")


Index("ix_router_ports_router", RouterPort.router_id, RouterPort.is_gateway)
Index("ix_router_ports_network", RouterPort.network_id, RouterPort.is_gateway)


class AutoTopology(Record, table="auto_topologies"):
    """What was made for a project that requested a network and had none."""

    project_id: Field[str] = column(String(64), primary_key=True)
    network_id: Field[str] = text(64)
    router_id: Field[str] = text(64)


class FloatingIp(Standard, table="floating_ips"):
    status: Field[str] = text(16)
    floating_network_id: Field[str] = column(String(64), ForeignKey("networks.id"))
    floating_ip_address: Field[str] = text(64)
    # The hidden port that holds the address.
    floating_port_id: Field[str] = column(String(64), ForeignKey("ports.id"), index=True)
    # Where it leads, and through which router: all three or none.
    port_id: Field[str | None] = column(String(64))
    fixed_ip_address: Field[str | None] = optional_text(64)
    router_id: Field[str | None] = column(String(64))
    qos_policy_id: Field[str | None] = column(String(64), ForeignKey("qos_policies.id"))
    dns_name: Field[str] = text(server_default="")
    dns_domain: Field[str] = text(server_default="")


UniqueConstraint(
    FloatingIp.port_id, FloatingIp.fixed_ip_address, FloatingIp.floating_network_id, name="uq_floating_ips_fixed"
)
Index("ix_floating_ips_project", FloatingIp.project_id, FloatingIp.id)
Index("ix_floating_ips_address", FloatingIp.floating_ip_address)


class PortForwarding(Record, table="port_forwardings"):
    """`count` ports of a floating IP from `external` on lead to those of a fixed address from `internal` on."""

    id: Field[str] = identifier(primary_key=True)
    floatingip_id: Field[str] = column(String(64), ForeignKey("floating_ips.id"), index=True)
    internal_port_id: Field[str] = column(String(64), ForeignKey("ports.id"), index=True)
    internal_ip_address: Field[str] = text(64)
    protocol: Field[str] = text(8)
    internal: Field[int] = column(Integer)
    external: Field[int] = column(Integer)
    count: Field[int] = column(Integer, default=1)
    description: Field[str] = text()


class Agent(Standard, table="network_agents"):
    """A part of the driver on a host; it belongs to no project."""

    agent_type: Field[str] = text(64)
    host: Field[str] = text()
    admin_state_up: Field[bool] = flag(True)


UniqueConstraint(Agent.agent_type, Agent.host, name="uq_network_agents_place")


class AgentAbsence(Record, table="network_agent_absences"):
    """A network whose addresses a part does not give out."""

    network_id: Field[str] = column(String(64), ForeignKey("networks.id", ondelete="CASCADE"), primary_key=True)
    agent_id: Field[str] = column(
        String(64), ForeignKey("network_agents.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class NetworkTag(Record, table="network_tags"):
    resource_id: Field[str] = column(String(64), primary_key=True)
    tag: Field[str] = column(String(255), primary_key=True)


Index("ix_network_tags_tag", NetworkTag.tag, NetworkTag.resource_id)


# Projects have quotas for these.
LIMITED = (
    Network, Subnet, Port, Router, FloatingIp, SecurityGroup, SecurityGroupRule, RbacPolicy, Trunk, SubnetPool,
)  # fmt: skip
for limited in LIMITED:
    Total(limited.table.name, limited.project_id)
