"""Which numbers networks get on a type of wire, by project. Neutron's extension `network-segment-range`.

A project that has ranges of its own gets numbers from these first, then from the shared and the configured ones, except
those that other projects have for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from attrs import frozen
from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import standard
from cloudctl.network.extension_tables import SegmentRange
from cloudctl.network.options import NetworkOptions
from cloudctl.network.owned import Owned
from cloudctl.network.tables import Network, Segment
from cloudctl.tasks import queue

VLAN_MOST, VXLAN_MOST = 4094, 2**24 - 1
MOST = {"vlan": VLAN_MOST, "vxlan": VXLAN_MOST, "geneve": VXLAN_MOST}
SHOWN_NUMBERS = 4096  # free ones of a range that are shown
RECORDS = Owned(SegmentRange, "Network Segment Range {} could not be found.", "NetworkSegmentRangeNotFound")


class Span(NamedTuple):
    first: int
    last: int


@frozen
class NewSegmentRange:
    """`project_id` "": it is shared. `physical_network` "": of a type that has none."""

    network_type: str
    minimum: int
    maximum: int
    physical_network: str = ""
    name: str = ""
    description: str = ""
    project_id: str = ""


# Built once: building a statement costs more than running it.
_made = (
    select(SegmentRange)
    .where(SegmentRange.network_type == bindparam("network_type"), SegmentRange.default.is_(False))
    .order_by(SegmentRange.id)
)
# Whether there are any of a type: to be queried together with something else.
any_of_type = (
    select(SegmentRange.id)
    .where(SegmentRange.network_type == bindparam("network_type"), SegmentRange.default.is_(False))
    .exists()
)
_default = select(SegmentRange).where(SegmentRange.default.is_(True))
_used = (
    select(Segment.segmentation_id, Network.project_id)
    .join_from(Segment, Network, Network.id == Segment.network_id)
    .where(
        Segment.network_type == bindparam("network_type"),
        Segment.physical_network == bindparam("physical_network"),
        Segment.segmentation_id.between(bindparam("first"), bindparam("last")),
    )
    .order_by(Segment.segmentation_id)
)


def configured(options: NetworkOptions, network_type: str) -> Span:
    """The configured numbers."""
    return Span(1, VLAN_MOST) if network_type == "vlan" else Span(options.vni_minimum, options.vni_maximum)


def choice(
    conn: Connection, options: NetworkOptions, network_type: str, physical: str, project_id: str
) -> list[Sequence[Span]]:
    """The numbers that a new network of a project may have, the preferred ones first."""
    rows = [row for row in conn.execute(_made, {"network_type": network_type}) if row.physical_network == physical]
    own = [_span(row) for row in rows if not row.shared and row.project_id == project_id]
    shared = [configured(options, network_type), *(_span(row) for row in rows if row.shared)]
    others = [_span(row) for row in rows if not row.shared and row.project_id != project_id]
    return [spans for spans in (own, without(shared, others)) if spans]


def without(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """What is left of `spans` without `taken`."""
    left = list(spans)
    for each in taken:
        rest = []
        for span in left:
            before, behind = (
                Span(span.first, min(span.last, each.first - 1)),
                Span(max(span.first, each.last + 1), span.last),
            )
            rest += [part for part in (before, behind) if part.first <= part.last]
        left = rest
    return left


def used(conn: Connection, row: SegmentRange) -> dict[int, str]:
    """Number within a range → the project whose network has it."""
    wire = {"network_type": row.network_type, "physical_network": row.physical_network}
    return dict(conn.execute(_used, {**wire, "first": row.minimum, "last": row.maximum}))


def available(row: SegmentRange, taken: Mapping[int, str]) -> list[int]:
    """The free numbers of a range, as many as are shown."""
    found: list[int] = []
    for number in range(row.minimum, row.maximum + 1):
        if len(found) == SHOWN_NUMBERS:
            break
        if number not in taken:
            found.append(number)
    return found


# -- changes


def ensure_default(conn: Connection, options: NetworkOptions, now: datetime) -> None:
    """Write records for the configured ranges, and delete those of ranges configured before."""
    # Concurrent requests take turns.
    queue.lock_resource(conn, "network_segment_range", "the default ones")
    wires = [("vlan", physical, 1, VLAN_MOST) for physical in options.physical_networks]
    wires.append(("vxlan", "", options.vni_minimum, options.vni_maximum))
    there = {(row.network_type, row.physical_network, row.minimum, row.maximum): row for row in conn.execute(_default)}
    for key, row in there.items():
        if key not in wires:
            RECORDS.delete(conn, row)
    for network_type, physical, minimum, maximum in wires:
        if (network_type, physical, minimum, maximum) not in there:
            made = SegmentRange(
                **standard.new("", now),
                name="",
                default=True,
                shared=True,
                network_type=network_type,
                physical_network=physical,
                minimum=minimum,
                maximum=maximum,
            )
            standard.insert(conn, made)


def create(conn: Connection, new: NewSegmentRange, now: datetime) -> SegmentRange:
    """Raises Invalid, Conflict (it overlaps with another one)."""
    physical = new.physical_network
    if new.network_type == "vlan" and not physical:
        message = "Invalid input for operation: vlan requires 'physical_network' to be specified."
        raise Invalid(message, type="InvalidInput")
    if new.network_type != "vlan" and physical:
        message = f"Invalid input for operation: physical_network is not for {new.network_type}."
        raise Invalid(message, type="InvalidInput")
    _check(new.network_type, new.minimum, new.maximum)
    made = SegmentRange(
        **standard.new(new.project_id, now, description=new.description),
        name=new.name,
        default=False,
        shared=not new.project_id,
        network_type=new.network_type,
        physical_network=physical,
        minimum=new.minimum,
        maximum=new.maximum,
    )
    _check_alone(conn, made)
    return standard.insert(conn, made)


def change(conn: Connection, row: SegmentRange, changes: Mapping[str, Any], now: datetime) -> SegmentRange:
    """Set name, description, minimum, maximum of a locked range.

    Raises Invalid (it is a configured one), Conflict (a network would lose its number; it overlaps with another).
    """
    _check_writable(row)
    wanted = row._replace(**changes)
    _check(wanted.network_type, wanted.minimum, wanted.maximum)
    _check_alone(conn, wanted)
    lost = [number for number in _referenced(conn, row) if not wanted.minimum <= number <= wanted.maximum]
    if lost:
        raise _referenced_by(row)
    return standard.changed(conn, row, now, **changes)


def remove(conn: Connection, row: SegmentRange) -> None:
    """Delete a locked range. Raises Invalid (it is a configured one), Conflict (networks have numbers of it)."""
    _check_writable(row)
    if _referenced(conn, row):
        raise _referenced_by(row)
    RECORDS.delete(conn, row)


def _referenced(conn: Connection, row: SegmentRange) -> list[int]:
    """The numbers that networks have because of the range."""
    return [number for number, project in used(conn, row).items() if row.shared or project == row.project_id]


def _referenced_by(row: SegmentRange) -> Conflict:
    message = f"Network Segment Range {row.id} is referenced by one or more project networks."
    return Conflict(message, type="NetworkSegmentRangeReferencedByProject")


def _check_writable(row: SegmentRange) -> None:
    if row.default:
        message = f"Network Segment Range {row.id} is a default segment range which could not be updated or deleted."
        raise Invalid(message, type="NetworkSegmentRangeDefaultReadOnly")


def _check_alone(conn: Connection, wanted: SegmentRange) -> None:
    """No two ranges that users made may share a number. Concurrent requests take turns. Raises Conflict."""
    queue.lock_resource(conn, "network_segment_range", wanted.network_type)
    others = [row for row in conn.execute(_made, {"network_type": wanted.network_type}) if row.id != wanted.id]
    overlapping = [
        row.id
        for row in others
        if row.physical_network == wanted.physical_network
        and row.minimum <= wanted.maximum
        and row.maximum >= wanted.minimum
    ]
    if overlapping:
        message = f"Network segment range overlaps with range(s) with id {', '.join(overlapping)}"
        raise Conflict(message, type="NetworkSegmentRangeOverlaps")


def _check(network_type: str, minimum: int, maximum: int) -> None:
    if not 1 <= minimum <= maximum <= MOST[network_type]:
        message = f"Invalid input for operation: {minimum}:{maximum} is no range of {network_type}."
        raise Invalid(message, type="InvalidInput")


def _span(row: SegmentRange) -> Span:
    return Span(row.minimum, row.maximum)
