"""Many at once: paths to be deleted, and archives whose files become objects. Reference: object-store.md, A8."""

from __future__ import annotations

import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import IO, Literal

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.errors import Invalid, TooLarge
from cloudctl.object_store import acl, containers, objects, removal
from cloudctl.object_store.api.bulk_answers import Outcome
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.large import path_of
from cloudctl.object_store.names import MOST_OF_CONTAINER, MOST_OF_OBJECT, Place
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.store import CHUNK
from cloudctl.rest.call import Call, Reply

MOST_DELETES = 10_000
MOST_FAILED = 1000
MOST_CONTAINERS = 10_000
# Bytes of a path in a list, which may be escaped all through.
LONGEST = 3 * (MOST_OF_CONTAINER + MOST_OF_OBJECT + 2)
MODES: Mapping[str, Literal["r|", "r|gz", "r|bz2"]] = {"tar": "r|", "tar.gz": "r|gz", "tar.bz2": "r|bz2"}


@frozen
class Bulk:
    intake: Intake
    door: Door
    max_size: int  # bytes of one object

    # -- deleting

    async def delete(self, call: Call, place: Place) -> Reply:
        """The body has a path in each line, of an object or of an empty container."""
        outcome = Outcome()
        count = 0
        for line in _lines(call.content):
            count += 1
            if count > MOST_DELETES:
                outcome.status = "413 Request Entity Too Large"
                outcome.body = f"Maximum Bulk Deletes: {MOST_DELETES} per request"
            elif len(line) > LONGEST:
                outcome.status, outcome.body = "400 Bad Request", "Invalid File Name"
            else:
                await self._delete(call, place, path_of(line.decode("utf-8", "surrogateescape")), outcome)
                if len(outcome.wrong) >= MOST_FAILED:
                    outcome.status, outcome.body = "400 Bad Request", "Max delete failures exceeded"
            if outcome.status:
                break
        if not count:
            outcome.status, outcome.body = "400 Bad Request", "Invalid bulk delete."
        return outcome.reply(call)

    async def _delete(self, call: Call, place: Place, path: str, outcome: Outcome) -> None:
        with outcome.of(path):
            where = place.inside(path)
            await self.door.enter(call, where, acl_header=acl.WRITE if where.name else "", rule=_rule(where))
            if where.name:
                await self.intake.change(objects.remove, where, call.now)
            else:
                await self.intake.change(removal.remove, where, call.now)
            outcome.deleted += 1

    # -- archives

    async def extract(self, call: Call, place: Place) -> Reply:
        """Each file of the archive is an object: below `place`, or of the container that its path begins with."""
        form = call.query.get("extract-archive") or ""
        if form not in MODES:
            raise Invalid("Unsupported archive format")
        outcome = Outcome(created=0)
        made: set[str] = set()
        call.content.seek(0)
        try:
            with closing(_members(call.content, MODES[form])) as members:
                while (member := await self.intake.run(next, members, None)) is not None:
                    await self._extract(call, place, member, made, outcome)
                    if len(outcome.wrong) >= MOST_FAILED:
                        outcome.status, outcome.body = "400 Bad Request", "Max failures exceeded"
                        break
        except (tarfile.TarError, EOFError, OSError) as error:
            outcome.status, outcome.body = "400 Bad Request", f"Invalid Tar File: {error}"
        if not outcome.created and not outcome.status:
            outcome.status, outcome.body = "400 Bad Request", "Invalid Tar File: No Valid Files"
        return outcome.reply(call)

    async def _extract(self, call: Call, place: Place, member: Member, made: set[str], outcome: Outcome) -> None:
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
            new = NewObject(content_type=objects.guessed_type(where.name))
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


def _lacks(conn: Connection, place: Place) -> bool:
    return containers.find(conn, place) is None


def _rule(place: Place) -> str:
    return "object_store:objects:delete" if place.name else "object_store:containers:delete"


@frozen
class Member:
    """A file in an archive. It is read before the next one is asked for."""

    path: str
    size: int
    file: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        while data := self.file.read(CHUNK):
            yield data


def _lines(body: IO[bytes]) -> Iterator[bytes]:
    """Those that are not empty; of one that is too long as much as shows it."""
    body.seek(0)
    rest = b""
    while data := body.read(LONGEST):
        *lines, rest = (rest + data).split(b"\n")
        yield from filter(None, map(bytes.strip, lines))
        if len(rest) > LONGEST:
            break
    if rest.strip():
        yield rest.strip()


def _members(body: IO[bytes], mode: Literal["r|", "r|gz", "r|bz2"]) -> Generator[Member, None, None]:
    """The plain files; links and the like are left out. Blocks. Raises TarError, EOFError, OSError."""
    # Read as a stream: an archive says nowhere how much of it there is.
    with tarfile.open(fileobj=body, mode=mode) as archive:
        for each in archive:
            file = archive.extractfile(each) if each.isreg() else None
            if file is not None:
                yield Member(each.name.removeprefix("./").lstrip("/"), each.size, file)
            # The list of those that are done is nothing that anybody needs.
            vars(archive)["members"].clear()
