"""`/segments`, and which numbers networks get: `/network_segment_ranges`. Reference: network.md, section 15."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from sqlalchemy import func, true

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import network_segments, networks, segment_ranges, segments
from cloudctl.network import standard as records
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import NAMED_OWNER, Flag, Id, Text, standard
from cloudctl.network.api.networks import NetworkType, PhysicalName, SegmentId, segment
from cloudctl.network.api.resource import Declared
from cloudctl.network.extension_tables import SegmentRange
from cloudctl.network.network_segments import NewSegment
from cloudctl.network.options import NetworkOptions
from cloudctl.network.segment_ranges import NewSegmentRange
from cloudctl.network.tables import Segment, Standard
from cloudctl.rest.body import Length, Loose, Range
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition, any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute, of_each

# Clients use either.
PATHS_OF_RANGES = ("/network_segment_ranges", "/network-segment-ranges")
Number = Annotated[int, Loose(), Range(0)]
Physical = Annotated[str, Length(0, 64)]


def everything(conn: Connection, caller: Caller) -> Condition:
    """They belong to no project: the rule of the Operation decides who may look."""
    return true()


def may_remove(call: Call, record: Standard) -> None:
    """Only administrators may: the rule of the Operation has been checked."""


# -- segments


def visible(conn: Connection, caller: Caller, id: str, lock: bool = False) -> Segment:
    """`lock`: its network is locked, too, and first, as in all code that changes both."""
    found = segments.RECORDS.get(conn, id)
    if lock:
        networks.get(conn, found.network_id, lock=True)
        found = segments.RECORDS.get(conn, id, lock=True)
    return found


def change(conn: Connection, call: Call, row: Segment, changes: dict[str, Any]) -> Segment:
    said = {name: value or "" if name == "description" else value for name, value in changes.items()}
    return records.changed(conn, row, call.now, **said)


def remove(conn: Connection, call: Call, row: Segment) -> None:
    network_segments.remove(conn, row, call.now, call.caller)


# One for each cloud of a process that is configured differently.
@lru_cache(maxsize=64)
def declared(options: NetworkOptions, types: tuple[str, ...], several: bool) -> Declared[Segment]:
    """`several`: a network may be on more than one."""

    def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Segment:
        network = networks.visible(conn, call.caller, values["network_id"], lock=True)
        wire = segment(types, *(values[name] for name in ("network_type", "physical_network", "segmentation_id")))
        new = NewSegment(wire, values["name"], values["description"] or "")
        return network_segments.create(conn, network, new, call.now, options, call.caller)

    c = Segment
    return Declared(
        name="segment",
        sight="network:segments:see",
        record=Segment,
        attributes=(
            Attribute("id", c.id, filter=any_of, sort=True),
            Attribute("network_id", c.network_id, Id, post=REQUIRED, filter=any_of, sort=True),
            Attribute("name", c.name, Text | None, post=None, put=True, filter=any_of, sort=func.coalesce(c.name, "")),
            Attribute("network_type", c.network_type, NetworkType, post=REQUIRED, filter=any_of, sort=True),
            Attribute(
                "physical_network",
                c.physical_network,
                PhysicalName | None,
                post=None,
                filter=any_of,
                sort=True,
                view=of_each(lambda row: row.physical_network or None),
            ),
            Attribute(
                "segmentation_id",
                c.segmentation_id,
                SegmentId | None,
                post=None,
                filter=number,
                sort=True,
                view=of_each(lambda row: row.segmentation_id or None),
            ),
            *standard(Segment, description=Text | None, owned=False, tags=None),
            *NAMED_OWNER,
        ),
        visible=visible,
        visible_to=everything,
        not_found=segments.RECORDS.not_found,
        create=create if several else None,
        change=change,
        may_remove=may_remove,
        remove=remove if several else None,
        says={
            "list": "List the wires that networks are on.",
            "create": "Put a network on one more wire.",
            "update": "Change the name or description of a segment.",
            "delete": "Take a network from one of its wires, on which it must have no subnet.",
        },
    )


# -- ranges


def visible_range(conn: Connection, caller: Caller, id: str, lock: bool = False) -> SegmentRange:
    return segment_ranges.RECORDS.get(conn, id, lock=lock)


def used(conn: Connection, call: Call, rows: Sequence[SegmentRange]) -> list[dict[str, str]]:
    return [{str(taken): project for taken, project in segment_ranges.used(conn, row).items()} for row in rows]


def available(conn: Connection, call: Call, rows: Sequence[SegmentRange]) -> list[list[int]]:
    return [segment_ranges.available(row, segment_ranges.used(conn, row)) for row in rows]


def change_range(conn: Connection, call: Call, row: SegmentRange, changes: dict[str, Any]) -> SegmentRange:
    return segment_ranges.change(conn, row, changes, call.now)


def remove_range(conn: Connection, call: Call, row: SegmentRange) -> None:
    segment_ranges.remove(conn, row)


# One for each cloud of a process that is configured differently.
@lru_cache(maxsize=64)
def ranges(options: NetworkOptions) -> Declared[SegmentRange]:
    async def before_list(db: Database, call: Call) -> None:
        await db.run(segment_ranges.ensure_default, options, call.now)

    def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> SegmentRange:
        shared = values.pop("shared")
        if values.pop("default"):
            raise lists.bad("Attribute 'default' not allowed in POST")
        if shared and owner:
            message = "Invalid input for operation: a shared range belongs to no project."
            raise Invalid(message, type="InvalidInput")
        project = "" if shared else owner or call.project_id
        return segment_ranges.create(conn, NewSegmentRange(**values, project_id=project), call.now)

    c = SegmentRange
    return Declared(
        name="network_segment_range",
        noun="a range of numbers of networks",
        sight="network:network_segment_ranges:see",
        record=SegmentRange,
        attributes=(
            Attribute("id", c.id, filter=any_of, sort=True),
            Attribute("name", c.name, Text, post="", put=True, filter=any_of, sort=True),
            Attribute("default", c.default, Flag, post=False, filter=lists.truths),
            Attribute("shared", c.shared, Flag, post=True, filter=lists.truths),
            Attribute(
                "network_type",
                c.network_type,
                Literal["vlan", "vxlan", "geneve"],
                post=REQUIRED,
                filter=any_of,
                sort=True,
            ),
            Attribute("physical_network", c.physical_network, Physical, post="", filter=any_of, sort=True),
            Attribute("minimum", c.minimum, Number, post=REQUIRED, put=True, filter=number, sort=True),
            Attribute("maximum", c.maximum, Number, post=REQUIRED, put=True, filter=number, sort=True),
            Attribute("used", view=used),
            Attribute("available", view=available),
            *standard(SegmentRange),
        ),
        visible=visible_range,
        visible_to=everything,
        not_found=segment_ranges.RECORDS.not_found,
        create=create,
        change=change_range,
        may_remove=may_remove,
        remove=remove_range,
        before_list=before_list,
        pure=False,
        says={
            "list": "List the ranges of numbers that networks are given.",
            "delete": "Delete a range whose numbers no network has.",
        },
    )
