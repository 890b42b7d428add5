"""Allocation candidates: ways in which a consumer could be given what it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.placement import candidates, providers
from cloudctl.placement.api import gates, queries
from cloudctl.placement.candidates import Group, Node, Request, Way
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since
from cloudctl.rest.views import Fields

QUERY = {
    "resources": ALWAYS,
    "limit": since(1, 16),
    "required": since(1, 17),
    "member_of": since(1, 21),
    "group_policy": since(1, 25),
    "in_tree": since(1, 31),
    "root_required": since(1, 35),
    "same_subtree": since(1, 36),
}
# Parameters of groups: of the one without a suffix, and of those with one.
PLAIN = ("resources", "required", "member_of", "in_tree")
NUMBERED = re.compile(r"(resources|required|member_of|in_tree)([1-9]\d*)", re.ASCII)
NAMED = re.compile(r"(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})", re.ASCII)

OF_SUMMARY = Fields[[Node]](
    "a provider in the summaries of candidates",
    {
        "traits": (since(1, 17), lambda node: sorted(node.traits)),
        "parent_provider_uuid": (since(1, 29), lambda node: node.provider.parent_id),
        "root_provider_uuid": (since(1, 29), lambda node: node.provider.root_id),
    },
)


@frozen
class Candidates:
    routes = Routes("Allocation candidates")

    db: Database

    @routes.get("/allocation_candidates", policy="placement:candidates:list", since=(1, 10), query=QUERY)
    async def list(self, call: Call) -> Reply:
        """List ways in which resources could be given: how much from which providers."""
        return queries.fresh(call, await self.db.scan(_found, asked(call), call))


def asked(call: Call) -> Request:
    """Raises Invalid."""
    suffixes = _suffixes(call)
    groups = [queries.group(call)] if not suffixes or any(name in call.query for name in PLAIN) else []
    groups += [queries.group(call, suffix) for suffix in suffixes]
    subtrees = tuple(frozenset(queries.words(each, "same_subtree")) for each in call.query.all("same_subtree"))
    free = frozenset().union(*subtrees)
    for group in groups:
        if not group.resources and not (group.suffix in free and group.required):
            message = f"All traits and aggregates go with resources: 'resources{group.suffix}' is missing."
            raise Invalid(message, type=queries.MISSING_VALUE)
    if free - set(suffixes):
        raise Invalid(f"Real suffixes should be specified in same_subtree: {sorted(free - set(suffixes))}.")
    queries.once(call, "root_required")
    required, forbidden = queries.traits(call.query.all("root_required"), call.version, "root_required")
    return Request(
        tuple(groups),
        _is_isolated(call, len(suffixes)),
        frozenset().union(*required),
        forbidden,
        subtrees,
        _limit(call),
        call.version in gates.NESTED,
    )


def _suffixes(call: Call) -> list[str]:
    """In the order of their first parameter. Raises Invalid for a parameter that does not exist."""
    found: dict[str, None] = {}
    for name in call.query:
        if name in QUERY and name in call.query:
            continue
        shape = NAMED if call.version in gates.NAMED_GROUPS else NUMBERED
        match = shape.fullmatch(name) if call.version in gates.GRANULAR else None
        if match is None:
            raise Invalid(f"Invalid query string parameters: {name[:64]!r} is unexpected.", type=queries.BAD_VALUE)
        found[match[2]] = None
    return list(found)


def _limit(call: Call) -> int | None:
    """Raises Invalid."""
    text = queries.once(call, "limit")
    if text is None:
        return None
    if re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII) is None:
        raise Invalid(
            f"Invalid query string parameters: limit {text[:64]!r} is no positive integer.", type=queries.BAD_VALUE
        )
    return int(text)


def _is_isolated(call: Call, groups: int) -> bool:
    """Raises Invalid."""
    policy = queries.once(call, "group_policy")
    if policy not in (None, "none", "isolate"):
        raise Invalid("The group_policy is 'none' or 'isolate'.", type=queries.BAD_VALUE)
    if policy is None and groups > 1:
        message = "The 'group_policy' parameter is required when specifying more than one group with a suffix."
        raise Invalid(message, type=queries.BAD_VALUE)
    return policy == "isolate"


def _check(conn: Connection, groups: tuple[Group, ...], root_traits: frozenset[str]) -> None:
    """Raises Invalid for a class, or a trait, that does not exist."""
    providers.check_classes(conn, {name for group in groups for name in group.resources})
    named = root_traits.union(*(group.forbidden.union(*group.required) for group in groups))
    if unknown := sorted(named - set(providers.traits(conn))):
        raise Invalid(f"No such trait(s): {', '.join(unknown)[:255]}.", type=queries.BAD_VALUE)


def _found(conn: Connection, request: Request, call: Call) -> dict[str, Any]:
    _check(conn, request.groups, request.root_required | request.root_forbidden)
    known = candidates.nodes(conn)
    ways = candidates.search(known, request)
    asked_for = {name for group in request.groups for name in group.resources}
    return {
        "allocation_requests": [_way(call, way) for way in ways],
        "provider_summaries": {node.id: _summary(call, node, asked_for) for node in _concerned(call, known, ways)},
    }


def _concerned(call: Call, known: Mapping[str, Node], ways: list[Way]) -> list[Node]:
    """The providers of the ways; from 1.29 on, with the whole of their trees."""
    ids = {id for way in ways for some in way.mappings.values() for id in some}
    if call.version not in gates.NESTED:
        return [node for node in known.values() if node.id in ids]
    roots = {known[id].provider.root_id for id in ids}
    return [node for node in known.values() if node.provider.root_id in roots]


def _way(call: Call, way: Way) -> dict[str, Any]:
    if call.version in gates.DICT_ALLOCATIONS:
        shown: dict[str, Any] = {"allocations": {id: {"resources": amounts} for id, amounts in way.shares.items()}}
    else:
        shown = {
            "allocations": [
                {"resource_provider": {"uuid": id}, "resources": amounts} for id, amounts in way.shares.items()
            ]
        }
    return {**shown, "mappings": way.mappings} if call.version in gates.MAPPINGS else shown


def _summary(call: Call, node: Node, asked_for: set[str]) -> dict[str, Any]:
    resources = {
        name: {"capacity": each.capacity, "used": each.used}
        for name, each in node.inventories.items()
        if name in asked_for or call.version in gates.EVERY_CLASS
    }
    return {"resources": resources, **OF_SUMMARY.of(call.version, node)}
