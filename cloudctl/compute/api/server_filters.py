"""How servers are listed: filters, sort keys, and who sees which. Reference: compute.md, section 6.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from attrs import frozen
from sqlalchemy import Column, ColumnElement, and_, case, false, func, not_, or_, true

from cloudctl.compute import networking, patterns
from cloudctl.compute.api import gates
from cloudctl.compute.servers import ALL_PROJECTS, OUTLINE
from cloudctl.compute.states import DELETED, SOFT_DELETED
from cloudctl.compute.status import STATUSES, showing
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Forbidden, Invalid
from cloudctl.rest.body import truth
from cloudctl.rest.call import Call
from cloudctl.rest.caller import forbidden
from cloudctl.rest.formats import parse_time
from cloudctl.rest.listing import Condition, Filter, Listing, equals, number, words
from cloudctl.rest.versions import ALWAYS, Span, since

LIST_ALL = "compute:servers:list:all_tenants"
EVERY_FILTER = "compute:servers:list:every_filter"

LONG_AGO = datetime(1970, 1, 1)


# -- filters


def matching(column: Column[Any]) -> Filter:
    """A regular expression, not anchored."""

    return lambda values: _matches(column.name, values[-1], column)


def _matches(name: str, text: str, column: Column[Any]) -> Condition:
    pattern = patterns.checked(name, text)
    plain = patterns.plain(pattern)
    return column.regexp_match(pattern) if plain is None else plain.found_in(column)


def any_word(column: Column[Any]) -> Filter:
    return lambda values: column.in_(values)


def _flag(name: str, test: ColumnElement[bool]) -> Filter:
    def make(values: Sequence[str]) -> Condition:
        wanted = truth(values[-1])
        if wanted is None:
            raise Invalid(f"Invalid value {values[-1][:64]!r} for the filter {name!r}: a boolean is expected.")
        return test if wanted else not_(test)

    return make


def _number(column: Column[Any]) -> Filter:
    """A word is a number that no server has: compute's API describes these filters as text and refuses none."""

    def test(values: Sequence[str]) -> Condition:
        numbers = [value for value in values if value.isascii() and value.isdigit()]
        return number(column)(numbers) if numbers else false()

    return test


def _at(column: Column[Any]) -> Filter:
    return lambda values: column == time(column.name, values[-1])


def has_tag(tag: str) -> Condition:
    # Not LIKE: SQLite's ignores case. Removing the tag changes the text only if the tag is in it.
    return func.replace(Server.tags, f",{tag},", "") != Server.tags


def _tags(values: Sequence[str]) -> list[Condition]:
    return [has_tag(tag) for tag in words("tags", values)]


is_locked = Server.locked_by.is_not(None)


@frozen
class Known:
    """A filter, and at which microversions everyone may use it (None: only administrators)."""

    make: Filter
    everyone: Span | None = ALWAYS


