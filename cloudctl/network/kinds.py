"""What the driver has yet to do: hold an object as the database has it when the task runs, or forget one that the
database no longer has. It may take forever: nothing else would do it.
"""

from __future__ import annotations

from cloudctl.tasks import Kind

NETWORK, PORT, ROUTER, SECURITY_GROUP = "network", "port", "router", "security_group"

ENSURE_NETWORK = Kind("network.network.ensure", NETWORK)
DELETE_NETWORK = Kind("network.network.delete", NETWORK)
ENSURE_PORT = Kind("network.port.ensure", PORT)
DELETE_PORT = Kind("network.port.delete", PORT)
ENSURE_ROUTER = Kind("network.router.ensure", ROUTER)
DELETE_ROUTER = Kind("network.router.delete", ROUTER)
ENSURE_SECURITY_GROUP = Kind("network.security_group.ensure", SECURITY_GROUP)
DELETE_SECURITY_GROUP = Kind("network.security_group.delete", SECURITY_GROUP)

# A port of a server is deleted. Compute knows whose it was: the port's owner may have written any id into it.
PORT_LOST = Kind("compute.port.lost", PORT, 900.0)
