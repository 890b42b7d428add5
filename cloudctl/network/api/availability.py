"""`/network-ip-availabilities`. Reference: network.md, section 13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.network import availability, networks
from cloudctl.network.api.attributes import Json, owners
from cloudctl.network.api.resource import Declared
from cloudctl.network.availability import Use
from cloudctl.network.tables import Network, Subnet
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, any_of, number
from cloudctl.rest.resource import Attribute, View


def _of_family(values: Sequence[str]) -> Condition:
    return Network.id.in_(select(Subnet.network_id).where(number(Subnet.ip_version)(values)))


def _each(say: Callable[[list[Use]], Any]) -> View:
    """Figures of the subnets of each network, or of those of the requested families."""

    def view(conn: Connection, call: Call, records: Sequence[Network]) -> list[Any]:
        found = availability.of_networks(conn, [network.id for network in records])
        families = call.query.all("ip_version") or ["4", "6"]
        return [
            say([use for use in found.get(network.id, ()) if str(use.subnet.ip_version) in families])
            for network in records
        ]

    return view


def _detail(use: Use) -> Json:
    return {
        "subnet_id": use.subnet.id,
        "subnet_name": use.subnet.name,
        "cidr": use.subnet.cidr,
        "ip_version": use.subnet.ip_version,
        "total_ips": use.total,
        "used_ips": use.used,
        "ip_availability_details": _counts([use]),
    }


def _counts(uses: list[Use]) -> Json:
    return {
        "total_ips_in_subnet": sum(use.hosts for use in uses),
        "total_ips_in_allocation_pool": sum(use.total for use in uses),
        "used_ips_in_subnet": sum(use.used for use in uses),
        "used_ips_in_allocation_pool": sum(use.pooled for use in uses),
    }


_c = Network
AVAILABILITIES = Declared(
    name="network_ip_availability",
    plural="network_ip_availabilities",
    path="/network-ip-availabilities",
    id="network_id",
    title="Network IP availabilities",
    noun="how many addresses of a network are taken",
    sight="network:network_ip_availabilities:see",
    record=Network,
    attributes=(
        Attribute("network_id", _c.id, filter=any_of, sort=True),
        Attribute("network_name", _c.name, filter=any_of, sort=True),
        *owners(Network),
        Attribute("total_ips", view=_each(lambda uses: sum(use.total for use in uses))),
        Attribute("used_ips", view=_each(lambda uses: sum(use.used for use in uses))),
        Attribute("ip_availability_details", view=_each(_counts)),
        Attribute("subnet_ip_availability", view=_each(lambda uses: [_detail(use) for use in uses])),
    ),
    filters={"ip_version": _of_family},
    visible=networks.visible,
    visible_to=networks.visible_to,
    not_found=networks.not_found,
    says={"list": "List how many addresses of networks are taken."},
)
