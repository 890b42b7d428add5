"""Filters: which hosts can take a server at all. Reference: compute-scheduling.md, sections 4 and 5.

Each is a function of a host and a wish. They run in the order of `FILTERS` until no host is left; those that a wish
does not concern do not run at all.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from operator import attrgetter

from cloudctl.placement.queries import holds
from cloudctl.placement.wishes import AFFINITY, ANTI_AFFINITY, HostState, Wish

Filter = Callable[[HostState, Wish], bool]

# The scope of extra specs about aggregates, and the beginning of aggregates' keys that name projects.
OF_AGGREGATES, OF_PROJECTS = "aggregate_instance_extra_specs", "filter_tenant_id"


def fits(host: HostState, wish: Wish) -> bool:
    """There is room, and no single server is larger than the machine."""
    wanted = wish.resources
    return (
        host.free_vcpus >= wanted.vcpus <= host.vcpus
        and host.free_memory_mib >= wanted.memory_mib <= host.memory_mib
        and host.free_disk_gib >= wanted.disk_gib <= host.disk_gib
        and (
            not wanted.others
            or all(amount <= host.left.get(name, 0) for name, amount in wanted.others.items() if amount)
        )
    )


def not_excluded(host: HostState, wish: Wish) -> bool:
    return host.name not in wish.excluded


def in_zone(host: HostState, wish: Wish) -> bool:
    return wish.zone is None or host.zone == wish.zone


def requested(host: HostState, wish: Wish) -> bool:
    return wish.requested is None or host.name == wish.requested


def serves(host: HostState, wish: Wish) -> bool:
    """Its service is enabled and alive."""
    return host.enabled and host.up


def capable(host: HostState, wish: Wish) -> bool:
    """Every extra spec `capabilities:<name>` matches what the host reports about itself."""
    told: Mapping[str, object] = {
        "hypervisor_type": host.hypervisor_type,
        "hypervisor_version": host.hypervisor_version,
        "vcpus_total": host.vcpus,
        "memory_mb": host.memory_mib,
        "free_ram_mb": host.free_memory_mib,
        "host": host.name,
        **{f"cpu_info:{key}": value for key, value in host.cpu_info.items()},
    }
    for key, wanted in wish.extra_specs.items():
        scope, _, name = key.partition(":")
        if scope == "capabilities" and (name not in told or not matches(wanted, str(told[name]))):
            return False
    return True


def suits_image(host: HostState, wish: Wish) -> bool:
    """The image's architecture and hypervisor type, if it names them, are the host's."""
    architecture = wish.image_properties.get("hw_architecture")
    own = host.cpu_info.get("arch")
    if architecture and own and architecture != own:
        return False
    kind = wish.image_properties.get("img_hv_type")
    return not kind or kind.lower() == host.hypervisor_type.lower()


def apart_from_group(host: HostState, wish: Wish) -> bool:
    group = wish.group
    if group is None or group.policy != ANTI_AFFINITY:
        return True
    return group.members.get(host.name, 0) < group.most_per_host


def with_group(host: HostState, wish: Wish) -> bool:
    group = wish.group
    if group is None or group.policy != AFFINITY:
        return True
    return not group.members or host.name in group.members


def same_host(host: HostState, wish: Wish) -> bool:
    return wish.same_as is None or host.name in wish.same_as


def different_host(host: HostState, wish: Wish) -> bool:
    return host.name not in wish.different_from


def has_traits(host: HostState, wish: Wish) -> bool:
    return wish.required_traits <= host.traits and not wish.forbidden_traits & host.traits


def suits_aggregates(host: HostState, wish: Wish) -> bool:
    """Every extra spec `aggregate_instance_extra_specs:<name>` matches what an aggregate of the host says."""
    for key, wanted in wish.extra_specs.items():
        scope, _, name = key.partition(":")
        if scope == OF_AGGREGATES and not any(matches(wanted, each) for each in _said(host, name)):
            return False
    return True


def open_to_project(host: HostState, wish: Wish) -> bool:
    """Aggregates that name projects take only the servers of these."""
    if not host.aggregates:
        return True
    named = {
        project_id
        for metadata in host.aggregates
        for key, value in metadata.items()
        if key.startswith(OF_PROJECTS)
        for project_id in _listed(value)
    }
    return not named or wish.project_id in named


def open_to_image(host: HostState, wish: Wish) -> bool:
    """For each property that the image has, every aggregate that names it allows the image's value."""
    return all(
        value in _listed(metadata[name])
        for metadata in host.aggregates
        for name, value in wish.image_properties.items()
        if name in metadata
    )


def _said(host: HostState, name: str) -> list[str]:
    return [value for metadata in host.aggregates if name in metadata for value in _listed(metadata[name])]


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def near(host: HostState, wish: Wish) -> bool:
    """The host's address is in the network that the wish names."""
    if wish.near is None:
        return True
    try:
        return host.host_ip is not None and ip_address(host.host_ip) in ip_network(wish.near, strict=False)
    except ValueError:
        return False


def answers(host: HostState, wish: Wish) -> bool:
    return wish.query is None or holds(wish.query, host)


FILTERS: tuple[Filter, ...] = (
    not_excluded,
    requested,
    in_zone,
    fits,
    serves,
    capable,
    suits_image,
    apart_from_group,
    with_group,
    different_host,
    same_host,
    has_traits,
    suits_aggregates,
    open_to_project,
    open_to_image,
    near,
    answers,
)

# Filters that let every host pass unless the wish concerns them, and whether it does: there may be thousands of hosts,
# and most wishes are short.
SAID: Mapping[Filter, Callable[[Wish], object]] = {
    not_excluded: attrgetter("excluded"),
    requested: lambda wish: wish.requested is not None,
    in_zone: lambda wish: wish.zone is not None,
    capable: attrgetter("extra_specs"),
    suits_image: attrgetter("image_properties"),
    apart_from_group: attrgetter("group"),
    with_group: attrgetter("group"),
    different_host: attrgetter("different_from"),
    same_host: lambda wish: wish.same_as is not None,
    has_traits: lambda wish: wish.required_traits or wish.forbidden_traits,
    suits_aggregates: attrgetter("extra_specs"),
    open_to_image: attrgetter("image_properties"),
    near: lambda wish: wish.near is not None,
    answers: lambda wish: wish.query is not None,
}


def passing(hosts: Iterable[HostState], wish: Wish, filters: Iterable[Filter] = FILTERS) -> list[HostState]:
    """The hosts that every filter lets through. A forced host is subject to none of them."""
    if wish.forced is not None:
        return [host for host in hosts if host.name == wish.forced and host.name not in wish.excluded]
    left = list(hosts)
    for test in filters:
        if test in SAID and not SAID[test](wish):
            continue
        left = [host for host in left if test(host, wish)]
        if not left:
            break
    return left


NUMERIC = {"=": operator.ge, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le}
TEXTUAL = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}
OR = re.compile(r"<or>\s*(\S+)")


def matches(wanted: str, value: str) -> bool:
    """Compare an extra spec's value and operator with what a host has; without an operator the texts must be equal."""
    word, _, rest = wanted.strip().partition(" ")
    rest = rest.strip()
    if word in NUMERIC:
        try:
            return bool(NUMERIC[word](float(value), float(rest)))
        except ValueError:
            return False
    if word in TEXTUAL:
        return bool(TEXTUAL[word](value, rest))
    if word == "<in>":
        return rest in value
    if word == "<all-in>":
        return all(item in value for item in rest.split())
    if word == "<or>":
        return value in OR.findall(wanted)
    return value == wanted.strip()
