"""The list of role assignments: as granted, or effective. Reference: identity.md, section 6.

Effective means as tokens see it: groups are replaced by their members, inherited grants by the projects that they
reach, and roles are followed by those that they imply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from attrs import evolve, field, frozen
from sqlalchemy import exists, or_, select, tuple_

from cloudctl.db import Connection
from cloudctl.identity import effective
from cloudctl.identity.tables import Assignment, Membership, Project, Role
from cloudctl.rest.listing import Condition

PAGE = 500  # rows or projects read at once

Actor = tuple[str, str]  # kind and id


@frozen
class Wanted:
    """The filters of the query; empty: no filter."""

    user_id: str = ""
    group_id: str = ""
    role_id: str = ""
    project_id: str = ""
    domain_id: str = ""
    system: bool = False
    inherited: bool | None = None
    effective: bool = False
    include_subtree: bool = False
    include_names: bool = False


@frozen
class Holding:
    """Exactly one of `user_id` and `group_id`. `source_id` is the target that was named in the grant."""

    role_id: str
    target_kind: str
    target_id: str
    inherited: bool
    user_id: str = ""
    group_id: str = ""
    source_kind: str = ""
    source_id: str = ""
    through_group: str = field(default="", eq=False)
    prior_role: str = field(default="", eq=False)


def find(conn: Connection, wanted: Wanted, domain_id: str, most: int) -> list[Holding]:
    """At most `most` assignments that meet the filters; with `domain_id` only those on that domain or its projects.

    Nothing is read ahead: the cost depends on what is shown, not on how many projects there are.
    """
    walk = _effective if wanted.effective else _direct
    found: dict[Holding, None] = {}
    for one in walk(conn, wanted, Read(conn, _actors(conn, wanted), _conditions(conn, wanted, domain_id))):
        found.setdefault(one)
        if len(found) >= most:
            break
    return list(found)


# -- as granted


def _direct(conn: Connection, wanted: Wanted, rows: Read) -> Iterator[Holding]:
    targets = _targets(conn, wanted)
    if targets is None:
        yield from rows.all()
        return
    for chunk in _chunks(targets):
        yield from rows.on([target.id for target in chunk])


# -- as tokens see it


def _effective(conn: Connection, wanted: Wanted, rows: Read) -> Iterator[Holding]:
    targets = _targets(conn, wanted)
    reached = _all_reached(conn, rows) if targets is None else _reaching(rows, targets)
    implied = effective.implications(conn)
    # A domain's role stands for those that it implies; tokens do not show it.
    hidden = set(conn.execute(select(Role.id).where(Role.domain_id != "")).scalars())
    groups: dict[str, list[str]] = {}
    for one in reached:
        for member in _members(conn, one, wanted, groups):
            for role in _with_implied(member, implied):
                if role.role_id not in hidden and wanted.role_id in ("", role.role_id):
                    yield role


def _all_reached(conn: Connection, rows: Read) -> Iterator[Holding]:
    """Every assignment, on each target where it holds."""
    for one in rows.all():
        if not one.inherited:
            yield one
            continue
        for project in _below(conn, TreeNode(one.target_id)):
            yield evolve(one, target_kind="project", target_id=project.id)


def _reaching(rows: Read, targets: Iterable[TreeNode]) -> Iterator[Holding]:
    """The assignments that hold on these targets."""
    for chunk in _chunks(targets):
        sources = {id for target in chunk for id in (target.id, *target.above)}
        on: dict[str, list[Holding]] = {}
        for one in rows.on(sources):
            on.setdefault(one.target_id, []).append(one)
        for target in chunk:
            yield from (one for one in on.get(target.id, ()) if not one.inherited)
            for above in target.above:
                for one in on.get(above, ()):
                    if one.inherited:
                        yield evolve(one, target_kind="project", target_id=target.id)


def _members(conn: Connection, one: Holding, wanted: Wanted, groups: dict[str, list[str]]) -> Iterator[Holding]:
    """The assignment for each user who has it. `groups` remembers the members of groups."""
    if not one.group_id:
        yield one
        return
    if wanted.user_id:
        # Only grants to groups of this user were read.
        groups[one.group_id] = [wanted.user_id]
    if one.group_id not in groups:
        query = select(Membership.user_id).where(Membership.group_id == one.group_id)
        groups[one.group_id] = list(conn.execute(query.order_by(Membership.user_id)).scalars())
    for user_id in groups[one.group_id]:
        yield evolve(one, user_id=user_id, group_id="", through_group=one.group_id)


def _with_implied(one: Holding, implied: dict[str, set[str]]) -> Iterator[Holding]:
    yield one
    for role_id in sorted(effective.closed([one.role_id], implied) - {one.role_id}):
        yield evolve(one, role_id=role_id, prior_role=one.role_id)


# -- targets


@frozen
class TreeNode:
    """A target and the ids of the projects above it, its domain last."""

    id: str
    above: tuple[str, ...] = ()


def _targets(conn: Connection, wanted: Wanted) -> Iterator[TreeNode] | None:
    """The requested targets; None: any."""
    if wanted.system:
        return iter([TreeNode(effective.SYSTEM_TARGET)])
    if wanted.domain_id:
        return iter([TreeNode(wanted.domain_id)])
    if not wanted.project_id:
        return None
    top = TreeNode(wanted.project_id, tuple(effective.ancestors(conn, wanted.project_id)))
    return chain([top], _below(conn, top) if wanted.include_subtree else ())


def _below(conn: Connection, top: TreeNode) -> Iterator[TreeNode]:
    """The projects below, read as they are needed."""
    above = (top.id, *top.above)
    last = ""
    while True:
        query = select(Project.id).where(Project.parent_id == top.id, Project.id > last)
        page = list(conn.execute(query.order_by(Project.id).limit(PAGE)).scalars())
        parents = set(conn.execute(select(Project.parent_id).where(Project.parent_id.in_(page))).scalars())
        for id in page:
            yield TreeNode(id, above)
            if id in parents:
                yield from _below(conn, TreeNode(id, above))
        if len(page) < PAGE:
            return
        last = page[-1]


def _chunks(targets: Iterable[TreeNode]) -> Iterator[list[TreeNode]]:
    rest = iter(targets)
    while chunk := list(islice(rest, PAGE)):
        yield chunk


# -- rows


def _conditions(conn: Connection, wanted: Wanted, domain_id: str) -> list[Condition]:
    """The conditions on a row, apart from its target and its actor."""
    table, found = Assignment.table.c, list[Condition]()
    if wanted.role_id and wanted.effective:
        found.append(table.role_id.in_(sorted(effective.implying(conn, wanted.role_id))))
    elif wanted.role_id:
        found.append(table.role_id == wanted.role_id)
    if wanted.inherited:
        found.append(table.inherited == 1)
    if domain_id:
        # A tree of projects lies in one domain, so what is inherited comes from the same domain, too.
        inside = exists().where(Project.id == table.target_id, Project.domain_id == domain_id)
        found.append(or_(table.target_id == domain_id, inside))
    return found


def _actors(conn: Connection, wanted: Wanted) -> list[Actor] | None:
    """The actors whose assignments are requested; None: all."""
    if wanted.group_id:
        return [("group", wanted.group_id)]
    if not wanted.user_id:
        return None
    groups = select(Membership.group_id).where(Membership.user_id == wanted.user_id)
    through = conn.execute(groups.order_by(Membership.group_id)).scalars() if wanted.effective else ()
    return [("user", wanted.user_id), *(("group", id) for id in through)]


@frozen
class Read:
    """Reads the rows of some actors (None: of all) that meet the conditions."""

    conn: Connection
    actors: Sequence[Actor] | None
    conditions: Sequence[Condition]

    def all(self) -> Iterator[Holding]:
        """In the order of the primary key, page by page; actor by actor, so that the index has that order."""
        if self.actors is None:
            return self._pages(self.conditions)
        return chain.from_iterable(self._pages([*self.conditions, _is(actor)]) for actor in self.actors)

    def on(self, targets: Iterable[str]) -> Iterator[Holding]:
        # Names every kind, because the index begins with the kind.
        where: list[Condition] = [
            Assignment.target_kind.in_(["project", "domain", "system"]),
            Assignment.target_id.in_(list(targets)),
        ]
        if self.actors is not None:
            where.append(or_(*map(_is, self.actors)))
        order = (Assignment.target_kind, Assignment.target_id, Assignment.actor_id, Assignment.role_id)
        query = select(Assignment).where(*where, *self.conditions).order_by(*order)
        return map(_holding, self.conn.execute(query).all())

    def _pages(self, conditions: Sequence[Condition]) -> Iterator[Holding]:
        columns = Assignment.table.primary_key.columns
        query = select(Assignment).where(*conditions).order_by(*columns).limit(PAGE)
        page = self.conn.execute(query).all()
        while page:
            yield from map(_holding, page)
            if len(page) < PAGE:
                return
            last = tuple(getattr(page[-1], column.name) for column in columns)
            page = self.conn.execute(query.where(tuple_(*columns) > last)).all()


def _is(actor: Actor) -> Condition:
    kind, id = actor
    return (Assignment.actor_kind == kind) & (Assignment.actor_id == id)


def _holding(row: Assignment) -> Holding:
    return Holding(
        row.role_id,
        row.target_kind,
        row.target_id,
        bool(row.inherited),
        user_id=row.actor_id if row.actor_kind == "user" else "",
        group_id=row.actor_id if row.actor_kind == "group" else "",
        source_kind=row.target_kind,
        source_id=row.target_id,
    )
