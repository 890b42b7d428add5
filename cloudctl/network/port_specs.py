"""Ports as drivers shall hold them: everything that follows from their network, groups, policies and trunks."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.drivers.specs import FixedIp, PortSpec
from cloudctl.network import dhcp_options, local_ip_ports, logs, networks, ports, private_vlans, qos_rules, trunk_ports
from cloudctl.network.tables import Network, Port

# Built once: building a statement costs more than running it.
_with_network = (
    select(Port, Network, networks.any_absence, logs.any_enabled, local_ip_ports.any_to_port, trunk_ports.any_of_parent)
    .join_from(Port, Network, Network.id == Port.network_id)
    .where(Port.id == bindparam("wanted"))
)


def driver_spec(conn: Connection, port_id: str) -> PortSpec:
    """The port as a driver shall hold it, with its binding if it is plugged on its host. Raises NotFound."""
    found = held(conn, port_id)
    if found is None:
        raise ports.not_found(port_id)
    return found[1]


def held(conn: Connection, port_id: str) -> tuple[Port, PortSpec, Network, bool] | None:
    """The port, how a driver shall hold it, its network, and whether an agent stays away from that network.

    None if there is no such port.
    """
    found = conn.execute(_with_network, {"wanted": port_id}).first()
    if found is None:
        return None
    row, network, has_absences, is_any_logged, has_local_ips, carries_others = found
    obeyed = qos_rules.of_port(conn, row, network.qos_policy_id)
    plugged = row.vif_type not in (ports.UNBOUND, ports.BINDING_FAILED)
    groups = tuple(id for id, _ in ports.groups_of(conn, [port_id]).get(port_id, ()))
    spec = PortSpec(
        id=row.id,
        network_id=row.network_id,
        mac=row.mac_address,
        fixed_ips=tuple(FixedIp(**each) for each in ports.fixed_ips_of(conn, [port_id]).get(port_id, ())),
        mtu=network.mtu,
        admin_state_up=row.admin_state_up,
        port_security=row.port_security_enabled,
        security_groups=groups,
        address_pairs=tuple((pair["ip_address"], pair["mac_address"]) for pair in row.allowed_address_pairs),
        binding={"vif_type": row.vif_type, "vif_details": row.vif_details} if plugged else None,
        limits=obeyed.limits,
        packet_limits=obeyed.packet_limits,
        guarantees=obeyed.guarantees,
        dscp_mark=obeyed.dscp_mark,
        subports=trunk_ports.driver_specs(conn, row.id) if carries_others else (),
        dhcp_options=dhcp_options.driver_specs(row.dhcp_options),
        local_ips=local_ip_ports.driver_specs(conn, row.id) if has_local_ips else (),
        logged=logs.events(conn, row, groups) if is_any_logged else (),
        isolation=private_vlans.isolation(row),
    )
    return row, spec, network, has_absences
