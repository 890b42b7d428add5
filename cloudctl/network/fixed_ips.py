"""Which addresses a port gets. Reference: network-rules.md, sections 1 and 2.

A request becomes choices: a subnet and an address, or several subnets, of which the first with room gives its lowest
free address. A choice that a present address of the port meets keeps it; the other addresses are given back, and new
ones taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_network

from attrs import frozen
from sqlalchemy import ColumnElement, bindparam, not_, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import CloudError, Conflict, Invalid, NotFound
from cloudctl.network import addresses, ipam, kinds, shares, standard
from cloudctl.network.addresses import eui64, hosts, is_automatic, parse_address
from cloudctl.network.tables import IpAllocation, Network, Port, Subnet
from cloudctl.tasks import Unasked

ROUTERS = "network:router_"
DHCP = "network:dhcp"
NETWORKS_OWN = "network:"
IMMEDIATE, DEFERRED, NONE = "immediate", "deferred", "none"

# Built once: building a statement costs more than running it.
_subnets = select(Subnet).where(Subnet.network_id == bindparam("network")).order_by(Subnet.id).with_for_update()


@frozen
class FixedIpRequest:
    """A subnet, an address, or both; or any address of a family. Texts are as the client sent them."""

    subnet_id: str | None = None
    ip_address: str | None = None
    ip_version: int | None = None


@frozen
class Choice:
    """`address` on the only one of `subnets`; None: the lowest free one on the first of them with room."""

    subnets: tuple[Subnet, ...]
    address: int | None = None


def assign(
    conn: Connection,
    network_id: str,
    port_id: str,
    mac: str,
    owner: str,
    wanted: Sequence[FixedIpRequest] | None,
    *,
    is_new: bool = False,
) -> list[str]:
    """Give a port the requested addresses (None: those it gets by default), and no others.

    `is_new`: it has none yet. Returns them in order. Raises Invalid, NotFound (a subnet), Conflict (taken, none left).
    """
    rows = _subnets_of(conn, network_id)
    if wanted is None:
        choices = _by_itself(_of_one_wire(conn, rows), mac, owner)
    else:
        choices = _asked(conn, rows, network_id, port_id, mac, owner, wanted)
    present = [] if is_new else ipam.of_ports(conn, [port_id]).get(port_id, [])
    kept = _kept(choices, present)
    by_id = {row.id: row for row in rows}
    for old in present:
        if all(old is not one for one in kept.values()):
            ipam.give_back(conn, by_id[old.subnet_id], int(old.address))
    got = []
    for position, choice in enumerate(choices):
        if position in kept:
            got.append(_moved(conn, kept[position], position))
        else:
            got.append(_taken(conn, choice, network_id, port_id, position))
    return got


def lock(conn: Connection, network_id: str) -> None:
    """Lock the network's subnets, as `assign` and `release` do."""
    conn.execute(_subnets, {"network": network_id})


def when(network: Network, owner: str, host: str, wanted: Sequence[FixedIpRequest] | None) -> str:
    """When a new port gets addresses: once it has a host, on a network whose wires have subnets of their own."""
    if wanted is not None:
        return IMMEDIATE if wanted else NONE
    return DEFERRED if network.routed and not host and not owner.startswith(NETWORKS_OWN) else IMMEDIATE


def release(conn: Connection, network_id: str, port_id: str) -> None:
    """Free the port's addresses."""
    present = ipam.of_ports(conn, [port_id]).get(port_id, [])
    if present:
        by_id = {row.id: row for row in _subnets_of(conn, network_id)}
        for row in present:
            ipam.give_back(conn, by_id[row.subnet_id], int(row.address))


def present_wish(conn: Connection, port_id: str) -> list[FixedIpRequest] | None:
    """Requests for the addresses a port has, with those that follow from its MAC left open; None if it has none."""
    rows = conn.execute(
        select(IpAllocation.subnet_id, IpAllocation.ip_address, Subnet.ipv6_address_mode)
        .join_from(IpAllocation, Subnet, Subnet.id == IpAllocation.subnet_id)
        .where(IpAllocation.port_id == port_id)
        .order_by(IpAllocation.position)
    ).all()
    if not rows:
        return None
    return [FixedIpRequest(subnet_id, None if is_automatic(mode) else address) for subnet_id, address, mode in rows]


def _subnets_of(conn: Connection, network_id: str) -> list[Subnet]:
    """The network's subnets, locked, the oldest first."""
    return sorted(conn.execute(_subnets, {"network": network_id}).all(), key=lambda row: (row.created_at, row.id))


# -- choices


def _of_one_wire(conn: Connection, rows: Sequence[Subnet]) -> Sequence[Subnet]:
    """The subnets of the network's first wire that has an address left of each of its families."""
    wires = standard.grouped((row.segment_id, row) for row in rows)
    if len(wires) < 2:
        return rows
    # If none has, the first one reports it as well as any.
    return next((some for some in wires.values() if _has_room(conn, some)), next(iter(wires.values())))


