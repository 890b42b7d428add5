"""Signature v4 of S3, in the header Authorization or in the query: what was signed, and whether the signature is right.

Pure functions; comparisons take constant time. Reference: object-store.md, B1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from attrs import frozen

from cloudctl import signature_v4
from cloudctl.identity.signatures import WINDOW
from cloudctl.object_store.api.s3.chunks import mismatch
from cloudctl.object_store.api.s3.faults import error
from cloudctl.signature_v4 import COMPACT, V4

LONGEST = 604_800  # seconds that a URL is valid
UNSIGNED = "UNSIGNED-PAYLOAD"
# What replaces the hash of a chunked body → whether it is signed, and whether it has a trailer.
STREAMING = {
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": (False, True),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": (True, False),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": (True, True),
}
HASH = re.compile("[0-9a-fA-F]{64}")
SERVICE, END = "s3", "aws4_request"
TIME = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
PARAMETERS = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")


@frozen
class Request:
    """As received: path and query are not parsed yet. Names of headers are in lower case."""

    method: str
    path: bytes
    query: bytes
    headers: Mapping[str, Sequence[str]]

    def header(self, name: str) -> str:
        return ",".join(signature_v4.value(each) for each in self.headers.get(name, ()))


@frozen
class Signature:
    access: str
    day: str
    region: str
    signed_headers: tuple[str, ...]
    given: str
    when: str  # 20260102T030405Z
    expires: int | None  # seconds, of a URL

    @property
    def scope(self) -> str:
        return f"{self.day}/{self.region}/{SERVICE}/{END}"

    @property
    def time(self) -> datetime:
        """Naive UTC."""
        return datetime.strptime(self.when, COMPACT)

    def check_time(self, now: datetime) -> None:
        """Raises RequestTimeTooSkewed, AccessDenied."""
        age = now - self.time
        if self.expires is None:
            if abs(age) > WINDOW:
                raise error(
                    "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."
                )
        elif age < -WINDOW:
            raise error("AccessDenied", "Request is not valid yet")
        elif age > timedelta(seconds=self.expires):
            raise error("AccessDenied", "Request has expired")

    def check(self, request: Request, secret: str) -> None:
        """Raises SignatureDoesNotMatch."""
        if not hmac.compare_digest(self.expected(request, secret).encode(), self.given.encode("utf-8", "replace")):
            canonical = self.canonical(request)
            raw = canonical.encode("utf-8", "surrogateescape")
            text = "\n".join((V4, self.when, self.scope, hashlib.sha256(raw).hexdigest()))
            told = {"CanonicalRequest": canonical, "CanonicalRequestBytes": raw.hex(" ")}
            raise error("SignatureDoesNotMatch", more=mismatch(self.access, text, self.given) | told)

    def expected(self, request: Request, secret: str) -> str:
        return signature_v4.signature(secret, self.when, self.scope, self.canonical(request))

    def signed(self, secret: str, text: str) -> str:
        return signature_v4.signed(secret, self.scope, text)

    def canonical(self, request: Request) -> str:
        headers = [(name, request.header(name)) for name in self.signed_headers]
        return signature_v4.canonical(
            request.method, request.path, request.query, headers, payload_of(request) or UNSIGNED
        )


def payload_of(request: Request) -> str:
    """What the client says about the body: its hash, or why there is none."""
    return request.header("x-amz-content-sha256")


def read(request: Request, query: Mapping[str, str]) -> Signature | None:
    """None: it is not signed. Raises what is wrong with its syntax."""
    authorization = request.header("authorization")
    if authorization:
        return _of_header(request, authorization)
    if "X-Amz-Algorithm" in query or "X-Amz-Signature" in query:
        return _of_query(request, query)
    if "AWSAccessKeyId" in query:
        raise _too_old()
    return None


def _too_old() -> Exception:
    return error(
        "InvalidRequest", "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
    )


def _of_header(request: Request, text: str) -> Signature:
    algorithm, _, rest = text.partition(" ")
    if algorithm != V4:
        raise _too_old()
    found = dict(each.strip().partition("=")[::2] for each in rest.split(","))
    if not all(found.get(name) for name in ("Credential", "SignedHeaders", "Signature")):
        raise error("AuthorizationHeaderMalformed", "The authorization header that you provided is not valid.")
    if not payload_of(request):
        raise error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    if payload_of(request) not in (UNSIGNED, *STREAMING) and HASH.fullmatch(payload_of(request)) is None:
        known = ", ".join((UNSIGNED, *STREAMING))
        raise error(
            "InvalidArgument",
            f"x-amz-content-sha256 must be {known} or a valid sha256 value.",
            {"ArgumentName": "x-amz-content-sha256", "ArgumentValue": payload_of(request)},
        )
    return _made(
        request, found["Credential"], found["SignedHeaders"], found["Signature"], _time_of(request), None,
        "AuthorizationHeaderMalformed",
    )  # fmt: skip


def _time_of(request: Request) -> str:
    """The time, from whichever of two headers is present."""
    when = request.header("x-amz-date")
    if when:
        return when
    try:
        return parsedate_to_datetime(request.header("date")).astimezone(UTC).strftime(COMPACT)
    except (ValueError, TypeError, IndexError, OverflowError):
        raise error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") from None


def _of_query(request: Request, query: Mapping[str, str]) -> Signature:
    code = "AuthorizationQueryParametersError"
    found = {name: query.get(f"X-Amz-{name}", "") for name in PARAMETERS}
    if not all(found.values()) or found["Algorithm"] != V4:
        raise error(code, f"Query-string authentication version 4 requires the parameters {', '.join(PARAMETERS)}.")
    expires = found["Expires"]
    if not (expires.isascii() and expires.isdecimal() and len(expires) < 9) or not 0 < int(expires) <= LONGEST:
        raise error(code, "X-Amz-Expires must be between 1 and 604800 seconds")
    return _made(
        request, found["Credential"], found["SignedHeaders"], found["Signature"], found["Date"], int(expires), code
    )


def _made(
    request: Request, credential: str, signed: str, given: str, when: str, expires: int | None, code: str
) -> Signature:
    parts = credential.split("/")
    if len(parts) != 5 or not TIME.fullmatch(when):
        raise error(code, "The credential is mal-formed; expecting <access key>/YYYYMMDD/REGION/SERVICE/aws4_request.")
    access, day, region, service, end = parts
    try:
        datetime.strptime(when, COMPACT)
    except ValueError:
        raise error(code, "The date is mal-formed.") from None
    if (service, end, day) != (SERVICE, END, when[:8]):
        raise error(code, "The credential's scope is not that of this request.")
    names = tuple(signed.lower().split(";"))
    unsigned = [name for name in request.headers if name.startswith("x-amz-") and name not in names]
    if "host" not in names or unsigned:
        raise error("AccessDenied", "There were headers present in the request which were not signed")
    return Signature(access, day, region, names, given, when, expires)
