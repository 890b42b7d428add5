"""The network interfaces of a server: which ones are requested, and the ports that they become.

Reference: compute.md, sections 5.2 and 8.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal

from attrs import evolve, frozen
from sqlalchemy import Column, ColumnElement, bindparam, delete, exists, func, insert, select

from cloudctl.compute.tables import Server, ServerInterface
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden, Invalid, NotFound, OverQuota
from cloudctl.network import auto_topology, devices, ipam, networks, ports
from cloudctl.network.devices import PortAddress
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.options import NetworkOptions
from cloudctl.network.ports import NewPort
from cloudctl.network.standard import grouped, rows
from cloudctl.network.tables import IpAllocation, Network, Port, Subnet
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin

AMBIGUOUS = (
    "Multiple possible networks found, use a Network ID to be more specific. More than one possible network found. "
    "Specify network ID(s) to select which one(s) to connect to."
)

# Built once: building costs more than running it.
_new = insert(ServerInterface)
_of_server = (
    select(ServerInterface)
    .where(ServerInterface.server_id == bindparam("of"))
    .order_by(ServerInterface.position, ServerInterface.port_id)
)

_holder = select(ServerInterface.server_id).where(ServerInterface.port_id == bindparam("of"))
_gone = delete(ServerInterface).where(ServerInterface.port_id == bindparam("of"))
_ports = (
    select(ServerInterface.server_id, ServerInterface.port_id)
    .where(ServerInterface.server_id.in_(bindparam("of", expanding=True)))
    .order_by(ServerInterface.server_id, ServerInterface.position, ServerInterface.port_id)
)
_editions = (
    select(ServerInterface.server_id, ServerInterface.port_id, Port.edition)
    .join_from(ServerInterface, Port, Port.id == ServerInterface.port_id)
    .where(ServerInterface.server_id.in_(bindparam("of", expanding=True)))
    .order_by(ServerInterface.server_id, ServerInterface.position, ServerInterface.port_id)
)


@frozen
class NewInterface:
    """One interface: an existing port, or one to be created on a network."""

    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None
    network: Network | None = None  # the record, pinned, of one that `chosen` has checked


# What a request may say in place of a list.
Automatic = Literal["auto", "none", "any"]


def chosen(
    conn: Connection,
    caller: Caller,
    wanted: Sequence[NewInterface] | Automatic,
    of_networks: NetworkOptions | None = None,
) -> list[NewInterface]:
    """The interfaces that a server gets, each one checked.

    "none": no interface. "auto": the only network that the project can use; if it has none, one is created as
    `of_networks` says. "any": the same, but no interface if there is no network. Raises Invalid, Forbidden, Conflict,
    OverQuota.
    """
    if wanted == "none":
        return []
    if isinstance(wanted, str):
        only = _only_network(conn, caller)
        if only is None and wanted == "auto":
            only = _made_network(conn, caller, of_networks)
        wanted = [] if only is None else [NewInterface(network_id=only)]
    named = [wish.port_id for wish in wanted if wish.port_id]
    if len(set(named)) < len(named):
        raise Invalid("Duplicate ports are not allowed.")
    checked = []
    for wish in wanted:
        if wish.port_id and wish.fixed_ip:
            raise Invalid(f"Specified fixed address '{wish.fixed_ip}' with port '{wish.port_id}': a port has its own.")
        if wish.port_id:
            check_port(conn, caller, wish.port_id)
        elif wish.network_id:
            network = check_network(conn, caller, wish.network_id)
            if wish.fixed_ip:
                networks.check_choice(caller, network)
            wish = evolve(wish, network=network)
        checked.append(wish)
    return checked


def _only_network(conn: Connection, caller: Caller) -> str | None:
    usable = networks.usable(conn, caller)
    with_subnets = networks.subnets_of(conn, [row.id for row in usable])
    usable = [row for row in usable if row.id in with_subnets] or usable
    if len(usable) > 1:
        raise Conflict(AMBIGUOUS)
    return usable[0].id if usable else None


def _made_network(conn: Connection, caller: Caller, of_networks: NetworkOptions | None) -> str:
    """The network of the project's automatic topology. Raises Invalid if there can be none, OverQuota."""
    failure = f"Unable to automatically allocate a network for project {caller.project_id}"
    if of_networks is None:
        raise Invalid(failure)
    try:
        return auto_topology.ensure(conn, caller, caller.project_id, of_networks)
    except Conflict as error:
        raise Invalid(f"{failure}: {error.message}") from None


