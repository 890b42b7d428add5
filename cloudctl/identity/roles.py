"""Roles, and which imply which. Reference: identity.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.identity import cascade, domains, effective, epoch, records
from cloudctl.identity.domains import with_merged
from cloudctl.identity.records import check_mutable, folded, own_attributes
from cloudctl.identity.tables import ImpliedRole, Role

# What a domain's manager may give away.
MANAGEABLE = ("manager", "member", "reader")
ADMIN = "admin"


def get(conn: Connection, role_id: str, *, lock: bool = False, stays: bool = False) -> Role:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, Role, role_id, "role", lock=lock, stays=stays)


def create(conn: Connection, values: dict[str, Any], now: datetime) -> Role:
    """`values`: name, domain_id ("": of the whole cloud), description, options, extra. Raises NotFound, Conflict."""
    if values["domain_id"]:
        domains.get(conn, values["domain_id"], stays=True)
    row = {
        "id": new_hex_id(),
        **values,
        "name_key": folded(values["name"]),
        "extra": own_attributes(values.get("extra", {})),
        "created_at": now,
    }
    taken = Conflict(f"It is not permitted to have two roles with the same name in a domain: {values['name']}.")
    records.insert_unique(conn, Role, row, taken)
    return get(conn, row["id"])


def change(conn: Connection, role_id: str, changes: dict[str, Any]) -> Role:
    """Raises NotFound, Conflict, Forbidden (immutable), Invalid."""
    before = get(conn, role_id, lock=True)
    check_mutable(before.options, changes, "role", role_id)
    values = dict(changes)
    if "domain_id" in values and (values.pop("domain_id") or "") != before.domain_id:
        raise Invalid("The domain of a role cannot be changed.")
    taken = Conflict("It is not permitted to have two roles with the same name in a domain.")
    records.update_unique(conn, Role, role_id, with_merged(before, values), taken)
    epoch.changed(conn)
    return get(conn, role_id)


def remove(conn: Connection, role_id: str) -> None:
    """With its grants. Raises NotFound, Forbidden (immutable)."""
    check_mutable(get(conn, role_id, lock=True).options, None, "role", role_id)
    cascade.of_role(conn, role_id)
    conn.execute(delete(Role).where(Role.id == role_id))
    epoch.changed(conn)


# -- implications


def implies(conn: Connection, prior_id: str) -> Sequence[Role]:
    """The roles that `prior_id` implies directly, by name. Raises NotFound."""
    get(conn, prior_id)
    direct = select(ImpliedRole.implied_id).where(ImpliedRole.prior_id == prior_id)
    return conn.execute(select(Role).where(Role.id.in_(direct)).order_by(Role.name)).all()


def inference(conn: Connection, prior_id: str, implied_id: str) -> tuple[Role, Role]:
    """Both roles. Raises NotFound if the first does not imply the second."""
    prior, implied = get(conn, prior_id), get(conn, implied_id)
    if implied_id not in effective.implications(conn).get(prior_id, ()):
        raise records.not_found("implied role", implied_id)
    return prior, implied


def imply(conn: Connection, prior_id: str, implied_id: str) -> tuple[Role, Role]:
    """Raises NotFound, Forbidden (to imply admin, or a domain's role by one of the cloud), Invalid (a loop)."""
    prior, implied = get(conn, prior_id, stays=True), get(conn, implied_id, stays=True)
    # Others that change what implies what wait here: two of them could make a loop.
    epoch.changed(conn)
    if not implied.domain_id and implied.name == ADMIN:
        raise Forbidden(f"The role {ADMIN} cannot be an implied role.")
    if implied.domain_id and not prior.domain_id:
        raise Forbidden("A role of the whole cloud cannot imply one of a domain.")
    if prior_id in effective.closure(conn, [implied_id]):
        raise Invalid("A role cannot imply itself, directly or through others.")
    records.put(conn, ImpliedRole, prior_id=prior_id, implied_id=implied_id)
    return prior, implied


def no_longer_imply(conn: Connection, prior_id: str, implied_id: str) -> None:
    """Raises NotFound."""
    inference(conn, prior_id, implied_id)
    losing = cascade.who_may_lose(conn, prior_id, implied_id)
    mine = (ImpliedRole.prior_id == prior_id, ImpliedRole.implied_id == implied_id)
    conn.execute(delete(ImpliedRole).where(*mine))
    cascade.drop_what_lost_its_roles(conn, losing)
    epoch.changed(conn)


def inferences(conn: Connection) -> list[tuple[Role, list[Role]]]:
    """Every role that implies others, with those, by name."""
    by_id = {row.id: row for row in conn.execute(select(Role).order_by(Role.name))}
    found = effective.implications(conn)
    return [
        (row, sorted((by_id[id] for id in found[row.id] if id in by_id), key=lambda role: role.name))
        for row in by_id.values()
        if row.id in found
    ]
