"""What outlives its use: networking deletes its records at once."""

from __future__ import annotations

from sqlalchemy import or_, select

from cloudctl.db.ended import Ended
from cloudctl.identity.ended import limits_of, no_project
from cloudctl.network.kinds import NETWORK, PORT, ROUTER, SECURITY_GROUP
from cloudctl.network.quotas import QUOTAS
from cloudctl.network.shares import EVERYBODY, SHARED
from cloudctl.network.tables import (
    FloatingIp,
    Network,
    Port,
    RbacPolicy,
    Router,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from cloudctl.tasks.ended import tasks_of

# What a deleted project has left is there still, and uses what was shared with it.
_left = [
    select(each.id).where(each.project_id == RbacPolicy.target)
    for each in (FloatingIp, Network, Port, Router, Subnet, SubnetPool)
]
# Rules, too, but each project keeps those of its default group: only those that name what is shared.
_naming = select(SecurityGroupRule.id).where(
    SecurityGroupRule.project_id == RbacPolicy.target,
    or_(
        SecurityGroupRule.remote_group_id == RbacPolicy.object_id,
        SecurityGroupRule.remote_address_group_id == RbacPolicy.object_id,
    ),
)
_of_nobody = (no_project(RbacPolicy.target), *(~each.exists() for each in (*_left, _naming)))

ENDED = (
    tasks_of("tasks of networks", NETWORK, PORT, ROUTER, SECURITY_GROUP),
    limits_of(QUOTAS.service),
    Ended(
        "shares with deleted projects",
        RbacPolicy,
        # Without its shares an external network would not be one.
        (RbacPolicy.action == SHARED, RbacPolicy.target != EVERYBODY, *_of_nobody),
    ),
)
