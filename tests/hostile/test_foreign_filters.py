"""Filters, markers, sort keys and counts of every list: queries about another project's rows reveal nothing.

The values of the most revealing of those rows are queried with each filter that the list has and each attribute that a
row shows. The answer holds nothing of those rows, and is the same as for a value that nobody has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest

from cloudctl.testing.cloud import Client
from cloudctl.testing.http import Response
from tests.generated.world import VARIABLE, World
from tests.hostile.tenants import Tenant

# Those whose lists hold rows of several projects.
APIS = ("compute", "image", "networking", "volume")
# Parameters that might request anybody's rows, or find them.
WIDER = ("all_tenants=1", "all_projects=true", "with_count=true", "deleted=true", "changes-since=2020-01-01T00:00:00Z",
         "visibility=all", "member_status=all", "limit=1", "detailed=true")  # fmt: skip
POINTERS = ("marker", "page_marker", "id", "ids", "uuid", "name", "ip", "device_id", "member_of", "resource_uuid")
OLDEST = {"OpenStack-API-Version": "compute 2.1, volume 3.0, placement 1.0, instance-ha 1.0"}
TELLING = re.compile(r"[0-9a-f-]{32,36}|[\w.:@/-]{12,}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT")


def rows(answer: Response) -> Iterator[dict[str, Any]]:
    found = json.loads(answer.body) if answer.status == 200 and answer.body[:1] == b"{" else {}
    for several in found.values():
        yield from (each for each in (several if isinstance(several, list) else ()) if isinstance(each, dict))


def strings(value: Any) -> Iterator[str]:
    """Every meaningful string, at any depth."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)
    elif isinstance(value, str) and not TIME.match(value):
        yield from TELLING.findall(value)


def unlike(value: str) -> str:
    """A value of the same form that nobody has."""
    return re.sub(r"\d|[a-f](?=[0-9a-f-]{6})", lambda each: "0" if each[0] != "0" else "7", value[:-2]) + value[-2:]


class Lists:
    """The lists of one API, queried by a project that knows everything another project's rows say."""

    def __init__(self, world: World, mine: Client, theirs: Client, project: str) -> None:
        self.world, self.mine, self.theirs, self.project = world, mine, theirs, project
        self.asked = 0
        self.wrong: list[str] = []

    def probe(self, path: str, declared: Iterable[str], version: dict[str, str]) -> None:
        self.version = version
        own = self.mine.get(path, headers=version)
        if own.status != 200:
            return
        public = own.body.decode()
        every = rows(self.theirs.get(path, headers=version))
        found = sorted(every, key=lambda row: len({each for each in strings(row) if each not in public}))[-1:]
        self.secrets = {text for each in found for text in strings(each) if text not in public} - {self.project}
        if not self.secrets:
            return
        names = [*dict.fromkeys([*declared, *(name for each in found for name in each)])]
        for query in self.queries(found, names):
            self.ask(path, query)

    def queries(self, found: list[dict[str, Any]], names: list[str]) -> Iterator[str]:
        owner = [f"{name}={self.project}" for name in ("project_id", "tenant_id", "owner")]
        for wide in (*WIDER, *owner):
            yield wide
            yield from (f"{wide}&{each}" for each in owner)
        for row in found:
            ids = [str(row[name]) for name in ("id", "uuid", "name") if row.get(name)]
            for name in names:
                value = row.get(name)
                if isinstance(value, str | int) and not isinstance(value, bool):
                    yield f"{quote(name)}={quote(str(value))}"
                    yield f"{quote(name)}={quote('in:' + str(value))}"
                elif isinstance(value, list | dict):
                    yield from (f"{quote(name)}={quote(each)}" for each in list(strings(value))[:2])
            if ids:
                yield from (f"{quote(name)}={quote(ids[0])}" for name in dict.fromkeys((*POINTERS, *names)))
                yield from (f"marker={quote(ids[0])}&sort_key={quote(name)}" for name in names)
        yield from (f"sort_key={quote(name)}&sort_dir=asc&limit=1" for name in names)

    def ask(self, path: str, query: str) -> None:
        said = unquote(query)
        answer = self.mine.get(f"{path}?{query}", headers=self.version)
        self.asked += 1
        text = answer.body.decode()
        told = sorted(each for each in self.secrets if each in text and each not in said)
        if told:
            self.wrong.append(f"{path}?{query}: {answer.status} tells {told[:3]}")
        named = [each for each in self.secrets if each in said]
        if not named:
            return
        secret = max(named, key=len)
        other = unlike(secret)
        unknown = self.mine.get(f"{path}?{quote(said.replace(secret, other), safe='=&')}", headers=self.version)
        # A link to the next page repeats the query as it was sent.
        same = unquote(text).replace(secret, other) == unquote(unknown.body.decode())
        if (answer.status, same) != (unknown.status, True):
            self.wrong.append(
                f"{path}?{query}: {answer.status} {text[:200]}; unknown: {unknown.status} {unknown.body[:200]!r}"
            )


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_what_is_asked_of_another_projects_rows_is_told_of_nobodys(
    lands: World, tenants: tuple[Tenant, Tenant], api: str
) -> None:
    mine, theirs = tenants
    lists = Lists(lands, mine.client, theirs.client, theirs.project_id)
    for name, path, operation in lands.operations():
        if name == api and operation.method == "GET" and not VARIABLE.search(path):
            for version in ({}, OLDEST) if path == "/v2.1/servers/detail" else ({},):
                lists.probe(lands.fill(api, path), operation.query, version)
    assert not lists.wrong, "\n".join(lists.wrong)
    assert lists.asked > 100