def check_network(conn: Connection, caller: Caller, network_id: str) -> Network:
    """The network, pinned, if a server may be put on it. Raises Invalid, Forbidden for an external network."""
    try:
        row, has_subnet = networks.bootable(conn, caller, network_id)
    except NotFound:
        raise Invalid(f"Network {network_id} could not be found.") from None
    let_in = not row.external or networks.is_shared(conn, caller, row)
    if not let_in and not caller.may("compute:servers:create:external_network"):
        raise Forbidden(f"It is not allowed to create an interface on external network {network_id}")
    if not has_subnet:
        raise Invalid(f"Network {network_id} requires a subnet in order to boot instances on.")
    return row


def check_port(conn: Connection, caller: Caller, port_id: str) -> None:
    """Whether a server can be given the port. Raises Invalid, Forbidden, Conflict."""
    try:
        row = ports.usable(conn, caller, port_id)
    except NotFound:
        raise Invalid(f"Port {port_id} could not be found.") from None
    # The port's owner may have written anything into `device_id`, or cleared it.
    if row.device_id or holder(conn, row.id) is not None:
        raise Conflict(f"Port {port_id} is still in use.")
    if not ipam.of_ports(conn, [row.id]).get(row.id):
        raise Invalid(f"Port {port_id} requires a FixedIP in order to be used.")


def owner(zone: str | None) -> str:
    return f"compute:{zone or 'nova'}"


def add(
    conn: Connection,
    server: Server,
    wish: NewInterface,
    position: int,
    now: datetime,
    by: Origin,
    groups: tuple[str, ...] | None,
) -> str:
    """Give a server the port, or make one for it; its name in DNS becomes the server's. The port's id.

    `server`: id, project_id, zone and hostname are read. `groups` are ids, None is the default group. Raises Invalid,
    Conflict, OverQuota.
    """
    dns_name = server.hostname.lower()
    if wish.port_id:
        with worded(wish):
            ports.bind(conn, wish.port_id, server.id, "", owner(server.zone), now, dns_name)
        port_id, made = wish.port_id, False
    else:
        assert wish.network is not None, "a wish without a port has been chosen"
        fixed = (FixedIpRequest(ip_address=wish.fixed_ip),) if wish.fixed_ip else None
        new = NewPort(
            wish.network,
            fixed_ips=fixed,
            device_id=server.id,
            device_owner=owner(server.zone),
            security_groups=groups,
            kept={"dns_name": dns_name},
        )
        with worded(wish):
            port_id = str(ports.create(conn, server.project_id, new, now, by).id)
        made = True
    conn.execute(
        _new, {"port_id": port_id, "server_id": server.id, "position": position, "made": made, "tag": wish.tag}
    )
    return port_id


@contextmanager
def worded(wish: NewInterface) -> Iterator[None]:
    """Word the network service's refusals as this service does: a body that names something missing is a 400."""
    try:
        yield
    except NotFound as error:
        raise Invalid(error.message) from None
    except OverQuota:
        raise OverQuota("Maximum number of ports exceeded") from None
    except Conflict as error:
        if error.type == "PortInUse":
            raise Conflict(f"Port {wish.port_id} is still in use.") from None
        if error.type == "IpAddressAlreadyAllocated":
            raise Invalid(f"Fixed IP address {wish.fixed_ip} is already in use.") from None
        if error.type == "IpAddressGenerationFailure":
            raise Invalid(error.message) from None
        raise


def ports_of(conn: Connection, server_ids: Sequence[str]) -> dict[str, list[str]]:
    """Server id → the ids of its ports, in the order of the guest's interfaces. Servers without any are missing."""
    return grouped(rows(conn, _ports, of=server_ids))


