"""Tables of what networking's extensions add to networks, ports and routers. See `tables`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, String, UniqueConstraint

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text
from cloudctl.db.records import Record
from cloudctl.network.tables import LONG, Standard


class MeteringLabel(Standard, table="metering_labels"):
    """What is counted on a project's routers; `shared`: on everybody's."""

    name: Field[str] = text()
    description: Field[str] = text(LONG)
    shared: Field[bool] = flag(False)


Index("ix_metering_labels_project", MeteringLabel.project_id, MeteringLabel.id)


class MeteringRule(Standard, table="metering_label_rules"):
    """Traffic that a label counts, or that it leaves out. Its project is its label's."""

    metering_label_id: Field[str] = column(String(64), ForeignKey("metering_labels.id"), index=True)
    direction: Field[str] = text(8)
    remote_ip_prefix: Field[str | None] = optional_text(64)
    source_ip_prefix: Field[str | None] = optional_text(64)
    destination_ip_prefix: Field[str | None] = optional_text(64)
    excluded: Field[bool] = flag(False)


class NetworkLog(Standard, table="network_logs"):
    """Which packets a driver shall log: of a security group (None: of all), on a port (None: on all)."""

    name: Field[str] = text()
    resource_type: Field[str] = text(64)
    resource_id: Field[str | None] = column(String(64), ForeignKey("security_groups.id", ondelete="CASCADE"))
    target_id: Field[str | None] = column(String(64), ForeignKey("ports.id", ondelete="CASCADE"))
    event: Field[str] = text(8)
    enabled: Field[bool] = flag(True)


Index("ix_network_logs_project", NetworkLog.project_id, NetworkLog.id)


class ServiceProfile(Standard, table="service_profiles"):
    """How something of a flavor is made; it belongs to no project."""

    description: Field[str] = text(LONG)
    driver: Field[str] = text(1024)
    metainfo: Field[str] = text(4096)
    enabled: Field[bool] = flag(True)


class FlavorProfile(Record, table="flavor_service_profiles"):
    flavor_id: Field[str] = column(String(64), ForeignKey("network_flavors.id", ondelete="CASCADE"), primary_key=True)
    service_profile_id: Field[str] = column(String(64), ForeignKey("service_profiles.id"), primary_key=True, index=True)


class SegmentRange(Standard, table="network_segment_ranges"):
    """Numbers that networks on wires of a type may have: its project's networks, or everybody's if `shared`."""

    name: Field[str] = text()
    default: Field[bool] = flag(False)  # as configured
    shared: Field[bool] = flag(True)
    network_type: Field[str] = text(16)
    physical_network: Field[str] = text(64)
    minimum: Field[int] = column(Integer)
    maximum: Field[int] = column(Integer)


Index("ix_network_segment_ranges_type", SegmentRange.network_type, SegmentRange.default)


class ConntrackHelper(Record, table="conntrack_helpers"):
    """A router follows connections of a protocol whose messages name other ports."""

    id: Field[str] = identifier(primary_key=True)
    router_id: Field[str] = column(String(64), ForeignKey("routers.id", ondelete="CASCADE"))
    protocol: Field[str] = text(16)
    port: Field[int] = column(Integer)
    helper: Field[str] = text(64)


UniqueConstraint(
    ConntrackHelper.router_id, ConntrackHelper.protocol, ConntrackHelper.port, name="uq_conntrack_helpers_port"
)


class NdpProxy(Standard, table="ndp_proxies"):
    """A router answers outside for an address that is inside."""

    name: Field[str] = text()
    router_id: Field[str] = column(String(64), ForeignKey("routers.id"))
    port_id: Field[str] = column(String(64), ForeignKey("ports.id", ondelete="CASCADE"))
    ip_address: Field[str] = text(64)


Index("ix_ndp_proxies_project", NdpProxy.project_id, NdpProxy.id)
UniqueConstraint(NdpProxy.port_id, NdpProxy.ip_address, name="uq_ndp_proxies_address")


class LocalIp(Standard, table="local_ips"):
    """An address that leads, on each host, to a port of that host."""

    name: Field[str] = text()
    network_id: Field[str] = column(String(64), ForeignKey("networks.id"))
    local_port_id: Field[str] = column(String(64), ForeignKey("ports.id", ondelete="CASCADE"))
    local_ip_address: Field[str] = text(64)
    ip_mode: Field[str] = text(16)


Index("ix_local_ips_project", LocalIp.project_id, LocalIp.id)
UniqueConstraint(LocalIp.local_port_id, LocalIp.local_ip_address, name="uq_local_ips_address")


class LocalIpAssociation(Record, table="local_ip_associations"):
    local_ip_id: Field[str] = column(String(64), ForeignKey("local_ips.id", ondelete="CASCADE"), primary_key=True)
    fixed_port_id: Field[str] = column(
        String(64), ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    fixed_ip: Field[str] = text(64)


class PortBinding(Record, table="port_bindings"):
    """A host that a port is bound to besides its own: a migrating server has two. The port's row has the active one."""

    port_id: Field[str] = column(String(64), ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True)
    host: Field[str] = column(String(255), primary_key=True)
    vnic_type: Field[str] = text(32)
    profile: Field[dict[str, Any]] = json(dict)
    vif_type: Field[str] = text(64)
    vif_details: Field[dict[str, Any]] = json(dict)


class DhcpPort(Record, table="network_dhcp_ports"):
    """The port from which a network's addresses are given out."""

    network_id: Field[str] = column(String(64), ForeignKey("networks.id", ondelete="CASCADE"), primary_key=True)
    port_id: Field[str] = column(String(64), ForeignKey("ports.id", ondelete="CASCADE"), unique=True)
