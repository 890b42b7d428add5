"""Ids of another project's resources, anywhere in a path: as if they did not exist.

Each Operation that a member may call, on another project's resource and on a missing one: the answers are the same.
With two ids in a path, also if the first is the caller's own and the second is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import get_args

import attrs
import pytest

from cloudctl.rest.route import Operation
from tests.generated.world import APIS, UNKNOWN, VARIABLE, World
from tests.hostile.tenants import Tenant
from tests.hostile.test_every_operation import sample, whole

# What all projects see.
SHARED = {
    "types", "group_types", "flavors", "extensions", "schemas", "metadefs", "default-security-group-rules",
}  # fmt: skip
# A caller with the id of a transfer was given it, so the answer may say that the key is wrong.
GIVEN = ("accept",)
# First variable of a path with two → the kind of which the caller has one.
OWN = {
    "server_id": "server",
    "volume_id": "volume",
    "floatingip_id": "floatingip2",
    "router_id": "router",
    "policy_id": "policy",
    "security_group_id": "security_group",
    "image_id": "image",
    "local_ip_id": "local_ip",
    "snapshot_id": "snapshot",
}


def body_of(operation: Operation) -> tuple[bytes, dict[str, str]]:
    """A body that is accepted, more or less, and its headers."""
    body = next(reversed([*(operation.body or {}).values()]), None)
    if body is None:
        return (json.dumps({operation.action: None}).encode() if operation.action else b""), {}
    cls = next((each for each in (body.type, *get_args(body.type)) if isinstance(each, type) and attrs.has(each)), None)
    value = sample(cls or body.type)
    sent = {operation.action: value} if operation.action else whole(body, value)
    return json.dumps(sent).encode(), {"Content-Type": body.types[0] if body.types else "application/json"}


@attrs.frozen
class Stranger:
    """A caller, in a project of his own, who asks for what belongs to project demo."""

    world: World
    api: str
    path: str
    operation: Operation

    def ask(self, values: Mapping[str, str]) -> tuple[int, bytes]:
        """The answer, except for the requested ids."""
        body, headers = body_of(self.operation)
        method = self.operation.method.replace("*", "GET")
        target = self.world.fill(self.api, self.path, **values)
        answer = self.world.clients["other"].request(method, target, body=body, headers=headers)
        self.world.restore()
        told = answer.body
        for name in VARIABLE.findall(self.path):
            for each in (values.get(name), self.world.ids[self.api, name]):
                told = told.replace((each or UNKNOWN).encode(), b"ID")
        return answer.status, told

    def wrong(self, foreign: Mapping[str, str], unknown: Mapping[str, str]) -> str:
        one, other = self.ask(foreign), self.ask(unknown)
        return "" if one == other else f"{self.operation.key}: {one}; unknown: {other}"


@pytest.mark.parametrize("api", [each for each in APIS if each not in ("events", "identity", "s3")])
def test_what_is_below_another_projects_is_as_what_is_nowhere(
    lands: World, tenants: tuple[Tenant, Tenant], api: str
) -> None:
    member = lands.identity("other")
    wrong: list[str] = []
    asked = 0
    for name, path, operation in lands.operations():
        variables = VARIABLE.findall(path)
        fixed = {part for part in path.split("/") if "<" not in part}
        if name != api or operation.policy is None or not lands.cloud.cloud.policy.might(operation.policy, member, {}):
            continue
        if not variables or fixed & SHARED or path.endswith(GIVEN):
            continue
        stranger = Stranger(lands, name, path, operation)
        asked += 1
        given = {"collection": lands.ids[name, "collection"]} if "collection" in variables else {}
        wanted = [each for each in variables if each not in given]
        wrong.append(stranger.wrong(given, {**given, wanted[0]: UNKNOWN}))
        wrong.append(stranger.wrong(given, {**given, **dict.fromkeys(wanted, UNKNOWN)}))
        if len(wanted) > 1 and wanted[0] in OWN:
            own = {**given, wanted[0]: tenants[1].id(OWN[wanted[0]])}
            wrong.append(stranger.wrong(own, {**own, **dict.fromkeys(wanted[1:], UNKNOWN)}))
    assert asked or api in ("placement", "instance-ha")
    assert not any(wrong), "\n".join(filter(None, wrong))
