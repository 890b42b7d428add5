"""Projects: trees below domains. Reference: identity.md, section 4."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, not_, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import cascade, effective, epoch, records, revocation
from cloudctl.identity.domains import with_merged
from cloudctl.identity.records import check_mutable, flag, folded, own_attributes, text_filters
from cloudctl.identity.tables import ApplicationCredential, Project, ProjectTag, User
from cloudctl.rest.listing import Condition, Filter, Listing, equals, words

MOST_TAGS = 80


def _tagged(names: list[str]) -> Condition:
    """Has any of these tags."""
    return Project.id.in_(select(ProjectTag.project_id).where(ProjectTag.name.in_(names)))


def _tag_filters() -> dict[str, Filter]:
    def names(values: Iterable[str]) -> list[str]:
        return words("tags", tuple(values))

    def every(found: list[str]) -> Condition:
        return and_(*(_tagged([name]) for name in found)) if found else Project.id.is_not(None)

    return {
        "tags": lambda values: every(names(values)),
        "tags-any": lambda values: _tagged(names(values)),
        "not-tags": lambda values: not_(every(names(values))),
        "not-tags-any": lambda values: not_(_tagged(names(values))),
    }


FILTERS: dict[str, Filter] = {
    **text_filters("name", Project.name),
    "domain_id": equals(Project.domain_id),
    "parent_id": equals(Project.parent_id),
    "enabled": flag(Project.enabled),
    "is_domain": flag(Project.is_domain),
    **_tag_filters(),
}

LISTING = Listing(
    Project.table,
    sort_keys={"id": Project.id, "name": Project.name, "created_at": Project.created_at},
    # The newest first, as servers and volumes are listed.
    order=(("created_at", "desc"),),
    filters=FILTERS,
)

# -- queries


def exists(conn: Connection, project_id: str) -> bool:
    query = select(Project.id).where(Project.id == project_id, Project.is_domain.is_(False))
    return conn.execute(query).first() is not None


def get(conn: Connection, project_id: str, *, lock: bool = False, stays: bool = False) -> Project:
    """As `records.get`; a domain is found, too. Raises NotFound."""
    return records.get(conn, Project, project_id, "project", lock=lock, stays=stays)


def tags(conn: Connection, project_ids: Iterable[str]) -> dict[str, list[str]]:
    """Project id → its tags in alphabetical order."""
    found: dict[str, list[str]] = {project_id: [] for project_id in project_ids}
    query = select(ProjectTag).where(ProjectTag.project_id.in_(found)).order_by(ProjectTag.name)
    for row in conn.execute(query):
        found[row.project_id].append(row.name)
    return found


def parents(conn: Connection, project_id: str) -> list[str]:
    """The ids of the projects above it, nearest first, the domain last."""
    return effective.ancestors(conn, project_id)


def children(conn: Connection, project_id: str) -> dict[str, Any]:
    """The tree below: `{id: {id: {}}}`."""
    ids = conn.execute(select(Project.id).where(Project.parent_id == project_id)).scalars().all()
    return {id: children(conn, id) for id in ids}


# -- actions


def create(conn: Connection, values: dict[str, Any], now: datetime, *, most_depth: int) -> Project:
    """`values`: name, domain_id, parent_id (empty: the domain), description, enabled, options, tags, extra.

    Raises NotFound (domain or parent), Conflict (name), Forbidden (too deep, parent disabled), Invalid.
    """
    values = dict(values)
    domain = get(conn, values["domain_id"])
    if not domain.is_domain:
        raise records.not_found("domain", values["domain_id"])
    parent_id = values.pop("parent_id", "") or domain.id
    wanted_tags = values.pop("tags", [])
    _check_parent(conn, domain.id, parent_id, most_depth)
    row = {
        "id": new_hex_id(),
        **values,
        "name_key": folded(values["name"]),
        "parent_id": parent_id,
        "extra": own_attributes(values.get("extra", {})),
        "created_at": now,
    }
    taken = Conflict(f"It is not permitted to have two projects with the same name in a domain: {values['name']}.")
    records.insert_unique(conn, Project, row, taken)
    set_tags(conn, row["id"], wanted_tags)
    return get(conn, row["id"])


def _check_parent(conn: Connection, domain_id: str, parent_id: str, most_depth: int) -> None:
    records.get(conn, Project, domain_id, "domain", stays=True)
    parent = get(conn, parent_id, stays=True)
    if (parent.domain_id or parent.id) != domain_id:
        raise Invalid("The parent project belongs to another domain.")
    if not parent.enabled:
        raise Forbidden(f"Cannot create a project below {parent_id}: it is disabled.")
    if len(effective.ancestors(conn, parent_id)) >= most_depth:
        raise Forbidden(f"The tree of projects has at most {most_depth} levels below the domain.")


def change(conn: Connection, project_id: str, changes: dict[str, Any], now: datetime) -> Project:
    """Disabling it takes its application credentials.

    Raises NotFound, Conflict, Forbidden (immutable, another parent, children or parent in the way), Invalid.
    """
    before = get(conn, project_id, lock=True)
    check_mutable(before.options, changes, "project", project_id)
    _check_fixed(before, changes)
    values = {name: value for name, value in changes.items() if name not in ("domain_id", "parent_id", "is_domain")}
    wanted_tags = values.pop("tags", None)
    enabled = values.get("enabled", before.enabled)
    if before.enabled and not enabled and not before.is_domain:
        _check_no_enabled_child(conn, project_id)
    if enabled and not before.enabled and before.parent_id and not get(conn, before.parent_id, stays=True).enabled:
        raise Forbidden(f"Cannot enable project {project_id}: its parent is disabled.")
    taken = Conflict("It is not permitted to have two projects with the same name in a domain.")
    records.update_unique(conn, Project, project_id, with_merged(before, values), taken)
    if wanted_tags is not None:
        set_tags(conn, project_id, wanted_tags)
    if before.enabled and not enabled:
        cascade.delete_application_credentials(conn, ApplicationCredential.project_id == project_id)
        revoke = revocation.revoke_domain if before.is_domain else revocation.revoke_project
        revoke(conn, project_id, now)
    epoch.changed(conn)
    return get(conn, project_id)


def _check_fixed(before: Project, changes: dict[str, Any]) -> None:
    if "parent_id" in changes and (changes["parent_id"] or "") != before.parent_id:
        raise Forbidden("The parent of a project cannot be changed.")
    if "domain_id" in changes and (changes["domain_id"] or "") != before.domain_id:
        raise Invalid("The domain of a project cannot be changed.")
    if "is_domain" in changes and changes["is_domain"] is not before.is_domain:
        raise Invalid("is_domain cannot be changed.")


def _check_no_enabled_child(conn: Connection, project_id: str) -> None:
    query = select(Project.id).where(Project.parent_id == project_id, Project.enabled)
    if conn.execute(query).first() is not None:
        raise Forbidden(f"Cannot disable project {project_id}: projects below it are enabled.")


def remove(conn: Connection, project_id: str) -> None:
    """What other services store for it stays. Raises NotFound, Forbidden (immutable, not a leaf, a domain)."""
    # Whose default project it is comes first, as where a user gets a role or a credential in it.
    users = select(User.id).where(User.default_project_id == project_id).order_by(User.id).with_for_update()
    conn.execute(users).all()
    before = get(conn, project_id, lock=True)
    check_mutable(before.options, None, "project", project_id)
    if before.is_domain:
        raise Forbidden("A domain is deleted as a domain.")
    if conn.execute(select(Project.id).where(Project.parent_id == project_id)).first() is not None:
        raise Forbidden(f"Cannot delete project {project_id}: there are projects below it.")
    cascade.of_project(conn, project_id)
    conn.execute(delete(Project).where(Project.id == project_id))
    epoch.changed(conn)


def hold(conn: Connection, project_id: str) -> None:
    """Lock it before its tags change. Raises NotFound, Forbidden (immutable)."""
    check_mutable(get(conn, project_id, lock=True).options, None, "project", project_id)


def set_tags(conn: Connection, project_id: str, names: Iterable[str]) -> None:
    """Replace them. Raises Invalid for more than 80 and for repeated ones."""
    wanted = list(names)
    if len(wanted) != len(set(wanted)):
        raise Invalid("The tags are not unique.")
    if len(wanted) > MOST_TAGS:
        raise Invalid(f"A project has at most {MOST_TAGS} tags.")
    conn.execute(delete(ProjectTag).where(ProjectTag.project_id == project_id))
    for name in wanted:
        records.put(conn, ProjectTag, project_id=project_id, name=name)


def add_tag(conn: Connection, project_id: str, name: str) -> None:
    """Raises Invalid beyond 80."""
    set_tags(conn, project_id, dict.fromkeys([*tags(conn, [project_id])[project_id], name]))


def remove_tag(conn: Connection, project_id: str, name: str) -> bool:
    """Returns whether the project had it."""
    mine = (ProjectTag.project_id == project_id, ProjectTag.name == name)
    return conn.execute(delete(ProjectTag).where(*mine)).rowcount > 0
