"""The security groups of a server: those of its ports. Reference: compute.md, sections 7 and 8.6."""

from __future__ import annotations

from collections.abc import Sequence

from cloudctl.compute import networking, servers
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.network import ports, security_groups
from cloudctl.network.tables import Port
from cloudctl.rest.caller import Caller

NOT_SECURED = "Network requires port_security_enabled and subnet associated in order to apply security groups."


def of_server(conn: Connection, caller: Caller, server_id: str) -> list[str]:
    """The ids of its groups, each once. Raises NotFound."""
    server = servers.visible(conn, caller, server_id)
    return list(networking.security_groups(conn, [server.id]).get(server.id, {}))


def add(conn: Connection, caller: Caller, server_id: str, name: str) -> None:
    """Add every port of the server to the group. Raises NotFound, Conflict for an ambiguous name, Invalid."""
    server = servers.visible(conn, caller, server_id, lock=True)
    group_id, found = _group(conn, server, name), _ports(conn, server)
    addresses = ports.fixed_ips_of(conn, [port.id for port in found])
    if any(not port.port_security_enabled or not addresses.get(port.id) for port in found):
        raise Invalid(NOT_SECURED)
    for port in found:
        present = _present(conn, port)
        if group_id not in present:
            ports.change(conn, port, {"security_groups": [*present, group_id]}, caller.now, caller)


def remove(conn: Connection, caller: Caller, server_id: str, name: str) -> None:
    """Remove every port of the server from the group. Raises NotFound, also if none was in it, and Conflict."""
    server = servers.visible(conn, caller, server_id, lock=True)
    group_id, were_in = _group(conn, server, name), False
    for port in _ports(conn, server):
        present = _present(conn, port)
        if group_id in present:
            were_in = True
            left = [id for id in present if id != group_id]
            ports.change(conn, port, {"security_groups": left}, caller.now, caller)
    if not were_in:
        raise NotFound(f"Security group {name[:255]} not associated with the instance {server.id}")


def _group(conn: Connection, server: Server, name: str) -> str:
    """The id of the server's project's group with this id or name."""
    try:
        return security_groups.resolve(conn, server.project_id, [name])[0]
    except NotFound:
        raise NotFound(f"Security group {name[:255]} not found.") from None


def _ports(conn: Connection, server: Server) -> Sequence[Port]:
    """All that exist, locked."""
    rows = networking.of_server(conn, server.id)
    found = (ports.find(conn, row.port_id, lock=True) for row in sorted(rows, key=lambda row: row.port_id))
    present = [port for port in found if port is not None]
    if not present:
        raise NotFound(f"instance_id {server.id} could not be found as device id on any ports")
    return present


def _present(conn: Connection, port: Port) -> list[str]:
    return [id for id, _ in ports.groups_of(conn, [port.id]).get(port.id, ())]
