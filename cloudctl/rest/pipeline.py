"""The one path that every request takes.

request id → project id in the path → token → microversion → Operation → policy → body → handler → status, headers, body

The policy comes before the body, except with `bodies_first`: a caller who may not make the call learns nothing of what
it takes. An error of any step becomes the service's error body here and nowhere else; an unforeseen one is a 500,
logged with a traceback, or a 503 if the database does not answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl import context
from cloudctl.db.columns import utc
from cloudctl.errors import (
    CloudError,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    NotImplementedHere,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
)
from cloudctl.rest import access_rules, decoding, files, logged, pages, stream
from cloudctl.rest import body as bodies
from cloudctl.rest.admission import Admission
from cloudctl.rest.answers import Answer, Answers
from cloudctl.rest.body import BodyError, Problem
from cloudctl.rest.call import Call, Download, Parts, Query, Reply
from cloudctl.rest.caller import Caller, forbidden
from cloudctl.rest.clients import host_of, named, plain
from cloudctl.rest.faults import UNAUTHENTICATED, UNFORESEEN, Faults, JsonObject
from cloudctl.rest.formats import document
from cloudctl.rest.header_text import InLowerCase, headers_are_text, tell
from cloudctl.rest.identity import ANONYMOUS, Authenticator, Identity, Signatures
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pages import Pages
from cloudctl.rest.policy import Policy
from cloudctl.rest.route import Bound, Operation, meant
from cloudctl.rest.sight import Sight
from cloudctl.rest.standing import unexpected
from cloudctl.rest.stream import Stream
from cloudctl.rest.unforeseen import refusal
from cloudctl.rest.uploads import Admitted
from cloudctl.rest.versions import Microversions, Span, Version

log = Logger()

JSON_LIMIT = 114_688  # bytes; reference: discovery.md, section 6
JSON_TYPES = ("application/json",)
TARGETS = ("user_id", "project_id", "domain_id")


@frozen
class Where:
    """The path of a request, taken apart: `/{prefix}/{mounted}{path}`, and the project id that was cut out of it."""

    prefix: str  # where the cloud is mounted in an application's site: "" or "/cloud"
    mounted: str  # the API: "compute"
    path: str  # "/v2.1/servers"
    project_id: str | None = None
    plain: bool = False  # it came by a path from before microversions, so it gets the first one
    own_host: bool = False  # the API begins at the root of its own host


@frozen
class Http:
    """What all APIs of one cloud share."""

    authenticator: Authenticator
    policy: Policy
    clock: IReactorTime
    metrics: Metrics
    public_url: str = ""  # without a trailing slash; empty: as the request says
    trusted_proxies: tuple[str, ...] = ()  # addresses whose X-Forwarded-* headers are believed
    answers: Answers | None = None  # where pure answers are cached
    admission: Admission | None = None  # how often clients may ask; None: as often as they like

    def host_url(self, request: Any) -> str:
        """Where the APIs are mounted, as the client sees it. Raises Invalid."""
        if self.public_url:
            return self.public_url
        scheme = "https" if request.isSecure() else "http"
        host = request.getHeader("host") or "localhost"
        prefix = request.where.prefix
        if self.trusted_proxies and host_of(request.getClientAddress()) in self.trusted_proxies:
            scheme = request.getHeader("x-forwarded-proto") or scheme
            host = request.getHeader("x-forwarded-host") or host
            prefix = (request.getHeader("x-forwarded-prefix") or "").rstrip("/") + prefix
        return f"{scheme}://{named(host)}{prefix}"

    def client(self, request: Any) -> str:
        """The address that a request came from, according to the nearest trusted proxy."""
        host = host_of(request.getClientAddress())
        if host in self.trusted_proxies:
            forwarded = request.getHeader("x-forwarded-for") or ""
            return plain(forwarded.rpartition(",")[2].strip()[:64]) or host
        return host


@frozen
class Pipeline:
    """The path that every request of one API takes."""

    http: Http
    api: str  # the name in logs and metrics: "compute"
    faults: Faults
    versions: Microversions | None = None
    types: tuple[str, ...] = ()  # what an access rule may call the service, beside `api`
    legacy_request_id: bool = False  # x-compute-request-id too
    bearer: bool = False  # whether `Authorization: Bearer` is accepted, and wins over X-Auth-Token
    media_status: int = 415
    project_mismatch: bool = True  # whether a foreign project id in the path is refused
    vary: str = ""
    # Whether names in paths are whatever bytes a client sends: slashes stay as they are, bytes that are not UTF-8 come
    # as surrogates, NUL as itself, and the handlers report what is wrong with them.
    verbatim: bool = False
    transaction_id: str = ""  # the header that carries a transaction id, if any
    # Callers who pass this rule hear what is wrong with a body before the policy refuses them, as in neutron. "": none.
    bodies_first: str = ""
    lower_case: bool = False  # names of response headers: some clients do not ignore their case
    signatures: Signatures | None = None  # callers are identified by signatures of requests, not by tokens
    # Names in the query that ask for something other than the path alone. The Operation must know each that is sent:
    # without this, `DELETE /bucket?metrics` would delete the bucket.
    subresources: frozenset[str] = frozenset()
    # Versions that refuse a parameter which the Operation does not name.
    strict_query: Span | None = None
    # When the policy refuses a call, a record that this hides from the caller is reported as not found instead.
    sight: Sight | None = None

    async def answer(self, request: Any, bound: Sequence[Bound], variables: Mapping[str, str]) -> bytes | None:
        """Klein's endpoint of every path: the response body, with status and headers set on `request`."""
        request_id = context.new_request_id()
        token, client = context.request_id.set(request_id), context.client.set("")
        started = self.http.clock.seconds()
        self.http.metrics.running += 1
        if self.lower_case:
            request.responseHeaders = InLowerCase(dict(request.responseHeaders.getAllRawHeaders()))
        request.setHeader("x-openstack-request-id", request_id)
        if self.legacy_request_id:
            request.setHeader("x-compute-request-id", request_id)
        if self.transaction_id:
            told = f"tx{request_id[4:].replace('-', '')[:21]}-{int(started):010x}"
            request.setHeader(self.transaction_id, told)
            context.transaction_id.set(told)
        call: Call | None = None
        try:
            if self.http.admission is not None and getattr(request, "asked_at", None) is None:
                self.http.admission.of_address(host_of(request.getClientAddress()), started)
            call = self._call(request, request_id, started, variables)
            if (refused := getattr(request, "refusal", None)) is not None:
                raise refused
            return await self._answer(request, call, bound, variables)
        except CancelledError:
            # The client hung up; a transaction on its way commits all the same.
            request.setResponseCode(499)
            raise
        except CloudError as error:
            if call is not None:
                tell(request, call.also)
            return self.refuse(request, error)
        except BodyError as error:
            return self._tell(request, *self.faults.of_body(error))
        except Exception:  # whatever a handler forgot
            message = UNFORESEEN.format(request_id=request_id)
            return self.refuse(request, refusal(Failure(), f"{request_id} {self.api}", message))
        finally:
            self._account(request, request_id, started, call.identity if call else ANONYMOUS)
            context.request_id.reset(token)
            context.transaction_id.set("")
            context.client.reset(client)

    async def admit(self, request: Any, bound: Bound, variables: Mapping[str, str]) -> Admitted:
        """Decide by its headers alone whether an upload may come. Raises what it would be answered with if not."""
        # Counted here, and not again when its body has come.
        now = request.asked_at = self.http.clock.seconds()
        if self.http.admission is not None:
            self.http.admission.of_address(host_of(request.getClientAddress()), now)
        call = self._call(request, context.new_request_id(), now, variables)
        call.arriving = True
        call.caller = call.caller.as_(await self._who(request, bound.operation))
        request.known = call.identity is not ANONYMOUS
        if self.http.admission is not None:
            self.http.admission.of_project(call.project_id, self.http.clock.seconds())
        self._check_project(request, call.identity)
        self._check_subresources(call, bound.operation)
        await self._let(request, call, bound.operation, variables)
        admitted: Admitted = await bound.admits(call, **variables)
        return admitted

    def _call(self, request: Any, request_id: str, started: float, variables: Mapping[str, str]) -> Call:
        """Raises Invalid, NotFound."""
        if not headers_are_text(request.requestHeaders):
            raise Invalid("A header of the request is not valid UTF-8.")
        context.client.set(self.http.client(request))
        host_url = self.http.host_url(request)
        if not self.verbatim and any("\0" in value for value in variables.values()):
            raise NotFound(self.faults.unknown_path)
        where: Where = request.where
        target = {name: variables[name] for name in TARGETS if name in variables}
        return Call(
            caller=Caller(ANONYMOUS, self.http.policy, utc(started), request_id, target),
            version=self.versions.minimum if self.versions else (0, 0),
            query=Query.parse(request.uri.partition(b"?")[2]),
            host_url=host_url,
            root_url=f"{host_url}/{where.mounted}" if where.mounted and not where.own_host else host_url,
            path=where.path,
            headers=request.requestHeaders,
            content=request.content,
            path_project=where.project_id or "",
            method=request.method.decode("ascii", "replace"),
            asked=None if (asked := getattr(request, "asked_at", None)) is None else utc(asked),
        )

    # -- who asks, for which version of what

    async def _answer(
        self, request: Any, call: Call, bound: Sequence[Bound], variables: Mapping[str, str]
    ) -> bytes | None:
        method = request.method.decode("ascii", "replace")
        if bound[0].operation.policy is not None:
            call.caller = call.caller.as_(await self._who(request, bound[0].operation))
            if self.http.admission is not None and getattr(request, "asked_at", None) is None:
                self.http.admission.of_project(call.project_id, self.http.clock.seconds())
            self._check_project(request, call.identity)
        if self.versions is not None and not request.where.plain:
            self._negotiate(request, call, bound)
        if getattr(request, "too_large", False):
            raise TooLarge("The request body is larger than what is taken here.")
        chosen, value = self._choose(request, call, bound, method)
        operation = chosen.operation
        call.query.hidden = operation.hidden(call.version)
        if operation.policy is not None:
            await self._let(request, call, operation, variables, value)
            self._check_query(call, operation)
        if operation.pure:
            return await self._pure(request, call, chosen, variables)
        reply = await self._reply(request, call, chosen, variables, value)
        tell(request, call.also)
        if isinstance(reply.body, Stream) and reply.body.watched:
            reply = evolve(reply, body=evolve(reply.body, may_go_on=partial(self._lets_in, request, call)))
        return await self._send(request, reply, reply.status or operation.status_at(call.version))

    async def _reply(
        self, request: Any, call: Call, chosen: Bound, variables: Mapping[str, str], value: Any = None
    ) -> Reply:
        operation = chosen.operation
        arguments = dict(variables)
        if (wanted := operation.body_at(call.version)) is not None:
            arguments["body"] = self._body(request, wanted, call.version, operation, value)
        result = await chosen.handler(call, **arguments)
        if operation.policy is not None and operation.policy not in call.caller.decided:
            raise AssertionError(f"{operation.key}: the rule {operation.policy} needs call.require(…)")
        return result if isinstance(result, Reply) else Reply(result)

    async def _pure(self, request: Any, call: Call, chosen: Bound, variables: Mapping[str, str]) -> bytes | None:
        """The cached answer, or a new one that is cached until something is written."""
        answers = self.http.answers
        generation = answers.generation if answers is not None else None
        key = (self.api, request.uri, call.host_url, call.version, call.identity, call.header("X-Subject-Token"))
        if answers is not None and (kept := answers.find(key, self.http.clock.seconds())) is not None:
            return await self._send(request, Reply(kept.body, headers=kept.headers), kept.status)
        reply = await self._reply(request, call, chosen, variables)
        status = reply.status or chosen.operation.status_at(call.version)
        sent = await self._send(request, reply, status)
        if answers is not None and generation is not None and sent is not None and isinstance(reply.body, dict):
            headers = (("Content-Type", "application/json"), *reply.headers)
            answers.keep(key, Answer(status, sent, headers, generation, reply.until))
        return sent

    async def _who(self, request: Any, operation: Operation) -> Identity:
        try:
            return await self._authenticate(request)
        except Unauthorized:
            if operation.anonymous:
                return ANONYMOUS
            raise

    async def _authenticate(self, request: Any) -> Identity:
        if self.signatures is not None:
            # It must have been valid when the request began, however long its body has taken to come.
            began = getattr(request, "asked_at", None) or self.http.clock.seconds()
            identity = await self.signatures.identity(request, utc(began))
        elif getattr(request, "known", False):
            # So must a token. What has been revoked meanwhile is refused.
            identity = await self.http.authenticator.authenticate_again(self._token(request))
        else:
            identity = await self.http.authenticator.authenticate(self._token(request))
        method = request.method.decode("ascii", "replace")
        if not access_rules.let(identity, self.api, self.types, method, request.where.path):
            raise Unauthorized(UNAUTHENTICATED)
        return identity

    async def _lets_in(self, request: Any, call: Call) -> bool:
        """Whether the caller would still be let in."""
        try:
            identity = await self._authenticate(request)
        except Unauthorized:
            return False
        return call.rule is None or call.caller.as_(identity).may(call.rule)

    def _token(self, request: Any) -> str:
        """Raises Unauthorized."""
        token = request.getHeader("x-auth-token")
        if self.bearer:
            scheme, _, rest = (request.getHeader("authorization") or "").partition(" ")
            token = rest.strip() if scheme.lower() == "bearer" else token
        if not token:
            raise Unauthorized(UNAUTHENTICATED)
        return str(token)

    def _check_project(self, request: Any, identity: Identity) -> None:
        named = request.where.project_id
        if named is not None and self.project_mismatch and named != identity.project_id:
            raise Invalid("Malformed request url: its project is not the token's.")

    def _check_query(self, call: Call, operation: Operation) -> None:
        """Raises Invalid."""
        if self.strict_query is None or call.version not in self.strict_query or not call.query.pairs:
            return
        if unknown := sorted(set(call.query) - (operation.query.keys() - call.query.hidden)):
            raise Invalid(unexpected(unknown))

    def _negotiate(self, request: Any, call: Call, bound: Sequence[Bound]) -> None:
        assert self.versions is not None
        try:
            call.version = self.versions.asked(request.requestHeaders)
        except CloudError:
            if bound[0].operation.policy is not None:
                raise
        for name, value in self.versions.answer(call.version):
            request.setHeader(name, value)

    def _choose(self, request: Any, call: Call, bound: Sequence[Bound], method: str) -> tuple[Bound, Any]:
        """The Operation of this method, version and action, and the action's argument."""
        found = [b for b in bound if b.operation.method in (method, "*")]
        if not found and method == "HEAD":
            found = [b for b in bound if b.operation.method == "GET"]
        offered = meant([b for b in found if b.operation.offered(call.version)], call.query)
        self._check_subresources(call, offered[0].operation if offered else None)
        if not offered:
            if any(b.operation.offered(call.version) for b in found):
                # Only with a subresource, and the query names none.
                raise MethodNotAllowed("")
            raise NotFound(self.faults.unknown_path)
        if offered[0].operation.action is None:
            return offered[0], None
        value = decoding.parse(self._content(request, JSON_TYPES))
        if not isinstance(value, dict) or len(value) != 1:
            raise BodyError([Problem("$", "exactly one action is expected", "value")])
        (key,) = value
        for candidate in offered:
            if candidate.operation.action == key:
                return candidate, value[key]
        if any(b.operation.action == key for b in found):
            # An action of another version: at this one it is like any unknown path.
            raise NotFound(self.faults.unknown_path)
        raise Invalid(f"There is no such action: {key[:64]}")

    def _check_subresources(self, call: Call, operation: Operation | None) -> None:
        """Raises NotImplementedHere."""
        if not self.subresources or call.method == "OPTIONS":  # which asks about another request
            return
        for name in self.subresources.intersection(call.query):
            if operation is None or not (name == operation.subresource or name in operation.query):
                raise NotImplementedHere(f"{call.method} with ?{name} is not implemented here.")

    async def _let(
        self, request: Any, call: Call, operation: Operation, variables: Mapping[str, str], action: Any = None
    ) -> None:
        """Raises Forbidden, or in its place what is wrong with the body, or NotFound, where these come first."""
        try:
            self._authorize(call, operation)
        except Forbidden:
            wanted = operation.body_at(call.version)
            if wanted is not None and self.bodies_first and call.may(self.bodies_first):
                self._body(request, wanted, call.version, operation, action)
            if self.sight is not None:
                await self.sight.look(call, variables)
            raise

    def _authorize(self, call: Call, operation: Operation) -> None:
        assert operation.policy is not None
        call.rule, caller = operation.policy, call.caller
        if operation.anonymous:  # Even for a caller whom the rule does not name: others may have opened it to him.
            return
        if caller.may(operation.policy):
            caller.decided.add(operation.policy)
        elif not self.http.policy.might(operation.policy, caller.identity, caller.target):
            knows = operation.sight is None or caller.may(operation.sight)
            raise forbidden(operation.policy) if knows else NotFound(self.faults.unknown_path)
        # Otherwise what decides is not in the path: the handler reads the record and calls `require`.

    # -- bodies

    def _body(self, request: Any, wanted: bodies.Body, version: Version, operation: Operation, action: Any) -> Any:
        if operation.action is not None:
            return bodies.structure(action, wanted.type, f"$.{operation.action}", version, request.where.plain)
        raw = self._content(request, wanted.types or JSON_TYPES)
        if not raw and wanted.optional:
            return None
        return bodies.read(wanted, decoding.parse(raw), version, request.where.plain)

    def _content(self, request: Any, types: Sequence[str]) -> bytes:
        content = request.content
        size = content.seek(0, os.SEEK_END)
        if size > JSON_LIMIT:
            raise TooLarge(f"The request body has {size} bytes; at most {JSON_LIMIT} are taken.")
        media = (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
        if size and media and media not in types:
            message = f"The content type {media[:64]!r} is not supported; use {' or '.join(types)}."
            raise UnsupportedMediaType(message) if self.media_status == 415 else Invalid(message)
        content.seek(0)
        return bytes(content.read())

    # -- answers

    async def _send(self, request: Any, reply: Reply, status: int) -> bytes | None:
        if self.vary and not self.versions:
            request.setHeader("Vary", self.vary)
        body = reply.body
        if isinstance(body, (Download, Parts)):
            await files.send(request, reply, body, status)
            return None
        for name, value in reply.headers:
            request.setHeader(name, value)
        if isinstance(body, Pages):
            request.setResponseCode(status)
            request.setHeader("Content-Type", "application/json")
            if request.method != b"HEAD":
                await pages.send(body, request)
            return None
        if isinstance(body, Stream):
            request.setResponseCode(status)
            request.setHeader("Content-Type", body.content_type)
            if request.method != b"HEAD":
                await stream.send(body, request)
            return None
        request.setResponseCode(status)
        if body is None:
            if status not in (204, 304):
                request.setHeader("Content-Length", "0")
            return b""
        if not isinstance(body, bytes):
            body = document(body)
            request.setHeader("Content-Type", "application/json")
        request.setHeader("Content-Length", str(len(body)))
        return body

    def refuse(self, request: Any, error: CloudError) -> bytes:
        """The error body of `error`, with its status and headers set."""
        for name, value in error.headers.items():
            request.setHeader(name, value)
        status, body = self.faults.of(error)
        if status == 401:
            challenges = [f'Keystone uri="{self.http.host_url(request)}/identity/v3"']
            if self.bearer:
                challenges.append(f'Bearer realm="{self.api}"')
            request.responseHeaders.setRawHeaders("WWW-Authenticate", challenges)
        return self._tell(request, status, body)

    def _tell(self, request: Any, status: int, body: JsonObject) -> bytes:
        """An error body, in the form that the client asked for."""
        # The header may not be text: then just that is being reported.
        accept = b",".join(request.requestHeaders.getRawHeaders(b"accept", ())).decode("ascii", "replace")
        form = self.faults.form_of(body, accept)
        told = form.write(body)
        request.setResponseCode(status)
        request.setHeader("Content-Type", form.content_type)
        request.setHeader("Content-Length", str(len(told)))
        return told

    def _account(self, request: Any, request_id: str, started: float, identity: Identity) -> None:
        now = self.http.clock.seconds()
        seconds = now - started
        method = request.method.decode("ascii", "replace")
        self.http.metrics.running -= 1
        self.http.metrics.answered(self.api, method, request.code, seconds, now)
        log.info(
            "{request_id} {method} {path} {status} {ms:.1f} ms user={user} project={project}",
            request_id=request_id,
            method=method,
            path=logged.path(request.path),
            status=request.code,
            ms=1000 * seconds,
            user=identity.user_id,
            project=identity.project_id,
        )
