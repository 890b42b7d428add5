"""Who the caller is, by the request's signature; which bucket is meant; and whether the caller may enter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from attrs import evolve, frozen

from cloudctl import context
from cloudctl.db import Connection, Database
from cloudctl.errors import CloudError, NotFound, PreconditionFailed, Unauthorized
from cloudctl.identity.signatures import signing_key
from cloudctl.identity.signers import Signers
from cloudctl.object_store import acl, bucket_policy, containers, exposure, numbered, objects
from cloudctl.object_store.api.door import SHOW, Door, Entered
from cloudctl.object_store.api.s3 import signature
from cloudctl.object_store.api.s3.body import Expected
from cloudctl.object_store.api.s3.chunks import Signing
from cloudctl.object_store.api.s3.copies import Source
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.signature import Request, Signature
from cloudctl.object_store.bucket_policy import EXISTING_TAG, GIVEN_TAG, Asked, Effect, Policy
from cloudctl.object_store.names import MOST_OF_CONTAINER, MOST_OF_OBJECT, Place, check_text
from cloudctl.object_store.tables import Container, Object, Version
from cloudctl.object_store.tagging import tags
from cloudctl.rest.call import Call, Query
from cloudctl.rest.identity import Identity

# Whose bucket the client expects: of the request, and of a copy's source.
OWNER, OWNER_OF_SOURCE = "x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"
# Clients without a configured region sign for this one.
USUAL_REGION = "us-east-1"


@frozen
class Signed:
    """Implements `rest.identity.Signatures`."""

    signers: Signers
    region: str

    async def identity(self, request: Any, now: datetime) -> Identity:
        sent = _request(request)
        found = signature.read(sent, _parameters(sent))
        if found is None:
            raise Unauthorized("")
        if request.getHeader("x-amz-security-token") or b"X-Amz-Security-Token=" in sent.query:
            raise error("InvalidToken", "The provided token is malformed or otherwise invalid.")
        self.check_scope(found, now)
        return await self.who(found.access, lambda secret: found.check(sent, secret))

    def check_scope(self, found: Signature, now: datetime) -> None:
        """Raises what is wrong with its time or its region."""
        if found.region not in (self.region, USUAL_REGION):
            code = "AuthorizationHeaderMalformed" if found.expires is None else "AuthorizationQueryParametersError"
            raise error(code, f"The region '{found.region[:64]}' is wrong; expecting '{self.region}'")
        found.check_time(now)

    async def who(self, access: str, check: Any) -> Identity:
        """The owner of a key. `check(secret)` raises what is wrong. Raises InvalidAccessKeyId, AccessDenied, too."""
        try:
            return await self.signers.identity(access, check)
        except NotFound:
            told = "The AWS Access Key Id you provided does not exist in our records."
            raise error("InvalidAccessKeyId", told) from None
        except Unauthorized:
            # The user, the project or the key's origin is gone.
            raise error("AccessDenied") from None

    async def signing(self, call: Call, expected: Expected) -> Signing | None:
        """What signs the chunks of a body, whose request has a valid signature; None: nothing does."""
        if not expected.is_signed:
            return None
        headers = {name: [call.header(name) or ""] for name in ("authorization", "x-amz-date", "date")}
        headers |= {"x-amz-content-sha256": [expected.payload]} if call.header("authorization") else {}
        sent = Request("", b"", b"", {name: each for name, each in headers.items() if each[0]})
        found = signature.read(sent, dict(call.query.pairs))
        if found is None:
            raise error("InvalidRequest", "The chunks of a body are signed only where the request is.")
        keys: list[bytes] = []
        await self.who(found.access, lambda secret: keys.append(signing_key(secret, found.scope)))
        return Signing(keys[0], found.when, found.scope, found.given, found.access)


def _request(request: Any) -> Request:
    path, _, query = request.uri.partition(b"?")
    headers = {
        name.decode("latin-1").lower(): [value.decode("utf-8", "surrogateescape") for value in values]
        for name, values in request.requestHeaders.getAllRawHeaders()
    }
    return Request(request.method.decode("ascii", "replace"), path, query, headers)


def _parameters(request: Request) -> dict[str, str]:
    return dict(Query.parse(request.query).pairs)


def no_bucket(name: str) -> CloudError:
    return error("NoSuchBucket", more={"BucketName": name})


def admits(container: Container, entered: Entered | None, version: str) -> bool:
    """Whether rules or lists let the caller in to this version; empty: the current object.

    As in Swift's API, access lists cover current objects only: versions are for owners.
    """
    return entered is not None and (entered.owner or not (version and numbered.is_known(container)))


def action_of(action: str, version: str) -> str:
    """The action's name in a policy, which differs if a version is named."""
    return f"{action}Version" if version else action


