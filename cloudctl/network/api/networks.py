"""`/networks`. Reference: network.md, section 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IPrivateVlans
from cloudctl.network import address_scopes, floating_ips, networks, qos_policies, shares
from cloudctl.network.api import lists, sharing
from cloudctl.network.api.attributes import Flag, Hints, Id, Mtu, Text
from cloudctl.network.api.ports import Domain
from cloudctl.network.api.resource import Declared, standard
from cloudctl.network.api.sharing import shared
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.segments import Segment
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import Network
from cloudctl.rest.body import MISSING, Length, Loose, Range
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import Attribute, Beside, always, of_each

NetworkType = Annotated[str, Length(1, 16)]
PhysicalName = Annotated[str, Length(1, 64)]
SegmentId = Annotated[int, Loose(), Range(0)]
# Changed only by whom a rule of its own lets.
GUARDED = ("shared", "external", "is_default")
PROVIDER = "network:networks:show:provider"


def scope_of_family(version: int) -> Beside:
    """The address scope that a network's subnets of a family are in."""
    return Beside(address_scopes.of_networks, lambda found, network: found.get((network.id, version)))


# One for each cloud of a process that is set up otherwise.
@lru_cache(maxsize=64)
def declared(options: NetworkOptions) -> Declared[Network]:
    def zones(subnets: Mapping[str, Sequence[str]], network: Network) -> list[str]:
        """A network is where its subnets are."""
        return [options.availability_zone] if network.id in subnets else []

    def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Network:
        project = owner_of_new(call.caller, owner)
        qos_policies.check_set(conn, call.caller, None, values["qos_policy_id"])
        new = NewNetwork(segment=_segment(call, values), **values)
        for name in GUARDED:
            if getattr(new, name):
                call.require(f"network:networks:create:{name}")
        return networks.create(conn, project, new, call.now, options, call.caller)

    def change(conn: Connection, call: Call, network: Network, changes: dict[str, Any]) -> Network:
        if "qos_policy_id" in changes:
            qos_policies.check_set(conn, call.caller, network.qos_policy_id, changes["qos_policy_id"])
        return networks.change(conn, network, changes, call.now, options, call.caller)

    c = Network
    return Declared(
        name="network",
        record=Network,
        attributes=(
            Attribute("id", c.id, filter=any_of, sort=True),
            Attribute("name", c.name, Text, post="", put=True, filter=any_of, sort=True),
            Attribute("status", c.status, filter=any_of, sort=True),
            Attribute("admin_state_up", c.admin_state_up, Flag, post=True, put=True, filter=lists.truths, sort=True),
            Attribute("subnets", view=Beside(networks.subnets_of, lambda found, network: found.get(network.id, []))),
            Attribute("shared", None, Flag, post=False, put=True, view=shared),
            Attribute("router:external", c.external, Flag, post=False, put=True, filter=lists.truths),
            Attribute("mtu", c.mtu, Mtu, post=0, put=True, filter=number, sort=True),
            Attribute("port_security_enabled", c.port_security_enabled, Flag, post=True, put=True, filter=lists.truths),
            Attribute("qos_policy_id", c.qos_policy_id, Id | None, post=None, put=True, filter=any_of),
            Attribute("dns_domain", c.dns_domain, Domain, post="", put=True, filter=any_of),
            Attribute("pvlan", c.pvlan, Flag, post=False, put=True, filter=lists.truths, needs=IPrivateVlans),
            Attribute("availability_zone_hints", c.availability_zone_hints, Hints, post=MISSING),
            Attribute("availability_zones", view=Beside(networks.subnets_of, zones)),
            Attribute("l2_adjacency", view=always(True)),
            Attribute("ipv4_address_scope", view=scope_of_family(4)),
            Attribute("ipv6_address_scope", view=scope_of_family(6)),
            *standard(Network),
            Attribute(
                "is_default",
                c.is_default,
                Flag,
                post=False,
                put=True,
                filter=lists.truths,
                view=of_each(lambda network: network.is_default if network.external else MISSING),
            ),
            Attribute(
                "provider:network_type", c.network_type, NetworkType | None, post=None, filter=any_of, rule=PROVIDER
            ),
            Attribute(
                "provider:physical_network",
                c.physical_network,
                PhysicalName | None,
                post=None,
                filter=any_of,
                rule=PROVIDER,
            ),
            Attribute(
                "provider:segmentation_id", c.segmentation_id, SegmentId | None, post=None, filter=number, rule=PROVIDER
            ),
        ),
        of_caller=sharing.filters(c.id, shares.NETWORK),
        visible=networks.visible,
        visible_to=networks.visible_to,
        not_found=networks.not_found,
        create=create,
        check=check,
        change=change,
        remove=remove,
        says={
            "list": "List networks: one's own, shared and external ones.",
            "delete": "Delete a network with its subnets; it must have no ports.",
        },
    )


def check(conn: Connection, call: Call, network: Network, changes: dict[str, Any]) -> dict[str, Any]:
    for name in GUARDED:
        if name in changes:
            call.require(f"network:networks:update:{name}")
    return changes


def remove(conn: Connection, call: Call, network: Network) -> None:
    if network.external:
        floating_ips.remove_unused(conn, network.id, call.now, call.caller)
    networks.remove(conn, network, call.now, call.caller)


def _segment(call: Call, values: dict[str, Any]) -> Segment:
    """Takes what a body says of the wire out of it. Raises Forbidden."""
    network_type, physical, number = (
        values.pop(name) for name in ("network_type", "physical_network", "segmentation_id")
    )
    segment = Segment(network_type or "vxlan", physical, number)
    if segment != Segment() or network_type is not None:
        call.require("network:networks:create:provider")
    return segment
