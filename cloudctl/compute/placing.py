"""Where a server is to be: what its request says, and the wish that placement gets.

Reference: compute.md, section 5 (availability_zone); compute-scheduling.md, sections 2, 9 and 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from attrs import evolve, frozen

from cloudctl.compute import groups, servers
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Forbidden, Invalid
from cloudctl.image import properties
from cloudctl.placement import hosts, queries
from cloudctl.placement.hosts import Promises
from cloudctl.placement.names import DISK_GB, MEMORY_MB, VCPU
from cloudctl.placement.queries import QueryError
from cloudctl.placement.weighers import Weights
from cloudctl.placement.wishes import Resources, Wish
from cloudctl.rest.caller import Caller
from cloudctl.tasks.workflow import Task

FORCE = "compute:servers:create:forced_host"
REQUEST = "compute:servers:create:requested_host"
# A condition that no host meets.
NEVER = ["or"]
NO_ZONE = "The requested availability zone is not available"


@frozen
class Place:
    """`zone`: shown before the server has a host. `forced`, `requested`: a host, see `placement.wishes.Wish`."""

    zone: str | None = None
    pinned_zone: str | None = None
    forced: str | None = None
    requested: str | None = None


def asked_place(conn: Connection, caller: Caller, zone: str | None, host: str | None, node: str | None) -> Place:
    """Raises Invalid, Forbidden."""
    if zone and ":" in zone:
        if host or node:
            raise Invalid("The host was given twice: in availability_zone and in the host field.")
        return _forced(conn, caller, zone)
    if zone and not hosts.zones(conn).get(zone):
        raise Invalid(NO_ZONE)
    return Place(zone or None, zone or None, requested=_requested(conn, caller, host, node))


def _forced(conn: Connection, caller: Caller, text: str) -> Place:
    """`zone:host`, `zone:host:node` or `zone::node`."""
    zone, _, rest = text.partition(":")
    host, _, node = rest.partition(":")
    name = host or node
    if not name or (host and node and host != node):
        raise Invalid("Unable to parse availability_zone: it is zone, zone:host or zone:host:node.")
    if not caller.may(FORCE):
        raise Forbidden(f"Policy doesn't allow {FORCE} to be performed.")
    found = hosts.find(conn, name)
    if found is None:
        raise Invalid(f"Compute host {name[:255]} could not be found.")
    # A zone that does not contain the host is dropped.
    return Place(found.zone, zone if zone == found.zone else None, forced=name)


def _requested(conn: Connection, caller: Caller, host: str | None, node: str | None) -> str | None:
    if not host and not node:
        return None
    if not caller.may(REQUEST):
        raise Forbidden(f"Policy doesn't allow {REQUEST} to be performed.")
    for name in (host, node):
        if name and hosts.find(conn, name) is None:
            raise Invalid(f"Compute host {name[:255]} could not be found.")
    if host and node and host != node:
        raise Invalid(f"No such host: {host[:255]} does not have the hypervisor {node[:255]}.")
    return host or node


def weights(options: ComputeOptions) -> Weights:
    return Weights(
        ram=options.ram_weight,
        cpu=options.cpu_weight,
        disk=options.disk_weight,
        soft_affinity=options.soft_affinity_weight,
        soft_anti_affinity=options.soft_anti_affinity_weight,
        build_failure=options.build_failure_weight,
    )


def promises(options: ComputeOptions) -> Promises:
    return Promises(
        cpu_ratio=options.cpu_allocation_ratio,
        ram_ratio=options.ram_allocation_ratio,
        disk_ratio=options.disk_allocation_ratio,
        reserved_vcpus=options.reserved_host_cpus,
        reserved_memory_mib=options.reserved_host_memory_mib,
        reserved_disk_gib=options.reserved_host_disk_gib,
        default_zone=options.default_availability_zone,
        zones=options.zones,
    )


def resources(flavor: Mapping[str, Any], has_local_root: bool) -> Resources:
    """What a flavor takes of a host; `resources:CLASS` in its extra specs replaces an amount."""
    disk = flavor["ephemeral"] + ceil(flavor["swap"] / 1024) + (flavor["disk"] if has_local_root else 0)
    specs = flavor["extra_specs"]
    return Resources(
        _amount(specs, "VCPU", flavor["vcpus"]),
        _amount(specs, "MEMORY_MB", flavor["ram"]),
        _amount(specs, "DISK_GB", disk),
        {name: _amount(specs, name, 0) for name in _others(specs)},
    )


def _others(extra_specs: Mapping[str, str]) -> list[str]:
    """The resource classes that only some hosts have."""
    named = (key.partition(":") for key in extra_specs)
    usual = (VCPU, MEMORY_MB, DISK_GB)
    return [name for scope, _, name in named if scope == "resources" and name and name not in usual]


def traits(*said: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """The (required, forbidden) traits that `trait:NAME` in extra specs and image properties names."""
    found = [
        (key.removeprefix("trait:"), word) for each in said for key, word in each.items() if key.startswith("trait:")
    ]
    required = frozenset(name for name, word in found if word == "required")
    return required, frozenset(name for name, word in found if word == "forbidden")


def _amount(extra_specs: Mapping[str, str], name: str, otherwise: int) -> int:
    text = extra_specs.get(f"resources:{name}", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise


def failed_before(task: Task) -> list[str]:
    """The hosts on which earlier starts of the task failed, whose step `schedule` chose them."""
    return [tried["schedule"]["host"] for tried in task.tried if "schedule" in tried]


def has_left_one_behind(task: Task) -> bool:
    """Whether an earlier start of the task has left a guest on a host that is dead."""
    return any("left_behind" in tried.get("spawn", {}) for tried in task.tried)


def wish(conn: Connection, server: Server, excluded: Iterable[str]) -> Wish:
    """What placement is asked for a server. `server`: its row; `excluded`: hosts on which it failed."""
    hints = server.scheduling.get("hints", {})
    image = server.scheduling.get("image")
    if image is None:  # as of a server that was made before servers remembered them
        image = properties.of(conn, [server.image_id])[server.image_id] if server.image_id else {}
    same, different = _ids(hints.get("same_host")), _ids(hints.get("different_host"))
    required, forbidden = traits(server.flavor["extra_specs"], image)
    return Wish(
        resources(server.flavor, bool(server.image_id)),
        zone=server.scheduling.get("zone"),
        forced=server.scheduling.get("forced"),
        requested=server.scheduling.get("requested"),
        excluded=frozenset(excluded),
        group=groups.wish(conn, server.group_id, server.id) if server.group_id else None,
        same_as=servers.hosts_of(conn, same, server.project_id) if same else None,
        different_from=servers.hosts_of(conn, different, server.project_id) if different else frozenset(),
        extra_specs=server.flavor["extra_specs"],
        image_properties=image,
        project_id=server.project_id,
        required_traits=required,
        forbidden_traits=forbidden,
        near=_near(hints),
        query=_query(hints.get("query")),
    )


def moved(
    conn: Connection, server: Server, host: str | None, *, forced: bool, out_of_reach: frozenset[str] = frozenset()
) -> Wish:
    """The wish of a server that is to leave its host. It is no longer bound by where it had to be at first."""
    found = wish(conn, server, out_of_reach if server.host is None else {server.host} | out_of_reach)
    return evolve(found, forced=host if forced else None, requested=host)


def _near(hints: Mapping[str, Any]) -> str | None:
    """The network that `build_near_host_ip` is in, of the size that `cidr` says."""
    address = _text(hints.get("build_near_host_ip"))
    return f"{address}{_text(hints.get('cidr')) or '/24'}" if address else None


def _query(hint: Any) -> list[Any] | None:
    """The condition; no host meets one that cannot be read."""
    text = _text(hint)
    if not text:
        return None
    try:
        return queries.parse(text)
    except QueryError:
        return NEVER


def _text(hint: Any) -> str:
    """A hint that may come as a list of one."""
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    return hint if isinstance(hint, str) else ""


def _ids(hint: Any) -> list[str]:
    if isinstance(hint, str):
        return [hint]
    return [str(item) for item in hint][:100] if isinstance(hint, list) else []
