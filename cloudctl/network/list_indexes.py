"""Indexes by which lists find what filters ask for, beside those that `tables` has for what networking itself asks.

Each ends with the id, in whose order pages come. Where few records of a project have what very many of others have, or
the other way round, there are two: with the project, and without it for who sees all. SQLite keeps no figures of its
tables and takes the index that has most of what is asked for, so one alone would be taken for both. What is
filtered by and is not here (descriptions, times, what is merely kept) is looked for until a page is full.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, text

from cloudctl.network.tables import FloatingIp, Network, Port, Router, SecurityGroup, SecurityGroupRule, Subnet


def _index_of_few(name: str, flag: Column[Any], rare: bool, *columns: Column[Any]) -> None:
    """An index of the rows alone whose flag is what it hardly ever is: others cost nothing."""
    where = text(f"{flag.name} IS {str(rare).lower()}")
    Index(name, *columns, sqlite_where=flag.is_(rare), postgresql_where=where)


# A port's project has its own of these in `tables`.
Index("ix_ports_all_status", Port.status, Port.id)
Index("ix_ports_all_device_owner", Port.device_owner, Port.id)
Index("ix_ports_all_network", Port.network_id, Port.id)
Index("ix_ports_qos_policy", Port.qos_policy_id, Port.project_id, Port.id)
for _name, _flag in (("down", Port.admin_state_up), ("unfiltered", Port.port_security_enabled)):
    _index_of_few(f"ix_ports_{_name}", _flag, False, Port.project_id, _flag, Port.id)
    _index_of_few(f"ix_ports_all_{_name}", _flag, False, _flag, Port.id)

for _kind in (Network, Router, FloatingIp):
    _plural = _kind.table.name
    Index(f"ix_{_plural}_status", _kind.project_id, _kind.status, _kind.id)
    Index(f"ix_{_plural}_all_status", _kind.status, _kind.id)
# A name that every project may have, as security groups `default`, has another one.
for _named in (Network, Subnet, Router, SecurityGroup):
    Index(f"ix_{_named.table.name}_name", _named.name, _named.project_id, _named.id)
Index("ix_security_groups_all_name", SecurityGroup.name, SecurityGroup.id)

# Of networks only who sees all is told these.
Index("ix_networks_segmentation", Network.segmentation_id, Network.id)
Index("ix_networks_physical", Network.physical_network, Network.id)
_index_of_few("ix_networks_external", Network.external, True, Network.external, Network.id)
_index_of_few("ix_networks_down", Network.admin_state_up, False, Network.admin_state_up, Network.id)
_index_of_few("ix_routers_down", Router.admin_state_up, False, Router.admin_state_up, Router.id)
_index_of_few("ix_subnets_silent", Subnet.enable_dhcp, False, Subnet.enable_dhcp, Subnet.id)
_index_of_few("ix_security_groups_stateless", SecurityGroup.stateful, False, SecurityGroup.stateful, SecurityGroup.id)

Index("ix_subnets_cidr", Subnet.cidr, Subnet.project_id, Subnet.id)
Index("ix_subnets_all_cidr", Subnet.cidr, Subnet.id)
Index("ix_floating_ips_network", FloatingIp.floating_network_id, FloatingIp.project_id, FloatingIp.id)
Index("ix_floating_ips_all_network", FloatingIp.floating_network_id, FloatingIp.id)
Index("ix_floating_ips_router", FloatingIp.router_id, FloatingIp.project_id, FloatingIp.id)
_group = SecurityGroupRule.security_group_id
Index("ix_security_group_rules_group", _group, SecurityGroupRule.project_id, SecurityGroupRule.id)