def _has_room(conn: Connection, rows: Sequence[Subnet]) -> bool:
    managed = [row for row in rows if not is_automatic(row.ipv6_address_mode)]
    free = ipam.with_room(conn, [row.id for row in managed])
    return {row.ip_version for row in managed} == {row.ip_version for row in managed if row.id in free}


def _by_itself(rows: Sequence[Subnet], mac: str, owner: str) -> list[Choice]:
    """One IPv4 address, one managed IPv6 address, and one on each automatic subnet."""
    served = _serving(rows, owner)
    managed = [row for row in served if not _follows_mac(row, owner)]
    families = [tuple(row for row in managed if row.ip_version == version) for version in (4, 6)]
    return [*(Choice(family) for family in families if family), *_automatic(rows, mac, owner)]


def _serving(rows: Sequence[Subnet], owner: str) -> list[Subnet]:
    """Of each family: the subnets meant for ports of this owner, or else those meant for no owner in particular.

    Raises Conflict if all are meant for others.
    """
    found: list[Subnet] = []
    for version in (4, 6):
        family = [row for row in rows if row.ip_version == version]
        meant = [row for row in family if owner in row.service_types]
        found += meant or [row for row in family if not row.service_types]
    if rows and not found:
        message = "No valid service subnet for the given device owner."
        raise Conflict(message, type="IpAddressGenerationFailureNoMatchingSubnet")
    return found


def _automatic(rows: Iterable[Subnet], mac: str, owner: str) -> list[Choice]:
    return [Choice((row,), _from_mac(row, mac)) for row in rows if _follows_mac(row, owner) and owner != DHCP]


def _follows_mac(row: Subnet, owner: str) -> bool:
    return is_automatic(row.ipv6_address_mode) and not owner.startswith(ROUTERS)


def _from_mac(row: Subnet, mac: str) -> int:
    return int(eui64(ip_network(row.cidr), mac))


def _asked(
    conn: Connection,
    rows: Sequence[Subnet],
    network_id: str,
    port_id: str,
    mac: str,
    owner: str,
    wanted: Sequence[FixedIpRequest],
) -> list[Choice]:
    if not wanted:
        return []
    if not rows:
        raise Invalid(f"Invalid input for operation: IP address requested on network {network_id} without subnets.")
    choices = [_choice(conn, rows, network_id, port_id, mac, owner, each) for each in wanted]
    _check_one_wire(choices, owner)
    named = {choice.subnets[0].id for choice in choices if choice.address is not None}
    here = {row.segment_id for choice in choices for row in choice.subnets}
    automatic = _automatic([row for row in rows if row.segment_id in here], mac, owner)
    choices += [choice for choice in automatic if choice.subnets[0].id not in named]
    exact = [(choice.subnets[0].id, choice.address) for choice in choices if choice.address is not None]
    if len(set(exact)) < len(exact):
        raise Invalid("Invalid input for fixed_ips. Reason: Duplicate IP address.")
    return choices


def _check_one_wire(choices: Sequence[Choice], owner: str) -> None:
    """Raises Invalid for a guest's port that would be on several wires."""
    if not owner.startswith(NETWORKS_OWN) and len({choice.subnets[0].segment_id for choice in choices}) > 1:
        message = "Cannot allocate addresses from different segments."
        raise Invalid(message, type="FixedIpsSubnetsNotOnSameSegment")


def _choice(
    conn: Connection,
    rows: Sequence[Subnet],
    network_id: str,
    port_id: str,
    mac: str,
    owner: str,
    wanted: FixedIpRequest,
) -> Choice:
    address = None if wanted.ip_address is None else parse_address(wanted.ip_address)
    if wanted.subnet_id is not None:
        row = next((row for row in rows if row.id == wanted.subnet_id), None)
        if row is None:
            raise _wrong_subnet(conn, wanted.subnet_id, network_id, port_id)
    elif address is not None:
        row = next((row for row in rows if address in ip_network(row.cidr)), None)
    elif wanted.ip_version is not None:
        return Choice(tuple(row for row in _serving(rows, owner) if row.ip_version == wanted.ip_version))
    else:
        raise Invalid("Invalid input for operation: IP allocation requires subnet_id or ip_address.")
    if row is None or (address is not None and not _is_hosts(address, row)):
        specified, kind = ("the specified subnet", "Subnet") if wanted.subnet_id else (
            "any of the subnets on the specified network", "Network")  # fmt: skip
        raise Invalid(f"IP address {address} is not a valid IP for {specified}.", type=f"InvalidIpFor{kind}")
    if not _follows_mac(row, owner):
        return Choice((row,), None if address is None else int(address))
    if address is not None and int(address) != _from_mac(row, mac):
        raise Invalid(
            f"IPv6 address {address} cannot be directly assigned to a port on subnet {row.id} as the subnet is "
            "configured for automatic addresses",
            type="AllocationOnAutoAddressSubnet",
        )
    return Choice((row,), _from_mac(row, mac))