FILTERS: dict[str, Known] = {
    "name": Known(matching(Server.name)),
    "display_name": Known(matching(Server.name)),
    "flavor": Known(equals(Server.flavor_id)),
    "image": Known(equals(Server.image_id)),
    "image_ref": Known(equals(Server.image_id)),
    "reservation_id": Known(equals(Server.reservation_id)),
    "tags": Known(lambda values: and_(true(), *_tags(values)), gates.TAGS_FILTER),
    "tags-any": Known(lambda values: or_(false(), *_tags(values)), gates.TAGS_FILTER),
    "not-tags": Known(lambda values: not_(and_(true(), *_tags(values))), gates.TAGS_FILTER),
    "not-tags-any": Known(lambda values: not_(or_(false(), *_tags(values))), gates.TAGS_FILTER),
    "locked": Known(_flag("locked", is_locked), gates.LOCKED),
    "availability_zone": Known(matching(Server.zone), gates.FILTERS),
    "config_drive": Known(_flag("config_drive", Server.config_drive.is_(True)), gates.FILTERS),
    "key_name": Known(matching(Server.key_name), gates.FILTERS),
    "created_at": Known(_at(Server.created_at), gates.FILTERS),
    "launched_at": Known(_at(Server.launched_at), gates.FILTERS),
    "terminated_at": Known(_at(Server.terminated_at), gates.FILTERS),
    "power_state": Known(_number(Server.power_state), gates.FILTERS),
    "task_state": Known(any_word(Server.task_state), gates.FILTERS),
    "vm_state": Known(any_word(Server.vm_state), gates.FILTERS),
    "progress": Known(_number(Server.progress), gates.FILTERS),
    "user_id": Known(equals(Server.user_id), gates.FILTERS),
    "hostname": Known(matching(Server.hostname), gates.HOSTNAME_FILTER),
    "host": Known(equals(Server.host), None),
    "node": Known(equals(Server.host), None),
    "uuid": Known(equals(Server.id), None),
    "description": Known(matching(Server.description), None),
    "kernel_id": Known(lambda values: true() if values[-1] == "" else false(), None),
    "ramdisk_id": Known(lambda values: true() if values[-1] == "" else false(), None),
    "root_device_name": Known(equals(Server.root_device_name), None),
    "locked_by": Known(equals(Server.locked_by), None),
    "access_ip_v4": Known(matching(Server.access_ip_v4), None),
    "access_ip_v6": Known(matching(Server.access_ip_v6), None),
    "auto_disk_config": Known(_flag("auto_disk_config", Server.disk_config == "AUTO"), None),
    "launch_index": Known(_number(Server.launch_index), None),
}
# Filters that need more than the values, and the parameters of every list.
OTHERS = frozenset(
    {
        "status",
        "all_tenants",
        "changes-since",
        "changes-before",
        "ip",
        "ip6",
        "deleted",
        "soft_deleted",
        "project_id",
        "tenant_id",
        "limit",
        "marker",
        "sort_key",
        "sort_dir",
    }
)
# Filters that may take a regular expression.
MATCHED = frozenset({"ip", "ip6"} | FILTERS.keys())
# Built once: building costs more than running it.
THERE, NOT_SOFT_DELETED = Server.deleted_at.is_(None), Server.vm_state != SOFT_DELETED
QUERY = dict.fromkeys(sorted(OTHERS | frozenset(FILTERS)), ALWAYS) | {"changes-before": since(2, 66)}


def conditions(conn: Connection, call: Call) -> list[Condition]:
    """Which servers this request lists. Raises Invalid, Forbidden."""
    if any(name in MATCHED for name in call.query):
        patterns.install(conn)
    found = [*_scope(call), *_alive(call), *_status(call)]
    every = call.may(EVERY_FILTER)
    for name in call.query:
        known = FILTERS.get(name)
        if known is not None and (every or (known.everyone is not None and call.version in known.everyone)):
            found.append(known.make(call.query.all(name)))
    found += _addresses(call, every)
    return found


@lru_cache(maxsize=1024)
def _of_project(project_id: str) -> Condition:
    """Built once for each project, since nearly every list has it."""
    return Server.project_id == project_id


def _scope(call: Call) -> Iterator[Condition]:
    if not call.query.flag("all_tenants"):
        yield _of_project(call.project_id)
        return
    if not call.may(LIST_ALL):
        raise forbidden(LIST_ALL)
    for name in ("project_id", "tenant_id"):
        if name in call.query:
            yield Server.project_id == call.query.get(name)


def _alive(call: Call) -> Iterator[Condition]:
    """Deleted servers are listed by the time of their deletion, and for administrators who ask."""
    after, before = changed(call)
    if after is not None:
        yield Server.updated_at >= after
    if before is not None:
        # Servers show whole seconds: a client that sends back what it was shown means all of that second.
        yield Server.updated_at <= before.replace(microsecond=999_999)
    words = {word.lower() for word in call.query.all("status")}
    if "deleted" in words and not call.may(EVERY_FILTER):
        raise Forbidden("Only administrators may list deleted instances")
    wants_deleted = call.may(EVERY_FILTER) and ("deleted" in words or call.query.flag("deleted"))
    if wants_deleted:
        yield Server.deleted_at.is_not(None)
    elif after is None and before is None:
        yield THERE
        # Servers that can be restored are shown to those who ask for them.
        if "soft_deleted" not in words and not call.query.flag("soft_deleted"):
            yield NOT_SOFT_DELETED
    if call.may(EVERY_FILTER) and call.query.flag("soft_deleted"):
        yield Server.vm_state == SOFT_DELETED


