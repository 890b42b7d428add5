"""Which wires a network is on: provider attributes. Reference: network.md, section 2, «Provider rules»; section 15."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen
from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.drivers.network_specs import SegmentSpec
from cloudctl.errors import Conflict, Invalid, Unavailable
from cloudctl.network import segment_ranges, standard
from cloudctl.network.options import NetworkOptions
from cloudctl.network.owned import Owned
from cloudctl.network.segment_ranges import VLAN_MOST, Span
from cloudctl.network.tables import Segment as SegmentRecord

TUNNELS = ("vxlan", "geneve")
TYPES = ("flat", "vlan", *TUNNELS)
TRIES = 10
LOW = 2000

RECORDS = Owned(SegmentRecord, "Segment {} could not be found.", "SegmentNotFound")

# Built once: building a statement costs more than running it.
_look = select(
    select(SegmentRecord.id)
    .where(
        SegmentRecord.network_type == bindparam("network_type"),
        SegmentRecord.physical_network == bindparam("physical_network"),
        SegmentRecord.segmentation_id == bindparam("segmentation_id"),
    )
    .exists(),
    segment_ranges.any_of_type,
)
_of_network = (
    select(SegmentRecord)
    .where(SegmentRecord.network_id == bindparam("network"))
    .order_by(SegmentRecord.position, SegmentRecord.id)
)
_of_networks = (
    select(SegmentRecord)
    .where(SegmentRecord.network_id.in_(bindparam("networks", expanding=True)))
    .order_by(SegmentRecord.network_id, SegmentRecord.position, SegmentRecord.id)
)
_next_position = select(func.coalesce(func.max(SegmentRecord.position) + 1, 0)).where(
    SegmentRecord.network_id == bindparam("network")
)
_release = delete(SegmentRecord).where(SegmentRecord.network_id == bindparam("network"))


@frozen
class Segment:
    """`physical_network` of flat and VLAN networks, `segmentation_id` of VLAN networks and tunnels."""

    network_type: str = "vxlan"
    physical_network: str | None = None
    segmentation_id: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.network_type, self.physical_network or "", self.segmentation_id or 0

    def mtu(self, options: NetworkOptions) -> int:
        """The largest MTU that the wire can carry."""
        return options.most_in_tunnels if self.network_type in TUNNELS else options.mtu


def check(wanted: Segment, options: NetworkOptions) -> Segment:
    """What an administrator requested, with the physical network filled in. Raises Invalid."""
    check_type(wanted.network_type, TYPES)
    if wanted.network_type in TUNNELS:
        if wanted.physical_network is not None:
            raise _invalid(f"provider:physical_network specified for {wanted.network_type} network.")
        _check_id(wanted, 1, 2**24 - 1)
        return wanted
    physical = wanted.physical_network
    if physical is None:
        if wanted.network_type == "flat":
            raise _invalid("physical_network required for flat provider network.")
        if not options.physical_networks:
            raise _invalid("physical_network required for vlan provider network.")
        physical = options.physical_networks[0]
    elif physical not in options.physical_networks:
        raise _invalid(f"physical_network '{physical}' unknown for {wanted.network_type} provider network.")
    if wanted.network_type == "flat" and wanted.segmentation_id is not None:
        raise _invalid("segmentation_id prohibited for flat provider network.")
    _check_id(wanted, 1, VLAN_MOST)
    return Segment(wanted.network_type, physical, wanted.segmentation_id)


def check_type(network_type: str, types: Sequence[str]) -> None:
    """Raises Invalid for any other type."""
    if network_type not in types:
        raise _invalid(f"provider:network_type {network_type} is not one of {', '.join(types)}.")


def check_differ(wanted: Sequence[Segment]) -> None:
    """Raises Invalid for a wire that is requested twice."""
    exact = [each for each in wanted if each.segmentation_id is not None or each.network_type == "flat"]
    if len(set(exact)) < len(exact):
        raise Invalid("Duplicate segment entry in request.", type="SegmentsContainDuplicateEntry")


def _check_id(wanted: Segment, least: int, most: int) -> None:
    if wanted.segmentation_id is not None and not least <= wanted.segmentation_id <= most:
        raise _invalid(f"segmentation_id out of range ({least} through {most}) for {wanted.network_type}.")


def _invalid(reason: str) -> Invalid:
    return Invalid(f"Invalid input for operation: {reason}")


@frozen
class Place:
    """Of a new segment: its network, the network's project, and the segment's name."""

    network_id: str
    project_id: str
    position: int = 0
    name: str | None = None
    description: str = ""


def take(conn: Connection, wanted: Segment, options: NetworkOptions, place: Place, now: datetime) -> SegmentRecord:
    """Put a network of a project on the requested segment, or on a free one.

    Raises Conflict if the requested one is taken, Unavailable if all are.
    """
    if wanted.network_type == "flat" or wanted.segmentation_id is not None:
        held = _hold(conn, wanted, place, now)
        if held is None:
            raise _in_use(wanted)
        return held
    spans: Sequence[Span] = [segment_ranges.configured(options, wanted.network_type)]
    choice = [spans]
    tried = evolve(wanted, segmentation_id=_any_of(_low(spans)))
    is_taken, has_ranges = _seen(conn, tried)
    if has_ranges:
        physical = wanted.physical_network or ""
        choice = segment_ranges.choice(conn, options, wanted.network_type, physical, place.project_id)
    elif not is_taken:
        held = _put(conn, tried, place, now)
        if held is not None:
            return held
    for spans in choice:
        for some in [_low(spans)] * TRIES + [spans] * TRIES:
            held = _hold(conn, evolve(wanted, segmentation_id=_any_of(some)), place, now)
            if held is not None:
                return held
        # Nearly all are taken: look for a hole.
        for span in spans:
            hole = _hole(conn, wanted, span.first, span.last)
            held = None if hole is None else _hold(conn, hole, place, now)
            if held is not None:
                return held
    message = "Unable to create the network. No tenant network is available for allocation."
    raise Unavailable(message, type="NoNetworkAvailable")


def _low(spans: Sequence[Span]) -> Sequence[Span]:
    """The first numbers of the first span, used while there is room: they are easy to read."""
    return [Span(spans[0].first, min(spans[0].last, spans[0].first + LOW - 1))]


def _any_of(spans: Sequence[Span]) -> int:
    """A random number of the spans, all equally likely."""
    (span,) = random.choices(spans, [each.last - each.first + 1 for each in spans])
    return random.randint(span.first, span.last)


def of_network(conn: Connection, network_id: str) -> Sequence[SegmentRecord]:
    """The segments that a network is on, in their order."""
    return conn.execute(_of_network, {"network": network_id}).all()


def of_networks(conn: Connection, network_ids: Sequence[str]) -> dict[str, list[Segment]]:
    """Network id → the wires that it is on, in their order."""
    rows = standard.rows(conn, _of_networks, networks=network_ids)
    return standard.grouped((row.network_id, wire(row)) for row in rows)


def next_position(conn: Connection, network_id: str) -> int:
    return int(conn.scalar(_next_position, {"network": network_id}) or 0)


def wire(row: SegmentRecord) -> Segment:
    return Segment(row.network_type, row.physical_network or None, row.segmentation_id or None)


def driver_specs(conn: Connection, network_id: str) -> tuple[SegmentSpec, ...]:
    """The segments of a network as a driver shall know them."""
    return tuple(
        SegmentSpec(row.id, row.network_type, row.physical_network or None, row.segmentation_id or None)
        for row in of_network(conn, network_id)
    )


def renumber(conn: Connection, network_id: str, said: Segment, options: NetworkOptions, now: datetime) -> int | None:
    """The number of a network's wire once it is as requested. The type and the physical network cannot change.

    Raises Invalid, Conflict (another network has the number).
    """
    row, *others = of_network(conn, network_id)
    present = wire(row)
    if said == present:
        return present.segmentation_id
    if others:
        raise _invalid("Provider network attributes can be updated only in networks with a single segment.")
    if present.network_type != "vlan" or evolve(said, segmentation_id=present.segmentation_id) != present:
        raise _invalid("of provider attributes only the segmentation_id of a VLAN network can be updated.")
    wanted = check(said, options)
    is_taken, _ = _seen(conn, wanted)
    try:
        if is_taken:
            raise _in_use(wanted)
        with conn.begin_nested():
            standard.change(conn, SegmentRecord.table, row.id, now, segmentation_id=wanted.segmentation_id)
    except IntegrityError:
        # Another transaction has put a network on it meanwhile.
        raise _in_use(wanted) from None
    return wanted.segmentation_id


def release(conn: Connection, network_id: str) -> None:
    """Take the network off all its segments."""
    conn.execute(_release, {"network": network_id})


def _hold(conn: Connection, segment: Segment, place: Place, now: datetime) -> SegmentRecord | None:
    """None if another network is on it."""
    is_taken, _ = _seen(conn, segment)
    return None if is_taken else _put(conn, segment, place, now)


def _seen(conn: Connection, segment: Segment) -> tuple[bool, bool]:
    """Whether a network is on it, and whether there are ranges of its type besides the configured ones."""
    network_type, physical, number = segment.key
    on = {"network_type": network_type, "physical_network": physical, "segmentation_id": number}
    is_taken, has_ranges = conn.execute(_look, on).one()
    return bool(is_taken), bool(has_ranges)


def _put(conn: Connection, segment: Segment, place: Place, now: datetime) -> SegmentRecord | None:
    """None if another transaction has put a network on it meanwhile."""
    network_type, physical, number = segment.key
    made = SegmentRecord(
        **standard.new("", now, description=place.description),
        name=place.name,
        network_id=place.network_id,
        network_type=network_type,
        physical_network=physical,
        segmentation_id=number,
        position=place.position,
    )
    try:
        with conn.begin_nested():
            standard.insert(conn, made)
    except IntegrityError:
        return None
    return made


def _hole(conn: Connection, segment: Segment, least: int, most: int) -> Segment | None:
    """The lowest id that no network has."""
    network_type, physical, _ = segment.key
    taken = conn.scalars(
        select(SegmentRecord.segmentation_id)
        .where(SegmentRecord.network_type == network_type, SegmentRecord.physical_network == physical)
        .where(SegmentRecord.segmentation_id.between(least, most))
        .order_by(SegmentRecord.segmentation_id)
    )
    expected = least
    for number in taken:
        if number != expected:
            break
        expected += 1
    return evolve(segment, segmentation_id=expected) if expected <= most else None


def _in_use(segment: Segment) -> Conflict:
    if segment.network_type == "flat":
        message = f"Unable to create the flat network. Physical network {segment.physical_network} is in use."
        return Conflict(message, type="FlatNetworkInUse")
    if segment.network_type == "vlan":
        message = (
            f"Unable to create the network. The VLAN {segment.segmentation_id} on physical network "
            f"{segment.physical_network} is in use."
        )
        return Conflict(message, type="VlanIdInUse")
    message = f"Unable to create the network. The tunnel ID {segment.segmentation_id} is in use."
    return Conflict(message, type="TunnelIdInUse")
