"""Which ports a local IP leads to, each on its host.

This does not depend on how local IPs are made, so that ports can use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from sqlalchemy import bindparam, delete, exists, insert, not_, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.specs import LocalIp as Spec
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import ipam, kinds
from cloudctl.network.addresses import parse_address
from cloudctl.network.extension_tables import LocalIp, LocalIpAssociation
from cloudctl.network.tables import IpAllocation, Port
from cloudctl.tasks import Origin

OWNER = "network:local_ip"

# Built once: building a statement costs more than running it.
_of_ip = select(LocalIpAssociation).where(LocalIpAssociation.local_ip_id == bindparam("ip")).limit(1)
_at = select(LocalIp.id).where(LocalIp.local_port_id == bindparam("port")).limit(1)
_addresses = select(LocalIp.local_ip_address).where(LocalIp.local_port_id == bindparam("port"))
_of_port = (
    select(LocalIp.local_ip_address, LocalIpAssociation.fixed_ip, LocalIp.ip_mode)
    .join_from(LocalIpAssociation, LocalIp, LocalIp.id == LocalIpAssociation.local_ip_id)
    .where(LocalIpAssociation.fixed_port_id == bindparam("port"))
    .order_by(LocalIp.local_ip_address)
)
_led_from = (
    select(Port)
    .join_from(LocalIp, LocalIpAssociation, LocalIpAssociation.local_ip_id == LocalIp.id)
    .join(Port, Port.id == LocalIpAssociation.fixed_port_id)
    .where(LocalIp.local_port_id == bindparam("port"), Port.id != bindparam("port"))
    .order_by(Port.id)
)
_forget = (
    delete(LocalIpAssociation)
    .where(LocalIpAssociation.fixed_port_id == bindparam("port"))
    .where(LocalIpAssociation.fixed_ip.not_in(bindparam("but", expanding=True)))
)
_on_network = select(LocalIp.local_ip_address).where(LocalIp.network_id == bindparam("network"))
_has_address = exists().where(
    IpAllocation.port_id == LocalIpAssociation.fixed_port_id, IpAllocation.ip_address == LocalIpAssociation.fixed_ip
)
_forget_taken = delete(LocalIpAssociation).where(
    LocalIpAssociation.fixed_port_id.in_(select(Port.id).where(Port.network_id == bindparam("network"))),
    not_(_has_address),
)
# Whether a local IP leads to a port: to be queried together with the port.
any_to_port = select(LocalIpAssociation.local_ip_id).where(LocalIpAssociation.fixed_port_id == Port.id).exists()


def has_any(conn: Connection, ip: LocalIp) -> bool:
    """Whether a local IP leads anywhere."""
    return conn.execute(_of_ip, {"ip": ip.id}).first() is not None


def is_made_for_one(conn: Connection, port: Port) -> bool:
    """Whether the port is that of a local IP. Its `device_owner` alone proves nothing: anyone may write it."""
    return port.device_owner == OWNER and has_one(conn, port.id)


def has_one(conn: Connection, port_id: str) -> bool:
    """Whether an address of the port is a local IP."""
    return conn.execute(_at, {"port": port_id}).first() is not None


def check_addresses_kept(conn: Connection, port_id: str, present: Sequence[str]) -> None:
    """Raises Invalid unless the addresses of the port that are local IPs are among those that it has left."""
    for address in conn.scalars(_addresses, {"port": port_id}):
        if address not in present:
            raise Invalid(
                f"Bad port request: Cannot take address {address} from port {port_id}, since it is a local IP.",
                type="BadRequest",
            )


def forget_own(conn: Connection, port_id: str, by: Origin) -> None:
    """The port is about to be deleted, and the local IPs with its addresses, too: update the ports they lead to."""
    for port in conn.execute(_led_from, {"port": port_id}).all():
        _follow(conn, port, by)


def associate(conn: Connection, row: LocalIp, port: Port, fixed_ip: str | None, by: Origin) -> LocalIpAssociation:
    """Let the address of a locked local IP lead to the port on its host. Raises Invalid, Conflict (it already does)."""
    this = LocalIpAssociation.local_ip_id == row.id, LocalIpAssociation.fixed_port_id == port.id
    if conn.execute(select(LocalIpAssociation).where(*this)).first() is not None:
        message = f"Port {port.id} is already associated with Local IP {row.id}."
        raise Conflict(message, type="LocalIPAssociationAlreadyExists")
    address = address_of(conn, port, fixed_ip)
    made = LocalIpAssociation(local_ip_id=row.id, fixed_port_id=port.id, fixed_ip=address)
    conn.execute(insert(LocalIpAssociation).values(**made._asdict()))
    _follow(conn, port, by)
    return made


def dissociate(conn: Connection, row: LocalIpAssociation, port: Port, by: Origin) -> None:
    c = LocalIpAssociation.table.c
    conn.execute(c.fixed_port_id.table.delete().where(c.local_ip_id == row.local_ip_id, c.fixed_port_id == port.id))
    _follow(conn, port, by)


def forget_port(conn: Connection, port_id: str, but: Sequence[str]) -> None:
    """The port has only the addresses `but` left: no local IP leads to others. The caller updates the port."""
    conn.execute(_forget, {"port": port_id, "but": list(but)})


def has_one_on(conn: Connection, network_id: str, cidr: str) -> bool:
    """Whether an address of a network's subnet is a local IP."""
    there = ip_network(cidr)
    return any(ip_address(each) in there for each in conn.scalars(_on_network, {"network": network_id}))


def forget_taken(conn: Connection, network_id: str) -> None:
    """Ports of a network have lost addresses: no local IP leads to those. The caller updates the ports."""
    conn.execute(_forget_taken, {"network": network_id})


def not_found(port_id: str) -> NotFound:
    message = f"Local IP association with port {port_id[:64]} could not be found."
    return NotFound(message, type="LocalIPAssociationNotFound")


def address_of(conn: Connection, port: Port, wanted: str | None) -> str:
    """The address of a port that a request means. Raises Invalid."""
    found = [row.ip_address for row in ipam.of_ports(conn, [port.id]).get(port.id, ())]
    if wanted is not None:
        address = str(parse_address(wanted, "address"))
        if address not in found:
            raise Invalid(f"Port {port.id} does not have address {address}.", type="LocalIPRequestedIPNotFound")
        return address
    if not found:
        raise Invalid(f"Port {port.id} has no addresses.", type="LocalIPNoIP")
    if len(found) > 1:
        message = f"Port {port.id} has several addresses: one must be specified."
        raise Invalid(message, type="LocalIPNoRequestedIP")
    return found[0]


def _follow(conn: Connection, port: Port, by: Origin) -> None:
    if port.realised or port.host:
        tasks.submit_once(conn, kinds.ENSURE_PORT, port.id, by)


def driver_specs(conn: Connection, port_id: str) -> tuple[Spec, ...]:
    """The local IPs that lead to a port."""
    return tuple(Spec(*each) for each in conn.execute(_of_port, {"port": port_id}))
