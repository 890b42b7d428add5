"""Allocation candidates: the ways in which providers could give what is requested. Pure, except for one read.

A request consists of groups. All of a group with a suffix comes from one provider; what the group without one requests
may be spread over the providers of one tree, and over those that share what they have with it through an aggregate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from attrs import field, frozen
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.placement.allocations import Amounts, too_much
from cloudctl.placement.names import SHARES
from cloudctl.placement.tables import Inventory, Provider, ProviderAggregate, ProviderTrait

# Maximum numbers of ways that are looked at: they multiply.
MOST = 1000
TRIED = 20_000


@frozen
class Group:
    """`required`: a trait of each of these sets must be present; `member_of`: an aggregate of each of these."""

    suffix: str = ""
    resources: Amounts = field(factory=dict)
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = frozenset()
    in_tree: str | None = None


@frozen
class Request:
    """`isolate`: groups with a suffix come from different providers. `subtrees`: suffixes of groups whose providers
    are all at or below one of them."""

    groups: tuple[Group, ...]
    isolate: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    subtrees: tuple[frozenset[str], ...] = ()
    limit: int | None = None
    nested: bool = True  # several providers of one tree may take a part


@frozen
class Node:
    """A provider with all that is known about it."""

    provider: Provider
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    aggregates: frozenset[str]

    @property
    def id(self) -> str:
        return self.provider.id

    def fits(self, resources: Amounts) -> bool:
        return not any(too_much(self.inventories.get(name), amount) for name, amount in resources.items())


@frozen
class Way:
    """One way: provider → amounts, and suffix → the providers of its group."""

    shares: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]


def nodes(conn: Connection) -> dict[str, Node]:
    """Every provider, in the order in which they were created."""
    inventories: dict[str, dict[str, Inventory]] = defaultdict(dict)
    for each in conn.execute(select(Inventory).order_by(Inventory.resource_class)):
        inventories[each.provider_id][each.resource_class] = each
    traits: dict[str, set[str]] = defaultdict(set)
    for trait in conn.execute(select(ProviderTrait)):
        traits[trait.provider_id].add(trait.trait)
    aggregates: dict[str, set[str]] = defaultdict(set)
    for member in conn.execute(select(ProviderAggregate)):
        aggregates[member.provider_id].add(member.aggregate_id)
    return {
        row.id: Node(row, inventories[row.id], frozenset(traits[row.id]), frozenset(aggregates[row.id]))
        for row in conn.execute(select(Provider).order_by(Provider.number))
    }


def belongs(node: Node, root: Node, group: Group) -> bool:
    """Whether aggregates allow it. Those of a root are its whole tree's for the group without a suffix."""
    nodes = (node,) if group.suffix else (node, root)
    inside = any(all(each.aggregates & any_of for any_of in group.member_of) for each in nodes)
    return inside and not any(each.aggregates & group.not_member_of for each in nodes)


def suits(node: Node, root: Node, group: Group, tree_of: str | None) -> bool:
    """Whether one provider alone satisfies a group. `tree_of`: the root of what `in_tree` names."""
    return (
        belongs(node, root, group)
        and (group.in_tree is None or node.provider.root_id == tree_of)
        and has_traits(node.traits, group)
        and node.fits(group.resources)
    )


def has_traits(traits: Iterable[str], group: Group) -> bool:
    there = frozenset(traits)
    return all(there & any_of for any_of in group.required) and not there & group.forbidden


def root_of(known: Mapping[str, Node], group: Group) -> str | None:
    """The root of the provider that `in_tree` names; None also if there is no such provider: nothing is found then."""
    node = known.get(group.in_tree or "")
    return None if node is None else node.provider.root_id


def search(known: Mapping[str, Node], request: Request) -> list[Way]:
    """Different ways, in the order of the trees."""
    found: dict[tuple[tuple[str, tuple[tuple[str, int], ...]], ...], Way] = {}
    most = MOST if request.limit is None else min(request.limit, MOST)
    for way in _every(known, request):
        key = tuple(sorted((id, tuple(sorted(amounts.items()))) for id, amounts in way.shares.items()))
        found.setdefault((*key, *sorted((s, tuple((i, 0) for i in ids)) for s, ids in way.mappings.items())), way)
        if len(found) >= most:
            break
    return list(found.values())


