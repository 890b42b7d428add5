"""Address scopes: within one, addresses are routed and do not overlap. Reference: network.md, section 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import shares, standard
from cloudctl.network.owned import Owned
from cloudctl.network.tables import AddressScope, Subnet, SubnetPool

UNKNOWN = "Address scope {} could not be found"
RECORDS = Owned(AddressScope, UNKNOWN, "AddressScopeNotFound", shared=shares.ADDRESS_SCOPE)
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)

# Built once: building a statement costs more than running it.
_pool = select(SubnetPool.id).where(SubnetPool.address_scope_id == bindparam("scope")).limit(1)
_of_networks = (
    select(Subnet.network_id, Subnet.ip_version, SubnetPool.address_scope_id)
    .join_from(Subnet, SubnetPool, SubnetPool.id == Subnet.subnetpool_id)
    .where(Subnet.network_id.in_(bindparam("networks", expanding=True)), SubnetPool.address_scope_id.is_not(None))
)


@frozen
class NewAddressScope:
    name: str
    ip_version: int
    shared: bool = False


def of_networks(conn: Connection, network_ids: Sequence[str]) -> dict[tuple[str, int], str]:
    """(network id, IP version) → the scope that its subnets of the family are in. Networks in none are missing."""
    rows = standard.rows(conn, _of_networks, networks=network_ids)
    return {(network_id, version): scope_id for network_id, version, scope_id in rows if scope_id is not None}


def torn(network_id: str) -> Invalid:
    """The refusal of what would leave a network's subnets of one family in several scopes."""
    message = f"Subnets of the same address family on network {network_id} must be in the same address scope."
    return Invalid(message, type="NetworkAddressScopeAffinityError")


def create(conn: Connection, project_id: str, new: NewAddressScope, now: datetime) -> AddressScope:
    made = AddressScope(**standard.new(project_id, now), name=new.name, ip_version=new.ip_version)
    standard.insert(conn, made)
    if new.shared:
        shares.share(conn, shares.ADDRESS_SCOPE, made, shares.EVERYBODY, now)
    return made


def change(conn: Connection, scope: AddressScope, changes: Mapping[str, Any], now: datetime) -> AddressScope:
    """Set the name of a locked scope, and `shared`, which cannot be withdrawn. Raises Invalid."""
    columns = dict(changes)
    if "shared" in columns:
        everybodys = shares.EVERYBODY in shares.with_whom(conn, scope.id)
        if everybodys and not columns["shared"]:
            message = f"Unable to update address scope {scope.id} : Shared address scope can't be unshared."
            raise Invalid(message, type="AddressScopeUpdateError")
        shares.set_everybodys(conn, shares.ADDRESS_SCOPE, scope, columns.pop("shared"), now)
    return standard.changed(conn, scope, now, **columns)


def remove(conn: Connection, scope: AddressScope, now: datetime) -> None:
    """Delete a locked scope. Raises Conflict while a subnet pool is in it."""
    if conn.scalar(_pool, {"scope": scope.id}) is not None:
        message = f"Unable to complete operation on address scope {scope.id}. There are one or more subnet pools in it."
        raise Conflict(message, type="AddressScopeInUse")
    RECORDS.delete(conn, scope)
