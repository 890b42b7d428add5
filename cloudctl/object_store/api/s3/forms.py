"""Forms that browsers send: the author of a form has signed what it may contain.

Reference: object-store.md, B2; AWS, «POST policy».
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from attrs import evolve, frozen

from cloudctl.errors import Invalid
from cloudctl.identity.signatures import signing_key
from cloudctl.object_store import metadata, objects
from cloudctl.object_store.api.s3 import checksums, headers, xml
from cloudctl.object_store.api.s3.body import SEVERAL
from cloudctl.object_store.api.s3.buckets import BUCKET, XML_TYPE, tags_of
from cloudctl.object_store.api.s3.checksums import ALGORITHMS, HEADER
from cloudctl.object_store.api.s3.door import S3Door
from cloudctl.object_store.api.s3.faults import USUAL, error
from cloudctl.object_store.api.s3.objects import CREATE, versioned
from cloudctl.object_store.api.s3.signature import TIME, Signature
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.multipart import Form, Part, boundary_of
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import NewObject
from cloudctl.rest import access_rules
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.formats import parse_time
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted
from cloudctl.signature_v4 import V4

LONGEST_FIELD = 20_480  # bytes
MOST_FIELDS = 100
# Bytes of all forms that arrive at once: their senders are known only afterwards.
MOST = 5 * 2**30
# Fields that a policy need not mention.
FREE = ("policy", "x-amz-signature", "file", "x-amz-algorithm", "x-amz-credential", "x-amz-date")
KEPT = {name.lower(): name for name in headers.KEPT}


def _malformed(why: str) -> Exception:
    return error("MalformedPOSTRequest", f"The body of your POST request is not well-formed multipart/form-data: {why}")


@frozen
class Forms:
    routes = Routes("S3: forms")

    door: S3Door
    intake: Intake

    async def may_post(self, call: Call, bucket: str) -> Admitted:
        """Whether a form may come."""
        if boundary_of(call.header("content-type") or "") is None:
            raise error("InvalidRequest", "This POST names nothing to be done, and brings no form.")
        return Admitted("", "forms", MOST, "Too many forms are being uploaded at the moment; try again.")

    @routes.post(BUCKET, policy=CREATE, anonymous=True, raw=True, admits="may_post", status=204)
    async def take(self, call: Call, bucket: str) -> Reply:
        """Make an object from the file in a signed form."""
        assert call.rule is not None
        call.caller.decided.add(call.rule)
        boundary = boundary_of(call.header("content-type") or "")
        if boundary is None:
            raise error("InvalidRequest", "This POST names nothing to be done, and brings no form.")
        fields: dict[str, str] = {}
        try:
            parts = iter(Form(call.content, boundary))
            while (part := await self.intake.run(next, parts, None)) is not None:
                if part.name == "file":
                    return await self._keep(call, bucket, fields, part)
                if len(fields) >= MOST_FIELDS:
                    raise _malformed("too many fields")
                fields[part.name.lower()] = part.text(LONGEST_FIELD)
        except Invalid as wrong:
            raise _malformed(wrong.message) from None
        raise error("InvalidArgument", "POST requires exactly one file upload per request.")

    async def _keep(self, call: Call, bucket: str, fields: Mapping[str, str], part: Part) -> Reply:
        """Store the file. What follows it is not read."""
        key = fields.get("key", "").replace("${filename}", part.filename or "")
        if not key:
            raise error("InvalidArgument", "Bucket POST must contain a field named 'key'.")
        least, most = await self._allowed(call, bucket, {**fields, "key": key})
        place, tags = self.door.place(call, bucket, key), await self._tags(fields)
        container = await self.door.enter(call, place, rule=CREATE, action="s3:PutObject", given=tags)
        headers.refuse(fields.get)
        if fields.get("acl", "private") not in headers.OWN_ACLS:
            raise error("NotImplemented", "An object is as open as its bucket is: set the ACL of the bucket.")
        sums = _sums(fields)
        new = _new(fields, part, headers.kept_sums(sums) | ({headers.TAGGING: tags} if tags else {}))
        chunks = _summed(_between(part.chunks, least, most), sums)
        content = await self.intake.write(place, chunks, new, call.now)
        told = (("ETag", headers.quoted(content.etag)), *versioned(container, content.version), *sums.items())
        return _answer(call, place, fields, content.etag, told)

    async def _tags(self, fields: Mapping[str, str]) -> str:
        """As a query. Raises MalformedXML, InvalidTag."""
        document = fields.get("tagging")
        if not document:
            return ""
        try:
            return headers.kept_tags(tags_of(await self.intake.run(xml.parse, document.encode(), "Tagging")))
        except xml.Malformed as why:
            raise error("MalformedXML", f"{USUAL['MalformedXML']}: {why}") from None

    async def _allowed(self, call: Call, bucket: str, fields: Mapping[str, str]) -> tuple[int, int]:
        """How long the file may be; the signer becomes the caller. Raises AccessDenied, SignatureDoesNotMatch."""
        signature = _signature(fields)
        self.door.signed.check_scope(evolve(signature, expires=604_800), call.began)
        policy = fields.get("policy", "")

        def check(secret: str) -> None:
            expected = hmac.digest(signing_key(secret, signature.scope), policy.encode(), "sha256").hex()
            if not hmac.compare_digest(expected.encode(), signature.given.encode()):
                raise error("SignatureDoesNotMatch", "The form is not signed as it says.")

        identity = await self.door.signed.who(signature.access, check)
        if not access_rules.let(identity, "s3", (), call.method, call.path):
            raise error("AccessDenied")
        call.caller = evolve(call.caller, identity=identity)
        project, _, name = bucket.rpartition(":")
        # The sender must not choose where it goes: only a full name means a bucket of another project.
        meant = name if project in ("", identity.project_id) else bucket
        return conditions(policy, {**fields, "bucket": meant}, call.began)


def _signature(fields: Mapping[str, str]) -> Signature:
    """Raises AccessDenied, InvalidArgument, InvalidToken."""
    if not fields.get("policy"):
        raise error("AccessDenied")
    if "x-amz-security-token" in fields:
        raise error("InvalidToken", "The provided token is malformed or otherwise invalid.")
    parts, when = fields.get("x-amz-credential", "").split("/"), fields.get("x-amz-date", "")
    if fields.get("x-amz-algorithm") != V4 or len(parts) != 5 or not TIME.fullmatch(when):
        raise error("InvalidArgument", "The form is not signed with AWS4-HMAC-SHA256.")
    try:
        datetime.strptime(when, "%Y%m%dT%H%M%SZ")
    except ValueError:
        raise error("InvalidArgument", "X-Amz-Date must be in the ISO8601 Long Format.") from None
    return Signature(parts[0], parts[1], parts[2], (), fields.get("x-amz-signature", ""), when, None)


def conditions(policy: str, fields: Mapping[str, str], now: datetime) -> tuple[int, int]:
    """Check the fields against a policy. Returns how long the file may be. Raises AccessDenied, InvalidArgument."""
    try:
        document = orjson.loads(base64.b64decode(policy, validate=True))
        until, given = parse_time(document["expiration"]), document["conditions"]
    except (binascii.Error, ValueError, OverflowError, KeyError, TypeError, AttributeError):
        raise error("InvalidArgument", "Invalid Policy: it is no JSON with an expiration and conditions.") from None
    if until <= now:
        raise error("AccessDenied", "Invalid according to Policy: Policy expired.")
    if not isinstance(given, list):
        raise error("InvalidArgument", "Invalid Policy: its conditions are no list.")
    least, most, spoken_of = 0, MOST, set(FREE)
    for kind, name, value in _conditions(given):
        if kind == "content-length-range":
            least, most = max(least, int(name)), min(most, int(value))
            continue
        found = fields.get(name, "")
        spoken_of.add(name)
        if not (found == value if kind == "eq" else found.startswith(value)):
            raise error("AccessDenied", f"Invalid according to Policy: Policy Condition failed: {kind}, {name[:64]}")
    extra = [name for name in fields if name not in spoken_of and not name.startswith("x-ignore-")]
    if extra:
        raise error("AccessDenied", f"Invalid according to Policy: Extra input fields: {extra[0][:64]}")
    return least, most


def _conditions(given: list[Any]) -> Iterator[tuple[str, str, str]]:
    """(kind, field, value) of each; the field and the value of content-length-range are its bounds."""
    for each in given:
        if isinstance(each, dict):
            yield from (("eq", str(name).lower(), str(value)) for name, value in each.items())
            continue
        if not isinstance(each, list) or len(each) != 3:
            raise error("InvalidArgument", "Invalid Policy: a condition is a pair or has three parts.")
        kind, name, value = str(each[0]).lower(), str(each[1]), str(each[2])
        if kind == "content-length-range":
            if not all(bound.isascii() and bound.isdecimal() and len(bound) < 20 for bound in (name, value)):
                raise error("InvalidArgument", "Invalid Policy: the bounds of content-length-range are integers.")
        elif kind not in ("eq", "starts-with") or not name.startswith("$"):
            raise error("InvalidArgument", f"Invalid Policy: an unknown condition {kind[:64]}.")
        yield kind, name if kind == "content-length-range" else name[1:].lower(), value


def _between(chunks: Iterator[bytes], least: int, most: int) -> Iterator[bytes]:
    """Raises EntityTooSmall, EntityTooLarge."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise error("EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
        yield chunk
    if size < least:
        raise error("EntityTooSmall", "Your proposed upload is smaller than the minimum allowed object size.")


