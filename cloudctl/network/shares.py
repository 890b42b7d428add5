"""Who may use another project's records: shares, which the API calls RBAC policies. Reference: network.md, section 11.

One row is one share: of a record, with a project or with everybody (`*`). `shared` of a record is a share with
everybody, and an external network is shared with those who may put a router or a floating IP on it. This does not
depend on the records' own modules, so that all of them can use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Column, Select, bindparam, delete, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.network import standard
from cloudctl.network.tables import (
    AddressGroup,
    AddressScope,
    FloatingIp,
    Network,
    Port,
    PortSecurityGroup,
    QosPolicy,
    RbacPolicy,
    Router,
    RouterPort,
    SecurityGroup,
    SecurityGroupRule,
    Standard,
    Subnet,
    SubnetPool,
)
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition

EVERYBODY = "*"
SHARED, EXTERNAL = "access_as_shared", "access_as_external"
NETWORK, QOS_POLICY, SECURITY_GROUP = "network", "qos_policy", "security_group"
ADDRESS_GROUP, ADDRESS_SCOPE, SUBNET_POOL = "address_group", "address_scope", "subnetpool"

TABLES: Mapping[str, type[Standard]] = {
    NETWORK: Network,
    QOS_POLICY: QosPolicy,
    SECURITY_GROUP: SecurityGroup,
    ADDRESS_GROUP: AddressGroup,
    ADDRESS_SCOPE: AddressScope,
    SUBNET_POOL: SubnetPool,
}
"""Type of object → its records."""


def _users(project: Column[str], *by: Any) -> Select[str]:
    return select(project).where(*by).distinct()


_of: BindParameter[str] = bindparam("of")
_in_group = select(PortSecurityGroup.port_id).where(PortSecurityGroup.security_group_id == _of)
_on_network = select(RouterPort.router_id).where(RouterPort.network_id == _of, RouterPort.is_gateway.is_(True))
# A router's gateway belongs to no project.
_limited = (
    select(RouterPort.router_id)
    .join_from(RouterPort, Port, Port.id == RouterPort.port_id)
    .where(Port.qos_policy_id == _of, RouterPort.is_gateway.is_(True))
)
# (type, action) → the projects that use an object.
USERS: Mapping[tuple[str, str], tuple[Select[str], ...]] = {
    (NETWORK, SHARED): (
        _users(Port.project_id, Port.network_id == _of),
        _users(Subnet.project_id, Subnet.network_id == _of),
    ),
    (NETWORK, EXTERNAL): (
        _users(FloatingIp.project_id, FloatingIp.floating_network_id == _of),
        _users(Router.project_id, Router.id.in_(_on_network)),
    ),
    (QOS_POLICY, SHARED): (
        _users(Network.project_id, Network.qos_policy_id == _of),
        _users(Port.project_id, Port.qos_policy_id == _of),
        _users(FloatingIp.project_id, FloatingIp.qos_policy_id == _of),
        _users(Router.project_id, Router.id.in_(_limited)),
    ),
    (SECURITY_GROUP, SHARED): (
        _users(Port.project_id, Port.id.in_(_in_group)),
        _users(SecurityGroupRule.project_id, SecurityGroupRule.remote_group_id == _of),
    ),
    (ADDRESS_GROUP, SHARED): (_users(SecurityGroupRule.project_id, SecurityGroupRule.remote_address_group_id == _of),),
    (ADDRESS_SCOPE, SHARED): (_users(SubnetPool.project_id, SubnetPool.address_scope_id == _of),),
    (SUBNET_POOL, SHARED): (_users(Subnet.project_id, Subnet.subnetpool_id == _of),),
}

# Built once: building a statement costs more than running it.
_targets = RbacPolicy.target.in_((EVERYBODY, bindparam("project")))
_reaches = select(RbacPolicy.id).where(RbacPolicy.object_id == _of, _targets).limit(1)
_reaches_as = _reaches.where(RbacPolicy.action == bindparam("as"))
_seen = select(RbacPolicy.object_id).where(RbacPolicy.object_type == bindparam("type"), _targets).distinct()
_seen_as = _seen.where(RbacPolicy.action == bindparam("as"))
_among = (
    select(RbacPolicy.object_id)
    .where(RbacPolicy.object_id.in_(bindparam("ids", expanding=True)), _targets)
    .where(RbacPolicy.action == SHARED)
)
_with = select(RbacPolicy.target).where(RbacPolicy.object_id == _of, RbacPolicy.action == bindparam("as"))
_forget = delete(RbacPolicy).where(RbacPolicy.object_id == _of)
_withdraw = _forget.where(RbacPolicy.action == bindparam("as"))
_withdraw_one = _withdraw.where(RbacPolicy.target == bindparam("from"))


# -- which exist


def reaches(conn: Connection, object_id: str, project_id: str, action: str | None = None) -> bool:
    """Whether an object is shared with a project, in any way or in this one."""
    asked = {"of": object_id, "project": project_id}
    if action is None:
        return conn.scalar(_reaches, asked) is not None
    return conn.scalar(_reaches_as, {**asked, "as": action}) is not None


def seen(conn: Connection, object_type: str, project_id: str, action: str | None = None) -> list[str]:
    """Ids of the objects of a type that are shared with a project. They are few, and a list permits using indexes."""
    asked = {"type": object_type, "project": project_id}
    if action is None:
        return [*conn.scalars(_seen, asked)]
    return [*conn.scalars(_seen_as, {**asked, "as": action})]


def among(conn: Connection, ids: Sequence[str], project_id: str) -> set[str]:
    """Those of `ids` that are shared with a project: `shared` is true of these."""
    found: set[str] = set()
    for some in standard.batches(ids):
        found |= set(conn.scalars(_among, {"ids": some, "project": project_id}))
    return found


def shared_with(id: Column[str], object_type: str, project_id: str) -> Condition:
    """The condition that a record of a list is shared with a project."""
    rows = select(RbacPolicy.object_id).where(RbacPolicy.object_type == object_type, RbacPolicy.action == SHARED)
    return id.in_(rows.where(RbacPolicy.target.in_((EVERYBODY, project_id))))


def visible_to(conn: Connection, caller: Caller, record: type[Standard], object_type: str) -> Condition:
    """The records that the caller sees: their own, and those that are shared with them."""
    own = record.project_id == caller.project_id
    ids = seen(conn, object_type, caller.project_id)
    # One condition is one range of an index.
    return own | record.id.in_(ids) if ids else own


# -- changes, each of a locked object


def share(
    conn: Connection,
    object_type: str,
    record: Standard,
    target: str,
    now: datetime,
    *,
    action: str = SHARED,
    project_id: str | None = None,
) -> RbacPolicy:
    """Share an object that does not have this share yet; the share is its owner's, or `project_id`'s."""
    made = RbacPolicy(
        **standard.new(project_id or record.project_id, now),
        object_type=object_type,
        object_id=record.id,
        action=action,
        target=target,
    )
    return standard.insert(conn, made)


def set_everybodys(
    conn: Connection, object_type: str, record: Standard, wanted: bool, now: datetime, action: str = SHARED
) -> None:
    """Share an object with everybody, or no longer. Raises Conflict while others with no share of their own use it."""
    targets = with_whom(conn, record.id, action)
    if wanted and EVERYBODY not in targets:
        share(conn, object_type, record, EVERYBODY, now, action=action)
    if not wanted and EVERYBODY in targets:
        check_unused(conn, object_type, record, action, EVERYBODY, _sharing(object_type, record))
        conn.execute(_withdraw_one, {"of": record.id, "as": action, "from": EVERYBODY})


def with_whom(conn: Connection, object_id: str, action: str = SHARED) -> set[str]:
    """The projects that an object is shared with, or `*`."""
    return set(conn.scalars(_with, {"of": object_id, "as": action}))


def check_unused(
    conn: Connection,
    object_type: str,
    record: Standard,
    action: str,
    target: str,
    refusal: Callable[[str], Conflict],
    stays: str = "",
) -> None:
    """Raises `refusal(project)` if a share about to be withdrawn is the only one that lets a project use the object.

    `stays`: whom it will be shared with instead. Withdrawing it from everybody counts the owner's use as well, except
    for networks: neutron keeps a share with everybody while anybody uses the object.
    """
    left = with_whom(conn, record.id, action) - {target} | {stays}
    if EVERYBODY in left:
        return
    for query in USERS[object_type, action]:
        for user in conn.scalars(query, {"of": record.id}):
            if not user or user in left:
                continue
            owners = user == record.project_id
            if owners and (target != EVERYBODY or object_type == NETWORK):
                continue
            if target in (EVERYBODY, user):
                raise refusal(user)


def _sharing(object_type: str, record: Standard) -> Callable[[str], Conflict]:
    what = object_type.replace("_", " ").replace("qos", "QoS")
    message = f"Unable to reconfigure sharing settings for {what} {record.id}. Multiple tenants are using it."
    return lambda user: Conflict(message, type="InvalidSharedSetting")


def withdraw(conn: Connection, object_id: str, action: str) -> None:
    """Withdraw all shares of the object for this action."""
    conn.execute(_withdraw, {"of": object_id, "as": action})


def forget(conn: Connection, object_id: str) -> None:
    """Withdraw all shares of an object that is deleted."""
    conn.execute(_forget, {"of": object_id})
