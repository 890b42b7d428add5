"""One of each resource of the networking API, for tests that ask every Operation: variable of a path → its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Make = Callable[[str, str, dict[str, Any]], str]


def samples(make: Make, ids: Mapping[str, str], project: str) -> dict[str, str]:
    """What there is beside networks, ports and routers, which `ids` has.

    `make(path, key, body)` creates as an administrator and gives the id; they belong to `project`.
    """
    own = {"project_id": project}
    share = {"object_type": "network", "object_id": ids["network_id"], "action": "access_as_shared"}
    return {
        "address_scope_id": make("/address-scopes", "address_scope", {**own, "ip_version": 4}),
        "subnetpool_id": make("/subnetpools", "subnetpool", {**own, "name": "p", "prefixes": ["10.200.0.0/16"]}),
        "address_group_id": make("/address-groups", "address_group", {**own, "addresses": ["192.0.2.1"]}),
        "rbac_policy_id": make("/rbac-policies", "rbac_policy", {**share, **own, "target_tenant": "somebody"}),
    }