def _sums(fields: Mapping[str, str]) -> dict[str, str]:
    """The checksum that the file must have, by the name of its field. Raises InvalidRequest."""
    found = {HEADER + name: value for name in ALGORITHMS if (value := fields.get(HEADER + name))}
    if len(found) > 1:
        raise error("InvalidRequest", SEVERAL)
    for name, value in found.items():
        if not checksums.is_one(name.removeprefix(HEADER), value):
            raise error("InvalidRequest", f"Value for {name} header is invalid.")
    return found


def _summed(chunks: Iterator[bytes], sums: Mapping[str, str]) -> Iterator[bytes]:
    """Raises BadDigest."""
    digests = {name: ALGORITHMS[name.removeprefix(HEADER)]() for name in sums}
    for chunk in chunks:
        for digest in digests.values():
            digest.update(chunk)
        yield chunk
    for name, digest in digests.items():
        if checksums.told(digest) != sums[name]:
            algorithm = name.removeprefix(HEADER).upper()
            raise error("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")


def _new(fields: Mapping[str, str], part: Part, more: Mapping[str, str]) -> NewObject:
    """Raises MetadataTooLarge."""
    said = {KEPT[name]: value for name, value in fields.items() if name in KEPT}
    for name, value in fields.items():
        if name.startswith(headers.META):
            said[metadata.OBJECT + name[len(headers.META) :].title()] = value
    try:
        metadata.check(said, metadata.OBJECT)
    except Invalid:
        raise error("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size") from None
    kind = fields.get("content-type") or str(part.headers.get("content-type") or "")
    return NewObject(content_type=kind or objects.guessed_type(part.filename or ""), headers={**said, **more})


def _answer(call: Call, place: Place, fields: Mapping[str, str], etag: str, told: tuple[tuple[str, str], ...]) -> Reply:
    where = f"{call.root_url}/{place.container}/{quote(place.name)}"
    told += (("Location", where),)
    target = fields.get("success_action_redirect") or fields.get("redirect")
    if target and target.startswith(("http://", "https://")):
        said = urlencode({"bucket": place.container, "key": place.name, "etag": headers.quoted(etag)})
        redirect = f"{target}{'&' if '?' in target else '?'}{said}"
        return Reply(None, 303, (*told[:-1], ("Location", redirect)))
    status = fields.get("success_action_status")
    if status == "201":
        made = element(
            "PostResponse", Location=where, Bucket=place.container, Key=place.name, ETag=headers.quoted(etag)
        )
        return Reply(xml.document(made), 201, (*told, XML_TYPE))
    return Reply(None, 200 if status == "200" else 204, told)
