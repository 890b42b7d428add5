"""The networking service's tables. Times are naive UTC; `revision` grows on every change of a record."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, UniqueConstraint, or_
from sqlalchemy import text as sql

from cloudctl.db.columns import flag, identifier, json, metadata, optional_text, text, time

ADDRESS = String(39)
"""An address as a decimal number of 39 digits: in every database its order as text is its order as a number."""


def _standard() -> tuple[Column[Any], ...]:
    """Columns of every record with the standard attributes. Reference: network.md, section 1.5."""
    return (
        identifier(),
        text("project_id", 64),
        text("description"),
        time("created_at", nullable=False),
        time("updated_at", nullable=False),
        Column("revision", Integer, nullable=False, default=0),
    )


qos_policies = Table(
    "qos_policies",
    metadata,
    *_standard(),
    text("name"),
    flag("shared", False),
    # What new networks of its project get; one at most.
    flag("is_default", False),
    Index("ix_qos_policies_project", "project_id", "id"),
)
Index(
    "uq_qos_policies_default",
    qos_policies.c.project_id,
    unique=True,
    sqlite_where=qos_policies.c.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)

# One row a policy and direction.
bandwidth_limits = Table(
    "qos_bandwidth_limits",
    metadata,
    identifier(),
    Column("policy_id", String(64), ForeignKey("qos_policies.id"), nullable=False),
    text("direction", 8),  # as the guest sees it: ingress, egress
    Column("max_kbps", Integer, nullable=False),
    Column("max_burst_kbps", Integer, nullable=False),
    UniqueConstraint("policy_id", "direction", name="uq_qos_bandwidth_limits_direction"),
)

networks = Table(
    "networks",
    metadata,
    *_standard(),
    text("name"),
    text("status", 16),
    flag("admin_state_up", True),
    flag("shared", False),
    flag("external", False),
    # The external network that is meant where none is named; one at most.
    flag("is_default", False),
    flag("port_security_enabled", True),
    Column("mtu", Integer, nullable=False),
    json("availability_zone_hints", list),
    text("network_type", 16),
    optional_text("physical_network", 64),
    Column("segmentation_id", Integer, nullable=True),
    Column("qos_policy_id", String(64), ForeignKey("qos_policies.id"), nullable=True, index=True),
    Index("ix_networks_project", "project_id", "id"),
)
# What everybody sees is few, and is looked for in every list.
EVERYBODYS = or_(networks.c.shared.is_(True), networks.c.external.is_(True))
Index(
    "ix_networks_everybodys",
    networks.c.id,
    sqlite_where=EVERYBODYS,
    # In words: migrations are written on SQLite, where `true` is 1.
    postgresql_where=sql("shared IS true OR external IS true"),
)

Index(
    "uq_networks_default",
    networks.c.is_default,
    unique=True,
    sqlite_where=networks.c.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)

# One row a network: two networks cannot have the same id on the same wire.
segments = Table(
    "network_segments",
    metadata,
    Column("network_type", String(16), primary_key=True),
    Column("physical_network", String(64), primary_key=True, default=""),
    Column("segmentation_id", Integer, primary_key=True, default=0, autoincrement=False),
    Column("network_id", String(64), nullable=False, index=True),
)

subnets = Table(
    "subnets",
    metadata,
    *_standard(),
    Column("network_id", String(64), ForeignKey("networks.id"), nullable=False),
    text("name"),
    Column("ip_version", Integer, nullable=False),
    text("cidr", 64),
    optional_text("gateway_ip", 64),
    flag("enable_dhcp", True),
    json("allocation_pools", list),  # [{"start", "end"}]
    json("dns_nameservers", list),
    json("host_routes", list),  # [{"destination", "nexthop"}]
    optional_text("ipv6_ra_mode", 32),
    optional_text("ipv6_address_mode", 32),
    Index("ix_subnets_project", "project_id", "id"),
    Index("ix_subnets_network", "network_id", "created_at", "id"),
)

# The free addresses within a subnet's pools, as ranges: taking and giving back one address touches one or two rows.
free_ranges = Table(
    "subnet_free_ranges",
    metadata,
    Column("subnet_id", String(64), ForeignKey("subnets.id", ondelete="CASCADE"), primary_key=True),
    Column("pool", Integer, primary_key=True, autoincrement=False),  # position in the subnet's allocation_pools
    Column("first", ADDRESS, primary_key=True),
    Column("last", ADDRESS, nullable=False),
)

ports = Table(
    "ports",
    metadata,
    *_standard(),
    Column("network_id", String(64), ForeignKey("networks.id"), nullable=False),
    # The owner of its network, who may see it, if that is another project.
    text("network_project_id", 64),
    text("name"),
    text("status", 16),
    flag("admin_state_up", True),
    text("mac_address", 17),
    text("device_id"),
    text("device_owner"),
    flag("port_security_enabled", True),
    json("allowed_address_pairs", list),  # [{"ip_address", "mac_address"}]
    text("host"),  # binding:host_id; "" while unbound
    json("profile", dict),
    text("vif_type", 64),
    json("vif_details", dict),
    # Whether a driver may hold something of this port.
    flag("realised", False),
    Column("qos_policy_id", String(64), ForeignKey("qos_policies.id"), nullable=True, index=True),
    UniqueConstraint("network_id", "mac_address", name="uq_ports_mac_address"),
    Index("ix_ports_project", "project_id", "id"),
    Index("ix_ports_network_project", "network_project_id", "id"),
    Index("ix_ports_device", "device_id", "created_at", "id"),
)

allocations = Table(
    "ip_allocations",
    metadata,
    Column("subnet_id", String(64), ForeignKey("subnets.id"), primary_key=True),
    Column("address", ADDRESS, primary_key=True),
    text("ip_address", 64),
    Column("port_id", String(64), ForeignKey("ports.id"), nullable=False),
    Column("network_id", String(64), nullable=False),
    Column("position", Integer, nullable=False, default=0),  # within the port's fixed_ips
    Index("ix_ip_allocations_port", "port_id", "position"),
    # Tenants choose the same addresses: one is looked for on one network.
    Index("ix_ip_allocations_ip_address", "ip_address", "network_id"),
)

security_groups = Table(
    "security_groups",
    metadata,
    *_standard(),
    text("name"),
    flag("stateful", True),
    flag("is_default", False),
    Index("ix_security_groups_project", "project_id", "id"),
)
# One `default` a project, whoever asks first.
Index(
    "uq_security_groups_default",
    security_groups.c.project_id,
    unique=True,
    sqlite_where=security_groups.c.is_default.is_(True),
    postgresql_where=sql("is_default IS true"),
)

security_group_rules = Table(
    "security_group_rules",
    metadata,
    *_standard(),
    Column("security_group_id", String(64), ForeignKey("security_groups.id"), nullable=False),
    text("direction", 8),
    text("ethertype", 4),
    optional_text("protocol", 32),
    Column("port_range_min", Integer, nullable=True),
    Column("port_range_max", Integer, nullable=True),
    optional_text("remote_ip_prefix", 64),
    Column("remote_group_id", String(64), ForeignKey("security_groups.id"), nullable=True, index=True),
    # Equal for rules that mean the same; see `rules.meaning`.
    text("meaning"),
    UniqueConstraint("security_group_id", "meaning", name="uq_security_group_rules_meaning"),
    Index("ix_security_group_rules_project", "project_id", "id"),
)

port_groups = Table(
    "port_security_groups",
    metadata,
    Column("port_id", String(64), ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    Column("security_group_id", String(64), ForeignKey("security_groups.id"), primary_key=True),
    Index("ix_port_security_groups_group", "security_group_id", "port_id"),
)

routers = Table(
    "routers",
    metadata,
    *_standard(),
    text("name"),
    text("status", 16),
    flag("admin_state_up", True),
    flag("enable_snat", True),
    json("availability_zone_hints", list),
    json("routes", list),  # [{"destination", "nexthop"}]
    Index("ix_routers_project", "project_id", "id"),
)

# The ports that are a router's own: its interfaces, and at most one gateway.
router_ports = Table(
    "router_ports",
    metadata,
    Column("port_id", String(64), ForeignKey("ports.id"), primary_key=True),
    Column("router_id", String(64), ForeignKey("routers.id"), nullable=False),
    Column("network_id", String(64), nullable=False),
    flag("is_gateway", False),
    Index("ix_router_ports_router", "router_id", "is_gateway"),
    Index("ix_router_ports_network", "network_id", "is_gateway"),
)

floating_ips = Table(
    "floating_ips",
    metadata,
    *_standard(),
    text("status", 16),
    Column("floating_network_id", String(64), ForeignKey("networks.id"), nullable=False, index=True),
    text("floating_ip_address", 64),
    # The hidden port that holds the address.
    Column("floating_port_id", String(64), ForeignKey("ports.id"), nullable=False, index=True),
    # Where it leads to, and through which router: all three or none.
    Column("port_id", String(64), nullable=True),
    optional_text("fixed_ip_address", 64),
    Column("router_id", String(64), nullable=True, index=True),
    UniqueConstraint("port_id", "fixed_ip_address", "floating_network_id", name="uq_floating_ips_fixed"),
    Index("ix_floating_ips_project", "project_id", "id"),
    Index("ix_floating_ips_address", "floating_ip_address"),
)

tags = Table(
    "network_tags",
    metadata,
    Column("resource_id", String(64), primary_key=True),
    Column("tag", String(255), primary_key=True),
    Index("ix_network_tags_tag", "tag", "resource_id"),
)
