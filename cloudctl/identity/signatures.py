"""Requests signed with an EC2 secret: which string was signed, and whether the signature is right.

Pure functions; comparisons take constant time. Reference: identity.md, section 8; AWS Signature Versions 2 and 4, and
the S3 signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from attrs import frozen

from cloudctl import signature_v4
from cloudctl.rest.formats import parse_time
from cloudctl.signature_v4 import COMPACT, V4

WINDOW = timedelta(minutes=15)


class BadSignature(ValueError):
    """It does not fit the request, is too old, or cannot be understood."""


@frozen
class SignedRequest:
    """What a service received, as POST /ec2tokens describes it. Names of headers are in lower case."""

    access: str
    signature: str
    host: str
    verb: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body_hash: str


def check(request: SignedRequest, secret: str, now: datetime) -> None:
    """`now`: naive UTC. Raises BadSignature."""
    when = _time(request)
    _check_time(when, now)
    if _is_v4(request):
        expected = _v4(request, secret, when)
    elif request.params.get("SignatureVersion") == "2":
        expected = _v2(request, secret)
    else:
        raise BadSignature("the version of the signature is not supported")
    if not hmac.compare_digest(expected.encode(), request.signature.encode()):
        raise BadSignature("the signature does not match")


def check_s3(string_to_sign: bytes, signature: str, secret: str) -> None:
    """The S3 service's string to sign, of either version. Raises BadSignature."""
    lines = string_to_sign.decode("utf-8", "replace").split("\n")
    if lines[0] == V4:
        if len(lines) != 4:
            raise BadSignature("the string to sign does not have four lines")
        expected = hmac.new(signing_key(secret, lines[2]), string_to_sign, hashlib.sha256).hexdigest()
    else:
        expected = base64.b64encode(hmac.new(secret.encode(), string_to_sign, hashlib.sha1).digest()).decode()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise BadSignature("the signature does not match")


def _time(request: SignedRequest) -> str:
    """As it is in the string that was signed: any other could be a new one, in an old request."""
    if _is_v4(request):
        return request.params.get("X-Amz-Date") or request.headers.get("x-amz-date", "")
    return request.params.get("Timestamp", "")


def _check_time(text: str, now: datetime) -> None:
    if not text:
        raise BadSignature("the timestamp is missing")
    try:
        if re.fullmatch(r"\d{8}T\d{6}Z", text, re.ASCII):
            when = datetime.strptime(text, COMPACT).replace(tzinfo=UTC).replace(tzinfo=None)
        else:
            when = parse_time(text)
    except (ValueError, OverflowError):
        raise BadSignature("the time cannot be understood") from None
    if abs(now - when) > WINDOW:
        raise BadSignature("the request is too old")


def _is_v4(request: SignedRequest) -> bool:
    authorization = request.headers.get("authorization", "")
    return request.params.get("X-Amz-Algorithm") == V4 or authorization.startswith(V4)


def _v2(request: SignedRequest, secret: str) -> str:
    method = request.params.get("SignatureMethod", "")
    if method not in ("HmacSHA256", "HmacSHA1"):
        raise BadSignature("the method of the signature is not supported")
    digest = hashlib.sha256 if method == "HmacSHA256" else hashlib.sha1
    text = "\n".join((request.verb, request.host, request.path, _query(request.params, without="Signature")))
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), digest).digest()).decode()


def _query(params: Mapping[str, str], without: str) -> str:
    kept = sorted((name, value) for name, value in params.items() if name != without)
    return "&".join(f"{quote(name, safe='-_~')}={quote(value, safe='-_~')}" for name, value in kept)


def _v4(request: SignedRequest, secret: str, when: str) -> str:
    credential, signed_headers = _v4_parts(request)
    scope = credential.partition("/")[2]
    canonical = "\n".join(
        (
            request.verb,
            request.path,
            _query(request.params, without="X-Amz-Signature"),
            "".join(f"{name}:{_header(request, name)}\n" for name in signed_headers.split(";")),
            signed_headers,
            request.body_hash,
        )
    )
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join((V4, when, scope, hashed))
    return hmac.new(signing_key(secret, scope), text.encode(), hashlib.sha256).hexdigest()


def _v4_parts(request: SignedRequest) -> tuple[str, str]:
    """Credential and signed headers, from the query or from the Authorization header."""
    found = {name.removeprefix("X-Amz-"): value for name, value in request.params.items() if name.startswith("X-Amz-")}
    authorization = request.headers.get("authorization", "")
    for part in authorization.removeprefix(V4).split(","):
        name, _, value = part.strip().partition("=")
        found[name] = value
    if not found.get("Credential") or not found.get("SignedHeaders"):
        raise BadSignature("the credential or the signed headers are missing")
    return found["Credential"], found["SignedHeaders"]


def _header(request: SignedRequest, name: str) -> str:
    if name == "host":
        return request.headers.get("host", request.host)
    return signature_v4.value(request.headers.get(name, ""))


def signing_key(secret: str, scope: str) -> bytes:
    """The key for one day, region and service: `20260102/RegionOne/s3/aws4_request`. Raises BadSignature."""
    if scope.count("/") != 3:
        raise BadSignature("the scope of the credential does not have four parts")
    return signature_v4.signing_key(secret, scope)
