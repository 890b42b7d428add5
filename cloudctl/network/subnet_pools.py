"""Subnet pools: prefixes that subnets are given parts of. Reference: network.md, section 4.

A part is taken while its subnet exists, so the subnets alone determine what is free. Code that takes a part holds the
lock of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from attrs import frozen
from sqlalchemy import and_, bindparam, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import address_scopes, prefixes, quotas, shares, standard
from cloudctl.network.addresses import Cidr
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Network, Subnet, SubnetPool
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import queue

UNKNOWN = "Subnet pool {} could not be found."
RECORDS = Owned(SubnetPool, UNKNOWN, "SubnetPoolNotFound", shared=shares.SUBNET_POOL)
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)
LENGTHS = ("min_prefixlen", "default_prefixlen", "max_prefixlen")

# Built once: building a statement costs more than running it.
_default = select(SubnetPool).where(SubnetPool.is_default.is_(True), SubnetPool.ip_version == bindparam("version"))
_taken = select(Subnet.cidr, Subnet.project_id).where(Subnet.subnetpool_id == bindparam("pool"))
_in_scope = select(SubnetPool.id, SubnetPool.prefixes).where(SubnetPool.address_scope_id == bindparam("scope"))
_on_network = select(Subnet).where(Subnet.network_id == bindparam("network"), Subnet.ip_version == bindparam("version"))
_of_pool, _beside = Subnet.table.alias("of_pool"), Subnet.table.alias("beside")
_shared_with_others = (
    select(_of_pool.c.network_id)
    .join_from(
        _of_pool,
        _beside,
        and_(_beside.c.network_id == _of_pool.c.network_id, _beside.c.ip_version == _of_pool.c.ip_version),
    )
    .where(_of_pool.c.subnetpool_id == bindparam("pool"), _beside.c.subnetpool_id != bindparam("pool"))
    .limit(1)
)


@frozen
class NewSubnetPool:
    """Lengths of None are those of the family; `default_prefixlen` of None is the minimum."""

    name: str
    prefixes: Sequence[str]
    description: str = ""
    min_prefixlen: int | None = None
    max_prefixlen: int | None = None
    default_prefixlen: int | None = None
    default_quota: int | None = None
    address_scope_id: str | None = None
    is_default: bool = False
    shared: bool = False


def default_of(conn: Connection, ip_version: int) -> SubnetPool | None:
    return conn.execute(_default, {"version": ip_version}).first()


def default_for(conn: Connection, caller: Caller, ip_version: int) -> SubnetPool | None:
    """The pool used where none is named, if the caller may use it."""
    found = default_of(conn, ip_version)
    return found if found is not None and RECORDS.is_seen(conn, caller, found) else None


# -- changes


def create(conn: Connection, caller: Caller, project_id: str, new: NewSubnetPool) -> SubnetPool:
    """Raises Invalid, NotFound (the scope), Conflict (its other pools have the prefixes), OverQuota."""
    if new.address_scope_id is not None:
        _check_scope(conn, caller, new.address_scope_id, None, prefixes.parsed(new.prefixes))
    return make(conn, project_id, new, caller.now)


def make(conn: Connection, project_id: str, new: NewSubnetPool, now: datetime) -> SubnetPool:
    """As `create`, without checking who may use the scope."""
    wanted = prefixes.parsed(new.prefixes)
    version = wanted[0].version
    least = prefixes.LEAST[version] if new.min_prefixlen is None else new.min_prefixlen
    most = prefixes.BITS[version] if new.max_prefixlen is None else new.max_prefixlen
    usual = least if new.default_prefixlen is None else new.default_prefixlen
    check_lengths(version, least, usual, most)
    if new.is_default:
        _check_default(conn, version)
    quota.take(conn, quotas.QUOTAS, project_id, {"subnetpool": 1})
    made = SubnetPool(
        **standard.new(project_id, now, description=new.description),
        name=new.name,
        ip_version=version,
        prefixes=[str(each) for each in wanted],
        min_prefixlen=least,
        max_prefixlen=most,
        default_prefixlen=usual,
        default_quota=new.default_quota,
        address_scope_id=new.address_scope_id,
        is_default=new.is_default,
    )
    standard.insert(conn, made)
    if new.shared:
        shares.share(conn, shares.SUBNET_POOL, made, shares.EVERYBODY, now)
    return made


def change(conn: Connection, caller: Caller, pool: SubnetPool, changes: Mapping[str, Any]) -> SubnetPool:
    """Set columns of a locked pool; `prefixes` can only grow. Raises as `create`."""
    columns = dict(changes)
    least, usual, most = (columns.get(name, getattr(pool, name)) for name in LENGTHS)
    check_lengths(pool.ip_version, least, usual, most)
    present = prefixes.of(pool.prefixes)
    wanted = present
    if "prefixes" in columns:
        wanted = prefixes.parsed(columns["prefixes"])
        if wanted[0].version != pool.ip_version:
            raise Invalid("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.", type="PrefixVersionMismatch")
        if not all(prefixes.within(each, wanted) for each in present):
            message = "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes."
            raise Invalid(message, type="IllegalSubnetPoolPrefixUpdate")
        columns["prefixes"] = [str(each) for each in wanted]
    if columns.get("is_default") and not pool.is_default:
        _check_default(conn, pool.ip_version)
    scope_id = columns.get("address_scope_id", pool.address_scope_id)
    if scope_id != pool.address_scope_id:
        _check_leaves(conn, pool, scope_id)
    if scope_id is not None and (scope_id != pool.address_scope_id or wanted != present):
        _check_scope(conn, caller, scope_id, pool, wanted)
    return standard.changed(conn, pool, caller.now, **columns)


def add_prefixes(conn: Connection, caller: Caller, pool: SubnetPool, more: Sequence[str]) -> SubnetPool:
    """Raises as `change`."""
    both = prefixes.parsed([*pool.prefixes, *more])
    return change(conn, caller, pool, {"prefixes": [str(each) for each in both]})


def take_prefixes(conn: Connection, pool: SubnetPool, fewer: Sequence[str], now: datetime) -> SubnetPool:
    """Take prefixes out of a locked pool. Raises Invalid, and Conflict if subnets have some of them."""
    unwanted = prefixes.parsed(fewer)
    used = prefixes.overlap(unwanted, taken(conn, pool))
    if used is not None:
        message = f"Prefix {used} of subnet pool {pool.id} has addresses that subnets have."
        raise Conflict(message, type="IllegalSubnetPoolPrefixRemoval")
    left = prefixes.without(prefixes.of(pool.prefixes), unwanted)
    return standard.changed(conn, pool, now, prefixes=[str(each) for each in left])


def remove(conn: Connection, pool: SubnetPool) -> None:
    """Delete a locked pool. Raises Invalid while it has subnets."""
    if taken(conn, pool):
        message = "Unable to delete subnet pool: Subnet pool has existing allocations."
        raise Invalid(message, type="SubnetPoolDeleteError")
    RECORDS.delete(conn, pool)


def onboard(conn: Connection, caller: Caller, pool: SubnetPool, network: Network) -> list[Subnet]:
    """Make a locked network's subnets of the pool's family, and their prefixes, the pool's.

    Raises Invalid for a network that has none, or whose subnets are of another pool; Conflict.
    """
    found = conn.execute(_on_network, {"network": network.id, "version": pool.ip_version}).all()
    if not found or any(each.subnetpool_id not in (None, pool.id) for each in found):
        message = f"Network {network.id} has no IPv{pool.ip_version} subnets that could be onboarded."
        raise Invalid(message, type="IllegalSubnetPoolUpdate")
    new = [each for each in found if each.subnetpool_id is None]
    overlapping = prefixes.overlap([ip_network(each.cidr) for each in new], taken(conn, pool))
    if overlapping is not None:
        message = f"Subnet {overlapping} overlaps with another one of subnet pool {pool.id}."
        raise Conflict(message, type="SubnetAllocationError")
    add_prefixes(conn, caller, pool, [each.cidr for each in new])
    for each in new:
        standard.change(conn, Subnet.table, each.id, caller.now, subnetpool_id=pool.id)
    return new


# -- what subnets take


def taken(conn: Connection, pool: SubnetPool) -> list[Cidr]:
    return [ip_network(cidr) for cidr, _ in conn.execute(_taken, {"pool": pool.id})]


def allocate(conn: Connection, pool: SubnetPool, project_id: str, cidr: str | None, length: int | None) -> Cidr:
    """A free part of a locked pool: `cidr`, or one of this prefix length, or of the default one.

    Raises Invalid (the length), Conflict (not free, not within, no room, beyond the quota).
    """
    rows = conn.execute(_taken, {"pool": pool.id}).all()
    used = [ip_network(each) for each, _ in rows]
    wanted = None if cidr is None else ip_network(cidr, strict=False)
    length = pool.default_prefixlen if length is None else length
    _check_length(pool, length if wanted is None else wanted.prefixlen)
    room = prefixes.of(pool.prefixes)
    if wanted is None:
        wanted = prefixes.first_free(room, used, length)
        if wanted is None:
            raise _no_room("Insufficient prefix space to allocate subnet size /" + str(length))
    elif not prefixes.within(wanted, room) or prefixes.overlap([wanted], used):
        raise _no_room("Cannot allocate requested subnet from the available set of prefixes")
    if pool.default_quota is not None:
        mine = sum(prefixes.units(ip_network(each)) for each, owner in rows if owner == project_id)
        if mine + prefixes.units(wanted) > pool.default_quota:
            raise Conflict("Per-tenant subnet pool prefix quota exceeded.", type="SubnetPoolQuotaExceeded")
    return wanted


def _no_room(reason: str) -> Conflict:
    return Conflict(f"Failed to allocate subnet: {reason}.", type="SubnetAllocationError")


def _check_length(pool: SubnetPool, length: int) -> None:
    edges = (
        (length < pool.min_prefixlen, "minimum", pool.min_prefixlen, "MinPrefixSubnetAllocationError"),
        (length > pool.max_prefixlen, "maximum", pool.max_prefixlen, "MaxPrefixSubnetAllocationError"),
    )
    for beyond, word, edge, type in edges:
        if beyond:
            message = f"Unable to allocate subnet with prefix length {length}, {word} allowed prefix is {edge}."
            raise Invalid(message, type=type)


# -- rules


def check_lengths(version: int, least: int, usual: int, most: int) -> None:
    """Raises Invalid unless the prefix lengths are in this order and of the family."""
    for name, value, beyond, other, edge in (
        ("min_prefixlen", least, least > most, "max_prefixlen", most),
        ("default_prefixlen", usual, usual < least, "min_prefixlen", least),
        ("default_prefixlen", usual, usual > most, "max_prefixlen", most),
        ("max_prefixlen", most, most > prefixes.BITS[version], "the address length", prefixes.BITS[version]),
    ):
        if beyond:
            message = f"Illegal prefix bounds: {name}={value}, {other}={edge}."
            raise Invalid(message, type="IllegalSubnetPoolPrefixBounds")


def _check_default(conn: Connection, version: int) -> None:
    # Concurrent requests take turns.
    queue.lock_resource(conn, "subnetpool", f"the default one of IPv{version}")
    if default_of(conn, version) is not None:
        raise Invalid(
            "Invalid input for operation: A default subnetpool for this IP family has already been set. Only one "
            "default may exist per IP family."
        )


def _check_leaves(conn: Connection, pool: SubnetPool, scope_id: str | None) -> None:
    """Raises Invalid if a network's subnets would be in several scopes once the pool is in this one, or in none."""
    # Whoever puts a subnet of another pool beside the pool's has the turn of their scope.
    for each in sorted({id for id in (pool.address_scope_id, scope_id) if id is not None}):
        queue.lock_resource(conn, "address_scope", each)
    network_id = conn.scalar(_shared_with_others, {"pool": pool.id})
    if network_id is not None:
        raise address_scopes.torn(network_id)


