"""Many things at once: paths to delete, and archives whose files become objects. Reference: object-store.md, A8."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import IO

from attrs import evolve, frozen

from cloudctl.db import Connection
from cloudctl.errors import Invalid, TooLarge
from cloudctl.object_store import acl, archives, containers, metadata, objects, removal
from cloudctl.object_store.api import headers
from cloudctl.object_store.api.bulk_answers import Outcome
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.archives import Member
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.large import path_of
from cloudctl.object_store.names import MOST_OF_CONTAINER, MOST_OF_OBJECT, Place
from cloudctl.object_store.objects import NewObject
from cloudctl.rest.call import Call, Reply

MOST_DELETES = 10_000
MOST_FAILED = 1000
MOST_CONTAINERS = 10_000
# Bytes of a path in a list, all of which may be escaped.
LONGEST = 3 * (MOST_OF_CONTAINER + MOST_OF_OBJECT + 2)
# Bytes of a list, some of whose lines may be empty.
MOST_BYTES = 2 * MOST_DELETES * LONGEST
LINES = 65536  # bytes of a list that are read together


@frozen
class Bulk:
    intake: Intake
    door: Door
    max_size: int  # bytes of one object

    # -- deleting

    async def delete(self, call: Call, place: Place) -> Reply:
        """Each line of the body is the path of an object or of an empty container."""
        outcome = Outcome()
        count = 0
        if call.content.seek(0, os.SEEK_END) > MOST_BYTES:
            outcome.status = "413 Request Entity Too Large"
        pieces = _lines(call.content)
        while not outcome.status and (lines := await self.intake.run(next, pieces, None)) is not None:
            for line in lines:
                count += 1
                if not await self._delete_line(call, place, line, count, outcome):
                    break
        if not count and not outcome.status:
            outcome.status, outcome.body = "400 Bad Request", "Invalid bulk delete."
        return outcome.reply(call)

    async def _delete_line(self, call: Call, place: Place, line: bytes, count: int, outcome: Outcome) -> bool:
        """Whether there may be more."""
        if count > MOST_DELETES:
            outcome.status = "413 Request Entity Too Large"
            outcome.body = f"Maximum Bulk Deletes: {MOST_DELETES} per request"
        elif len(line) > LONGEST:
            outcome.status, outcome.body = "400 Bad Request", "Invalid File Name"
        else:
            await self._delete(call, place, path_of(line.decode("utf-8", "surrogateescape")), outcome)
            if len(outcome.wrong) >= MOST_FAILED:
                outcome.status, outcome.body = "400 Bad Request", "Max delete failures exceeded"
        return not outcome.status

    async def _delete(self, call: Call, place: Place, path: str, outcome: Outcome) -> None:
        with outcome.of(path):
            where = place.inside(path)
            await self.door.enter(call, where, acl_header=acl.WRITE if where.name else "", rule=_rule(where))
            remove = partial(objects.remove, marks=False) if where.name else removal.remove
            outcome.count(await self.intake.change(remove, where, call.now))

    # -- archives

    async def extract(self, call: Call, place: Place) -> Reply:
        """Each file of the archive becomes an object: below `place`, or in the container that its path begins with."""
        form, like = wanted(call)
        outcome = Outcome(created=0)
        made: set[str] = set()
        try:
            with closing(archives.members(call.content, form, self.max_size)) as members:
                while (member := await self.intake.run(next, members, None)) is not None:
                    await self._extract(call, place, member, like, made, outcome)
                    if len(outcome.wrong) >= MOST_FAILED:
                        outcome.status, outcome.body = "400 Bad Request", "Max failures exceeded"
                        break
        except Invalid as error:
            outcome.status, outcome.body = "400 Bad Request", error.message
        if not (outcome.created or outcome.wrong or outcome.status):
            outcome.status, outcome.body = "400 Bad Request", "Invalid Tar File: No Valid Files"
        return outcome.reply(call)

    async def _extract(
        self, call: Call, place: Place, member: Member, like: NewObject, made: set[str], outcome: Outcome
    ) -> None:
        below = "/".join(filter(None, (place.container, place.name.rstrip("/"), member.path)))
        with outcome.of(below):
            where = place.inside(below)
            if not where.name:
                raise Invalid("")
            if member.size > self.max_size:
                raise TooLarge("")
            if where.container not in made:
                await self._container(call, where, made)
            await self.door.enter(call, where, acl_header=acl.WRITE, rule="object_store:objects:create")
            new = evolve(like, content_type=objects.guessed_type(where.name))
            await self.intake.write(where, member.chunks(), new, call.now)
            assert outcome.created is not None
            outcome.created += 1

    async def _container(self, call: Call, where: Place, made: set[str]) -> None:
        if await self.intake.db.read(_lacks, where):
            if len(made) >= MOST_CONTAINERS:
                raise Invalid("")
            await self.door.enter(call, where, rule="object_store:containers:create")
            await self.intake.db.run(containers.put, where, {}, call.now)
        made.add(where.container)


def wanted(call: Call) -> tuple[str, NewObject]:
    """The format of an archive, and what is set on each of its files: known before it comes. Raises Invalid."""
    form = call.query.get("extract-archive") or ""
    if form not in archives.FORMATS:
        raise Invalid("Unsupported archive format")
    said = {name: value for name, value in headers.of_object(call).items() if name.startswith(metadata.OBJECT)}
    return form, NewObject(headers=said, delete_at=headers.delete_at(call))


def _lacks(conn: Connection, place: Place) -> bool:
    return containers.find(conn, place) is None


def _rule(place: Place) -> str:
    return "object_store:objects:delete" if place.name else "object_store:containers:delete"


def _lines(body: IO[bytes]) -> Iterator[list[bytes]]:
    """Some lines at a time, without empty ones; one that is too long is cut, but still too long. It blocks."""
    body.seek(0)
    rest = b""
    while data := body.read(LINES):
        *lines, rest = (rest + data).split(b"\n")
        yield [*filter(None, map(bytes.strip, lines))]
        if len(rest) > LONGEST:
            break
    if rest.strip():
        yield [rest.strip()]
