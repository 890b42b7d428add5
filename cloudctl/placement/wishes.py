"""What is asked of placement, and the hosts as it sees them. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from attrs import field, frozen

from cloudctl.placement.names import DISK_GB, MEMORY_MB, VCPU

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = "soft-affinity", "soft-anti-affinity"

NOTHING: Mapping[str, Any] = MappingProxyType({})


@frozen
class Resources:
    vcpus: int
    memory_mib: int
    disk_gib: int
    # Resource class → amount, of those that only some hosts have.
    others: Mapping[str, int] = field(factory=dict)

    def amounts(self) -> dict[str, int]:
        """Resource class → amount, for those that are needed at all."""
        found = {VCPU: self.vcpus, MEMORY_MB: self.memory_mib, DISK_GB: self.disk_gib, **self.others}
        return {name: amount for name, amount in found.items() if amount}


@frozen
class GroupWish:
    """The server group that the server is in. `members`: host → how many other members are there."""

    policy: str
    members: Mapping[str, int] = field(factory=dict)
    most_per_host: int = 1


@frozen
class Wish:
    """What one server needs of its host.

    `forced`: the host that an administrator orders, which no filter rejects (the claim may). `requested`: only this
    host, if it passes. `excluded`: hosts that failed it. `same_as`, `different_from`: hosts of the servers named in the
    scheduler hints; None if there was no such hint.
    """

    resources: Resources
    zone: str | None = None
    forced: str | None = None
    requested: str | None = None
    excluded: frozenset[str] = frozenset()
    group: GroupWish | None = None
    same_as: frozenset[str] | None = None
    different_from: frozenset[str] = frozenset()
    extra_specs: Mapping[str, str] = field(factory=dict)
    image_properties: Mapping[str, str] = field(factory=dict)
    project_id: str = ""
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    near: str | None = None  # a network: only hosts whose address is in it
    query: Sequence[Any] | None = None  # a condition, see `queries`


class HostState(NamedTuple):
    """A host at the moment of choosing. `free_…` may be negative after a ratio was lowered.

    A tuple, since one is made for every host for each server.
    """

    name: str
    zone: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    free_vcpus: int
    free_memory_mib: int
    free_disk_gib: int
    up: bool = True
    enabled: bool = True
    failed_builds: int = 0
    hypervisor_type: str = ""
    hypervisor_version: int = 1
    cpu_info: Mapping[str, object] = NOTHING
    id: str = ""
    host_ip: str | None = None
    left: Mapping[str, int] = NOTHING  # resource class → what is free
    traits: frozenset[str] = frozenset()
    aggregates: Sequence[Mapping[str, str]] = ()  # the metadata of each one that it is in