def _check_scope(
    conn: Connection, caller: Caller, scope_id: str, pool: SubnetPool | None, wanted: Sequence[Cidr]
) -> None:
    """Check that a pool with these prefixes may be in a scope; pins the scope. Raises NotFound, Invalid, Conflict."""
    scope = address_scopes.RECORDS.usable(conn, caller, scope_id)
    stays = pool is not None and pool.address_scope_id == scope_id
    if stays and scope.project_id != caller.project_id and not standard.sees_all(caller):
        message = f"Illegal subnetpool association: the address scope {scope_id} is of another project."
        raise Invalid(message, type="IllegalSubnetPoolAssociationToAddressScope")
    # A pool may have lost all its prefixes; a new one has some.
    if scope.ip_version != (wanted[0].version if pool is None else pool.ip_version):
        message = f"Illegal subnetpool association: subnetpool is not of address scope {scope_id}'s IP version."
        raise Invalid(message, type="IllegalSubnetPoolIpVersionAssociationToAddressScope")
    # Concurrent requests that put pools into the scope take turns.
    queue.lock_resource(conn, "address_scope", scope_id)
    for other_id, theirs in conn.execute(_in_scope, {"scope": scope_id}):
        if (pool is None or other_id != pool.id) and prefixes.overlap(wanted, prefixes.of(theirs)):
            message = f"Failed to associate address scope: subnetpools within {scope_id} must have unique prefixes."
            raise Conflict(message, type="AddressScopePrefixConflict")