def _is_hosts(address: addresses.Address, row: Subnet) -> bool:
    return address.version == row.ip_version and int(address) in hosts(ip_network(row.cidr))


def _wrong_subnet(conn: Connection, subnet_id: str, network_id: str, port_id: str) -> CloudError:
    """A subnet that the port's project cannot see is reported like one that does not exist.

    For a port of no project, the code that requests the subnet has already checked.
    """
    owner = conn.scalar(select(Port.project_id).where(Port.id == port_id))
    row = conn.execute(select(Subnet).where(Subnet.id == subnet_id)).first()
    if row is None or (owner and owner != row.project_id and not shares.reaches(conn, row.network_id, owner)):
        return NotFound(f"Subnet {subnet_id} could not be found.", type="SubnetNotFound")
    return Invalid(
        f"Invalid input for operation: Failed to create port on network {network_id}, because fixed_ips included "
        f"invalid subnet {subnet_id}."
    )


# -- from choices to addresses


def _kept(choices: Sequence[Choice], present: Sequence[IpAllocation]) -> dict[int, IpAllocation]:
    """Position of a choice → the present address that meets it; choices with a given address come first."""
    kept: dict[int, IpAllocation] = {}
    for given in (True, False):
        for position, choice in enumerate(choices):
            if (choice.address is not None) is not given:
                continue
            ids = {row.id for row in choice.subnets}
            for row in present:
                used = any(row is one for one in kept.values())
                if not used and row.subnet_id in ids and choice.address in (None, int(row.address)):
                    kept[position] = row
                    break
    return kept


def _moved(conn: Connection, row: IpAllocation, position: int) -> str:
    if row.position != position:
        this = (IpAllocation.subnet_id == row.subnet_id) & (IpAllocation.address == row.address)
        conn.execute(update(IpAllocation).where(this).values(position=position))
    return row.ip_address


def _taken(conn: Connection, choice: Choice, network_id: str, port_id: str, position: int) -> str:
    if choice.address is not None:
        return ipam.take(conn, choice.subnets[0], choice.address, port_id, position)
    for subnet in choice.subnets:
        found = ipam.take_lowest(conn, subnet, port_id, position)
        if found is not None:
            return found
    raise Conflict(f"No more IP addresses available on network {network_id}.", type="IpAddressGenerationFailure")


# -- automatic subnets that come and go


def lock_everybody(conn: Connection, network_id: str) -> None:
    """Lock the ports of a network that have addresses on automatic subnets, before the turn.

    None goes or gets another MAC meanwhile.
    """
    conn.execute(select(Port.id).where(*_everybody(network_id)).order_by(Port.id).with_for_update())


def _everybody(network_id: str) -> tuple[ColumnElement[bool], ...]:
    no_routers = not_(Port.device_owner.startswith(ROUTERS, autoescape=True))
    return Port.network_id == network_id, no_routers, Port.device_owner != DHCP


def give_everybody(conn: Connection, subnet: Subnet, now: datetime) -> None:
    """Give every port of its network, all locked, an address on a new automatic subnet."""
    query = select(Port).where(*_everybody(subnet.network_id))
    if subnet.segment_id is not None:
        here = select(IpAllocation.port_id).join_from(IpAllocation, Subnet, Subnet.id == IpAllocation.subnet_id)
        query = query.where(Port.id.in_(here.where(Subnet.segment_id == subnet.segment_id)))
    found = conn.execute(query).all()
    present = ipam.of_ports(conn, [port.id for port in found])
    nexts = {id: rows[-1].position + 1 for id, rows in present.items()}
    wanted = [(_from_mac(subnet, port.mac_address), port.id, nexts.get(port.id, 0)) for port in found]
    ipam.take_of_new(conn, subnet, wanted)
    _ports_changed(conn, found, now)


def take_from_everybody(conn: Connection, subnet: Subnet, now: datetime) -> None:
    """An automatic subnet is about to be deleted: ports lose their addresses there, routers keep theirs."""
    query = (
        select(Port)
        .join_from(IpAllocation, Port, Port.id == IpAllocation.port_id)
        .where(IpAllocation.subnet_id == subnet.id)
        .where(not_(Port.device_owner.startswith(ROUTERS, autoescape=True)))
    )
    found = conn.execute(query).all()
    ipam.drop_all(conn, subnet.id, [port.id for port in found])
    _ports_changed(conn, found, now)


def _ports_changed(conn: Connection, ports: Sequence[Port], now: datetime) -> None:
    standard.change_all(conn, Port.table, [port.id for port in ports], now)
    for port in ports:
        if port.realised or port.host:
            tasks.submit_once(conn, kinds.ENSURE_PORT, port.id, Unasked(port.project_id))
