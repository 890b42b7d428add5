"""Where volumes go: the pools, the capabilities of each, and which of them takes a volume of a type.

A type chooses by its extra specs: `volume_backend_name`, `multiattach`, and `NAME` or `capabilities:NAME` for what a
pool reports of itself, as a value or after an operator: `<is> True`, `>= 100`, `<in> fast`. A bare NAME that a pool
does not report is the operator's own note. Of the pools that fit, the one with the most room is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from attrs import frozen

from cloudctl.drivers.specs import Capacity
from cloudctl.rest.body import truth
from cloudctl.volume.options import backend_of
from cloudctl.volume.types import MULTIATTACH

NAME, SCOPE = "volume_backend_name", "capabilities:"


@frozen
class Pool:
    """`host`: `host@backend#pool`."""

    host: str
    capacity: Capacity

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the pool reports of itself."""
        capacity = self.capacity
        return {
            "total_capacity_gb": capacity.total_gib,
            "free_capacity_gb": capacity.free_gib,
            "allocated_capacity_gb": capacity.allocated_gib,
            "provisioned_capacity_gb": capacity.allocated_gib,
            "reserved_percentage": 0,
            NAME: backend_of(self.host),
            "storage_protocol": capacity.storage_protocol,
            "driver_version": "1.0",
            "vendor_name": "Open Source",
            "QoS_support": False,
            "multiattach": capacity.multiattach,
            "thin_provisioning_support": capacity.thin,
        }


Specs = Mapping[str, str | None]


def is_named(host: str, specs: Specs) -> bool:
    """Whether a type with these extra specs may be in this pool, judging by names alone."""
    return specs.get(NAME) in (None, "", backend_of(host))


def fits(pool: Pool, specs: Specs, size: int) -> bool:
    """Whether it can take a volume of `size` GiB of a type with these extra specs."""
    return size <= pool.capacity.free_gib and suits(pool, specs)


def suits(pool: Pool, specs: Specs) -> bool:
    """Whether it meets these extra specs, however much room it has."""
    if not is_named(pool.host, specs):
        return False
    if specs.get(MULTIATTACH) == "<is> True" and not pool.capacity.multiattach:
        return False
    told = pool.capabilities
    return all(_has(told, key, wish or "") for key, wish in specs.items() if key not in (NAME, MULTIATTACH))


def _has(told: Mapping[str, Any], key: str, wish: str) -> bool:
    """Whether the capabilities meet this extra spec, if it asks for one."""
    name = key.removeprefix(SCOPE)
    return meets(told[name], wish) if name in told else name == key


def choose(pools: Iterable[Pool], specs: Specs, size: int) -> Pool | None:
    """Of the pools that fit, the one with the most room."""
    found = [pool for pool in pools if fits(pool, specs, size)]
    return max(found, key=lambda pool: pool.capacity.free_gib, default=None)


# -- what an extra spec asks of a capability

Compare = Callable[[Any, Any], bool]
NUMBERS: Mapping[str, Compare] = {"=": ge, "<": lt, "<=": le, "==": eq, "!=": ne, ">=": ge, ">": gt}
WORDS: Mapping[str, Compare] = {"s==": eq, "s!=": ne, "s>=": ge, "s>": gt, "s<=": le, "s<": lt}


def meets(told: Any, wish: str) -> bool:
    """Whether a capability meets what an extra spec asks: `<is> True`, `>= 5`, `s== iSCSI`, `<in> part`, or a value."""
    operator, _, value = wish.strip().partition(" ")
    value = value.strip()
    if operator == "<is>":
        return truth(str(told)) is truth(value)
    if operator == "<in>":
        return value in str(told)
    if operator == "<or>":
        return str(told) in (each.strip() for each in value.split("<or>"))
    if operator in WORDS:
        return WORDS[operator](str(told), value)
    if operator in NUMBERS:
        return _compared(NUMBERS[operator], told, value)
    return str(told).lower() == wish.strip().lower()


def _compared(compare: Compare, told: Any, value: str) -> bool:
    try:
        return compare(float(told), float(value))
    except (TypeError, ValueError):
        return False
