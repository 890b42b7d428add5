"""Requests to S3, signed as the published examples of signature v4 are: written apart from what checks them."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote
from xml.etree import ElementTree

from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import HOST, Response, request
from tests.object_store.asking import project_of

NS = "{http://s3.amazonaws.com/doc/2006-03-01/}"
UNSIGNED = "UNSIGNED-PAYLOAD"


def hashed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Key:
    """An access key and its secret, used at one time in one region."""

    def __init__(self, access: str, secret: str, when: float, region: str = "RegionOne") -> None:
        self.access, self.secret, self.region = access, secret, region
        self.when = datetime.datetime.fromtimestamp(when, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def scope(self) -> str:
        return f"{self.when[:8]}/{self.region}/s3/aws4_request"

    @property
    def signing(self) -> bytes:
        key = f"AWS4{self.secret}".encode()
        for part in self.scope.split("/"):
            key = mac(key, part)
        return key

    def sign(self, kind: str, *lines: str) -> str:
        return mac(self.signing, "\n".join((kind, self.when, self.scope, *lines))).hex()

    def _canonical(self, method: str, path: str, query: str, headers: Mapping[str, str], payload: str) -> str:
        pairs = sorted((quote(n, safe="-_.~"), quote(v, safe="-_.~")) for n, v in parse_qsl(query, True))
        lower = {name.lower(): value.strip() for name, value in headers.items()}
        lines = "".join(f"{name}:{lower[name]}\n" for name in sorted(lower))
        asked = "&".join(f"{name}={value}" for name, value in pairs)
        return "\n".join((method, path, asked, lines, ";".join(sorted(lower)), payload))

    def signed(self, method: str, path: str, query: str, headers: Mapping[str, str], payload: str) -> dict[str, str]:
        """The headers, with the one that proves who they are from."""
        told = {**headers, "x-amz-date": self.when, "x-amz-content-sha256": payload}
        canonical = self._canonical(method, path, query, told, payload)
        signature = self.sign("AWS4-HMAC-SHA256", hashed(canonical.encode()))
        names = ";".join(sorted(name.lower() for name in told))
        proof = f"AWS4-HMAC-SHA256 Credential={self.access}/{self.scope}, SignedHeaders={names}, Signature={signature}"
        return {**told, "Authorization": proof}

    def url(
        self,
        method: str,
        path: str,
        expires: int = 600,
        query: str = "",
        host: str = HOST,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """A path with a query that is signed. `headers` go with it, by names in lower case."""
        sent = {"host": host, **(headers or {})}
        credential = quote(f"{self.access}/{self.scope}", safe="")
        asked = (
            f"{query}&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={self.when}"
            f"&X-Amz-Expires={expires}&X-Amz-SignedHeaders={quote(';'.join(sorted(sent)), safe='')}"
        ).removeprefix("&")
        payload = sent.get("x-amz-content-sha256", UNSIGNED)
        canonical = self._canonical(method, path, asked, sent, payload)
        return f"{path}?{asked}&X-Amz-Signature={self.sign('AWS4-HMAC-SHA256', hashed(canonical.encode()))}"


def new_key(cloud: MemoryCloud, client: Client) -> Key:
    """A key of a client's user, in the project of the token. An administrator makes it, whatever the user may."""
    told = client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": str(client.token)}).json()["token"]
    path = f"/identity/v3/users/{told['user']['id']}/credentials/OS-EC2"
    made = cloud.client("admin").post(path, {"tenant_id": told["project"]["id"]}).json()["credential"]
    return Key(made["access"], made["secret"], cloud.clock.seconds())


class S3:
    """S3 as a client's user sees it; paths are below `root`, and quoted here."""

    def __init__(self, cloud: MemoryCloud, client: Client, key: Key | None = None, root: str = "/s3") -> None:
        self.cloud, self.client, self.root = cloud, client, root
        self.key = key or new_key(cloud, client)
        self.project_id = project_of(client)

    def ask(
        self,
        method: str,
        path: str = "",
        query: str = "",
        /,
        *,
        body: bytes = b"",
        payload: str | None = None,
        host: str = HOST,
        **headers: str,
    ) -> Response:
        """A header's name has _ for -. `payload`: what is said of the body, if it is not its hash."""
        target = self.root + (f"/{quote(path, safe='/-_.~')}" if path or not self.root else "")
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if query == "delete":
            told.setdefault("Content-MD5", base64.b64encode(hashlib.md5(body).digest()).decode())
        told = self.key.signed(method, target, query, {"Host": host, **told}, payload or hashed(body))
        full = f"{target}?{query}" if query else target
        return request(self.cloud.site, method, full, headers=told, body=body)

    def put(self, path: str, body: bytes = b"", **headers: Any) -> Response:
        """Create a bucket or an object."""
        answer = self.ask("PUT", path, body=body, **headers)
        assert answer.status == 200, answer
        return answer

    def get(self, path: str = "", query: str = "", **headers: str) -> Response:
        return self.ask("GET", path, query, body=b"", **headers)

    def xml(self, path: str = "", query: str = "") -> ElementTree.Element:
        answer = self.get(path, query)
        assert answer.status == 200, answer
        return bare(answer)

    def names(self, path: str, query: str = "") -> list[str]:
        """The keys and the common prefixes of a listing."""
        root = self.xml(path, query)
        return [each.findtext("Key") or "" for each in root.findall("Contents")] + [
            each.findtext("Prefix") or "" for each in root.findall("CommonPrefixes")
        ]


def bare(answer: Response) -> ElementTree.Element:
    """The document of an answer, without its namespace."""
    root = ElementTree.fromstring(answer.body)
    for each in root.iter():
        each.tag = each.tag.removeprefix(NS)
    return root


def code(answer: Response) -> tuple[int, str]:
    """What an error is called."""
    return answer.status, ElementTree.fromstring(answer.body).findtext("Code") or ""


def chunked(key: Key, seed: str, data: bytes, size: int, trailer: tuple[str, str] | None = None) -> bytes:
    """A body of chunks that are signed, the first one together with the signature of the request."""
    body, last = b"", seed
    for start in range(0, len(data) + size, size):
        chunk = data[start : start + size]
        last = key.sign("AWS4-HMAC-SHA256-PAYLOAD", last, hashed(b""), hashed(chunk))
        body += f"{len(chunk):x};chunk-signature={last}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
        if not chunk:
            break
    if trailer is not None:
        text = f"{trailer[0]}:{trailer[1]}"
        signed = key.sign("AWS4-HMAC-SHA256-TRAILER", last, hashed(f"{text}\n".encode()))
        body += f"{text}\r\nx-amz-trailer-signature:{signed}\r\n".encode()
    return body + b"\r\n"
