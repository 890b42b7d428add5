"""What `cloudctl policy` prints: every rule, its expression, and the API calls that it guards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cloudctl.app import Cloud
from cloudctl.rest import policy


def lines(cloud: Cloud, override: Path | None, service: str | None = None) -> Iterator[str]:
    """The rules in force, with the overrides of an operator's file; only those of `service` if it is given.

    `cloud` is any composed cloud: its Operations are the calls listed. A rule that guards no call by itself is checked
    inside calls or named by other rules. Raises ConfigError if a file or a rule cannot be understood.
    """
    packages = [each.package for each in cloud.offered]
    shipped = {**policy.PERSONAS, **policy.shipped(packages)}
    chosen = policy.load(packages, override)
    calls = guarded(cloud)
    for name, text in shipped.items():
        if service is not None and name.partition(":")[0] != service:
            continue
        rule = chosen.rules[name].text
        yield f"{name} = {rule}"
        if rule != text:
            yield f"    overridden; as shipped: {text}"
        for call in calls.get(name, ()):
            yield f"    {call}"


def guarded(cloud: Cloud) -> Mapping[str, list[str]]:
    """Rule → the calls that it guards: `GET /identity/v3/users`."""
    found: dict[str, list[str]] = {}
    for prefix, api in [*((each.prefix, each.api) for each in cloud.served), ("", cloud.root_api)]:
        for path, operation in api.operations:
            if operation.policy is not None:
                shown = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", prefix + path)
                call = " ".join(filter(None, (operation.method, shown, operation.action)))
                found.setdefault(operation.policy, []).append(call)
    return found
