"""Networks on several wires: their segments come and go, and each subnet may be on one of them. Neutron's extensions
`multi-provider` and `segment`.

Every host reaches every wire. A port is on one wire: all its addresses are from the subnets there. The host determines
which wire that is, so a port without a host gets its addresses when it is bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from attrs import evolve, frozen
from sqlalchemy import bindparam, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import kinds, networks, segments, standard
from cloudctl.network.options import NetworkOptions
from cloudctl.network.segments import RECORDS, Place
from cloudctl.network.tables import Network, Segment, Subnet
from cloudctl.tasks import Origin

# Built once: building a statement costs more than running it.
_subnets = select(Subnet.id).where(Subnet.segment_id == bindparam("segment")).order_by(Subnet.id).limit(20)
_of_subnets = select(Subnet.segment_id).where(Subnet.network_id == bindparam("network"))


@frozen
class NewSegment:
    wire: segments.Segment
    name: str | None = None
    description: str = ""


def create(
    conn: Connection,
    network: Network,
    new: NewSegment,
    now: datetime,
    options: NetworkOptions,
    by: Origin,
    mtu: int | None = None,
) -> Segment:
    """Put a locked network on one more wire. `mtu`: the network's after this request; None: it stays.

    Raises Invalid, Conflict (it is taken), Unavailable (all are).
    """
    wire = segments.check(new.wire, options)
    networks.checked_mtu(network.mtu if mtu is None else mtu, [wire], options)
    position = segments.next_position(conn, network.id)
    place = Place(network.id, network.project_id, position, new.name, new.description)
    made = segments.take(conn, wire, options, place, now)
    standard.change(conn, Network.table, network.id, now, more_segments=True)
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, network.id, by)
    return made


def put_on(
    conn: Connection,
    network: Network,
    wanted: Sequence[segments.Segment],
    now: datetime,
    options: NetworkOptions,
    by: Origin,
    mtu: int | None = None,
) -> None:
    """Put a locked network on these wires alone. One without a number is any of its kind, best one that it is on.

    `mtu`: as for `create`. Raises Invalid, Conflict (one is taken, or subnets are on one that goes), Unavailable.
    """
    segments.check_differ(wanted)
    going = {row.id: row for row in segments.of_network(conn, network.id)}
    coming = []
    checked = [segments.check(each, options) for each in wanted]
    for wire in sorted(checked, key=lambda each: each.segmentation_id is None):
        kept = next((row.id for row in going.values() if _is(segments.wire(row), wire)), None)
        if kept is None:
            coming.append(wire)
        else:
            del going[kept]
    for wire in coming:
        create(conn, network, NewSegment(wire), now, options, by, mtu)
    for row in going.values():
        remove(conn, row, now, by)


def _is(present: segments.Segment, wanted: segments.Segment) -> bool:
    return present == wanted or evolve(present, segmentation_id=None) == wanted


def remove(conn: Connection, row: Segment, now: datetime, by: Origin) -> None:
    """Take a locked network off a wire. Raises Conflict if subnets are on it, or if it is the only one."""
    on_it = conn.scalars(_subnets, {"segment": row.id}).all()
    if on_it:
        raise _in_use(row, f"The segment is still associated with subnet(s) {', '.join(on_it)}")
    left = [each for each in segments.of_network(conn, row.network_id) if each.id != row.id]
    if not left:
        raise _in_use(row, f"Network {row.network_id} is on no other one")
    RECORDS.delete(conn, row)
    first = segments.wire(left[0])
    standard.change(
        conn,
        Network.table,
        row.network_id,
        now,
        network_type=first.network_type,
        physical_network=first.physical_network,
        segmentation_id=first.segmentation_id,
        more_segments=len(left) > 1,
    )
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, row.network_id, by)


def _in_use(row: Segment, reason: str) -> Conflict:
    return Conflict(f"Segment '{row.id}' cannot be deleted: {reason}.", type="SegmentInUse")


# -- subnets


def check_new_subnet(
    conn: Connection, network: Network, others: Collection[str | None], segment_id: str | None
) -> None:
    """`others`: the segments of the present subnets. Raises NotFound, Invalid."""
    if segment_id is not None:
        _check_of(conn, network.id, segment_id)
    if {each is None for each in others} - {segment_id is None}:
        message = (
            f"All of the subnets on network '{network.id}' must either all be associated with segments, or all not "
            "associated with any segments."
        )
        raise Invalid(message, type="SubnetsNotAllAssociatedWithSegments")


def check_changed_subnet(conn: Connection, row: Subnet, segment_id: str | None) -> None:
    """Check that the only subnet of a network on one wire may name that wire. Raises NotFound, Invalid."""
    if row.segment_id is not None or segment_id is None:
        message = "A subnet that is already associated with a segment cannot have its segment association changed."
        raise Invalid(message, type="SubnetSegmentAssociationChangeNotAllowed")
    _check_of(conn, row.network_id, segment_id)
    subnets = conn.scalars(_of_subnets, {"network": row.network_id}).all()
    if len(subnets) > 1 or len(segments.of_network(conn, row.network_id)) > 1:
        message = f"The network '{row.network_id}' has multiple segments or subnets; it cannot become a routed one."
        raise Invalid(message, type="NoUpdateSubnetWhenMultipleSegmentsOnNetwork")


def subnets_changed(conn: Connection, network_id: str, now: datetime) -> None:
    """Subnets came or went: the network records whether they name their segments."""
    routed = any(each is not None for each in conn.scalars(_of_subnets, {"network": network_id}))
    standard.change(conn, Network.table, network_id, now, routed=routed)


def _check_of(conn: Connection, network_id: str, segment_id: str) -> None:
    row = RECORDS.get(conn, segment_id)
    if row.network_id != network_id:
        message = f"The subnet's network id, '{network_id}', doesn't match the network_id of segment '{row.network_id}'"
        raise Invalid(message, type="NetworkIdsDontMatch")
