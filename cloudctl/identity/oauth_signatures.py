"""Requests signed by OAuth 1.0a: what was signed, and whether the signature is right.

Pure functions; comparisons take constant time. Reference: RFC 5849, section 3.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from attrs import frozen

# Seconds that the clocks of client and server may be apart; a nonce is remembered for as long.
WINDOW = 600
DIGESTS = {"HMAC-SHA1": hashlib.sha1, "HMAC-SHA256": hashlib.sha256, "HMAC-SHA512": hashlib.sha512}
# The secrets themselves: section 3.4.4. Keystone accepts them, over any connection, and so do we.
PLAIN = "PLAINTEXT"
DEFAULT_PORTS = {"http": 80, "https": 443}
PARAMETER = re.compile(r'\s*([A-Za-z0-9_.~%-]+)="([^"]*)"\s*')
LONGEST = 8192  # characters of the header


class BadSignature(ValueError):
    """It does not fit the request, is too old, or cannot be understood."""


@frozen
class SignedRequest:
    """`parameters`: all that were signed, decoded: those of the header, the query and the form."""

    method: str
    url: str
    parameters: tuple[tuple[str, str], ...]
    oauth: Mapping[str, str]
    signature: str

    @property
    def consumer_id(self) -> str:
        return self.oauth.get("oauth_consumer_key", "")

    @property
    def token_id(self) -> str:
        return self.oauth.get("oauth_token", "")

    @property
    def verifier(self) -> str:
        return self.oauth.get("oauth_verifier", "")

    @property
    def timestamp(self) -> int:
        """Seconds since the epoch. Raises BadSignature."""
        text = self.oauth.get("oauth_timestamp", "")
        if re.fullmatch(r"\d{1,10}", text, re.ASCII) is None:
            raise BadSignature("the time is not a number of seconds")
        return int(text)

    @property
    def nonce(self) -> str:
        """What makes the request unique among those of its consumer, token and time: 64 hex digits."""
        text = "\0".join((self.token_id, self.oauth.get("oauth_nonce", "")))
        return hashlib.sha256(text.encode()).hexdigest()


def read(
    method: str, url: str, query: Iterable[tuple[str, str]], authorization: str, form: bytes = b""
) -> SignedRequest:
    """The request with this URL (without its query), `Authorization` header and form. Raises BadSignature."""
    header = _header(authorization)
    oauth = dict(header)
    if len(oauth) != len(header):
        raise BadSignature("a parameter is repeated")
    signature = oauth.pop("oauth_signature", "")
    oauth.pop("realm", None)
    try:
        sent = parse_qsl(form.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=200)
    except ValueError:
        raise BadSignature("the form cannot be understood") from None
    return SignedRequest(method, url, (*oauth.items(), *query, *sent), oauth, signature)


def check(request: SignedRequest, consumer_secret: str, token_secret: str, now: float) -> None:
    """`now`: seconds since the epoch. The caller checks whether the nonce was used before. Raises BadSignature."""
    method = request.oauth.get("oauth_signature_method", "")
    if method not in DIGESTS and method != PLAIN:
        raise BadSignature("the method of the signature is not supported")
    if request.oauth.get("oauth_version", "1.0") != "1.0":
        raise BadSignature("the version is not supported")
    if not request.oauth.get("oauth_nonce"):
        raise BadSignature("the nonce is missing")
    if abs(now - request.timestamp) > WINDOW:
        raise BadSignature("the request is too old")
    key = f"{_quoted(consumer_secret)}&{_quoted(token_secret)}".encode()
    expected = key
    if method != PLAIN:
        expected = base64.b64encode(hmac.new(key, base_string(request).encode(), DIGESTS[method]).digest())
    if not hmac.compare_digest(expected, request.signature.encode()):
        raise BadSignature("the signature does not match")


def base_string(request: SignedRequest) -> str:
    """What is signed: section 3.4.1. Raises BadSignature."""
    pairs = sorted((_quoted(name), _quoted(value)) for name, value in request.parameters)
    normalized = "&".join(f"{name}={value}" for name, value in pairs)
    return "&".join((request.method.upper(), _quoted(_base_url(request.url)), _quoted(normalized)))


def _base_url(url: str) -> str:
    """Scheme and host in lower case, without the scheme's own port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadSignature("the URL cannot be understood") from None
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if port is not None and port != DEFAULT_PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    return f"{parts.scheme.lower()}://{host}{parts.path or '/'}"


def _header(authorization: str) -> list[tuple[str, str]]:
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "oauth" or len(authorization) > LONGEST:
        raise BadSignature("the OAuth header is missing")
    found = []
    for part in filter(None, (piece.strip() for piece in rest.split(","))):
        match = PARAMETER.fullmatch(part)
        if match is None:
            raise BadSignature("the header cannot be understood")
        found.append((_unquoted(match[1]), _unquoted(match[2])))
    return found


def _quoted(text: str) -> str:
    """Section 3.6."""
    return quote(text, safe="~")


def _unquoted(text: str) -> str:
    try:
        found = unquote(text, errors="strict")
    except ValueError:
        raise BadSignature("the header is not UTF-8") from None
    if "\0" in found:
        raise BadSignature("the header contains a NUL character")
    return found
