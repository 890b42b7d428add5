"""URLs signed with a key, valid for a while. Reference: object-store.md, A8."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from urllib.parse import quote

from attrs import frozen

from cloudctl import context
from cloudctl.db.columns import seconds
from cloudctl.errors import Unauthorized
from cloudctl.object_store.names import Place
from cloudctl.rest.call import Call

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
DIGESTS = ("sha1", "sha256", "sha512")
# Signatures for other methods that also allow this one.
ALSO_SIGNED = {"HEAD": ("GET", "PUT", "POST")}
LENGTHS = {40: "sha1", 64: "sha256", 128: "sha512"}
ROOTS = ("/v1", "/object-store/v1")
TIME = "%Y-%m-%dT%H:%M:%SZ"


@frozen
class Signed:
    """What a signed URL allows: one method; names that begin with `prefix`, if there is one."""

    by_account: bool  # signed with the account's key, which covers every container
    disposition: str  # Content-Disposition of the answer

    def reaches(self, place: Place, target: Place) -> bool:
        """Whether the signature of a URL of `place` covers what that leads to: it does as far as its key reaches."""
        same_container = target.container == place.container
        return target.project_id == place.project_id and (self.by_account or same_container)


def keys(headers: Mapping[str, str]) -> list[str]:
    """The keys of an account or a container, from its headers."""
    return [value for name, value in headers.items() if re.fullmatch(r"X-\w+-Meta-Temp-Url-Key(-2)?", name)]


def invalid() -> Unauthorized:
    return Unauthorized("Temp URL invalid")


def check(call: Call, place: Place, method: str, signers: tuple[list[str], list[str]]) -> Signed:
    """`signers`: the keys of the account and those of the container. Raises Unauthorized."""
    given, expires = call.query.get("temp_url_sig") or "", call.query.get("temp_url_expires") or ""
    until, prefix, range_ = moment(expires), call.query.get("temp_url_prefix"), call.query.get("temp_url_ip_range")
    digest, signature = digest_of(given)
    if not digest or until is None or until < seconds(call.began) or not _comes_from(range_):
        raise invalid()
    if prefix is not None and not place.name.startswith(prefix):
        raise invalid()
    path = f"/{place.account}/{place.container}/{place.name if prefix is None else prefix}"
    lead = "" if range_ is None else f"ip={range_}\n"
    # The time as the client wrote it, or as a number.
    times = {expires, str(until)}
    texts = [
        f"{lead}{each}\n{time}\n{'' if prefix is None else 'prefix:'}{root}{path}"
        for each in (method, *ALSO_SIGNED.get(method, ()))
        for time in times
        for root in ROOTS
    ]
    for by_account, some in ((True, signers[0]), (False, signers[1])):
        if any(is_signed(texts, key, digest, signature) for key in some):
            return Signed(by_account, _disposition(call, place))
    raise invalid()


def digest_of(given: str) -> tuple[str, bytes]:
    """(name, signature) of `sha512:base64` or of hex digits; the name is empty for anything else."""
    digest, colon, text = given.partition(":")
    try:
        if colon:
            padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
            return (digest if digest in DIGESTS else ""), base64.b64decode(padded, validate=True)
        return LENGTHS.get(len(given), ""), bytes.fromhex(given)
    except (ValueError, binascii.Error):
        return "", b""


def is_signed(texts: Iterable[str], key: str, digest: str, signature: bytes) -> bool:
    return any(hmac.compare_digest(hmac.digest(key.encode(), text.encode(), digest), signature) for text in texts)


def moment(text: str) -> int | None:
    """Seconds since the epoch."""
    if text.isascii() and text.isdecimal() and len(text) < 15:
        return int(text)
    try:
        return int(datetime.strptime(text, TIME).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _comes_from(range_: str | None) -> bool:
    if range_ is None:
        return True
    try:
        return ip_address(context.client.get()) in ip_network(range_)
    except ValueError:
        return False


def _disposition(call: Call, place: Place) -> str:
    filename = call.query.get("filename")
    if "inline" in call.query:
        return "inline" if filename is None else f"inline; {_named(filename)}"
    return f"attachment; {_named(filename or place.name.rstrip('/').rpartition('/')[2])}"


def _named(filename: str) -> str:
    plain = "".join(_printable(filename))
    return f"filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def _printable(filename: str) -> Iterator[str]:
    for char in filename:
        yield char if char.isprintable() and char not in '"\\' else quote(char, safe="")
