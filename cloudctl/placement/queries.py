"""The scheduler hint `query`: a condition on hosts, as JSON.

    ["and", [">=", "$free_ram_mb", 1024], ["=", "$hypervisor_type", "QEMU"]]

Reference: compute-scheduling.md, section 5 (JsonFilter).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from cloudctl.placement.wishes import HostState

# How deep, and how many parts: it comes from strangers, and is evaluated for each host.
DEEPEST, MOST = 20, 200

Value = str | float | bool


class QueryError(ValueError):
    """The text is not a condition."""


def _told(host: HostState) -> Mapping[str, Value]:
    """The variables. What identifies the host is none: by trying names, anybody could learn which hosts there are."""
    return {
        "hypervisor_type": host.hypervisor_type,
        "hypervisor_version": host.hypervisor_version,
        "free_ram_mb": host.free_memory_mib,
        "total_usable_ram_mb": host.memory_mib,
        "free_disk_mb": host.free_disk_gib * 1024,
        "total_usable_disk_gb": host.disk_gib,
        "vcpus_total": host.vcpus,
        "vcpus_free": host.free_vcpus,
    }


def _chain(test: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any]], bool]:
    """The first argument against each of the others."""
    return lambda values: len(values) > 1 and all(test(values[0], each) for each in values[1:])


def _comparable(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, other: Any) -> bool:
        try:
            return test(one, other)
        except TypeError:
            return False

    return compare


OPERATORS: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    "=": _chain(lambda one, other: one == other),
    "<": _chain(_comparable(lambda one, other: one < other)),
    ">": _chain(_comparable(lambda one, other: one > other)),
    "<=": _chain(_comparable(lambda one, other: one <= other)),
    ">=": _chain(_comparable(lambda one, other: one >= other)),
    "in": lambda values: len(values) > 1 and values[0] in values[1:],
    "not": lambda values: not any(values),
    "or": any,
    "and": all,
}


def parse(text: str) -> list[Any]:
    """Raises QueryError."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise QueryError("it is no JSON") from None
    if not isinstance(found, list):
        raise QueryError("a condition is a list")
    _check(found, 0, [MOST])
    return found


def _check(part: Any, depth: int, left: list[int]) -> None:
    left[0] -= 1
    if depth > DEEPEST or left[0] < 0:
        raise QueryError("it is too large")
    if isinstance(part, list):
        if not part or not isinstance(part[0], str) or part[0] not in OPERATORS:
            raise QueryError(f"a condition begins with one of {', '.join(OPERATORS)}")
        for each in part[1:]:
            _check(each, depth + 1, left)
    elif not isinstance(part, str | int | float | bool):
        raise QueryError("a value must be a string, a number or a boolean")


def holds(query: Sequence[Any], host: HostState) -> bool:
    """Whether the host meets a condition from `parse`. A variable that does not exist meets none."""
    return bool(_value(query, _told(host)))


def _value(part: Any, told: Mapping[str, Value]) -> Any:
    if isinstance(part, list):
        return OPERATORS[part[0]]([_value(each, told) for each in part[1:]])
    if isinstance(part, str) and part.startswith("$"):
        return told.get(part[1:])
    return part
