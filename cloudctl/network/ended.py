"""What outlives its use: networking deletes its records at once."""

from __future__ import annotations

from cloudctl.identity.ended import limits_of
from cloudctl.network.kinds import NETWORK, PORT, ROUTER, SECURITY_GROUP
from cloudctl.network.quotas import QUOTAS
from cloudctl.tasks.ended import tasks_of

ENDED = (tasks_of("tasks of networks", NETWORK, PORT, ROUTER, SECURITY_GROUP), limits_of(QUOTAS.service))
