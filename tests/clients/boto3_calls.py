"""Calls of boto3, as its users write them. Run by `tests/clients/boto3`, which says where the cloud is."""

from __future__ import annotations

import json
import os
from io import BytesIO
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import boto3  # type: ignore[import-not-found]  # installed by the script that runs this
import pytest
from botocore.config import Config  # type: ignore[import-not-found]  # the same
from botocore.exceptions import ClientError  # type: ignore[import-not-found]  # the same

URL = os.environ["CLOUD_URL"]
PART = b"p" * (5 * 2**20)


def asked(path: str, body: Any, token: str = "") -> tuple[Any, Any]:
    """(headers, JSON) of an answer of the identity service."""
    headers = {"Content-Type": "application/json"} | ({"X-Auth-Token": token} if token else {})
    with urlopen(Request(f"{URL}/identity/v3{path}", json.dumps(body).encode(), headers)) as answer:
        return answer.headers, json.load(answer)


@pytest.fixture(scope="module")
def s3() -> Any:
    domain = {"id": "default"}
    user = {"name": "demo", "domain": domain, "password": "password"}
    scope = {"project": {"name": "demo", "domain": domain}}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}
    headers, told = asked("/auth/tokens", {"auth": auth})
    owner, project = told["token"]["user"]["id"], told["token"]["project"]["id"]
    path = f"/users/{owner}/credentials/OS-EC2"
    key = asked(path, {"tenant_id": project}, headers["X-Subject-Token"])[1]["credential"]
    return boto3.client(
        "s3",
        endpoint_url=f"{URL}/s3",
        region_name="RegionOne",
        aws_access_key_id=key["access"],
        aws_secret_access_key=key["secret"],
        config=Config(s3={"addressing_style": "path"}),
    )


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"bucket-{uuid4()}"
    s3.create_bucket(Bucket=name)
    return name


def refused(code: str, call: Any, **wishes: Any) -> None:
    with pytest.raises(ClientError) as error:
        call(**wishes)
    assert error.value.response["Error"]["Code"] == code


def test_buckets(s3: Any, bucket: str) -> None:
    assert bucket in [each["Name"] for each in s3.list_buckets()["Buckets"]]
    assert s3.head_bucket(Bucket=bucket)["BucketRegion"] == "RegionOne"
    refused("BucketAlreadyOwnedByYou", s3.create_bucket, Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="o", Body=b"x")
    refused("BucketNotEmpty", s3.delete_bucket, Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="o")
    s3.delete_bucket(Bucket=bucket)
    refused("404", s3.head_bucket, Bucket=bucket)


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_objects_with_each_checksum(s3: Any, bucket: str, algorithm: str) -> None:
    s3.put_object(Bucket=bucket, Key="a b/é", Body=b"data", ChecksumAlgorithm=algorithm, Metadata={"color": "red"})
    got = s3.get_object(Bucket=bucket, Key="a b/é", ChecksumMode="ENABLED")
    assert (got["Body"].read(), got["Metadata"]) == (b"data", {"color": "red"})
    assert got[f"Checksum{algorithm}"]
    assert s3.get_object(Bucket=bucket, Key="a b/é", Range="bytes=1-2")["Body"].read() == b"at"
    refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="none")


def test_uploads_in_parts(s3: Any, bucket: str) -> None:
    s3.upload_fileobj(BytesIO(3 * PART), bucket, "large")
    made = s3.create_multipart_upload(Bucket=bucket, Key="copy")["UploadId"]
    named = {"Bucket": bucket, "Key": "copy", "UploadId": made}
    first = s3.upload_part(**named, PartNumber=1, Body=PART)["ETag"]
    source = {"Bucket": bucket, "Key": "large"}
    copied = s3.upload_part_copy(**named, PartNumber=2, CopySource=source, CopySourceRange="bytes=0-9")
    second = copied["CopyPartResult"]["ETag"]
    parts = [{"PartNumber": 1, "ETag": first}, {"PartNumber": 2, "ETag": second}]
    assert len(s3.list_parts(**named)["Parts"]) == 2
    s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    assert s3.head_object(Bucket=bucket, Key="copy")["ContentLength"] == len(PART) + 10
    target = BytesIO()
    s3.download_fileobj(bucket, "large", target)
    assert target.getvalue() == 3 * PART


def test_pages_and_folders(s3: Any, bucket: str) -> None:
    names = [f"{folder}/{number}" for folder in "ab" for number in range(3)]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    assert [each["Key"] for page in pages for each in page["Contents"]] == names
    folders = s3.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]
    assert [each["Prefix"] for each in folders] == ["a/", "b/"]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
    assert len(deleted["Deleted"]) == 6 and s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_versions(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="o", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="o", Body=b"2")
    assert s3.delete_object(Bucket=bucket, Key="o")["DeleteMarker"]
    assert s3.get_object(Bucket=bucket, Key="o", VersionId=first)["Body"].read() == b"1"
    listed = s3.list_object_versions(Bucket=bucket)
    assert (len(listed["Versions"]), len(listed["DeleteMarkers"])) == (2, 1)


def test_what_is_said_of_a_bucket(s3: Any, bucket: str) -> None:
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == [{"Key": "a", "Value": "b"}]
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert len(s3.get_bucket_acl(Bucket=bucket)["Grants"]) == 2
    refused("NoSuchBucketPolicy", s3.get_bucket_policy, Bucket=bucket)


def test_lifecycle(s3: Any, bucket: str) -> None:
    rules = [
        {"ID": "logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 3}},
        {
            "ID": "old",
            "Status": "Disabled",
            "Filter": {"Prefix": ""},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2},
        },
    ]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == rules
    s3.delete_bucket_lifecycle(Bucket=bucket)
    refused("NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration, Bucket=bucket)


def test_signed_urls_and_conditions(s3: Any, bucket: str) -> None:
    url = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "o"})
    with urlopen(Request(url, b"signed", method="PUT")) as answer:
        assert answer.status == 200
    with urlopen(s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "o"})) as answer:
        assert answer.read() == b"signed"
    refused("PreconditionFailed", s3.put_object, Bucket=bucket, Key="o", Body=b"", IfNoneMatch="*")
    tag = s3.head_object(Bucket=bucket, Key="o")["ETag"]
    refused("304", s3.get_object, Bucket=bucket, Key="o", IfNoneMatch=tag)
