"""What the guests behind ports are told by DHCP beside their addresses. Reference: network.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudctl.drivers.specs import DhcpOption
from cloudctl.errors import Invalid

Option = dict[str, Any]  # {"opt_name", "opt_value", "ip_version"}

# Those that may say nothing: an empty list of routers or routes.
MAY_BE_EMPTY = ("router", "classless-static-route")


def merged(present: Sequence[Option], wanted: Sequence[Option]) -> list[Option]:
    """`present` with what a request says: another value, none any more (null), or one more. Raises Invalid."""
    found = {_key(each): each for each in present}
    for each in wanted:
        value = each["opt_value"]
        if value is None:
            found.pop(_key(each), None)
        elif not value and each["opt_name"] not in MAY_BE_EMPTY:
            message = f"Invalid data format for extra-dhcp-opt: {each['opt_name']} needs a value."
            raise Invalid(message, type="HTTPBadRequest")
        else:
            found[_key(each)] = each
    return list(found.values())


def _key(option: Option) -> tuple[str, int]:
    return option["opt_name"], option["ip_version"]


def driver_specs(options: Sequence[Option]) -> tuple[DhcpOption, ...]:
    return tuple(DhcpOption(each["opt_name"], each["opt_value"], each["ip_version"]) for each in options)
