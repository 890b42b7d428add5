"""Which wire a network is on: provider attributes. Reference: network.md, section 2, «Provider rules»."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen
from sqlalchemy import bindparam, delete, select
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, Unavailable
from cloudctl.network import segment_ranges, standard
from cloudctl.network.options import NetworkOptions
from cloudctl.network.owned import Owned
from cloudctl.network.segment_ranges import VLAN_MOST, Span
from cloudctl.network.tables import Segment as SegmentRecord

TYPES = ("flat", "vlan", "vxlan")
VXLAN_OVERHEAD = 50  # bytes of a frame that the tunnel takes
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
_of_network = select(SegmentRecord.id).where(SegmentRecord.network_id == bindparam("network"))
_release = delete(SegmentRecord).where(SegmentRecord.network_id == bindparam("network"))


@frozen
class Segment:
    """`physical_network` of flat and VLAN networks, `segmentation_id` of VLAN and VXLAN networks."""

    network_type: str = "vxlan"
    physical_network: str | None = None
    segmentation_id: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.network_type, self.physical_network or "", self.segmentation_id or 0

    def mtu(self, options: NetworkOptions) -> int:
        """The most that fits through."""
        return options.mtu - (VXLAN_OVERHEAD if self.network_type == "vxlan" else 0)


def check(wanted: Segment, options: NetworkOptions) -> Segment:
    """What an administrator asked for, with the physical network filled in. Raises Invalid."""
    if wanted.network_type not in TYPES:
        raise _invalid(f"provider:network_type {wanted.network_type} is not one of {', '.join(TYPES)}.")
    if wanted.network_type == "vxlan":
        if wanted.physical_network is not None:
            raise _invalid("provider:physical_network specified for vxlan network.")
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


def _check_id(wanted: Segment, least: int, most: int) -> None:
    if wanted.segmentation_id is not None and not least <= wanted.segmentation_id <= most:
        raise _invalid(f"segmentation_id out of range ({least} through {most}) for {wanted.network_type}.")


def _invalid(reason: str) -> Invalid:
    return Invalid(f"Invalid input for operation: {reason}")


def take(
    conn: Connection, wanted: Segment, options: NetworkOptions, network_id: str, project_id: str, now: datetime
) -> Segment:
    """Put a network of a project on the segment that was asked for, or on a free one.

    Raises Conflict if the one that was asked for is taken, Unavailable if all are.
    """
    if wanted.network_type == "flat" or wanted.segmentation_id is not None:
        if not _hold(conn, wanted, network_id, now):
            raise _in_use(wanted)
        return wanted
    spans: Sequence[Span] = [segment_ranges.configured(options, wanted.network_type)]
    choice = [spans]
    tried = evolve(wanted, segmentation_id=_any_of(_low(spans)))
    is_taken, has_ranges = _seen(conn, tried)
    if has_ranges:
        physical = wanted.physical_network or ""
        choice = segment_ranges.choice(conn, options, wanted.network_type, physical, project_id)
    elif not is_taken and _put(conn, tried, network_id, now):
        return tried
    for spans in choice:
        for some in [_low(spans)] * TRIES + [spans] * TRIES:
            tried = evolve(wanted, segmentation_id=_any_of(some))
            if _hold(conn, tried, network_id, now):
                return tried
        # Nearly all are taken: look for a hole.
        for span in spans:
            found = _hole(conn, wanted, span.first, span.last)
            if found is not None and _hold(conn, found, network_id, now):
                return found
    message = "Unable to create the network. No tenant network is available for allocation."
    raise Unavailable(message, type="NoNetworkAvailable")


def _low(spans: Sequence[Span]) -> Sequence[Span]:
    """The first numbers of the first span, where networks are put as long as there is room: they are easy to read."""
    return [Span(spans[0].first, min(spans[0].last, spans[0].first + LOW - 1))]


def _any_of(spans: Sequence[Span]) -> int:
    """Each number of the spans is as likely as any other."""
    (span,) = random.choices(spans, [each.last - each.first + 1 for each in spans])
    return random.randint(span.first, span.last)


def of_network(conn: Connection, network_id: str) -> str | None:
    """The id of the segment that a network is on."""
    return conn.scalar(_of_network, {"network": network_id})


def release(conn: Connection, network_id: str) -> None:
    """The network is on no segment any more."""
    conn.execute(_release, {"network": network_id})


def _hold(conn: Connection, segment: Segment, network_id: str, now: datetime) -> bool:
    """False if another network is on it."""
    is_taken, _ = _seen(conn, segment)
    return not is_taken and _put(conn, segment, network_id, now)


def _seen(conn: Connection, segment: Segment) -> tuple[bool, bool]:
    """Whether a network is on it, and whether there are ranges of its type beside the configuration's."""
    network_type, physical, number = segment.key
    on = {"network_type": network_type, "physical_network": physical, "segmentation_id": number}
    is_taken, has_ranges = conn.execute(_look, on).one()
    return bool(is_taken), bool(has_ranges)


def _put(conn: Connection, segment: Segment, network_id: str, now: datetime) -> bool:
    """False if another transaction has put a network on it meanwhile."""
    network_type, physical, number = segment.key
    made = SegmentRecord(
        **standard.new("", now),
        name=None,
        network_id=network_id,
        network_type=network_type,
        physical_network=physical,
        segmentation_id=number,
    )
    try:
        with conn.begin_nested():
            standard.insert(conn, made)
    except IntegrityError:
        return False
    return True


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
