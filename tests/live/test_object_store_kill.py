"""`kill -9` while data are on their way to an object: the old one is whole, and nothing is left over."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.live.process import LiveCloud
from tests.object_store.signing import Key, hashed

pytestmark = pytest.mark.slow

PART = b"p" * (5 * 2**20)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LiveCloud]:
    made = LiveCloud(tmp_path)
    made.start()
    yield made
    made.kill()


def files(cloud: LiveCloud) -> int:
    """How many files the store has, complete or not."""
    return sum(1 for each in (cloud.state_dir / "objects").rglob("*") if each.is_file())


def key_of(cloud: LiveCloud) -> Key:
    token = urlopen(
        Request(
            f"{cloud.url}/identity/v3/auth/tokens",
            headers={"X-Auth-Token": cloud.token(), "X-Subject-Token": cloud.token()},
        )
    )
    told = json.load(token)["token"]
    path = f"/identity/v3/users/{told['user']['id']}/credentials/OS-EC2"
    made = cloud.ask("POST", path, {"tenant_id": told["project"]["id"]})[1]["credential"]
    return Key(made["access"], made["secret"], 0)


class S3:
    def __init__(self, cloud: LiveCloud) -> None:
        self.cloud, self.key = cloud, key_of(cloud)

    def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[int, bytes, str]:
        """(status, body, tag). Raises OSError if the cloud is not there."""
        key = Key(self.key.access, self.key.secret, time.time())
        headers = key.signed(method, path, query, {"Host": f"127.0.0.1:{self.cloud.port}"}, hashed(body))
        url = f"{self.cloud.url}{path}" + (f"?{query}" if query else "")
        try:
            with urlopen(Request(url, data=body or None, headers=headers, method=method), timeout=60) as answer:
                return answer.status, answer.read(), answer.headers.get("etag", "")
        except HTTPError as error:
            return error.code, error.read(), ""


def test_an_upload_that_was_cut_leaves_what_was_there(cloud: LiveCloud) -> None:
    s3 = S3(cloud)
    assert s3.ask("PUT", "/s3/bucket")[0] == 200
    assert s3.ask("PUT", "/s3/bucket/o", body=b"before")[0] == 200
    token, told = cloud.token(), cloud.ask("GET", "/identity/v3/auth/projects")[1]
    project = next(each["id"] for each in told["projects"] if each["name"] == "demo")
    with socket.create_connection(("127.0.0.1", cloud.port)) as sending:
        head = f"PUT /object-store/v1/AUTH_{project}/bucket/o HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n"
        sending.sendall(f"{head}Content-Length: 50000000\r\n\r\n".encode() + b"x" * 1_000_000)
        while files(cloud) < 2:
            # Until the store has begun to write it.
            time.sleep(0.005)
        cloud.kill()
    cloud.start()
    assert s3.ask("GET", "/s3/bucket/o")[1] == b"before"
    assert files(cloud) == 1


@pytest.mark.parametrize("after", [0.0, 0.01, 0.05])
def test_an_upload_in_parts_is_finished_or_not(cloud: LiveCloud, after: float) -> None:
    """A client cut off during the completion asks again, and then has all of it."""
    s3 = S3(cloud)
    s3.ask("PUT", "/s3/bucket")
    upload = s3.ask("POST", "/s3/bucket/big", "uploads=")[1].partition(b"<UploadId>")[2].partition(b"<")[0].decode()
    tags = [s3.ask("PUT", "/s3/bucket/big", f"partNumber={n}&uploadId={upload}", PART)[2] for n in (1, 2)]
    listed = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    dying = Timer(after, cloud.kill)
    dying.start()
    answered = 0
    try:
        answered = s3.ask("POST", "/s3/bucket/big", f"uploadId={upload}", body)[0]
    except OSError:
        """It was killed before it answered."""
    dying.join()
    cloud.start()
    status, data, _ = s3.ask("GET", "/s3/bucket/big")
    assert status in (200, 404) and (status == 200 or answered != 200)
    if status == 404:
        assert s3.ask("POST", "/s3/bucket/big", f"uploadId={upload}", body)[0] == 200
        data = s3.ask("GET", "/s3/bucket/big")[1]
    assert hashlib.md5(data).digest() == hashlib.md5(PART * 2).digest()
    assert files(cloud) == 2