def changed(call: Call) -> tuple[datetime | None, datetime | None]:
    """`changes-since` and `changes-before`. Raises Invalid."""
    text = call.query.get("changes-since")
    after = None if text is None else time("changes-since", text)
    text = call.query.get("changes-before")
    before = None if text is None else time("changes-before", text)
    if after is not None and before is not None and before < after:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    return after, before


def time(name: str, text: str) -> datetime:
    """An ISO 8601 time as naive UTC. Raises Invalid."""
    try:
        # An unescaped + of a time zone arrives as a space.
        return parse_time(text.strip().replace(" ", "+") if "T" in text else text)
    except (ValueError, OverflowError):
        raise Invalid(
            f"Invalid input for query parameters {name}. Value: {text[:64]}. {text[:64]!r} is not a 'date-time'"
        ) from None


def _status(call: Call) -> Iterator[Condition]:
    words = [word.upper() for word in call.query.all("status")]
    if not words:
        return
    if call.version in gates.STATUS_FILTER and any(word not in STATUSES for word in words):
        raise Invalid("Invalid status value")
    gone = Server.vm_state == DELETED
    yield or_(showing(words), gone) if "DELETED" in words else showing(words)


def _addresses(call: Call, every: bool) -> Iterator[Condition]:
    """Servers with a matching fixed address."""
    wanted = {"ip": 4, "ip6": 6} if every or call.version in gates.IP6_FILTER else {"ip": 4}
    for name, version in wanted.items():
        text = call.query.get(name)
        if text is not None:
            yield networking.has_address(version, partial(_matches, name, text))


# -- order


def _text(column: Column[Any]) -> ColumnElement[Any]:
    return func.coalesce(column, "")


SORT_KEYS: dict[str, ColumnElement[Any]] = {
    "access_ip_v4": Server.access_ip_v4,
    "access_ip_v6": Server.access_ip_v6,
    "auto_disk_config": Server.disk_config,
    "availability_zone": _text(Server.zone),
    "config_drive": Server.config_drive,
    "created_at": Server.created_at,
    "display_description": _text(Server.description),
    "display_name": Server.name,
    "host": _text(Server.host),
    "hostname": Server.hostname,
    "image_ref": Server.image_id,
    "instance_type_id": Server.flavor_id,
    # A guest's kernel and ramdisk are never shown as anything but "".
    "kernel_id": func.coalesce(Server.root_device_name, ""),
    "ramdisk_id": func.coalesce(Server.root_device_name, ""),
    "key_name": _text(Server.key_name),
    "launch_index": Server.launch_index,
    "launched_at": func.coalesce(Server.launched_at, LONG_AGO),
    "locked": case((is_locked, 1), else_=0),
    "locked_by": _text(Server.locked_by),
    "node": _text(Server.host),
    "power_state": Server.power_state,
    "progress": Server.progress,
    "project_id": Server.project_id,
    "root_device_name": Server.root_device_name,
    "task_state": _text(Server.task_state),
    "terminated_at": func.coalesce(Server.terminated_at, LONG_AGO),
    "updated_at": Server.updated_at,
    "user_id": Server.user_id,
    "uuid": Server.id,
    "vm_state": Server.vm_state,
}
ADMIN_SORT_KEYS = frozenset({"host", "node"})

BRIEF = Listing(Server.table, SORT_KEYS, columns=(Server.id, Server.name))
DETAIL = Listing(Server.table, SORT_KEYS, columns=OUTLINE)


def check_order(call: Call, order: Sequence[tuple[str, str]]) -> None:
    """Raises Forbidden for keys that reveal where servers are, Invalid for one that is not offered yet."""
    for key, _ in order:
        if key in ADMIN_SORT_KEYS and not call.may(ALL_PROJECTS):
            raise Forbidden(f"Policy doesn't allow sorting by {key}.")
        if key == "locked" and call.version not in gates.LOCKED:
            raise Invalid("Invalid value 'locked' for 'sort_key': it is offered from 2.73 on.")
