"""Indexes of all that networking's lists are filtered and sorted by, longer descriptions, and whose a subnet's network is."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

# By others below.
REPLACED = {
    "default_security_group_rules": ("remote_address_group_id",),
    "floating_ips": ("all_network", "network", "qos_policy_id", "router", "status"),
    "local_ips": ("local_port_id", "network_id"),
    "ndp_proxies": ("port_id", "router_id"),
    "network_logs": ("resource_id", "target_id"),
    "networks": ("down", "external", "name", "physical", "qos_policy_id", "segmentation", "status"),
    "ports": (
        "all_down",
        "all_network",
        "all_unfiltered",
        "device",
        "device_owner",
        "down",
        "mac_address",
        "name",
        "network",
        "qos_policy",
        "status",
        "unfiltered",
    ),
    "routers": ("down", "flavor_id", "name", "status"),
    "security_group_rules": ("group",),
    "security_groups": ("name", "stateless"),
    "segments": ("network_id",),
    "subnet_pools": ("address_scope_id",),
    "subnets": ("cidr", "name", "segment_id", "silent", "subnetpool_id"),
}
# With the project before it, and without.
OWN_AND_ALL = {
    "address_groups": ("name",),
    "address_scopes": ("name",),
    "floating_ips": (
        "created_at",
        "fixed_ip_address",
        "floating_ip_address",
        "floating_network_id",
        "port_id",
        "qos_policy_id",
        "router_id",
    ),
    "local_ips": ("created_at", "ip_mode", "local_ip_address", "local_port_id", "name", "network_id"),
    "ndp_proxies": ("created_at", "ip_address", "name", "port_id", "router_id"),
    "networks": ("created_at", "mtu", "name", "qos_policy_id"),
    "ports": ("created_at", "device_id", "mac_address", "name", "network_id", "qos_policy_id"),
    "qos_policies": ("created_at", "name"),
    "rbac_policies": ("action", "object_id", "object_type", "target"),
    "routers": ("created_at", "flavor_id", "name"),
    "security_group_rules": ("created_at", "protocol", "remote_ip_prefix", "security_group_id"),
    "security_groups": ("created_at",),
    "subnet_pools": (
        "address_scope_id",
        "created_at",
        "default_prefixlen",
        "max_prefixlen",
        "min_prefixlen",
        "name",
    ),
    "subnets": ("created_at", "gateway_ip", "name", "network_id", "segment_id", "subnetpool_id"),
    "trunks": ("created_at", "name", "port_id", "status"),
}
# One of the two, where the other one is there.
OWN = {
    "floating_ips": ("status",),
    "networks": ("status",),
    "ports": ("device_owner", "status"),
    "routers": ("status",),
    "security_groups": ("name",),
    "subnets": ("cidr",),
}
# Without.
ALL = {
    "default_security_group_rules": (
        "direction",
        "ethertype",
        "port_range_max",
        "port_range_min",
        "protocol",
        "remote_address_group_id",
        "remote_group_id",
        "remote_ip_prefix",
    ),
    "metering_label_rules": ("direction", "project_id"),
    "metering_labels": ("name",),
    "network_flavors": ("name", "service_type"),
    "network_logs": ("created_at", "event", "name", "resource_id", "resource_type", "target_id"),
    "networks": ("network_type",),
    "segments": ("created_at", "name", "network_id", "physical_network", "segmentation_id"),
    "service_profiles": ("driver", "metainfo"),
}
# Of the rows alone that have not what nearly all have.
FEW_OWN_AND_ALL: dict[str, dict[str, Any]] = {
    "address_groups": {"description": ""},
    "address_scopes": {"ip_version": 4},
    "floating_ips": {"description": "", "dns_domain": "", "dns_name": ""},
    "local_ips": {"description": ""},
    "ndp_proxies": {"description": ""},
    "networks": {
        "admin_state_up": True,
        "description": "",
        "dns_domain": "",
        "external": False,
        "is_default": False,
        "physical_network": None,
        "port_security_enabled": True,
        "pvlan": False,
        "segmentation_id": None,
    },
    "ports": {
        "admin_state_up": True,
        "data_plane_status": None,
        "description": "",
        "dns_domain": "",
        "dns_name": "",
        "ip_allocation": "immediate",
        "port_security_enabled": True,
        "pvlan_community": None,
        "pvlan_type": None,
        "vnic_type": "normal",
    },
    "qos_policies": {"description": "", "is_default": False},
    "routers": {
        "admin_state_up": True,
        "description": "",
        "distributed": False,
        "enable_default_route_bfd": False,
        "enable_default_route_ecmp": False,
        "enable_ndp_proxy": False,
        "evpn_vni": None,
        "ha": False,
    },
    "security_group_rules": {
        "description": "",
        "direction": "ingress",
        "ethertype": "IPv4",
        "port_range_min": None,
        "port_range_max": None,
        "remote_group_id": None,
        "remote_address_group_id": None,
    },
    "security_groups": {"description": "", "stateful": True},
    "subnet_pools": {"default_quota": None, "description": "", "ip_version": 4, "is_default": False},
    "subnets": {
        "description": "",
        "enable_dhcp": True,
        "ip_version": 4,
        "ipv6_address_mode": None,
        "ipv6_ra_mode": None,
    },
    "trunks": {"admin_state_up": True, "description": ""},
}
# The same, without the project.
FEW_ALL: dict[str, dict[str, Any]] = {
    "default_security_group_rules": {"description": "", "used_in_default_sg": False, "used_in_non_default_sg": True},
    "metering_label_rules": {
        "destination_ip_prefix": None,
        "excluded": False,
        "remote_ip_prefix": None,
        "source_ip_prefix": None,
    },
    "metering_labels": {"description": "", "shared": False},
    "network_flavors": {"description": "", "enabled": True},
    "network_logs": {"description": "", "enabled": True},
    "segments": {"description": ""},
    "service_profiles": {"description": "", "enabled": True},
}
LONGER = (
    "address_groups", "default_security_group_rules", "metering_labels", "network_flavors", "security_group_rules",
    "service_profiles",
)  # fmt: skip


def condition(column: str, usual: str | int | bool | None, dialect: str) -> sa.TextClause:
    """That a row has another value than the usual one."""
    if usual is None:
        return sa.text(f"{column} IS NOT NULL")
    if isinstance(usual, bool):
        other = str(not usual).lower() if dialect == "postgresql" else str(int(not usual))
        return sa.text(f"{column} IS {other}")
    return sa.text(f"{column} != {usual!r}")


def make(table: str, column: str, *kinds: str, **where: Any) -> None:
    for kind in kinds:
        columns = ["project_id"] if kind == "own" else []
        op.create_index(f"ix_{table}_{kind}_{column}", table, [*columns, column, "id"], **where)


def upgrade() -> None:
    for table, names in REPLACED.items():
        for name in names:
            op.drop_index(f"ix_{table}_{name}", table)
    for table in LONGER:
        with op.batch_alter_table(table) as batch:
            batch.alter_column(
                "description", existing_type=sa.String(255), type_=sa.String(1024), existing_nullable=False
            )
    op.add_column("subnets", sa.Column("network_project_id", sa.String(64), server_default="", nullable=False))
    op.execute(
        "UPDATE subnets SET network_project_id = (SELECT project_id FROM networks WHERE networks.id = network_id)"
        " WHERE project_id <> (SELECT project_id FROM networks WHERE networks.id = network_id)"
    )
    op.create_index("ix_subnets_network_project", "subnets", ["network_project_id", "id"])
    for kinds, made in ((("own", "all"), OWN_AND_ALL), (("own",), OWN), (("all",), ALL)):
        for table, columns in made.items():
            for column in columns:
                make(table, column, *kinds)
    for kinds, few in ((("own", "all"), FEW_OWN_AND_ALL), (("all",), FEW_ALL)):
        for table, usual in few.items():
            for column, value in usual.items():
                where = {f"{each}_where": condition(column, value, each) for each in ("sqlite", "postgresql")}
                make(table, column, *kinds, **where)
