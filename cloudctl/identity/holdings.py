"""What a user or a group holds, and whether a domain's manager could give all of it: identity.md, «Personas», DM.

Setting a user's password makes it possible to act as that user, and putting a user into a group gives away what the
group has. So both are only for callers who could have given every part of it.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, or_, select

from cloudctl.db import Connection
from cloudctl.errors import Forbidden
from cloudctl.identity.assignments import Actor
from cloudctl.identity.effective import is_actor
from cloudctl.identity.roles import MANAGEABLE
from cloudctl.identity.tables import Assignment, Project, Role, Trust, TrustRole
from cloudctl.rest.caller import Caller

RULE = "identity:change_privileged"


def check_manageable(conn: Connection, caller: Caller, actor: Actor) -> None:
    """Raises Forbidden if the actor holds anything that the caller could not give."""
    if caller.may(RULE):
        return
    held = is_actor(actor.id) if actor.kind == "user" else _is_group(actor.id)
    foreign = (
        select(Assignment.role_id)
        .outerjoin(Role, Role.id == Assignment.role_id)
        .outerjoin(Project, Project.id == Assignment.target_id)
        .where(held, or_(Assignment.target_kind == "system", _beyond(caller.identity.domain_id)))
    )
    beyond = conn.execute(foreign.limit(1)).first() is not None
    if beyond or (actor.kind == "user" and _has_received(conn, caller, actor.id)):
        raise Forbidden(f"The {actor.kind} {actor.id} has roles that you could not give.")


def _is_group(group_id: str) -> ColumnElement[bool]:
    return and_(Assignment.actor_kind == "group", Assignment.actor_id == group_id)


def _beyond(domain_id: str) -> ColumnElement[bool]:
    """A role that a domain's manager does not give, or one on something outside the domain."""
    role = and_(Role.name.in_(MANAGEABLE), Role.domain_id == "")
    place = or_(Project.id == domain_id, Project.domain_id == domain_id)
    # A missing role or project (NULL) is beyond, too.
    return or_(Role.id.is_(None), Project.id.is_(None), ~role, ~place)


def _has_received(conn: Connection, caller: Caller, user_id: str) -> bool:
    """Whether the user is the trustee of trusts that go beyond."""
    query = (
        select(Trust.id)
        .join(TrustRole, TrustRole.trust_id == Trust.id)
        .outerjoin(Role, Role.id == TrustRole.role_id)
        .outerjoin(Project, Project.id == Trust.project_id)
        .where(
            Trust.trustee_user_id == user_id,
            or_(Trust.expires_at.is_(None), Trust.expires_at > caller.now),
            _beyond(caller.identity.domain_id),
        )
    )
    return conn.execute(query.limit(1)).first() is not None
