"""Address management: which addresses of a subnet are free, and who has the others.

Free addresses within the pools are stored as ranges, so taking the lowest free address, taking a given one and giving
one back each read one row and write one or two, however large the subnet is. Code that takes or gives back an address
locks the subnet's row until the commit (`lock`); the primary key of `ip_allocations` rules out two holders of one
address anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.network.addresses import Range, key, number, without, written
from cloudctl.network.standard import batches, grouped, rows
from cloudctl.network.tables import FreeRange, IpAllocation, Subnet

# Built once: building a statement costs more than running it.
_lowest = (
    select(FreeRange)
    .where(FreeRange.subnet_id == bindparam("subnet"))
    .order_by(FreeRange.pool, FreeRange.first)
    .limit(1)
)
_highest = (
    select(FreeRange)
    .where(FreeRange.subnet_id == bindparam("subnet"))
    .order_by(FreeRange.pool.desc(), FreeRange.first.desc())
    .limit(2)
)
_with_room = select(FreeRange.subnet_id).where(FreeRange.subnet_id.in_(bindparam("subnets", expanding=True))).distinct()
_free = select(FreeRange).where(FreeRange.subnet_id.in_(bindparam("subnets", expanding=True)))
_of_ports = select(IpAllocation).where(IpAllocation.port_id.in_(bindparam("ports", expanding=True)))
_allocation, _range = insert(IpAllocation), insert(FreeRange)
_drop = delete(IpAllocation).where(
    IpAllocation.subnet_id == bindparam("of_subnet"), IpAllocation.address == bindparam("at")
)
_drop_of_ports = delete(IpAllocation).where(
    IpAllocation.subnet_id == bindparam("of_subnet"), IpAllocation.port_id.in_(bindparam("ports", expanding=True))
)
_of_pool = select(FreeRange).where(
    FreeRange.subnet_id == bindparam("of_subnet"), FreeRange.pool == bindparam("of_pool")
)
_neighbours = _of_pool.where(FreeRange.first <= bindparam("from")).order_by(FreeRange.first.desc()).limit(2)
_nearest = _of_pool.where(FreeRange.first <= bindparam("from")).order_by(FreeRange.first.desc()).limit(1)
_drop_range = delete(FreeRange).where(
    FreeRange.subnet_id == bindparam("of_subnet"),
    FreeRange.pool == bindparam("of_pool"),
    FreeRange.first == bindparam("from"),
)
_move_range = update(FreeRange).where(
    FreeRange.subnet_id == bindparam("of_subnet"),
    FreeRange.pool == bindparam("of_pool"),
    FreeRange.first == bindparam("from"),
)


def pools_of(subnet: Subnet) -> list[Range]:
    """The allocation pools of a row of `subnets`, in their order."""
    return [Range(number(pool["start"]), number(pool["end"])) for pool in subnet.allocation_pools]


def lay_out(conn: Connection, subnet_id: str, pools: Sequence[Range]) -> None:
    """Set the free ranges to what these pools hold besides the present allocations."""
    conn.execute(delete(FreeRange).where(FreeRange.subnet_id == subnet_id))
    taken = [int(address) for address in conn.scalars(_addresses(subnet_id))]
    _lay_out(conn, subnet_id, pools, taken)


def lay_out_new(conn: Connection, subnet_id: str, pools: Sequence[Range]) -> None:
    """As `lay_out`, for a subnet that has just been made."""
    _lay_out(conn, subnet_id, pools, ())


def _lay_out(conn: Connection, subnet_id: str, pools: Sequence[Range], taken: Iterable[int]) -> None:
    rows = [
        {"subnet_id": subnet_id, "pool": position, "first": key(each.first), "last": key(each.last)}
        for position, pool in enumerate(pools)
        for each in without([pool], taken)
    ]
    if rows:
        conn.execute(_range, rows)


def with_room(conn: Connection, subnet_ids: Sequence[str]) -> set[str]:
    """Those of the subnets that have a free address."""
    return set(conn.scalars(_with_room, {"subnets": list(subnet_ids)}))


def free_in_pools(conn: Connection, subnet_ids: Sequence[str]) -> dict[str, int]:
    """Subnet id → how many addresses of its pools are free. Subnets that have none left are missing."""
    found: dict[str, int] = {}
    for row in conn.execute(_free, {"subnets": list(subnet_ids)}):
        found[row.subnet_id] = found.get(row.subnet_id, 0) + Range(int(row.first), int(row.last)).size
    return found


def take_lowest(conn: Connection, subnet: Subnet, port_id: str, position: int) -> str | None:
    """Allocate the lowest free address of the first pool with room; None if there is no room."""
    found = conn.execute(_lowest, {"subnet": subnet.id}).first()
    if found is None:
        return None
    _cut(conn, found, int(found.first))
    return _allocate(conn, subnet, int(found.first), port_id, position)


def take_highest(conn: Connection, subnet: Subnet, port_id: str, position: int) -> str | None:
    """As `take_lowest`, from the other end of the last pool with room; the very last free one is left for others."""
    rows = conn.execute(_highest, {"subnet": subnet.id}).all()
    if not rows or (len(rows) == 1 and rows[0].first == rows[0].last):
        return None
    found = rows[0]
    _cut(conn, found, int(found.last))
    return _allocate(conn, subnet, int(found.last), port_id, position)


def take(conn: Connection, subnet: Subnet, address: int, port_id: str, position: int) -> str:
    """Allocate a given address, in a pool or not. Raises Conflict if it is taken."""
    holder = select(IpAllocation.port_id).where(
        IpAllocation.subnet_id == subnet.id, IpAllocation.address == key(address)
    )
    if conn.execute(holder).first() is not None:
        shown = written(address, subnet.ip_version)
        message = f"IP address {shown} already allocated in subnet {subnet.id}"
        raise Conflict(message, type="IpAddressAlreadyAllocated")
    found = _free_range(conn, subnet, address)
    if found is not None:
        _cut(conn, found, address)
    return _allocate(conn, subnet, address, port_id, position)


def take_of_new(conn: Connection, subnet: Subnet, wanted: Sequence[tuple[int, str, int]]) -> None:
    """Allocate (address, port id, position) on a subnet that has just been made. No address is there twice."""
    if wanted:
        conn.execute(_allocation, [_row(subnet, *each) for each in wanted])
        lay_out(conn, subnet.id, pools_of(subnet))


def drop_all(conn: Connection, subnet_id: str, port_ids: Iterable[str]) -> None:
    """Free the addresses that these ports have on a subnet that is about to be deleted with its free ranges."""
    for some in batches([*port_ids]):
        conn.execute(_drop_of_ports, {"of_subnet": subnet_id, "ports": some})


def give_back(conn: Connection, subnet: Subnet, address: int) -> None:
    """Free the address, at once. One that is free already stays so."""
    if conn.execute(_drop, {"of_subnet": subnet.id, "at": key(address)}).rowcount == 0:
        return
    for position, pool in enumerate(pools_of(subnet)):
        if address in pool:
            _join(conn, subnet.id, position, address)


def of_ports(conn: Connection, port_ids: Sequence[str]) -> Mapping[str, list[IpAllocation]]:
    """Port id → its allocations, in the order of its fixed_ips. Ports without any are missing."""
    found = grouped((row.port_id, row) for row in rows(conn, _of_ports, ports=port_ids))
    for mine in found.values():
        if len(mine) > 1:
            mine.sort(key=lambda row: row.position)
    return found


def _addresses(subnet_id: str) -> Select[str]:
    return select(IpAllocation.address).where(IpAllocation.subnet_id == subnet_id)


def _allocate(conn: Connection, subnet: Subnet, address: int, port_id: str, position: int) -> str:
    row = _row(subnet, address, port_id, position)
    conn.execute(_allocation, row)
    return str(row["ip_address"])


def _row(subnet: Subnet, address: int, port_id: str, position: int) -> dict[str, Any]:
    return {
        "subnet_id": subnet.id,
        "address": key(address),
        "ip_address": written(address, subnet.ip_version),
        "port_id": port_id,
        "network_id": subnet.network_id,
        "position": position,
    }


# -- ranges


def _free_range(conn: Connection, subnet: Subnet, address: int) -> FreeRange | None:
    """The free range that holds the address: the nearest one that begins at or below it, if it reaches that far.

    Of its pool, since no index leads to the ranges of all pools in one order: there may be very many.
    """
    for position, pool in enumerate(pools_of(subnet)):
        if address in pool:
            at = {"of_subnet": subnet.id, "of_pool": position, "from": key(address)}
            found = conn.execute(_nearest, at).first()
            return found if found is not None and int(found.last) >= address else None
    return None


def _cut(conn: Connection, found: FreeRange, address: int) -> None:
    """Take one address out of a free range."""
    first, last = int(found.first), int(found.last)
    this = {"of_subnet": found.subnet_id, "of_pool": found.pool, "from": found.first}
    if first == address < last:
        conn.execute(_move_range, {**this, "first": key(address + 1)})
        return
    rest = [
        *([Range(first, address - 1)] if first < address else []),
        *([Range(address + 1, last)] if address < last else []),
    ]
    conn.execute(_drop_range, this)
    _add(conn, found.subnet_id, found.pool, rest)


def _join(conn: Connection, subnet_id: str, pool: int, address: int) -> None:
    """Add one address to the free ranges of a pool, merged with its neighbours."""
    mine = {"of_subnet": subnet_id, "of_pool": pool}
    # The nearest two that begin right after it or before: the one right after it, if there is one, comes first.
    near = conn.execute(_neighbours, {**mine, "from": key(address + 1)}).all()
    above = near[0] if near and int(near[0].first) == address + 1 else None
    below = next((each for each in near if each is not above), None)
    joins_below = below is not None and int(below.last) == address - 1
    if above is not None and not joins_below:
        conn.execute(_move_range, {**mine, "from": above.first, "first": key(address)})
        return
    if above is not None:
        conn.execute(_drop_range, {**mine, "from": above.first})
    last = key(address) if above is None else above.last
    if below is not None and joins_below:
        conn.execute(_move_range, {**mine, "from": below.first, "last": last})
    else:
        _add(conn, subnet_id, pool, [Range(address, int(last))])


def _add(conn: Connection, subnet_id: str, pool: int, ranges: Sequence[Range]) -> None:
    if ranges:
        rows = [
            {"subnet_id": subnet_id, "pool": pool, "first": key(each.first), "last": key(each.last)} for each in ranges
        ]
        conn.execute(_range, rows)
