"""What is asked of placement, and the hosts as it sees them. Values only."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = "soft-affinity", "soft-anti-affinity"
POLICIES = (AFFINITY, ANTI_AFFINITY, SOFT_AFFINITY, SOFT_ANTI_AFFINITY)


@frozen
class Resources:
    vcpus: int
    memory_mib: int
    disk_gib: int


@frozen
class GroupWish:
    """The server group that the server is in. `members`: host → how many other members are there."""

    policy: str
    members: Mapping[str, int] = field(factory=dict)
    most_per_host: int = 1


@frozen
class Wish:
    """What one server needs of its host.

    `forced`: the host is an administrator's order, which no filter questions (the claim does). `requested`: only this
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


@frozen
class HostState:
    """A host in the moment of choosing. `free_…` may be negative after a ratio was lowered."""

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
    cpu_info: Mapping[str, object] = field(factory=dict)
