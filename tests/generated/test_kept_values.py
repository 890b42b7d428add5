"""What a body sets is kept and shown: no Operation takes a value and loses it."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
import pytest

from cloudctl.rest.body import Missing, Range, wire_names
from cloudctl.rest.route import Operation
from cloudctl.testing.cloud import Client
from cloudctl.testing.http import Response
from tests.generated.world import World

WORDS = (
    "kept",
    "192.0.2.77",
    "2031-02-03T04:05:06Z",
    "02:00:00:00:00:77",
    "https://kept.example.com/",
    "kept.example.",
)
# What is not shown under its name, and why.
UNSHOWN = {
    **dict.fromkeys(("allow_redelegation", "check_limit", "force", "incremental"), "how it is done, not what"),
    **dict.fromkeys(("project_id", "tenant_id", "user_id"), "whose it is follows from something else"),
    **dict.fromkeys(("display_description", "display_name"), "an old spelling of another"),
    "hostname": "shown as OS-EXT-SRV-ATTR:hostname",
    "is_default": "shown of external networks only",
    "password": "a secret",
}
# What is shown otherwise, and why.
UNREAD = {"status": "old clients of consistency groups send it, and cinder does not read it"}
# 0: any.
CHOSEN = ("evpn_vni", "mtu")
LEAST = 500  # values that are taken: otherwise the bodies do not fit the Operations any more


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def values(type_: Any, notes: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Plain values of a type, of which a service may refuse some for reasons of its own."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        yield from values(arguments[0], arguments[1:])
    elif origin in (Union, types.UnionType):
        for each in arguments:
            if each not in (Missing, type(None)):
                yield from values(each)
    elif origin is Literal:
        yield from arguments
    elif origin is list:
        yield from ([each] for each in values(arguments[0]))
    elif origin is dict and arguments[1] is str:
        yield {"kept": "kept"}
    elif type_ is bool:
        yield from (True, False)
    elif type_ is int:
        least = next((note.minimum for note in notes if isinstance(note, Range)), 0)
        yield from range(least, least + 3)
    elif type_ is str:
        yield from WORDS


def fields(operation: Operation, key: str) -> Mapping[str, Any]:
    """The fields of the bodies in this envelope, and their types."""
    found: dict[str, Any] = {}
    for body in (operation.body or {}).values():
        kinds = get_args(body.type) or (body.type,)
        for kind in kinds if body.key == key else ():
            if isinstance(kind, type) and attrs.has(kind):
                found |= {name: attribute.type for name, attribute in wire_names(kind).items()}
    return found


def is_kept(name: str, sent: Any, shown: Any) -> bool:
    if sent == 0 and name in CHOSEN:
        return True
    wanted = str(sent).lower()
    return str(shown).lower() in (wanted, f"{wanted}/32", wanted.replace("z", ".000000z"))


def lost(client: Client, answer: Response, path: str, key: str, name: str, sent: Any) -> Any:
    """What is shown instead of a value that was taken; None if it is there, or need not be shown."""
    shown = answer.json().get(key, {}) if answer.body else {}
    if name not in shown and name in UNSHOWN:
        return None
    if name not in shown:
        read = client.get(path.format(**{"id": "", **shown}))
        shown = read.json().get(key, {}) if read.status == 200 else {}
    if name not in shown:
        return "nothing" if shown else None
    return None if is_kept(name, sent, shown[name]) or name in UNREAD else shown[name]


def ask(world: World, method: str, path: str, key: str, body: Any) -> Iterator[tuple[Client, Response]]:
    """Send it as a member and, if they may not do that, as an administrator, to the same World; what is taken."""
    for client in (world.member, world.admin):
        answer = client.request(method, path, {key: body})
        if answer.status < 300:
            yield client, answer
        world.restore()
        if answer.status not in (403, 404):
            break


def test_what_an_update_sets_is_shown_then(world: World) -> None:
    taken, found = 0, []
    for api, path, operation in world.operations():
        keys = {body.key for body in (operation.body or {}).values() if not body.types} - {None}
        for key in keys if operation.method in ("PUT", "PATCH") else ():
            target = world.fill(api, path)
            for name, type_ in fields(operation, str(key)).items():
                for value in values(type_):
                    for client, answer in ask(world, operation.method, target, str(key), {name: value}):
                        taken += 1
                        instead = lost(client, answer, target, str(key), name, value)
                        found += [] if instead is None else [(operation.method, api, path, name, value, instead)]
    assert found == [] and taken > LEAST, (taken, found)


def test_what_a_create_sets_is_shown_then(world: World) -> None:
    taken, found = 0, []
    made = {(path, key): body for path, key, body in world.made}
    for api, path, operation in world.operations():
        if operation.method != "POST":
            continue
        target = world.fill(api, path)
        for key, body in ((key, body) for (place, key), body in made.items() if place == target):
            for name, type_ in fields(operation, key).items():
                for value in values(type_):
                    # Some have names of their own.
                    sent = {**body, **({"name": "another"} if "name" in body else {}), name: value}
                    for client, answer in ask(world, "POST", target, key, sent):
                        taken += 1
                        instead = lost(client, answer, f"{target}/{{id}}", key, name, value)
                        found += [] if instead is None else [(api, path, name, value, instead)]
    assert found == [] and taken > LEAST, (taken, found)
