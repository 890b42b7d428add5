"""What there is at the end of a walk, by the API and in the drivers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from attrs import define

from cloudctl.drivers.fake.hypervisor import Guest
from tests.compute.asking import V21
from tests.walks.trouble import INJECTED
from tests.walks.walk import V2, V3, Mix, Walk

Found = dict[str, Any]


@define(eq=False, slots=False)
class End:
    """Read when it is first looked at, and then as it was."""

    walk: Walk

    @property
    def mix(self) -> Mix:
        return self.walk.mix

    def shown(self, path: str, key: str) -> list[Found]:
        return self.walk.shown(path, key, admin=True)

    @cached_property
    def servers(self) -> dict[str, Found]:
        return _by_id(self.shown(f"{V21}/servers/detail?all_tenants=1", "servers"))

    @cached_property
    def guests(self) -> dict[str, Guest]:
        return {guest.spec.id: guest for guest in self.walk.hypervisor.guests.values()}

    @cached_property
    def volumes(self) -> dict[str, Found]:
        return _by_id(self.shown(f"{V3}/volumes/detail?all_tenants=1", "volumes"))

    @cached_property
    def ports(self) -> dict[str, Found]:
        return _by_id(self.shown(f"{V2}/ports", "ports"))

    @cached_property
    def ports_of(self) -> dict[str, set[str]]:
        """Their ids, by their server's."""
        found: dict[str, set[str]] = {}
        for port in self.ports.values():
            found.setdefault(port["device_id"], set()).add(port["id"])
        return found

    @cached_property
    def refused(self) -> set[str]:
        """Of what a driver refused something for good, since it was told to."""
        return {id for (id,) in self.walk.rows(f"SELECT resource_id FROM tasks WHERE error LIKE '%{INJECTED}%'")}

    @cached_property
    def hosts_of(self) -> dict[str, set[str]]:
        """The names of the hosts at which resources are allocated, by consumer."""
        found: dict[str, set[str]] = {}
        for provider in self.shown("/placement/resource_providers", "resource_providers"):
            path = f"/placement/resource_providers/{provider['uuid']}/allocations"
            for consumer in self.shown(path, "allocations"):
                found.setdefault(str(consumer), set()).add(provider["name"])
        return found


def attached(server: Found) -> set[str]:
    """The ids of its volumes."""
    return {each["id"] for each in server["os-extended-volumes:volumes_attached"]}


def _by_id(found: list[Found]) -> dict[str, Found]:
    return {each["id"]: each for each in found}
