"""AWS's Signature Version 4: which parts of a request are signed, and with which key. Pure functions, for both ends.

Reference: identity.md, section 8; object-store.md, B1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, unquote_to_bytes

V4 = "AWS4-HMAC-SHA256"
COMPACT = "%Y%m%dT%H%M%SZ"
# What counts as space in a header: a no-break space, for one, is part of its value.
SPACES = re.compile(r"[ \t\n\r\f\v]+")


def signing_key(secret: str, scope: str) -> bytes:
    """The key for one day, region and service: `20260102/RegionOne/s3/aws4_request`."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def encoded(raw: bytes, safe: str = "") -> str:
    return quote(raw, safe=f"{safe}-_.~")


def query(parameters: Mapping[str, str]) -> str:
    """The query string as it is sent."""
    return "&".join(f"{name}={encoded(value.encode())}" for name, value in parameters.items())


def canonical(method: str, path: bytes, query: bytes, headers: Sequence[tuple[str, str]], payload: str) -> str:
    """`path` and `query` as they are sent; `headers`: the signed ones, by lower-case names, in order.

    `payload`: the hash of the body, or the word that stands for it.
    """
    return "\n".join(
        (
            method,
            encoded(unquote_to_bytes(path), "/"),
            _query(query),
            "".join(f"{name}:{value}\n" for name, value in headers),
            ";".join(name for name, _ in headers),
            payload,
        )
    )


def value(text: str) -> str:
    """The value of a header as it is signed."""
    return SPACES.sub(" ", text).strip(" ")


def _query(raw: bytes) -> str:
    """The query in its canonical order, without the signature itself."""
    pairs = (each.partition(b"=") for each in raw.split(b"&") if each)
    read = ((encoded(_unquoted(name)), encoded(_unquoted(value))) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in sorted(read) if name != "X-Amz-Signature")


def _unquoted(raw: bytes) -> bytes:
    return unquote_to_bytes(raw.replace(b"+", b" "))


def signature(secret: str, when: str, scope: str, canonical: str) -> str:
    """The signature of a canonical request."""
    hashed = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    return signed(secret, scope, "\n".join((V4, when, scope, hashed)))


def signed(secret: str, scope: str, text: str) -> str:
    return hmac.digest(signing_key(secret, scope), text.encode(), "sha256").hex()


def authorization(access: str, scope: str, headers: Iterable[tuple[str, str]], signature: str) -> str:
    """The header of that name."""
    names = ";".join(name for name, _ in headers)
    return f"{V4} Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
