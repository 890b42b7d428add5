"""What compute once had and no longer has at any microversion: it answers 410. Reference: compute.md, section 17."""

from __future__ import annotations

from attrs import frozen

from cloudctl.errors import Gone
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

# Path → the methods that it had. Under a server's path the server itself is not looked up: the answer reveals nothing.
REMOVED = {
    "/os-agents": "GET POST",
    "/os-agents/<id>": "PUT DELETE",
    "/os-baremetal-nodes/<id>/action": "POST",
    "/os-cells": "GET POST",
    "/os-cells/detail": "GET",
    "/os-cells/info": "GET",
    "/os-cells/capacities": "GET",
    "/os-cells/sync_instances": "POST",
    "/os-cells/<id>": "GET PUT DELETE",
    "/os-cells/<id>/capacities": "GET",
    "/os-certificates": "POST",
    "/os-certificates/<id>": "GET",
    "/os-cloudpipe": "GET POST",
    "/os-cloudpipe/configure-project": "PUT",
    "/os-consoles": "GET POST",
    "/os-fixed-ips/<id>": "GET",
    "/os-fixed-ips/<id>/action": "POST",
    "/os-floating-ip-dns": "GET",
    "/os-floating-ip-dns/<domain_id>": "PUT DELETE",
    "/os-floating-ip-dns/<domain_id>/entries/<name>": "GET PUT DELETE",
    "/os-floating-ips-bulk": "GET POST",
    "/os-floating-ips-bulk/<host>": "GET PUT",
    "/os-fping": "GET",
    "/os-fping/<id>": "GET",
    "/os-networks": "POST",
    "/os-networks/add": "POST",
    "/os-networks/<network>": "DELETE",
    "/os-networks/<network>/action": "POST",
    "/os-security-group-default-rules": "GET POST",
    "/os-security-group-default-rules/<id>": "GET DELETE",
    "/os-tenant-networks": "POST",
    "/os-tenant-networks/<network>": "DELETE",
    "/servers/<id>/consoles": "GET POST",
    "/servers/<id>/consoles/<name>": "GET DELETE",
    "/servers/<id>/os-virtual-interfaces": "GET",
}


@frozen
class Removed:
    routes = Routes("Removed")

    async def gone(self, call: Call, **path: str) -> None:
        """Report that the resource is gone."""
        raise Gone("This resource is no longer available. No forwarding address is given.")


for path, methods in REMOVED.items():
    for method in methods.split():
        Removed.routes.route(method, path, policy="compute:removed")(Removed.gone)