def _given(tags: str) -> dict[str, str]:
    """The tags that a request gives to an object, as facts for a policy."""
    return {f"{GIVEN_TAG}{key}": value for key, value in parse_qsl(tags, keep_blank_values=True)}


def _tags_in_header(call: Call) -> str:
    """As a query. A copy has the tags of its source, whatever the header says, unless it replaces them."""
    is_copied = call.header("x-amz-copy-source") is not None
    if is_copied and (call.header("x-amz-tagging-directive") or "").upper() != "REPLACE":
        return ""
    return call.header("x-amz-tagging") or ""


def _existing(conn: Connection, container: Container, name: str, version: str, now: datetime) -> dict[str, str]:
    """The same for the tags that an object has; empty if there is no object."""
    found: Object | Version | None
    try:
        found = (
            objects.find_version(conn, container, name, version, now)
            if version
            else objects.find(conn, container, name, now)
        )
    except CloudError:
        found = None  # callers who may read are told why later
    return {} if found is None else {f"{EXISTING_TAG}{key}": value for key, value in tags(found.headers)}


def _asked(call: Call, action: str, name: str, tagged: Mapping[str, str]) -> Asked:
    known = {
        "aws:Referer": call.header("referer"),
        "aws:SourceIp": context.client.get() or None,
        "s3:prefix": None if name else call.query.get("prefix") or "",
        "s3:delimiter": None if name else call.query.get("delimiter"),
    }
    facts = {key: value for key, value in known.items() if value is not None} | dict(tagged)
    return Asked(call.user_id, call.project_id, action, name, facts)


def _is_closed(call: Call, container: Container, policy: Policy) -> bool:
    """Whether this caller is barred from what the policy allows to the public."""
    block = exposure.of(container)
    foreign = call.project_id != container.project_id
    return foreign and block is not None and block.policies and exposure.is_public(policy)


