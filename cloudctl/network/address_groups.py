"""Address groups: addresses that rules of security groups name as one. Reference: network.md, section 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import security_groups, shares, standard
from cloudctl.network.owned import Owned
from cloudctl.network.tables import AddressGroup, RuleTemplate, SecurityGroupRule
from cloudctl.tasks import Origin

# Addresses of one group: each of them appears in every rule that names the group.
MOST = 5000
UNKNOWN = "Address group {} could not be found"
RECORDS = Owned(AddressGroup, UNKNOWN, "AddressGroupNotFound", shared=shares.ADDRESS_GROUP)
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)

# Built once: building a statement costs more than running it.
_rules = tuple(
    select(record.id).where(record.remote_address_group_id == bindparam("group")).limit(1)
    for record in (SecurityGroupRule, RuleTemplate)
)


@frozen
class NewAddressGroup:
    name: str = ""
    description: str = ""
    addresses: Sequence[str] = ()


def create(conn: Connection, project_id: str, new: NewAddressGroup, now: datetime) -> AddressGroup:
    """Raises Invalid for anything but a CIDR, and for duplicates."""
    bare = next((each for each in new.addresses if "/" not in each), None)
    if bare is not None:
        message = f"Invalid input for addresses. Reason: {bare[:64]!r} is not a recognized IP subnet: it has no mask."
        raise Invalid(message, type="HTTPBadRequest")
    values = standard.new(project_id, now, description=new.description)
    return standard.insert(conn, AddressGroup(**values, name=new.name, addresses=parsed(new.addresses)))


def change(conn: Connection, group: AddressGroup, changes: Mapping[str, Any], now: datetime) -> AddressGroup:
    """Set name, description of a locked group."""
    return standard.changed(conn, group, now, **changes)


def add(conn: Connection, group: AddressGroup, more: Sequence[str], now: datetime, by: Origin) -> AddressGroup:
    """Add addresses to a locked group. Raises Invalid if it already has one of them."""
    wanted = parsed(more)
    known = set(group.addresses)
    if len(known) + len(wanted) > MOST:
        raise Invalid(f"Invalid input for addresses. Reason: a group has at most {MOST}.", type="HTTPBadRequest")
    present = [each for each in wanted if each in known]
    if present:
        message = f"Addresses {present} already exist in the address group {group.id}."
        raise Invalid(message, type="AddressesAlreadyExist")
    return _set(conn, group, [*group.addresses, *wanted], now, by)


def take_out(conn: Connection, group: AddressGroup, fewer: Sequence[str], now: datetime, by: Origin) -> AddressGroup:
    """Take addresses out of a locked group. Raises NotFound if one of them is not in it."""
    unwanted = parsed(fewer)
    gone = set(unwanted)
    known = set(group.addresses)
    absent = [each for each in unwanted if each not in known]
    if absent:
        raise NotFound(f"Addresses {absent} not found in the address group {group.id}.", type="AddressesNotFound")
    return _set(conn, group, [each for each in group.addresses if each not in gone], now, by)


def remove(conn: Connection, group: AddressGroup) -> None:
    """Delete a locked group. Raises Conflict while a rule names it."""
    if any(conn.scalar(query, {"group": group.id}) is not None for query in _rules):
        message = f"Address group {group.id} is in use on one or more security group rules."
        raise Conflict(message, type="AddressGroupInUse")
    RECORDS.delete(conn, group)


def _set(conn: Connection, group: AddressGroup, addresses: list[str], now: datetime, by: Origin) -> AddressGroup:
    changed = standard.changed(conn, group, now, addresses=addresses)
    security_groups.address_group_changed(conn, group.id, now, by)
    return changed


def parsed(texts: Sequence[str]) -> list[str]:
    """CIDRs, also of single addresses. Raises Invalid, also for duplicates."""
    found = []
    for text in texts:
        try:
            if "%" in text or len(text) > 64:
                raise ValueError
            found.append(str(ip_network(text, strict=False)))
        except ValueError:
            message = f"Invalid input for addresses. Reason: {text[:64]!r} is not a valid IP subnet."
            raise Invalid(message, type="HTTPBadRequest") from None
    if len(set(found)) < len(found):
        raise Invalid("Invalid input for addresses. Reason: there are duplicates.", type="HTTPBadRequest")
    return found
