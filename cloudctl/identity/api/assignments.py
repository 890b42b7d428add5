"""/role_assignments. Reference: identity.md, section 6."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import assignment_list, records
from cloudctl.identity.api.collection import listed
from cloudctl.identity.assignment_list import Holding, Wanted
from cloudctl.identity.tables import Group, Project, Role, User
from cloudctl.rest.call import Call, Query
from cloudctl.rest.route import Routes

FILTERS = (
    "user.id",
    "group.id",
    "role.id",
    "scope.project.id",
    "scope.domain.id",
    "scope.system",
    "scope.OS-INHERIT:inherited_to",
    "effective",
    "include_names",
    "include_subtree",
)


@frozen
class Names:
    """id → (name, domain id), of everything that a list shows; without names nothing is looked up."""

    users: dict[str, tuple[str, str]]
    groups: dict[str, tuple[str, str]]
    roles: dict[str, tuple[str, str]]
    projects: dict[str, tuple[str, str]]

    def shown(self, kind: str, id: str) -> dict[str, Any]:
        found = getattr(self, kind).get(id)
        if found is None:
            return {"id": id}
        name, domain_id = found
        return {"id": id, "name": name, **self._domain(kind, domain_id)}

    def _domain(self, kind: str, domain_id: str) -> dict[str, Any]:
        if domain_id:
            return {"domain": {"id": domain_id, "name": self.projects.get(domain_id, ("", ""))[0]}}
        return {"domain": None} if kind == "roles" else {}


def filters(query: Query) -> Wanted:
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


@frozen
class RoleAssignments:
    db: Database

    routes = Routes("Role assignments")

    @routes.get("/role_assignments", policy="identity:list_role_assignments", query=FILTERS)
    async def list(self, call: Call) -> dict[str, Any]:
        """List role assignments"""
        wanted = filters(call.query)
        asked = call.query.integer("limit")
        limit = min(asked or records.MOST, records.MOST)
        views, more = await self.db.scan(self._list, call, wanted, limit)
        body = listed(call, "role_assignments", views)
        if more and not asked:
            body["truncated"] = True
        return body

    def _list(self, conn: Connection, call: Call, wanted: Wanted, limit: int) -> tuple[Any, bool]:
        found = assignment_list.find(conn, wanted, call.identity.domain_id, limit + 1)
        shown = found[:limit]
        names = look_up(conn, shown) if wanted.include_names else Names({}, {}, {}, {})
        return [view(call, one, names) for one in shown], len(found) > limit


Named = User | Group | Role | Project


def look_up(conn: Connection, found: Iterable[Holding]) -> Names:
    def named(record: type[Named], ids: set[str]) -> dict[str, tuple[str, str]]:
        query = select(record.id, record.name, record.domain_id).where(record.id.in_(ids))
        return {id: (name, domain_id) for id, name, domain_id in conn.execute(query)}

    rows = [*found]
    by_user = named(User, {one.user_id for one in rows})
    by_group = named(Group, {one.group_id for one in rows})
    by_role = named(Role, {one.role_id for one in rows})
    by_project = named(Project, {one.target_id for one in rows})
    domain_ids = {domain for kind in (by_user, by_group, by_role, by_project) for _, domain in kind.values()}
    return Names(by_user, by_group, by_role, by_project | named(Project, domain_ids))


def view(call: Call, one: Holding, names: Names) -> dict[str, Any]:
    root = f"{call.root_url}/v3"
    kind, id = ("users", one.user_id) if one.user_id else ("groups", one.group_id)
    if one.target_kind == "system":
        scope: dict[str, Any] = {"system": {"all": True}}
    else:
        scope = {one.target_kind: names.shown("projects", one.target_id)}
    if one.inherited:
        scope["OS-INHERIT:inherited_to"] = "projects"
    links = {"assignment": root + path(one)}
    if one.through_group:
        links["membership"] = f"{root}/groups/{one.through_group}/users/{one.user_id}"
    if one.prior_role:
        links["prior_role"] = f"{root}/roles/{one.prior_role}"
    return {"role": names.shown("roles", one.role_id), kind[:-1]: names.shown(kind, id), "scope": scope, "links": links}


def path(one: Holding) -> str:
    """The path of the grant that it comes from."""
    actor = (
        f"groups/{one.through_group or one.group_id}" if one.through_group or one.group_id else f"users/{one.user_id}"
    )
    role_id = one.prior_role or one.role_id
    if one.source_kind == "system":
        return f"/system/{actor}/roles/{role_id}"
    grant = f"/{one.source_kind}s/{one.source_id}/{actor}/roles/{role_id}"
    return f"/OS-INHERIT{grant}/inherited_to_projects" if one.inherited else grant
