"""Everything that a walk has made is deleted, as users and administrators would, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from attrs import frozen

from tests.compute.asking import V21
from tests.walks.end import End
from tests.walks.invariants import the_network_backend_has_nothing_unknown
from tests.walks.networks import NAME
from tests.walks.trouble import MINUTE
from tests.walks.walk import IMAGES, V2, V3, Walk

ROUNDS = 5  # of deletes: some things are refused until others are gone
MINUTES = 5  # in which what is deleted later is deleted
# Table → the column that tells of what its rows are.
TABLES = {
    "volumes": "id",
    "volume_attachments": "volume_id",
    "volume_snapshots": "id",
    "volume_backups": "id",
    "volume_groups": "id",
    "volume_group_snapshots": "id",
    "volume_transfers": "volume_id",
    "block_devices": "server_id",
    "server_interfaces": "server_id",
    "allocations": "consumer_id",
    "consumers": "id",
    "ports": "id",
    "port_bindings": "port_id",
    "ip_allocations": "address",
    "floating_ips": "id",
    "port_forwardings": "id",
    "trunk_subports": "port_id",
}

Found = dict[str, Any]
Delete = Callable[[Walk, Found], object]


@frozen
class Kind:
    """How all of a kind are found and deleted."""

    path: str
    key: str
    delete: Delete
    also: Callable[[Walk, Found], bool] = lambda _walk, _found: True

    def found(self, walk: Walk) -> list[Found]:
        return [each for each in walk.shown(self.path, self.key, admin=True) if self.also(walk, each)]


def delete(walk: Walk, found: Found, path: str, query: str = "") -> int:
    return walk.ask("DELETE", f"{path}/{found['id']}{query}", admin=True).status


def delete_server(walk: Walk, server: Found) -> None:
    path = f"{V21}/servers/{server['id']}"
    # One that was deleted softly is no longer deleted by DELETE.
    if walk.ask("POST", f"{path}/action", {"forceDelete": None}, admin=True).status >= 400:
        walk.ask("DELETE", path, admin=True)


def delete_or_force(walk: Walk, found: Found, path: str, query: str = "") -> None:
    if delete(walk, found, path, query) >= 400:
        walk.ask("POST", f"{path}/{found['id']}/action", {"os-force_delete": {}}, admin=True)


def delete_group(walk: Walk, group: Found) -> None:
    walk.ask("POST", f"{V3}/groups/{group['id']}/action", {"delete": {"delete-volumes": True}}, admin=True)


def remove_interface(walk: Walk, port: Found) -> None:
    path = f"{V2}/routers/{port['device_id']}/remove_router_interface"
    walk.ask("PUT", path, {"port_id": port["id"]}, admin=True)


def cinder(path: str, key: str, query: str = "") -> Kind:
    by = partial(delete_or_force, path=f"{V3}/{path.partition('/')[0]}", query=query)
    return Kind(f"{V3}/{path}?all_tenants=1", key, by)


def neutron(path: str, also: Callable[[Walk, Found], bool] = lambda _walk, _found: True) -> Kind:
    return Kind(f"{V2}/{path}", path.partition("?")[0].replace("-", "_"), partial(delete, path=f"{V2}/{path}"), also)


KINDS = (
    Kind(f"{V21}/servers/detail?all_tenants=1", "servers", delete_server),
    cinder("volume-transfers", "transfers"),
    cinder("group_snapshots/detail", "group_snapshots"),
    cinder("snapshots/detail", "snapshots"),
    # An incremental one goes before the one that it is based on.
    *[cinder("backups/detail", "backups")] * 3,
    Kind(f"{V3}/groups/detail?all_tenants=1", "groups", delete_group),
    cinder("volumes/detail", "volumes", "?cascade=true"),
    Kind(IMAGES, "images", partial(delete, path=IMAGES), lambda walk, image: image["id"] != walk.image),
    neutron("floatingips"),
    neutron("trunks"),
    Kind(
        f"{V2}/ports?device_owner=network:router_interface",
        "ports",
        remove_interface,
        lambda walk, port: port["network_id"] != walk.private,
    ),
    Kind(f"{V2}/routers?name={NAME}", "routers", partial(delete, path=f"{V2}/routers")),
    neutron("ports", lambda _walk, port: not port["device_owner"].startswith("network:")),
    Kind(f"{V2}/networks?name={NAME}", "networks", partial(delete, path=f"{V2}/networks")),
    Kind(f"{V2}/security-groups?name={NAME}", "security_groups", partial(delete, path=f"{V2}/security-groups")),
)


def clear(walk: Walk) -> None:
    for kind in KINDS:
        for _ in range(ROUNDS):
            found = kind.found(walk)
            if not found:
                break
            for each in found:
                kind.delete(walk, each)
            walk.cloud.advance(5.0)
            walk.cloud.settle()
    for _ in range(MINUTES):
        walk.cloud.advance(MINUTE)
    walk.cloud.settle()


def there(walk: Walk) -> frozenset[str]:
    """What is there, in words: by the drivers, in the database, as used by projects and of hosts."""
    return frozenset((*_held_by_drivers(walk), *_in_the_database(walk), *_used(walk)))


def _held_by_drivers(walk: Walk) -> Iterator[str]:
    yield from (f"guest {guest.spec.id}" for guest in walk.hypervisor.guests.values())
    yield from (f"disk {disk.id}" for backend in walk.backends for disk in backend.volumes.values())
    yield from (f"frozen disk {disk.state.id}" for backend in walk.backends for disk in backend.frozen.values())
    yield from (f"plug {plug.spec.id}" for plug in walk.network.ports.values())


def _in_the_database(walk: Walk) -> Iterator[str]:
    for table, column in TABLES.items():
        yield from (f"row {value} of {table}" for (value,) in walk.rows(f"SELECT {column} FROM {table}"))


def _used(walk: Walk) -> Iterator[str]:
    for name, project_id, amount in walk.rows("SELECT name, project_id, amount FROM totals WHERE amount <> 0"):
        # The container that backups are kept in stays, as in Cinder.
        if name != "object_store.containers":
            yield f"{amount} {name} of project {project_id}"
    for provider in walk.shown("/placement/resource_providers", "resource_providers", admin=True):
        path = f"/placement/resource_providers/{provider['uuid']}/usages"
        used = walk.ask("GET", path, admin=True, noted=False).json()["usages"]
        if any(used.values()):
            yield f"{used} used of {provider['name']}"


def left(walk: Walk, before: frozenset[str]) -> Iterator[str]:
    """What is there now and was not `before`, unless a driver refused to take it away for good."""
    end = End(walk)
    for each in sorted(there(walk) - before):
        if not any(id in each for id in end.refused):
            yield f"{each} is left"
    # The filter of the default group is made with its first port, and stays.
    yield from the_network_backend_has_nothing_unknown(end)
