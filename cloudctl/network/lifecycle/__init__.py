"""The durable work of networking: the driver holds what the database has, and forgets what it does not have."""

from cloudctl.network.lifecycle.network import DELETE_NETWORK, ENSURE_NETWORK
from cloudctl.network.lifecycle.port import DELETE_PORT, ENSURE_PORT
from cloudctl.network.lifecycle.router import DELETE_ROUTER, ENSURE_ROUTER
from cloudctl.network.lifecycle.security_group import DELETE_SECURITY_GROUP, ENSURE_SECURITY_GROUP
from cloudctl.tasks import Workflow

WORKFLOWS: tuple[Workflow, ...] = (
    ENSURE_NETWORK,
    DELETE_NETWORK,
    ENSURE_PORT,
    DELETE_PORT,
    ENSURE_ROUTER,
    DELETE_ROUTER,
    ENSURE_SECURITY_GROUP,
    DELETE_SECURITY_GROUP,
)
