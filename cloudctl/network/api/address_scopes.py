"""`/address-scopes`. Reference: network.md, section 5."""

from __future__ import annotations

from typing import Any

from cloudctl.db import Connection
from cloudctl.network import address_scopes, shares
from cloudctl.network.address_scopes import NewAddressScope
from cloudctl.network.api import sharing
from cloudctl.network.api.attributes import Family, Flag, Text, owners
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.sharing import shared
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import AddressScope
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> AddressScope:
    if values["shared"]:
        call.require("network:address_scopes:shared")
    return address_scopes.create(conn, owner_of_new(call.caller, owner), NewAddressScope(**values), call.now)


def change(conn: Connection, call: Call, scope: AddressScope, changes: dict[str, Any]) -> AddressScope:
    if "shared" in changes:
        call.require("network:address_scopes:shared")
    return address_scopes.change(conn, scope, changes, call.now)


def remove(conn: Connection, call: Call, scope: AddressScope) -> None:
    address_scopes.remove(conn, scope, call.now)


_c = AddressScope
ADDRESS_SCOPES = Declared(
    name="address_scope",
    path="/address-scopes",
    record=AddressScope,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("ip_version", _c.ip_version, Family, post=REQUIRED, filter=number, sort=True),
        Attribute("shared", None, Flag, post=False, put=True, view=shared, at_first=False),
        *owners(AddressScope),
    ),
    of_caller=sharing.filters(_c.id, shares.ADDRESS_SCOPE),
    visible=address_scopes.visible,
    visible_to=address_scopes.visible_to,
    not_found=address_scopes.not_found,
    create=create,
    change=change,
    remove=remove,
    says={"delete": "Delete an address scope that no subnet pool is in."},
)