@frozen
class S3Door:
    """`door` decides; this determines what it is asked, and how a refusal is reported."""

    db: Database
    door: Door
    signed: Signed

    def place(self, call: Call, bucket: str, key: str = "", *, owner: str = OWNER) -> Place:
        """A bucket of the caller's project; `project:bucket`: of another one. `owner`: the header that names the
        project that the client expects. Raises what is wrong with the names, AccessDenied.
        """
        project, _, name = bucket.rpartition(":")
        project = project or call.project_id
        if not project or call.header(owner) not in (None, project):
            raise error("AccessDenied")
        try:
            check_text(bucket + key)
        except PreconditionFailed:
            raise error("InvalidURI", "Couldn't parse the specified URI.") from None
        if len(key.encode()) > MOST_OF_OBJECT:
            raise error("KeyTooLongError", "Your key is too long")
        if len(name.encode()) > MOST_OF_CONTAINER or len(project) > 64:
            raise no_bucket(name)
        return Place(project, name, key)

    async def enter(
        self,
        call: Call,
        place: Place,
        acl_header: str = "",
        *,
        listing: bool = False,
        rule: str | None = None,
        action: str = "",
        version: str = "",
        given: str = "",
    ) -> Container:
        """The bucket. `action`: what its policy must allow; empty: nothing. `version`: the one of the object that is
        meant; empty: the current one. `given`: the tags that an object gets, as a query. Raises NoSuchBucket,
        AccessDenied.
        """
        container, entered = await self._entered(call, place, acl_header, listing, rule)
        if container is None:
            raise no_bucket(place.container) if entered else error("AccessDenied")
        tagged = _given(given)
        policy = bucket_policy.of(container) if action else None
        if policy is not None and policy.asks_for_tags(action):
            tagged |= await self.db.read(_existing, container, place.name, version, call.now)
        if not self.lets(call, container, action, place.name, admits(container, entered, version), tagged):
            raise error("AccessDenied")
        return container

    async def _entered(
        self, call: Call, place: Place, acl_header: str, listing: bool, rule: str | None
    ) -> tuple[Container | None, Entered | None]:
        """The bucket, and how rules or lists let the caller in; None: they do not."""
        try:
            entered = await self.door.enter(call, place, acl_header=acl_header, listing=listing, rule=rule)
        except CloudError as refused:
            if refused.status in (401, 403):
                return await self.db.read(containers.find, place) if place.container else None, None
            raise
        return entered.container, entered

    def lets(
        self,
        call: Call,
        container: Container,
        action: str,
        name: str,
        admitted: bool,
        tagged: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Whether the caller may do this by the bucket's policy. `admitted`: whether rules or lists let the caller in.

        `tagged`: facts about tags.
        """
        policy = bucket_policy.of(container) if action else None
        said = None if policy is None else policy.decide(_asked(call, action, name, tagged))
        if said is Effect.ALLOW and policy is not None and _is_closed(call, container, policy):
            said = None
        return said is Effect.ALLOW or (admitted and said is None)

    def lets_of(self, call: Call, container: Container, action: str, admitted: bool) -> Callable[[str], bool]:
        """The same for any number of objects, by name: what is the same for all is evaluated once."""
        policy = bucket_policy.of(container)
        if policy is None:
            return lambda name: admitted
        said = policy.of_objects(_asked(call, action, "any", {}))
        if _is_closed(call, container, policy):
            return lambda name: admitted and said.of(name) is not Effect.DENY
        return lambda name: (effect := said.of(name)) is Effect.ALLOW or (admitted and effect is None)

    async def read(
        self, call: Call, bucket: str, key: str = "", *, action: str = "", version: str = ""
    ) -> tuple[Place, Container]:
        place = self.place(call, bucket, key)
        action = action or ("s3:GetObject" if key else "s3:ListBucket")
        return place, await self.enter(call, place, acl.READ, listing=not key, action=action, version=version)

    async def read_source(self, call: Call, source: Source) -> tuple[Place, Container]:
        """The same for the source of a copy."""
        place = self.place(call, source.bucket, source.key, owner=OWNER_OF_SOURCE)
        action = action_of("s3:GetObject", source.version)
        return place, await self.enter(call, place, acl.READ, rule=SHOW, action=action, version=source.version)

    async def write(
        self,
        call: Call,
        bucket: str,
        key: str,
        *,
        action: str = "s3:PutObject",
        version: str = "",
        given: str | None = None,
    ) -> tuple[Place, Container]:
        """`given`: the tags of the object, as a query; by default those in the header."""
        place = self.place(call, bucket, key)
        given = _tags_in_header(call) if given is None else given
        return place, await self.enter(call, place, acl.WRITE, action=action, version=version, given=given)

    async def many(self, call: Call, bucket: str) -> tuple[Place, Container, Entered | None]:
        """For work on many objects, for each of which the policy must be checked (`lets_of`): the bucket, and how
        rules or lists let the caller in. Raises NoSuchBucket, AccessDenied.
        """
        place = self.place(call, bucket)
        container, entered = await self._entered(call, place, acl.WRITE, False, None)
        if container is None or not (entered or bucket_policy.of(container)):
            raise no_bucket(place.container) if entered else error("AccessDenied")
        return place, container, entered

    async def own(self, call: Call, bucket: str) -> tuple[Place, Container]:
        """For what only the owners of a bucket may do."""
        place = self.place(call, bucket)
        return place, await self.enter(call, evolve(place, name=""))
