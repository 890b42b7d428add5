"""Forms signed with a key: their files become objects. Reference: object-store.md, A8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.errors import CloudError, Invalid, TooLarge, Unauthorized
from cloudctl.object_store import accounts, containers, objects
from cloudctl.object_store.api import temp_url
from cloudctl.object_store.api.faults import HTML_TYPE
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.multipart import Form, Part, boundary_of
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.objects import NewObject
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.faults import reason

LONGEST_FIELD = 8192  # bytes
MOST_FIELDS = 100


def is_form(call: Call) -> bool:
    return boundary_of(call.header("content-type") or "") is not None


def _invalid() -> Unauthorized:
    return Unauthorized("FormPost: Invalid Signature")


def _keys(conn: Connection, place: Place) -> list[str]:
    container = containers.find(conn, place)
    said = accounts.headers(conn, place.project_id)
    return temp_url.keys(said) + temp_url.keys(container.headers if container else {})


@frozen
class Allowed:
    """What a form's signature allows."""

    redirect: str
    most_bytes: int  # of each file
    most_files: int
    delete_at: int | None


@frozen
class Forms:
    intake: Intake

    async def check(self, call: Call, place: Place) -> None:
        """Check that a form may come at all: there is a key to sign it. Raises Unauthorized."""
        if not await self.intake.db.read(_keys, place):
            raise _invalid()

    async def take(self, call: Call, place: Place) -> Reply:
        """Raises Unauthorized, Invalid."""
        assert call.rule is not None
        # The signature decides.
        call.caller.decided.add(call.rule)
        keys = await self.intake.db.read(_keys, place)
        boundary = boundary_of(call.header("content-type") or "")
        assert boundary is not None
        fields: dict[str, str] = {}
        allowed: Allowed | None = None
        count, outcome = 0, "400 Bad Request"
        parts = iter(Form(call.content, boundary))
        while (part := await self.intake.run(next, parts, None)) is not None:
            if part.filename is None:
                fields[part.name] = part.text(LONGEST_FIELD)
                if len(fields) > MOST_FIELDS:
                    # Its sender is not known yet.
                    raise Invalid("The form has too many fields.")
                continue
            if not part.filename:
                continue
            allowed = allowed or _allowed(call, place, fields, keys)
            count += 1
            if count > allowed.most_files:
                outcome = "400 Bad Request: max_file_count exceeded"
                break
            try:
                await self._keep(call, place, part, allowed)
            except CloudError as error:
                outcome = f"{error.status} {reason(error.status)}"
                break
            outcome = "201 Created"
        allowed = allowed or _allowed(call, place, fields, keys)
        return _answer(outcome, allowed.redirect)

    async def _keep(self, call: Call, place: Place, part: Part, allowed: Allowed) -> None:
        where = placed(place.account, place.container, f"{place.name}{part.filename}")
        kind = str(part.headers.get("content-type") or objects.guessed_type(where.name))
        new = NewObject(content_type=kind, delete_at=allowed.delete_at)
        await self.intake.write(where, _limited(part.chunks, allowed.most_bytes), new, call.now)


def _limited(chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    left = most
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise TooLarge("max_file_size exceeded")
        yield chunk


def _allowed(call: Call, place: Place, fields: Mapping[str, str], keys: list[str]) -> Allowed:
    """Raises Unauthorized, Invalid."""
    redirect, expires = fields.get("redirect", ""), fields.get("expires", "")
    until = temp_url.moment(expires)
    digest, signature = temp_url.digest_of(fields.get("signature", ""))
    if until is None or until < seconds(call.began):
        raise Unauthorized("FormPost: Form Expired")
    path = f"/{place.account}/{place.container}{f'/{place.name}' if place.name else ''}"
    size, count = fields.get("max_file_size", "0"), fields.get("max_file_count", "0")
    texts = [f"{root}{path}\n{redirect}\n{size}\n{count}\n{expires}" for root in temp_url.ROOTS]
    if not digest or not any(temp_url.is_signed(texts, key, digest, signature) for key in keys):
        raise _invalid()
    numbers = [_number(fields, name) for name in ("max_file_size", "max_file_count", "x_delete_at", "x_delete_after")]
    most_bytes, most_files, at, after = numbers
    if after is not None:
        at = int(seconds(call.now)) + after
    if at is not None and at <= seconds(call.now):
        # It would only take away what has the name now.
        raise Invalid("x_delete_at in past")
    return Allowed(redirect, most_bytes or 0, most_files or 0, at)


def _number(fields: Mapping[str, str], name: str) -> int | None:
    """Raises Invalid."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise Invalid(f"{name} not an integer")
    return int(text)


def _answer(outcome: str, redirect: str) -> Reply:
    status = int(outcome[:3])
    if not redirect:
        return Reply(f"<html><h1>{outcome}</h1></html>".encode(), status, (HTML_TYPE,))
    said = urlencode({"status": status, "message": "" if status == 201 else outcome[4:]})
    return Reply(None, 303, (("Location", f"{redirect}{'&' if '?' in redirect else '?'}{said}"), HTML_TYPE))
