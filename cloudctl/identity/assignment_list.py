"""The list of role assignments: as granted, or effective. Reference: identity.md, section 6.

Effective means as tokens see it: groups are replaced by their members, inherited grants by the projects that they
reach, and roles are followed by those that they imply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve, field, frozen
from sqlalchemy import ColumnElement, Connection, or_, select

from cloudctl.errors import Invalid
from cloudctl.identity import effective
from cloudctl.identity.tables import assignments, memberships, projects, roles
from cloudctl.rest.call import Query


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
class Assignment:
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


def wanted(query: Query) -> Wanted:
    """Raises Invalid for filters that contradict each other."""
    inherited_to = query.get("scope.OS-INHERIT:inherited_to")
    found = Wanted(
        user_id=query.get("user.id") or "",
        group_id=query.get("group.id") or "",
        role_id=query.get("role.id") or "",
        project_id=query.get("scope.project.id") or "",
        domain_id=query.get("scope.domain.id") or "",
        system="scope.system" in query,
        inherited=True if inherited_to == "projects" else None,
        effective=query.flag("effective"),
        include_subtree=query.flag("include_subtree"),
        include_names=query.flag("include_names"),
    )
    wrong = {
        "Specify a user or a group, not both.": found.user_id and found.group_id,
        "Specify a project or a domain, not both.": found.project_id and found.domain_id,
        "Specify the system or a project or domain, not both.": found.system and (found.project_id or found.domain_id),
        "Effective assignments have no groups.": found.effective and found.group_id,
        "Effective assignments on a domain are not inherited.": found.effective and found.domain_id and found.inherited,
        "include_subtree needs scope.project.id.": found.include_subtree and not found.project_id,
        "scope.OS-INHERIT:inherited_to is 'projects'.": inherited_to not in (None, "projects"),
    }
    for message, is_so in wrong.items():
        if is_so:
            raise Invalid(message)
    return found


def find(conn: Connection, wanted: Wanted, domain_id: str = "") -> list[Assignment]:
    """What meets the filters; with `domain_id` only what is on that domain or on its projects."""
    found = _effective(conn, wanted) if wanted.effective else _direct(conn, wanted)
    if domain_id:
        own = select(projects.c.id).where(projects.c.domain_id == domain_id)
        inside = {domain_id, *conn.execute(own).scalars()}
        found = (one for one in found if one.target_id in inside)
    return list(dict.fromkeys(found))


def _direct(conn: Connection, wanted: Wanted) -> Iterator[Assignment]:
    for one in _rows(conn, wanted, _targets(conn, wanted)):
        if wanted.role_id in ("", one.role_id) and wanted.inherited in (None, one.inherited):
            yield one


def _effective(conn: Connection, wanted: Wanted) -> Iterator[Assignment]:
    targets = _targets(conn, wanted)
    sources = targets
    if targets is not None and wanted.project_id:
        sources = set(targets) | {above for id in targets for above in effective.ancestors(conn, id)}
    below = _Tree(conn)
    implied = effective.implications(conn)
    # A domain's role stands for those that it implies; tokens do not show it.
    hidden = set(conn.execute(select(roles.c.id).where(roles.c.domain_id != "")).scalars())
    for one in _rows(conn, wanted, sources):
        for reached in below.reached(one):
            if targets is not None and reached.target_id not in targets:
                continue
            for member in _members(conn, reached, wanted):
                for role in _with_implied(member, implied):
                    if role.role_id in hidden:
                        continue
                    if wanted.role_id in ("", role.role_id) and wanted.inherited in (None, role.inherited):
                        yield role


def _targets(conn: Connection, wanted: Wanted) -> set[str] | None:
    """The ids of the targets asked for; None: any."""
    if wanted.system:
        return {effective.SYSTEM_TARGET}
    if wanted.domain_id:
        return {wanted.domain_id}
    if not wanted.project_id:
        return None
    if not wanted.include_subtree:
        return {wanted.project_id}
    return {wanted.project_id, *_Tree(conn).below(wanted.project_id)}


def _rows(conn: Connection, wanted: Wanted, targets: Iterable[str] | None) -> Iterator[Assignment]:
    query = select(assignments)
    if targets is not None:
        # All the kinds that there are: the index begins with the kind.
        kinds = assignments.c.target_kind.in_(["project", "domain", "system"])
        query = query.where(kinds, assignments.c.target_id.in_(list(targets)))
    if wanted.group_id:
        query = query.where(assignments.c.actor_kind == "group", assignments.c.actor_id == wanted.group_id)
    if wanted.user_id:
        itself: ColumnElement[bool] = (assignments.c.actor_kind == "user") & (assignments.c.actor_id == wanted.user_id)
        if wanted.effective:
            mine = select(memberships.c.group_id).where(memberships.c.user_id == wanted.user_id).scalar_subquery()
            itself = or_(itself, (assignments.c.actor_kind == "group") & assignments.c.actor_id.in_(mine))
        query = query.where(itself)
    order = (assignments.c.target_kind, assignments.c.target_id, assignments.c.actor_id, assignments.c.role_id)
    for row in conn.execute(query.order_by(*order)).all():
        yield Assignment(
            row.role_id,
            row.target_kind,
            row.target_id,
            bool(row.inherited),
            user_id=row.actor_id if row.actor_kind == "user" else "",
            group_id=row.actor_id if row.actor_kind == "group" else "",
            source_kind=row.target_kind,
            source_id=row.target_id,
        )


class _Tree:
    """The projects of the cloud by parent, read once if it is needed at all."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self._children: dict[str, list[str]] | None = None

    def below(self, id: str) -> Iterator[str]:
        if self._children is None:
            self._children = {}
            for row in self.conn.execute(select(projects.c.id, projects.c.parent_id).order_by(projects.c.id)):
                self._children.setdefault(row.parent_id, []).append(row.id)
        for child in self._children.get(id, ()):
            yield child
            yield from self.below(child)

    def reached(self, one: Assignment) -> Iterator[Assignment]:
        """The assignment on each target where it holds."""
        if not one.inherited:
            yield one
            return
        for project_id in self.below(one.target_id):
            yield evolve(one, target_kind="project", target_id=project_id)


def _members(conn: Connection, one: Assignment, wanted: Wanted) -> Iterator[Assignment]:
    """The assignment for each user who has it."""
    if not one.group_id:
        yield one
        return
    query = select(memberships.c.user_id).where(memberships.c.group_id == one.group_id)
    for user_id in conn.execute(query.order_by(memberships.c.user_id)).scalars().all():
        if wanted.user_id in ("", user_id):
            yield evolve(one, user_id=user_id, group_id="", through_group=one.group_id)


def _with_implied(one: Assignment, implied: dict[str, set[str]]) -> Iterator[Assignment]:
    yield one
    for role_id in sorted(effective.closed([one.role_id], implied) - {one.role_id}):
        yield evolve(one, role_id=role_id, prior_role=one.role_id)
