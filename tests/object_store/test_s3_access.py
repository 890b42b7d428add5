"""Every call of S3 by everybody: nobody but those whom the rules name, or the bucket, gets further than the door."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cloudctl.rest.route import Operation
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response
from tests.object_store.asking import Account
from tests.object_store.signing import S3, bare, code


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    made.put("bucket/key", b"x")
    return made


def operations(cloud: MemoryCloud) -> Iterator[tuple[str, Operation]]:
    for path, operation in cloud.cloud.apis["s3"].operations:
        yield re.sub(r"<(?:path:)?(\w+)>", r"\1", path), operation


def refused(answer: Response) -> bool:
    return answer.status == 403 and (not answer.body or code(answer)[1] == "AccessDenied")


def test_nobody_else_gets_in(s3: S3, cloud: MemoryCloud, alt: Client, reader: Client) -> None:
    """Not without a signature, not from another project, and who only reads does not write."""
    other, looking = S3(cloud, alt), S3(cloud, reader)
    wrong: list[str] = []
    asked = 0
    for path, operation in operations(cloud):
        if operation.policy is None or operation.key == "POST /<bucket>":
            continue  # what browsers ask of everybody, and forms, which say themselves who sends them: test_s3_pages.py
        asked += 1
        elsewhere = path.replace("/bucket", f"{s3.project_id}:bucket")
        plain = cloud.anonymous().request(operation.method, f"/s3/{elsewhere}?{operation.subresource}", body=b"")
        answers = {"nobody": plain}
        if "bucket" in path:
            answers["another project"] = other.ask(operation.method, elsewhere, operation.subresource)
        if operation.method not in ("GET", "HEAD"):
            answers["a reader"] = looking.ask(operation.method, path[1:], operation.subresource)
        wrong += [f"{who}: {operation.key}: {answer}" for who, answer in answers.items() if not refused(answer)]
    assert asked > 40
    assert wrong == []
    assert s3.get("bucket/key").body == b"x"


def test_a_token_proves_nothing(s3: S3, cloud: MemoryCloud) -> None:
    assert code(cloud.client("demo").get("/s3/bucket/key")) == (403, "AccessDenied")


def test_a_bucket_of_another_owner_than_is_expected_is_refused(s3: S3) -> None:
    mine, other = s3.project_id, "123456789012"
    s3.put("bucket/o", b"data", x_amz_expected_bucket_owner=mine)
    for method, path, query in (
        ("GET", "bucket/o", ""),
        ("PUT", "bucket/o", ""),
        ("DELETE", "bucket/o", ""),
        ("GET", "bucket", "list-type=2"),
        ("DELETE", "bucket", ""),
    ):
        answer = s3.ask(method, path, query, x_amz_expected_bucket_owner=other)
        assert code(answer) == (403, "AccessDenied"), (method, path)
    copy: dict[str, Any] = {"x_amz_copy_source": "/bucket/o", "x_amz_expected_bucket_owner": mine}
    answer = s3.ask("PUT", "bucket/copy", **copy, x_amz_source_expected_bucket_owner=other)
    assert code(answer) == (403, "AccessDenied")
    assert s3.ask("PUT", "bucket/copy", **copy, x_amz_source_expected_bucket_owner=mine).status == 200
    assert s3.names("bucket") == ["copy", "key", "o"]


def test_lists_open_no_versions(s3: S3, cloud: MemoryCloud, alt: Client) -> None:
    """As with Swift's API: who may write to a bucket cannot remove for good what was there before."""
    on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert s3.ask("PUT", "bucket", "versioning", body=on).status == 200
    first = s3.put("bucket/key", b"first").headers["x-amz-version-id"]
    s3.put("bucket/key", b"second")
    Account(s3.client).post("bucket", X_Container_Read="*:*", X_Container_Write="*:*")
    other, bucket = S3(cloud, alt), f"{s3.project_id}:bucket"
    other.put(f"{bucket}/copy", x_amz_copy_source=f"{bucket}/key")
    for version in (first, "null"):
        at = f"versionId={version}"
        for method in ("GET", "HEAD", "DELETE"):
            assert refused(other.ask(method, f"{bucket}/key", at)), method
        for method in ("GET", "PUT", "DELETE"):
            body = b"<Tagging><TagSet/></Tagging>" if method == "PUT" else b""
            assert refused(other.ask(method, f"{bucket}/key", f"tagging&{at}", body=body)), method
        assert refused(other.ask("PUT", f"{bucket}/old", x_amz_copy_source=f"{bucket}/key?{at}"))
    one = f"<Object><Key>key</Key><VersionId>{first}</VersionId></Object>"
    both = f"<Delete><Object><Key>copy</Key></Object>{one}</Delete>".encode()
    answer = bare(other.ask("POST", bucket, "delete", body=both))
    assert [each.tag for each in answer] == ["Deleted", "Error"]
    assert s3.get("bucket/key", f"versionId={first}").body == b"first"