def editions(conn: Connection, server_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """The same with the edition of each port."""
    found: dict[str, dict[str, int]] = {}
    for server_id, port_id, edition in rows(conn, _editions, of=server_ids):
        found.setdefault(server_id, {})[port_id] = edition
    return found


def addresses(conn: Connection, server_ids: Sequence[str]) -> dict[str, list[PortAddress]]:
    """Server id → the addresses of its ports, and the floating ones that lead to them."""
    plugged = ports_of(conn, server_ids)
    found = devices.addresses(conn, [port_id for mine in plugged.values() for port_id in mine])
    return {id: [each for port_id in mine for each in found.get(port_id, ())] for id, mine in plugged.items()}


def has_address(version: int, matches: Callable[[Column[Any]], ColumnElement[bool]]) -> ColumnElement[bool]:
    """Whether a server has a fixed address of this IP version that matches; a condition for a list of servers."""
    mine = ServerInterface.server_id == Server.id, IpAllocation.port_id == ServerInterface.port_id
    return (
        exists()
        .where(*mine, Subnet.id == IpAllocation.subnet_id, Subnet.ip_version == version)
        .where(matches(IpAllocation.ip_address))
        .correlate(Server.table)
    )


def security_groups(conn: Connection, server_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Server id → the security groups of its ports: id → name."""
    plugged = ports_of(conn, server_ids)
    found = ports.groups_of(conn, [port_id for mine in plugged.values() for port_id in mine])
    return {id: dict(group for port_id in mine for group in found.get(port_id, ())) for id, mine in plugged.items()}


def of_server(conn: Connection, server_id: str) -> Sequence[ServerInterface]:
    """(port_id, made, tag, …) in the order of the guest's interfaces."""
    return conn.execute(_of_server, {"of": server_id}).all()


def find(conn: Connection, server_id: str, port_id: str) -> ServerInterface | None:
    mine = (ServerInterface.server_id == server_id) & (ServerInterface.port_id == port_id)
    return conn.execute(select(ServerInterface).where(mine)).first()


def holder(conn: Connection, port_id: str) -> str | None:
    """The id of the server that the port was given to."""
    return conn.scalar(_holder, {"of": port_id})


def next_position(conn: Connection, server_id: str) -> int:
    query = select(func.max(ServerInterface.position)).where(ServerInterface.server_id == server_id)
    last = conn.execute(query).scalar()
    return 0 if last is None else int(last) + 1


def bind(conn: Connection, server: Server, host: str, zone: str, now: datetime, *, all_there: bool = False) -> None:
    """Bind the server's ports to this host. One that its owner has deleted, or given away, does not stop the server.

    With `all_there`, as for a server that has yet to be made, it raises NotFound, Conflict.
    """
    for row in of_server(conn, server.id):
        try:
            ports.bind(conn, row.port_id, server.id, host, owner(zone), now)
        except NotFound:
            if all_there:
                raise
        except Conflict:
            if all_there:
                raise
            if devices.reclaim(conn, row.port_id, server.id, now):
                ports.bind(conn, row.port_id, server.id, host, owner(zone), now)


def leave_host(conn: Connection, server_id: str, now: datetime) -> None:
    """The server keeps its ports, but on no host: the driver has released them."""
    for row in of_server(conn, server_id):
        ports.leave_host(conn, row.port_id, now)


def let_go(conn: Connection, row: ServerInterface, now: datetime, by: Origin, *, has_left: bool = False) -> None:
    """Take a port from its server: one created for it is deleted, a given one is free again. May be repeated.

    `has_left`: see `ports.discard`.
    """
    if row.made:
        ports.discard(conn, row.port_id, now, by, has_left=has_left)
    else:
        ports.unbind(conn, row.port_id, now)
    conn.execute(_gone, {"of": row.port_id})


def let_all_go(conn: Connection, server_id: str, now: datetime, by: Origin, *, have_left: bool = False) -> None:
    mine = of_server(conn, server_id)
    if len(mine) > 1:
        # All of them before the first deletion takes the project's turn: see `network.quotas`.
        ports.lock(conn, [row.port_id for row in mine])
    for row in mine:
        let_go(conn, row, now, by, has_left=have_left)
