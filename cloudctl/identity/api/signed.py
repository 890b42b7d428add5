"""/ec2tokens and /s3tokens: a service hands in a signed request and learns who signed it.

Reference: identity.md, section 8.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from attrs import frozen

from cloudctl.errors import Invalid
from cloudctl.identity import signatures
from cloudctl.identity.api.tokens import AuthTokens
from cloudctl.identity.login import Logins
from cloudctl.identity.payload import Keys
from cloudctl.identity.signatures import BadSignature, SignedRequest
from cloudctl.identity.subject import invalid
from cloudctl.rest.body import MISSING, Body, Missing, extra, wire
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes


@frozen
class Ec2Request:
    access: str
    signature: str
    host: str = ""
    verb: str = ""
    path: str = ""
    params: dict[str, str] | Missing = MISSING
    headers: dict[str, str] | Missing = MISSING
    body_hash: str = ""
    others: dict[str, Any] = extra()


@frozen
class Ec2Tokens:
    credentials: Ec2Request | Missing = MISSING
    # The older name for the same.
    ec2_credentials: Ec2Request | Missing = wire("ec2Credentials", default=MISSING)
    others: dict[str, Any] = extra()


@frozen
class S3Request:
    access: str
    signature: str
    token: str
    others: dict[str, Any] = extra()


@frozen
class S3Tokens:
    credentials: S3Request
    others: dict[str, Any] = extra()


@frozen
class SignedTokens:
    logins: Logins
    keys: Keys
    answers: AuthTokens

    routes = Routes("Signed requests")

    @routes.post("/ec2tokens", policy="identity:ec2tokens", body=Body(Ec2Tokens))
    async def ec2(self, call: Call, body: Ec2Tokens) -> Reply:
        """Issue a token for a request that was signed with an EC2 secret"""
        sent = body.credentials or body.ec2_credentials
        if not sent:
            raise Invalid("'credentials' is a required property")
        request = SignedRequest(
            access=sent.access,
            signature=sent.signature,
            host=sent.host,
            verb=sent.verb,
            path=sent.path,
            params=sent.params or {},
            headers={name.lower(): value for name, value in (sent.headers or {}).items()},
            body_hash=sent.body_hash,
        )
        check = guarded(lambda secret: signatures.check(request, secret, call.now))
        token, issued = await self.logins.login_by_ec2(sent.access, self.keys, check)
        return await self.answers.reply(call, token, issued)

    @routes.post("/s3tokens", policy="identity:s3tokens", body=Body(S3Tokens))
    async def s3(self, call: Call, body: S3Tokens) -> Reply:
        """Show who signed an S3 request"""
        sent = body.credentials
        try:
            text = base64.b64decode(sent.token, validate=True)
        except (binascii.Error, ValueError):
            raise Invalid("'token' is not base64") from None
        check = guarded(lambda secret: signatures.check_s3(text, sent.signature, secret))
        token, issued = await self.logins.login_by_ec2(sent.access, self.keys, check)
        reply = await self.answers.reply(call, token, issued)
        # The service learns who the user is, but gets no token to act with.
        return Reply(reply.body)


def guarded(check: Callable[[str], None]) -> Callable[[str], None]:
    """The same check, without revealing what is wrong with a signature."""

    def guard(secret: str) -> None:
        try:
            check(secret)
        except BadSignature:
            raise invalid() from None

    return guard
