"""What DHCP tells the guests behind ports besides their addresses. Reference: network.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudctl.drivers.specs import DhcpOption
from cloudctl.errors import Invalid

Option = dict[str, Any]  # {"opt_name", "opt_value", "ip_version"}

# Options whose value may be empty: no routers, or no routes.
MAY_BE_EMPTY = ("router", "classless-static-route")


def merged(present: Sequence[Option], wanted: Sequence[Option]) -> list[Option]:
    """`present` as a request changes it: a new value, a removal (null), or another option. Raises Invalid."""
    found = {_key(each): each for each in present}
    for each in wanted:
        value = each["opt_value"]
        if value is None:
            found.pop(_key(each), None)
        elif not value.strip() and each["opt_name"] not in MAY_BE_EMPTY:
            message = f"Invalid data format for extra-dhcp-opt: {each['opt_name']} needs a value."
            raise Invalid(message, type="HTTPBadRequest")
        else:
            found[_key(each)] = each
    return list(found.values())


def _key(option: Option) -> tuple[str, int]:
    return option["opt_name"], option["ip_version"]


def driver_specs(options: Sequence[Option]) -> tuple[DhcpOption, ...]:
    return tuple(DhcpOption(each["opt_name"], each["opt_value"], each["ip_version"]) for each in options)
