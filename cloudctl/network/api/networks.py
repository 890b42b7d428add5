"""`/networks`. Reference: network.md, section 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from attrs import asdict, frozen
from sqlalchemy import String, cast

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IGeneve, IPrivateVlans
from cloudctl.errors import Invalid
from cloudctl.network import address_scopes, floating_ips, network_segments, networks, qos_policies, segments, shares
from cloudctl.network.api import lists, sharing
from cloudctl.network.api.attributes import Flag, Hints, Id, Mtu, Text, standard
from cloudctl.network.api.ports import Domain
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.sharing import shared
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.segments import Segment
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import Network
from cloudctl.rest.body import MISSING, Items, Length, Loose, Range, wire
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import Attribute, Beside, of_each

NetworkType = Annotated[str, Length(1, 16)]
PhysicalName = Annotated[str, Length(1, 64)]
SegmentId = Annotated[int, Loose(), Range(0)]


@frozen
class SaidSegment:
    network_type: NetworkType | None = wire("provider:network_type", default=None)
    physical_network: PhysicalName | None = wire("provider:physical_network", default=None)
    segmentation_id: SegmentId | None = wire("provider:segmentation_id", default=None)


SaidSegments = Annotated[list[SaidSegment], Items(1, 64)]
OneSegment = Annotated[list[SaidSegment], Items(1, 1)]
# Each is changed only by callers whom its own rule permits.
GUARDED = ("shared", "external", "is_default")
PROVIDER, FOUND_BY = "network:networks:show:provider", "network:networks:find:provider"


def types_of(driver: Any) -> tuple[str, ...]:
    """The types that a network may have with a driver."""
    return tuple(each for each in segments.TYPES if each != "geneve" or IGeneve.providedBy(driver))


def segment(types: Sequence[str], network_type: str | None, physical: str | None, number: int | None) -> Segment:
    """Raises Invalid for a type that the driver does not know."""
    said = Segment(network_type or "vxlan", physical, number)
    segments.check_type(said.network_type, types)
    return said


def _of_one_wire(name: str, type_: Any, filter: Callable[[Any], Any]) -> Attribute:
    """An attribute shown only for a network that is on one wire."""
    shown = of_each(lambda network: MISSING if network.more_segments else getattr(network, name))
    column = getattr(Network, name)
    named = f"provider:{name}"
    return Attribute(
        named, column, type_, post=None, put=True, filter=filter, view=shown, rule=PROVIDER, finds=FOUND_BY
    )


def _several(conn: Connection, call: Call, records: Sequence[Network]) -> list[Any]:
    ids = [network.id for network in records if network.more_segments]
    found = segments.of_networks(conn, ids) if ids else {}
    return [
        [{f"provider:{name}": value for name, value in asdict(each).items()} for each in found[network.id]]
        if network.id in found
        else MISSING
        for network in records
    ]


def scope_of_family(version: int) -> Beside:
    """The address scope that a network's subnets of a family are in."""
    return Beside(address_scopes.of_networks, lambda found, network: found.get((network.id, version)))


# One for each cloud of a process that is configured differently.
@lru_cache(maxsize=64)
def declared(options: NetworkOptions, types: tuple[str, ...], several: bool) -> Declared[Network]:
    """`several`: a network may be on more than one segment. Some clients name even a single one in a list."""

    def zones(subnets: Mapping[str, Sequence[str]], network: Network) -> list[str]:
        """A network is where its subnets are."""
        return [options.availability_zone] if network.id in subnets else []

    def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Network:
        project = owner_of_new(call.caller, owner)
        qos_policies.check_set(conn, call.caller, None, values["qos_policy_id"])
        new = NewNetwork(segments=_segments(call, types, values), **values)
        for name in GUARDED:
            if getattr(new, name):
                call.require(f"network:networks:create:{name}")
        return networks.create(conn, project, new, call.now, options, call.caller)

    def change(conn: Connection, call: Call, network: Network, changes: dict[str, Any]) -> Network:
        wires = _named(types, changes.pop("segments", ()))
        if wires:
            network_segments.put_on(conn, network, wires, call.now, options, call.caller, changes.get("mtu"))
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
            Attribute(
                "subnets",
                view=Beside(networks.subnets_of, lambda found, network: found.get(network.id, [])),
                at_first=(),
            ),
            Attribute("shared", None, Flag, post=False, put=True, view=shared, at_first=False),
            Attribute("router:external", c.external, Flag, post=False, put=True, filter=lists.truths),
            Attribute("mtu", c.mtu, Mtu, post=0, put=True, filter=number, sort=True),
            Attribute("port_security_enabled", c.port_security_enabled, Flag, post=True, put=True, filter=lists.truths),
            Attribute("qos_policy_id", c.qos_policy_id, Id | None, post=None, put=True, filter=any_of),
            Attribute("dns_domain", c.dns_domain, Domain, post="", put=True, filter=any_of),
            Attribute("pvlan", c.pvlan, Flag, post=False, put=True, filter=lists.truths, needs=IPrivateVlans),
            Attribute(
                "availability_zone_hints",
                c.availability_zone_hints,
                Hints,
                post=MISSING,
                sort=cast(c.availability_zone_hints, String),
            ),
            Attribute("availability_zones", view=Beside(networks.subnets_of, zones), at_first=()),
            Attribute("l2_adjacency", view=of_each(lambda network: not network.routed)),
            Attribute("ipv4_address_scope", view=scope_of_family(4), at_first=None),
            Attribute("ipv6_address_scope", view=scope_of_family(6), at_first=None),
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
            _of_one_wire("network_type", NetworkType | None, any_of),
            _of_one_wire("physical_network", PhysicalName | None, any_of),
            _of_one_wire("segmentation_id", SegmentId | None, number),
            Attribute(
                "segments",
                None,
                SaidSegments if several else OneSegment,
                post=MISSING,
                put=several,
                view=_several,
                rule=PROVIDER,
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
    said = [name for name in networks.WIRE if name in changes]
    says_one = any(changes[name] is not None for name in said)
    if says_one or "segments" in changes:
        call.require("network:networks:update:provider")
    if says_one and "segments" in changes:
        raise _both()
    return {name: value for name, value in changes.items() if name not in said or value is not None}


def remove(conn: Connection, call: Call, network: Network) -> None:
    if network.external:
        floating_ips.remove_unused(conn, network.id, call.now, call.caller)
    networks.remove(conn, network, call.now, call.caller)


def _segments(call: Call, types: Sequence[str], values: dict[str, Any]) -> Sequence[Segment]:
    """Takes the wires that a body names out of its values. Raises Forbidden, Invalid."""
    network_type, physical, number = (
        values.pop(name) for name in ("network_type", "physical_network", "segmentation_id")
    )
    several: Sequence[SaidSegment] = values.pop("segments", ())
    says_one = (network_type, physical, number) != (None, None, None)
    if says_one or several:
        call.require("network:networks:create:provider")
    if says_one and several:
        raise _both()
    return _named(types, several) or [segment(types, network_type, physical, number)]


def _named(types: Sequence[str], several: Sequence[SaidSegment]) -> list[Segment]:
    return [segment(types, each.network_type, each.physical_network, each.segmentation_id) for each in several]


def _both() -> Invalid:
    message = "Invalid input for operation: Segments and provider values cannot both be set."
    return Invalid(message, type="SegmentsSetInConjunctionWithProviders")
