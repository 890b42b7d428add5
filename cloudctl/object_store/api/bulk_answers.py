"""Answers of calls that do many things, some of which may fail. Reference: object-store.md, A8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import orjson
from attrs import define, field

from cloudctl.errors import CloudError, NotFound
from cloudctl.object_store.api.listings import JSON, PLAIN, TEXT_XML, XML
from cloudctl.object_store.objects import Done
from cloudctl.rest.accept import preferred
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.faults import reason


def media(call: Call) -> str:
    return preferred(call.header("accept") or PLAIN, [PLAIN, JSON, XML, TEXT_XML]) or PLAIN


def told(call: Call, said: Mapping[str, Any], status: int = 200) -> Reply:
    """The answer: values by name, and `Errors`, pairs of a path and what is wrong with it."""
    form = media(call)
    return Reply(beginning(form) + rest(form, said), status, (("Content-Type", f"{form}; charset=utf-8"),))


def beginning(form: str) -> bytes:
    """What comes before any spaces."""
    return b"" if form in (JSON, PLAIN) else b'<?xml version="1.0" encoding="UTF-8"?>\n'


def rest(form: str, said: Mapping[str, Any]) -> bytes:
    if form == JSON:
        return orjson.dumps(said)
    if form == PLAIN:
        lines = [f"{name}: {value}" for name, value in said.items() if name != "Errors"]
        return "\n".join([*lines, "Errors:", *(f"{path}, {why}" for path, why in said["Errors"])]).encode()
    parts = "".join(
        f"<{(tag := name.lower().replace(' ', '_'))}>{escape(str(value))}</{tag}>"
        for name, value in said.items()
        if name != "Errors"
    )
    wrong = "".join(
        f"<object><name>{escape(path)}</name><status>{escape(why)}</status></object>" for path, why in said["Errors"]
    )
    return f"<delete>{parts}<errors>{wrong}</errors></delete>".encode()


def errors(call: Call, wrong: Sequence[tuple[str, str]]) -> Reply:
    """What is wrong with the segments of a manifest."""
    return told(call, {"Errors": escaped(wrong)}, 400)


def escaped(wrong: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of a path and what is wrong with it, as answers hold them."""
    return [(quote(path, errors="surrogateescape"), why) for path, why in wrong]


def status_of(error: CloudError) -> str:
    return f"{error.status} {reason(error.status)}"


@define
class Outcome:
    """The outcome of a call that deletes or creates: `deleted` and `created` count what was done."""

    deleted: int = 0
    missing: int = 0
    created: int | None = None
    wrong: list[tuple[str, str]] = field(factory=list)
    status: str = ""  # of the whole call, if it does not follow from its parts
    body: str = ""

    @contextmanager
    def of(self, path: str) -> Iterator[None]:
        """One of the things to do; its error is reported at the end."""
        try:
            yield
        except NotFound as error:
            if self.created is None:
                self.missing += 1
            else:
                self.wrong.append((quote(path, errors="surrogateescape"), status_of(error)))
        except CloudError as error:
            self.wrong.append((quote(path, errors="surrogateescape"), status_of(error)))

    def count(self, done: Done) -> None:
        """Count a deletion. One of nothing may have left a marker all the same."""
        if done.was_there:
            self.deleted += 1
        else:
            self.missing += 1

    def reply(self, call: Call) -> Reply:
        done: dict[str, Any] = {"Number Deleted": self.deleted, "Number Not Found": self.missing}
        good = "200 OK"
        if self.created is not None:
            done, good = {"Number Files Created": self.created}, "201 Created"
        elif not self.deleted and not self.wrong and self.missing:
            good = "404 Not Found"
        status = self.status or ("400 Bad Request" if self.wrong else good)
        return told(call, {**done, "Response Status": status, "Response Body": self.body, "Errors": self.wrong})
