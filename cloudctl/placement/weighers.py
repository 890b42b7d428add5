"""Weighers: which of the hosts that could take a server is the best. Reference: compute-scheduling.md, section 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from cloudctl.placement.wishes import SOFT_AFFINITY, SOFT_ANTI_AFFINITY, HostState, Wish

Weigher = Callable[[HostState, Wish], float]


@frozen
class Weights:
    """Multipliers; a negative one packs where a positive one spreads."""

    ram: float = 1.0
    cpu: float = 1.0
    disk: float = 1.0
    soft_affinity: float = 1.0
    soft_anti_affinity: float = 1.0
    build_failure: float = 1_000_000.0


def _members(host: HostState, wish: Wish, policy: str) -> float:
    if wish.group is None or wish.group.policy != policy:
        return 0.0
    return float(wish.group.members.get(host.name, 0))


def weighers(weights: Weights) -> tuple[tuple[float, Weigher], ...]:
    return (
        (weights.ram, lambda host, wish: host.free_memory_mib),
        (weights.cpu, lambda host, wish: host.free_vcpus),
        (weights.disk, lambda host, wish: host.free_disk_gib),
        (weights.soft_affinity, lambda host, wish: _members(host, wish, SOFT_AFFINITY)),
        (weights.soft_anti_affinity, lambda host, wish: -_members(host, wish, SOFT_ANTI_AFFINITY)),
        (weights.build_failure, lambda host, wish: -host.failed_builds),
    )


def best_first(hosts: Sequence[HostState], wish: Wish, weights: Weights) -> list[HostState]:
    """By the sum of multiplier x value, each weigher's values brought to 0 … 1 over these hosts; ties by name."""
    if len(hosts) < 2:
        return list(hosts)
    totals = [0.0] * len(hosts)
    for multiplier, weigh in weighers(weights):
        values = [weigh(host, wish) for host in hosts]
        low, high = min(values), max(values)
        if high == low or not multiplier:
            continue
        for place, value in enumerate(values):
            totals[place] += multiplier * (value - low) / (high - low)
    ranked = sorted(zip(totals, hosts, strict=True), key=lambda pair: (-pair[0], pair[1].name))
    return [host for _, host in ranked]
