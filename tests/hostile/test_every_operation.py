"""Each Operation × hostile values of each parameter of its query and each field of its body.

The answer is below 500, costs less than 250 ms of processor time, and does not make the process keep growing.

Few pieces of code, chosen by type, read the fields and parameters: each place is tried with a share of the values, and
the next place with the next share. CLOUDCTL_HOSTILE_SHARE=1 tries each place with all of them.
"""

from __future__ import annotations

import json
import os
import resource
import time
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import quote

import attrs
import pytest

from cloudctl.rest.body import Body, Missing, Range, is_required, wire_names
from cloudctl.rest.route import Operation
from cloudctl.testing.http import encode, exchange
from tests.generated.world import APIS, UNKNOWN, World
from tests.hostile.values import TEXTS

PROCESSOR = 0.25  # seconds
# Bytes. A body full of empty objects takes some 1.5 MiB while it is processed.
GROWTH = 2**21

# As they stand in a query; the head of a request may have 16 KiB.
QUERIES = [
    quote("(((((){255}){255}){255}){255}){255}"),
    quote("(a+)+$" * 30),
    ",".join(f"t{number}" for number in range(2400)),
    "{" + ",".join(f"'{number}':'1'" for number in range(1200)) + "}",
    "[" * 6000,
    '{"a":'.replace('"', "%22") * 900,
    "9" * 4500,
    "-" + "9" * 4500,
    "%ED%A0%80",
    "%00",
    "%F0%9F%98%80" * 900,
    "1e400",
    "in:" + ",".join([UNKNOWN] * 200),
    "%25" * 3000,
    *(quote(text, safe="%") for text in TEXTS),
]
COMMON = ("limit", "marker", "sort_key", "name", "tags", "id")
LONGEST = 15_000  # a request of a longer line is cut off
MANY = [
    *("&".join([f"{name}=a"] * (LONGEST // len(f"{name}=a&"))) for name in ("a", "name", "id")),
    "&" * 12000,
    "=" * 12000,
]

BODIES: list[Any] = [
    "x" * 60_000,
    "(((((){255}){255}){255}){255}){255}",
    10**400,
    -(10**400),
    list(range(20_000)),
    ["x"] * 20_000,
    [{}] * 20_000,
    {str(number): "x" for number in range(6_000)},
    "\ud800",
    {"\udfff": "\ud800"},
    "\0",
    "é😀" * 15_000,
    1e308,
]
SHARE = int(os.environ.get("CLOUDCTL_HOSTILE_SHARE", "4"))
DEEP = [json.loads("[" * 400 + "]" * 400), json.loads('{"a":' * 400 + "1" + "}" * 400)]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


# Read before and after each of tens of thousands of requests.
STATM = os.open("/proc/self/statm", os.O_RDONLY)


def resident() -> int:
    return int(os.pread(STATM, 200, 0).split()[1]) * resource.getpagesize()


@attrs.define
class Shares:
    """Each place that is tried gets the next share of the values."""

    turn: int = 0

    def of(self, values: list[Any]) -> list[tuple[int, Any]]:
        self.turn += 1
        return list(enumerate(values))[self.turn % SHARE :: SHARE]


class Attack:
    """Requests of one Operation, as an administrator, whom no rule stops. `wrong`: what did not hold.

    `seen`: the parameters and fields already tried, of other Operations on the same resource. The same code reads
    them, so once is enough.
    """

    def __init__(
        self,
        world: World,
        api: str,
        path: str,
        operation: Operation,
        seen: set[tuple[object, ...]],
        shares: Shares,
    ) -> None:
        self.world = world
        self.seen = seen
        self.shares = shares
        self.path = world.fill(api, path)
        self.operation = operation
        self.method = operation.method.replace("*", "GET")
        self.headers = {**world.admin.headers, "X-Auth-Token": str(world.admin.token)}
        self.wrong: list[str] = []
        self.asked = 0

    def ask(self, query: str, body: bytes, what: str, media: str = "application/json") -> None:
        target = f"{self.path}?{query}" if query else self.path
        request = encode(self.method, target, {**self.headers, "Content-Type": media}, body)
        spent, grown, status = self._measure(request)
        for _ in range(2):
            # Memory cached once, or garbage that another test left, does not count against the request.
            if spent > PROCESSOR or grown > GROWTH:
                again = self._measure(request)
                spent, grown = min(spent, again[0]), min(grown, again[1])
        self.asked += 1
        if not (0 < status < 500 or status == 501) or spent > PROCESSOR or grown > GROWTH:
            self.wrong.append(f"{self.operation.key} {what}: {status}, {spent:.3f} s, {grown} bytes")

    def _measure(self, request: bytes) -> tuple[float, int, int]:
        before, began = resident(), time.thread_time()
        answer = exchange(self.world.cloud.site, request)
        spent, grown = time.thread_time() - began, resident() - before
        # The first line has it; to take the headers apart costs as much as many a request. 0: there is no answer.
        return spent, grown, int(answer.split(b" ", 2)[1]) if answer else 0

    def is_new(self, *what: object) -> bool:
        is_new = what not in self.seen
        self.seen.add(what)
        return is_new

    def queries(self) -> None:
        declared = set(self.operation.query)
        for name in dict.fromkeys([*COMMON, *self.operation.query]):
            # An undeclared one is handled by what all lists have in common.
            if self.is_new(self.operation.tag if name in declared else None, name):
                for number, value in self.shares.of(QUERIES):
                    self.ask(f"{quote(name)}={value}", b"", f"{name}={number}")
        if self.is_new("many", *self.operation.query):
            for number, query in enumerate(MANY):
                self.ask(query, b"", f"many {number}")

    def bodies(self) -> None:
        body = next(reversed([*(self.operation.body or {}).values()]), None)
        if body is None:
            return
        media = body.types[0] if body.types else "application/json"
        for what, value in spoiled(body, partial(self.is_new, self.operation.tag), self.shares):
            sent = {self.operation.action: value} if self.operation.action else whole(body, value)
            self.ask("", json.dumps(sent).encode(), what, media)


def whole(body: Body, value: Any) -> Any:
    return {body.key: value} if body.key is not None else value


def spoiled(body: Body, is_new: Callable[..., bool], shares: Shares) -> Iterator[tuple[str, Any]]:
    """Bodies in which one place, at the top level or in a field that `is_new`, is hostile."""
    for number, value in shares.of([*BODIES, *DEEP]):
        yield f"body {number}", value
    cls = next((each for each in (body.type, *get_args(body.type)) if isinstance(each, type) and attrs.has(each)), None)
    if cls is None:
        return
    good = sample(cls)
    for name, field in wire_names(cls).items():
        if not is_new(name, str(field.type)):
            continue
        for number, value in shares.of([*BODIES, *DEEP]):
            yield f"{name} {number}", {**good, name: value}


def sample(type_: Any) -> Any:
    """A value that a field of this type takes, more or less."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        ranges = [note for note in arguments[1:] if isinstance(note, Range)]
        return ranges[0].minimum if ranges else sample(arguments[0])
    if origin in (Union, types.UnionType):
        return sample(next(each for each in arguments if each is not Missing and each is not type(None)))
    if origin is Literal:
        return arguments[0]
    if isinstance(type_, type) and attrs.has(type_):
        return {name: sample(each.type) for name, each in wire_names(type_).items() if is_required(each)}
    return {str: UNKNOWN, int: 1, bool: True, float: 1.0, list: [], dict: {}}.get(origin or type_, "a")


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_no_request_is_an_error_or_costs_more_than_a_little(world: World, api: str) -> None:
    wrong: list[str] = []
    asked = 0
    seen: set[tuple[object, ...]] = set()
    shares = Shares()
    for name, path, operation in world.operations():
        if name != api:
            continue
        attack = Attack(world, name, path, operation, seen, shares)
        if operation.method in ("GET", "*"):
            attack.queries()
        attack.bodies()
        if operation.method != "GET":
            world.restore()
        wrong += attack.wrong
        asked += attack.asked
    assert asked > 50
    assert wrong == []


def test_every_api_with_operations_is_asked(world: World) -> None:
    assert {name for name, _, _ in world.operations()} == set(APIS)
