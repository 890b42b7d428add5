"""Which policy an endpoint is to follow: its own, else its service's in its region or the next above that has one, else
its service's. It is stored for those who ask; nothing here follows it.
"""

from __future__ import annotations

from typing import Any

from attrs import asdict, frozen
from sqlalchemy import ColumnElement, and_, bindparam, delete, insert, or_, select, tuple_, update

from cloudctl.db import Connection, Record
from cloudctl.errors import NotFound
from cloudctl.identity import records
from cloudctl.identity.tables import Endpoint, PolicyAssociation, PolicyBlob, Region, Service
from cloudctl.rest.listing import Condition


@frozen(kw_only=True)
class Target:
    """What a policy is associated with: an endpoint, a service, or a service in a region; the rest is empty."""

    endpoint_id: str = ""
    service_id: str = ""
    region_id: str = ""

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        return records.having(PolicyAssociation, asdict(self))


PARTS: tuple[tuple[str, type[Record], str], ...] = (
    ("service_id", Service, "service"),
    ("endpoint_id", Endpoint, "endpoint"),
    ("region_id", Region, "region"),
)


def associate(conn: Connection, policy_id: str, target: Target) -> None:
    """In place of the policy that the target has. Raises NotFound."""
    records.get(conn, PolicyBlob, policy_id, "policy", stays=True)
    # The service or the endpoint is locked, so that whoever comes next finds what this one has written.
    for name, record, kind in PARTS:
        if id := getattr(target, name):
            records.get(conn, record, id, kind, lock=name != "region_id", stays=True)
    if not conn.execute(update(PolicyAssociation).where(*target.conditions).values(policy_id=policy_id)).rowcount:
        conn.execute(insert(PolicyAssociation).values({**asdict(target), "policy_id": policy_id}))


def check_associated(conn: Connection, policy_id: str, target: Target) -> None:
    """Raises NotFound."""
    _check_all(conn, policy_id, target)
    query = select(PolicyAssociation).where(*target.conditions, PolicyAssociation.policy_id == policy_id)
    if conn.execute(query).first() is None:
        raise records.not_found("association of the policy", policy_id)


def dissociate(conn: Connection, policy_id: str, target: Target) -> None:
    """Nothing happens if they are not associated. Raises NotFound."""
    _check_all(conn, policy_id, target)
    conn.execute(delete(PolicyAssociation).where(*target.conditions, PolicyAssociation.policy_id == policy_id))


def _check_all(conn: Connection, policy_id: str, target: Target) -> None:
    records.get(conn, PolicyBlob, policy_id, "policy")
    for name, record, kind in PARTS:
        if id := getattr(target, name):
            records.get(conn, record, id, kind)


def drop(conn: Connection, which: ColumnElement[bool]) -> None:
    """Those of a policy, an endpoint, a service or a region that is being removed, and that its caller has locked."""
    key = (PolicyAssociation.endpoint_id, PolicyAssociation.service_id, PolicyAssociation.region_id)
    # In one order: two removals that both meet some of them then do not wait for each other in a circle.
    locked = conn.execute(select(*key).where(which).order_by(*key).with_for_update()).all()
    if locked:
        conn.execute(delete(PolicyAssociation).where(which))


# -- which policy, which endpoints. Built once: building a query costs more than running it.


def _above() -> Any:
    """The region and those above it: id and parent."""
    of = select(Region.id, Region.parent_region_id).where(Region.id == bindparam("region"))
    above = of.cte("above", recursive=True)
    return above.union(select(Region.id, Region.parent_region_id).where(Region.id == above.c.parent_region_id))


_regions_above = _above()
_parents = select(_regions_above.c.id, _regions_above.c.parent_region_id)
_candidates = select(PolicyAssociation).where(
    or_(
        PolicyAssociation.endpoint_id == bindparam("endpoint"),
        and_(
            PolicyAssociation.service_id == bindparam("service"),
            or_(PolicyAssociation.region_id == "", PolicyAssociation.region_id.in_(select(_above().c.id))),
        ),
    )
)


def of_endpoint(conn: Connection, endpoint_id: str) -> PolicyBlob:
    """The policy that counts for it. Raises NotFound."""
    endpoint = records.get(conn, Endpoint, endpoint_id, "endpoint")
    region = {"region": endpoint.region_id or ""}
    parents = dict(conn.execute(_parents, region))
    wanted = {"endpoint": endpoint_id, "service": endpoint.service_id, **region}
    found = {(row.endpoint_id, row.region_id): row.policy_id for row in conn.execute(_candidates, wanted)}
    places = [(endpoint_id, "")]
    above = endpoint.region_id
    while above is not None and above in parents:
        places.append(("", above))
        above = parents.pop(above)
    places.append(("", ""))
    for place in places:
        if place in found:
            return records.get(conn, PolicyBlob, found[place], "policy")
    raise NotFound(f"No policy is associated with the endpoint {endpoint_id[:64]}.")


def of_policy(conn: Connection, policy_id: str) -> Condition:
    """The endpoints with which a policy is associated in any way, also where another one counts. Raises NotFound."""
    records.get(conn, PolicyBlob, policy_id, "policy")
    mine = PolicyAssociation.policy_id == policy_id
    own = select(PolicyAssociation.endpoint_id).where(mine)
    everywhere = select(PolicyAssociation.service_id).where(mine, PolicyAssociation.region_id == "")
    regional = select(PolicyAssociation.service_id, PolicyAssociation.region_id)
    below = regional.where(mine, PolicyAssociation.region_id != "").cte("below", recursive=True)
    below = below.union(select(below.c.service_id, Region.id).where(Region.parent_region_id == below.c.region_id))
    return or_(
        Endpoint.id.in_(own),
        Endpoint.service_id.in_(everywhere),
        tuple_(Endpoint.service_id, Endpoint.region_id).in_(select(below.c.service_id, below.c.region_id)),
    )