def _every(known: Mapping[str, Node], request: Request) -> Iterator[Way]:
    trees: dict[str, list[Node]] = defaultdict(list)
    for node in known.values():
        trees[node.provider.root_id].append(node)
    sharing = [node for node in known.values() if SHARES in node.traits]
    for root_id, tree in trees.items():
        root = known[root_id]
        if not request.root_required <= root.traits or root.traits & request.root_forbidden:
            continue
        there = frozenset().union(*(node.aggregates for node in tree))
        shared = [node for node in sharing if node.aggregates & there and node.provider.root_id != root_id]
        yield from _of_tree(known, request, tree, shared)


def _of_tree(
    known: Mapping[str, Node], request: Request, tree: Sequence[Node], shared: Sequence[Node]
) -> Iterator[Way]:
    choices = []
    for group in request.groups:
        tree_of = root_of(known, group)
        if group.suffix or not group.resources:
            one = [node for node in (*tree, *shared) if suits(node, known[node.provider.root_id], group, tree_of)]
            options = [dict.fromkeys(group.resources or ("",), node) for node in one]
        else:
            options = list(islice(_spread(known, group, tree, shared, tree_of), MOST))
        if not options:
            return
        choices.append(options)
    for picked in islice(product(*choices), TRIED):
        way = _way(known, request, picked)
        if way is None:
            continue
        roots = [known[id].provider.root_id for id in _ids(way)]
        # Some provider of the tree must take part: those that share do not belong to it.
        if tree[0].provider.root_id in roots and (request.nested or len(set(roots)) == len(roots)):
            yield way


def _ids(way: Way) -> set[str]:
    return {id for ids in way.mappings.values() for id in ids}


def _spread(
    known: Mapping[str, Node], group: Group, tree: Sequence[Node], shared: Sequence[Node], tree_of: str | None
) -> Iterator[dict[str, Node]]:
    """Resource class → its provider. The traits must be among those of the providers that give something."""
    by_class = []
    for name, amount in group.resources.items():
        giving = [
            node
            for node in (*tree, *shared)
            if node.fits({name: amount})
            and belongs(node, known[node.provider.root_id], group)
            and not node.traits & group.forbidden
            and (group.in_tree is None or node.provider.root_id == tree_of)
        ]
        by_class.append([(name, node) for node in giving])
    for picked in islice(product(*by_class), TRIED):
        option = dict(picked)
        if has_traits(frozenset().union(*(node.traits for node in option.values())), group):
            yield option


def _way(known: Mapping[str, Node], request: Request, picked: Sequence[Mapping[str, Node]]) -> Way | None:
    """None if the groups together take too much of a provider, or are where they may not be."""
    shares: dict[str, dict[str, int]] = defaultdict(dict)
    mappings: dict[str, list[str]] = {}
    for group, option in zip(request.groups, picked, strict=True):
        mappings[group.suffix] = list(dict.fromkeys(node.id for node in option.values()))
        for name, amount in group.resources.items():
            mine = shares[option[name].id]
            mine[name] = mine.get(name, 0) + amount
    alone = [ids[0] for suffix, ids in mappings.items() if suffix]
    if request.isolate and len(set(alone)) < len(alone):
        return None
    if not all(known[id].fits(amounts) for id, amounts in shares.items()):
        return None
    if not all(_together(known, mappings, suffixes) for suffixes in request.subtrees):
        return None
    return Way({id: dict(amounts) for id, amounts in shares.items()}, mappings)


def _together(known: Mapping[str, Node], mappings: Mapping[str, Sequence[str]], suffixes: Iterable[str]) -> bool:
    """Whether one of these providers is above all the others."""
    ids = {id for suffix in suffixes for id in mappings.get(suffix, ())}
    return any(all(above in _line(known, id) for id in ids) for above in ids)


def _line(known: Mapping[str, Node], id: str) -> list[str]:
    """A provider and those above it."""
    found: list[str] = []
    at: str | None = id
    while at is not None:
        found.append(at)
        at = known[at].provider.parent_id
    return found
