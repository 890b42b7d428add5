"""`/address-groups`. Reference: network.md, section 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import address_groups, shares
from cloudctl.network.address_groups import NewAddressGroup
from cloudctl.network.api import sharing
from cloudctl.network.api.attributes import IpText, Json, LongText, Text, owners
from cloudctl.network.api.matching import check_match
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.sharing import shared
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import AddressGroup
from cloudctl.rest.body import MISSING, Body, Items, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import any_of
from cloudctl.rest.resource import Attribute
from cloudctl.rest.route import Routes
from cloudctl.tasks import Origin

Addresses = Annotated[list[IpText], Items(0, 500)]
Change = Callable[[Connection, AddressGroup, Sequence[str], datetime, Origin], AddressGroup]


def visible(conn: Connection, caller: Caller, id: str, lock: bool = False) -> AddressGroup:
    """Raises NotFound, also when the caller wants to change a group that is only shared with them, as neutron does."""
    group = address_groups.visible(conn, caller, id, lock)
    if lock and not caller.may("network:address_groups:update", project_id=group.project_id):
        raise address_groups.not_found(id)
    return group


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> AddressGroup:
    wanted = NewAddressGroup(**{**values, "addresses": values["addresses"] or ()})
    return address_groups.create(conn, owner_of_new(call.caller, owner), wanted, call.now)


def change(conn: Connection, call: Call, group: AddressGroup, changes: dict[str, Any]) -> AddressGroup:
    return address_groups.change(conn, group, changes, call.now)


def remove(conn: Connection, call: Call, group: AddressGroup) -> None:
    address_groups.remove(conn, group)


_c = AddressGroup
ADDRESS_GROUPS = Declared(
    name="address_group",
    path="/address-groups",
    record=AddressGroup,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("description", _c.description, LongText, post="", put=True, filter=any_of, sort=True),
        Attribute("addresses", _c.addresses, Addresses | None, post=None),
        Attribute("shared", view=shared, at_first=False),
        *owners(AddressGroup),
    ),
    of_caller=sharing.filters(_c.id, shares.ADDRESS_GROUP),
    visible=visible,
    visible_to=address_groups.visible_to,
    not_found=address_groups.not_found,
    create=create,
    change=change,
    remove=remove,
    says={"delete": "Delete an address group that no rule names."},
)


@frozen
class SomeAddresses:
    addresses: Addresses


@frozen
class AddressesWish:
    """With its envelope or without it: clients send both."""

    addresses: Addresses | Missing = MISSING
    address_group: SomeAddresses | Missing = MISSING


@frozen
class GroupAddresses:
    routes = Routes("Address groups")

    db: Database

    @routes.put(
        "/address-groups/<address_group_id>/add_addresses",
        policy="network:address_groups:update",
        body=Body(AddressesWish),
    )
    async def add(self, call: Call, address_group_id: str, body: AddressesWish) -> Json:
        """Add addresses to an address group."""
        return {"address_group": await self.db.run(self._change, call, address_group_id, address_groups.add, body)}

    @routes.put(
        "/address-groups/<address_group_id>/remove_addresses",
        policy="network:address_groups:update",
        body=Body(AddressesWish),
    )
    async def remove(self, call: Call, address_group_id: str, body: AddressesWish) -> Json:
        """Remove addresses from an address group."""
        return {"address_group": await self.db.run(self._change, call, address_group_id, address_groups.take_out, body)}

    def _change(self, conn: Connection, call: Call, id: str, change: Change, body: AddressesWish) -> Json:
        group = visible(conn, call.caller, id, lock=True)
        call.require(project_id=group.project_id)
        check_match(call, group)
        return ADDRESS_GROUPS.views(conn, call, [change(conn, group, _named(body), call.now, call.caller)])[0]


def _named(body: AddressesWish) -> Sequence[str]:
    """Raises Invalid for a body that names none."""
    wanted = body.addresses if isinstance(body.address_group, Missing) else body.address_group.addresses
    if isinstance(wanted, Missing):
        raise Invalid("Unable to find 'addresses' in request body", type="HTTPBadRequest")
    return wanted
