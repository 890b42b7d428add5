"""RBAC policies: the shares of records, as their owners make and withdraw them. Reference: network.md, section 11."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import (
    address_groups,
    address_scopes,
    kinds,
    networks,
    qos_policies,
    quotas,
    security_groups,
    shares,
    standard,
    subnet_pools,
)
from cloudctl.network.owned import Owned
from cloudctl.network.shares import EVERYBODY, EXTERNAL
from cloudctl.network.tables import RbacPolicy, Standard, SubnetPool
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin

RECORDS = Owned(RbacPolicy, "RBAC policy {} could not be found", "RbacPolicyNotFound")
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)
# Type of object → the function that reads one if the caller may see it.
OBJECTS: Mapping[str, Any] = {
    shares.NETWORK: networks.visible,
    shares.QOS_POLICY: qos_policies.visible,
    shares.SECURITY_GROUP: security_groups.visible,
    shares.ADDRESS_GROUP: address_groups.visible,
    shares.ADDRESS_SCOPE: address_scopes.visible,
    shares.SUBNET_POOL: subnet_pools.visible,
}
# Types of objects that are locked after the project's turn: see `quotas`.
AFTER_TURN = (shares.SECURITY_GROUP, shares.ADDRESS_GROUP)


@frozen
class NewRbacPolicy:
    object_type: str
    object_id: str
    action: str
    target: str


def create(conn: Connection, caller: Caller, project_id: str, new: NewRbacPolicy) -> RbacPolicy:
    """Share an object of the caller's. Raises NotFound (the object), Invalid, Forbidden, Conflict, OverQuota."""
    if (new.object_type, new.action) not in shares.USERS:
        raise Invalid(
            f"Action '{new.action}' is not valid for object type '{new.object_type}'.", type="RbacPolicyInitError"
        )
    record = _to_share(conn, caller, new.object_type, new.object_id)
    if record.project_id != caller.project_id and not caller.may("network:rbac_policies:create:foreign"):
        raise Invalid(
            "Invalid input for operation: Only admins can manipulate policies on objects they do not own.",
            type="InvalidInput",
        )
    _check_target(caller, new.action, new.target)
    _check_scope(conn, record, new.target)
    _check_new(conn, record, new.action, new.target)
    quota.take(conn, quotas.QUOTAS, project_id, {"rbac_policy": 1})
    made = shares.share(conn, new.object_type, record, new.target, caller.now, action=new.action, project_id=project_id)
    more = {"external": True} if new.action == EXTERNAL else {}
    standard.change(conn, type(record).table, record.id, caller.now, **more)
    if more:
        tasks.submit_once(conn, kinds.ENSURE_NETWORK, record.id, caller)
    return made


def change(conn: Connection, caller: Caller, policy: RbacPolicy, changes: Mapping[str, Any]) -> RbacPolicy:
    """Set the target of a locked policy. Raises Forbidden, Invalid, Conflict."""
    target = changes["target"]
    if target == policy.target:
        return policy
    _check_target(caller, policy.action, target)
    record = _object(conn, policy)
    _check_scope(conn, record, target)
    _check_new(conn, record, policy.action, target)
    # As if it were withdrawn, even from projects that the new target covers; but that target's routers may stay on an
    # external network.
    stays = target if policy.action == EXTERNAL else ""
    shares.check_unused(conn, policy.object_type, record, policy.action, policy.target, _in_use(policy), stays)
    changed = standard.changed(conn, policy, caller.now, target=target)
    standard.change(conn, type(record).table, record.id, caller.now)
    return changed


def remove(conn: Connection, policy: RbacPolicy, now: datetime, by: Origin) -> None:
    """Withdraw a share. Raises Conflict while somebody uses the object through it."""
    record = _object(conn, policy)
    shares.check_unused(conn, policy.object_type, record, policy.action, policy.target, _in_use(policy))
    RECORDS.delete(conn, policy)
    # A network that nobody may put a router on is not external, and so not the default one either.
    inside = policy.action == EXTERNAL and not shares.with_whom(conn, record.id, EXTERNAL)
    if inside and networks.is_way_out(conn, record.id):
        # Its owner's, or those of a project that it is shared with otherwise.
        raise _depends(policy, "routers or floating IPs are on it")
    more = {"external": False, "is_default": False} if inside else {}
    standard.change(conn, type(record).table, record.id, now, **more)
    if inside:
        tasks.submit_once(conn, kinds.ENSURE_NETWORK, record.id, by)


def _to_share(conn: Connection, caller: Caller, type: str, id: str) -> Standard:
    """An object that the caller sees, locked. Raises NotFound."""
    record: Standard
    if type in AFTER_TURN:
        record = quotas.after_turn(conn, caller, id, OBJECTS[type])
    else:
        record = OBJECTS[type](conn, caller, id, lock=True)
    return record


def _object(conn: Connection, policy: RbacPolicy) -> Standard:
    """The object that a policy shares, locked: deleting it deletes its policies."""
    return Owned(shares.TABLES[policy.object_type], "{}", "HTTPNotFound").get(conn, policy.object_id, lock=True)


def _check_target(caller: Caller, action: str, target: str) -> None:
    """Raises Forbidden if the caller may not make such a share: with everybody, or of an external network."""
    if target == EVERYBODY:
        caller.require("network:rbac_policies:everybody")
    if action == EXTERNAL:
        caller.require("network:rbac_policies:external")


def _check_scope(conn: Connection, record: Standard, target: str) -> None:
    """Raises Invalid for a subnet pool in an address scope that the target may not use."""
    if not isinstance(record, SubnetPool) or record.address_scope_id is None:
        return
    scope = address_scopes.get(conn, record.address_scope_id)
    if scope.project_id != target and not {EVERYBODY, target} & shares.with_whom(conn, scope.id):
        raise Invalid(
            f"Invalid input for operation: subnetpool {record.id} is in address scope {scope.id}, which is not shared "
            f"with {target}."
        )


def _check_new(conn: Connection, record: Standard, action: str, target: str) -> None:
    """Raises Conflict if the object already has this share."""
    if target in shares.with_whom(conn, record.id, action):
        raise Conflict("An RBAC policy already exists with those values.", type="DuplicateRbacPolicy")


def _in_use(policy: RbacPolicy) -> Any:
    return lambda user: _depends(policy, f"project {user} uses it")


def _depends(policy: RbacPolicy, details: str) -> Conflict:
    message = (
        f"RBAC policy on object {policy.object_id} cannot be removed because other objects depend on it. "
        f"Details: {details}."
    )
    return Conflict(message, type="RbacPolicyInUse")
