"""Segments and their hosts. Reference: instance-ha.md, sections 4 and 5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from cloudctl.db import Connection
from cloudctl.instance_ha import members, segments
from cloudctl.instance_ha.api.attributes import one_of, times
from cloudctl.instance_ha.members import NewMember
from cloudctl.instance_ha.segments import METHODS, NewSegment
from cloudctl.instance_ha.tables import Member, Segment
from cloudctl.rest.body import MISSING, Length, LooseBool, Pattern
from cloudctl.rest.call import Call
from cloudctl.rest.declared import Declared, Path
from cloudctl.rest.listing import Condition, equals, flag
from cloudctl.rest.resource import REQUIRED, Attribute, Json
from cloudctl.rest.versions import since

# No white space at the ends.
PRINTABLE = r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?"
Printable = Annotated[str, Length(1, 255), Pattern(PRINTABLE, "a name")]
Method = Literal["auto", "reserved_host", "auto_priority", "rh_priority"]
Description = Annotated[str, Length(0, 65535)] | None


def _segment(conn: Connection, call: Call, path: Path) -> Segment:
    return segments.get(conn, path["segment_id"])


def _create_segment(conn: Connection, call: Call, path: Path, values: Json) -> Segment:
    return segments.create(conn, call.caller, NewSegment(**values))


def _change_segment(conn: Connection, call: Call, segment: Segment, changes: Json) -> Segment:
    return segments.change(conn, segment, changes, call.now)


def _remove_segment(conn: Connection, call: Call, segment: Segment) -> None:
    segments.remove(conn, segment)


SEGMENTS = Declared(
    service="instance_ha",
    name="segment",
    record=Segment,
    attributes=(
        Attribute("id", Segment.number, sort=True),
        Attribute("uuid", Segment.id, sort=True, named="uuid"),
        Attribute("name", Segment.name, Printable, post=REQUIRED, put=True, filter=equals, sort=True),
        Attribute("description", Segment.description, Description, post=MISSING, put=True, sort=True),
        Attribute(
            "recovery_method",
            Segment.recovery_method,
            Method,
            post=REQUIRED,
            put=True,
            filter=one_of(*METHODS),
            sort=True,
        ),
        Attribute("service_type", Segment.service_type, Printable, post=REQUIRED, put=True, filter=equals, sort=True),
        Attribute(
            "enabled", Segment.enabled, LooseBool, post=MISSING, put=True, filter=flag, sort=True, span=since(1, 2)
        ),
        *times(Segment),
    ),
    get=_segment,
    create=_create_segment,
    change=_change_segment,
    remove=_remove_segment,
)


def _of_segment(conn: Connection, call: Call, path: Path) -> list[Condition]:
    return [Member.segment_id == _segment(conn, call, path).id]


def _member(conn: Connection, call: Call, path: Path) -> Member:
    """Raises NotFound, also for a host of another segment."""
    found = members.get(conn, path["host_id"])
    if found.segment_id != _segment(conn, call, path).id:
        raise members.not_found(found.id)
    return found


def _create_member(conn: Connection, call: Call, path: Path, values: Json) -> Member:
    return members.create(conn, call.caller, _segment(conn, call, path), NewMember(**values))


def _change_member(conn: Connection, call: Call, member: Member, changes: Json) -> Member:
    return members.change(conn, call.caller, member, changes)


def _remove_member(conn: Connection, call: Call, member: Member) -> None:
    members.remove(conn, member)


def _segments_of(conn: Connection, call: Call, found: Sequence[Member]) -> Iterable[Json]:
    ids = dict.fromkeys(each.segment_id for each in found)
    rows = [segments.get(conn, id) for id in ids]
    shown = dict(zip(ids, SEGMENTS.views(conn, call, rows), strict=True))
    return [shown[each.segment_id] for each in found]


HostType = Annotated[str, Length(0, 255), Pattern(r"[A-Za-z0-9]*", "letters and digits")]
Control = Annotated[str, Length(0, 65535)]


def _flag(name: str, column: Any) -> Attribute:
    return Attribute(name, column, LooseBool, post=MISSING, put=True, filter=flag, sort=True)


HOSTS = Declared(
    service="instance_ha",
    name="host",
    path="/segments/<segment_id>/hosts",
    record=Member,
    attributes=(
        Attribute("id", Member.number, sort=True),
        Attribute("uuid", Member.id, sort=True, named="uuid"),
        Attribute("name", Member.name, Printable, post=REQUIRED, put=True, filter=equals, sort=True),
        Attribute("type", Member.type, HostType, post=REQUIRED, put=True, filter=equals, sort=True),
        Attribute(
            "control_attributes", Member.control_attributes, Control, post=REQUIRED, put=True, filter=equals, sort=True
        ),
        _flag("reserved", Member.reserved),
        _flag("on_maintenance", Member.on_maintenance),
        Attribute("failover_segment_id", Member.segment_id, filter=equals),
        Attribute("failover_segment", view=_segments_of),
        *times(Member),
    ),
    get=_member,
    create=_create_member,
    change=_change_member,
    remove=_remove_member,
    scope=_of_segment,
)
