"""Ids of another project's resources, anywhere in a body: as if they did not exist.

With the caller's own resources a wish is granted; with another project's in place of one of them it is refused with
exactly the same error as an id that nobody has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import attrs
import pytest

from cloudctl.rest.body import wire_names
from tests.generated.world import UNKNOWN, VARIABLE, World
from tests.hostile.tenants import SHARED, Tenant, ask
from tests.hostile.wishes import CLAIMS, WISHES, Wish

# Fields that are named like ids but refer to nothing that a project has: an id of the caller's own choice, what only an
# administrator may say, what all share.
NOBODYS = {
    "id", "owner", "member", "project_id", "tenant_id", "user_id", "tenant", "project", "host", "key_name", "nexthop",
    "device_id", "binding:host_id", "segmentation_id", "provider:segmentation_id", "target_tenant", "flavorRef",
    "floating_network_id", "flavor_id", "service_type_id", "backend_id", "secondary_backend_id",
    "group_specs", "return_reservation_id", "glance_image_id", "serverId", "share_id",
}  # fmt: skip


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: f"{wish.method} {wish.at} {' '.join(wish.kinds)}")
def test_another_projects_id_is_as_one_that_nobody_has(
    lands: World, tenants: tuple[Tenant, Tenant], wish: Wish
) -> None:
    mine, theirs = tenants
    wrong: list[str] = []
    answer = ask(mine, wish)
    lands.restore()
    assert answer.status < 300 or not wish.granted, answer
    for kind in wish.kinds:
        if kind in SHARED:
            continue
        foreign, unknown = theirs.id(kind), UNKNOWN
        one = ask(mine, wish, **{kind: foreign})
        lands.restore()
        other = ask(mine, wish, **{kind: unknown})
        lands.restore()
        same = one.body.replace(foreign.encode(), b"ID") == other.body.replace(unknown.encode(), b"ID")
        if one.status < 400 or one.status != other.status or not same:
            wrong.append(f"{kind}: {one.status} {one.body[:300]!r}; unknown: {other.status} {other.body[:300]!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("wish", CLAIMS, ids=lambda wish: wish.at)
def test_nothing_is_attached_to_another_projects_server(
    lands: World, tenants: tuple[Tenant, Tenant], wish: Wish
) -> None:
    mine, theirs = tenants
    for server, status in ((mine.id("server"), 2), (theirs.id("server"), 4), (UNKNOWN, 2)):
        answer = ask(mine, wish, server=server)
        lands.restore()
        assert answer.status // 100 == status, answer


# -- every Operation with an id in its body is above


LOOKS_LIKE = ("id", "ids", "uuid", "ref", "volid")


def named(type_: Any, looks_like: tuple[str, ...] = LOOKS_LIKE, seen: frozenset[Any] = frozenset()) -> Iterator[str]:
    """Names of fields, at any depth, that look like those of ids."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        arguments = arguments[:1]
    if arguments:
        for each in arguments:
            yield from named(each, looks_like, seen)
    elif isinstance(type_, type) and attrs.has(type_) and type_ not in seen:
        for name, each in wire_names(type_).items():
            if name.lower().endswith(looks_like):
                yield name
            yield from named(each.type, looks_like, seen | {type_})


def fields(value: Any) -> Iterator[str]:
    """Names of fields that hold a `$kind`."""
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str) and each.startswith("$"):
                yield name
            yield from fields(each)
    elif isinstance(value, list):
        for each in value:
            yield from fields(each)


def test_every_id_that_an_operation_takes_is_asked_for(lands: World) -> None:
    member = lands.identity("member")
    asked = {
        (wish.api, wish.method, re.sub(r"\$\w+", "$", wish.at), name)
        for wish in (*WISHES, *CLAIMS)
        for name in fields(wish.body)
    }
    missing = []
    for api, path, operation in lands.operations():
        body = next(reversed([*(operation.body or {}).values()]), None)
        may = operation.policy is not None and lands.cloud.cloud.policy.might(operation.policy, member, {})
        if api == "identity" or body is None or not may:
            continue
        for name in sorted(set(named(body.type)) - NOBODYS):
            if (api, operation.method, VARIABLE.sub("$", path), name) not in asked:
                missing.append(f"{api} {operation.key} {name}")
    assert not missing, "\n".join(missing)
