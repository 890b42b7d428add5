"""Calls of boto3, as its users write them. Run by `tests/clients/boto3`, which says where the cloud is."""

from __future__ import annotations

import os
import socket
from io import BytesIO
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import boto3  # type: ignore[import-not-found]  # installed by the script that runs this
import pytest
from boto3.s3.transfer import TransferConfig  # type: ignore[import-not-found]  # the same
from botocore.config import Config  # type: ignore[import-not-found]  # the same
from botocore.exceptions import ClientError  # type: ignore[import-not-found]  # the same

URL = os.environ["CLOUD_URL"]
PART = b"p" * (5 * 2**20)


def client(style: str = "path", endpoint: str = f"{URL}/s3", **config: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="RegionOne",
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": style}, retries={"max_attempts": 1}, **config),
    )


@pytest.fixture(scope="module")
def s3() -> Any:
    return client()


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
    told = s3.get_object_attributes(Bucket=bucket, Key="copy", ObjectAttributes=["ObjectParts", "ObjectSize"])
    assert (told["ObjectParts"]["TotalPartsCount"], told["ObjectSize"]) == (2, len(PART) + 10)
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


def status(url: str, data: bytes | None = None, method: str = "GET") -> int:
    try:
        with urlopen(Request(url, data, method=method)) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_signed_urls_open_nothing_else(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="o", Body=b"x")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "o"}, ExpiresIn=600)
    assert status(url) == 200
    assert status(url.replace("/o?", "/p?")) == 403
    assert status(url, b"other", "PUT") == 403
    assert status(url.replace("X-Amz-Expires=600", "X-Amz-Expires=6000")) == 403
    named = {"Bucket": bucket, "Key": "o", "ResponseContentType": "text/plain", "ResponseContentDisposition": "inline"}
    with urlopen(s3.generate_presigned_url("get_object", named)) as answer:
        assert (answer.headers["Content-Type"], answer.headers["Content-Disposition"]) == ("text/plain", "inline")
    with urlopen(Request(s3.generate_presigned_url("head_object", {"Bucket": bucket, "Key": "o"}), method="HEAD")):
        pass


def test_forms(s3: Any, bucket: str) -> None:
    def send(key: str, data: bytes, **post: Any) -> int:
        form = s3.generate_presigned_post(bucket, key, **post)
        fields = [*form["fields"].items(), ("file", data.decode())]
        lines = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
        request = Request(form["url"], ("".join(lines) + "--x--\r\n").encode())
        request.add_header("Content-Type", "multipart/form-data; boundary=x")
        try:
            with urlopen(request) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    assert send("form", b"data", Conditions=[["content-length-range", 1, 10]]) == 204
    assert s3.get_object(Bucket=bucket, Key="form")["Body"].read() == b"data"
    assert send("form", b"much more data", Conditions=[["content-length-range", 1, 10]]) == 400
    assert send("form", b"x", ExpiresIn=-60) == 403


def test_uploads_that_go_wrong(s3: Any, bucket: str) -> None:
    named = {"Bucket": bucket, "Key": "o"}
    named["UploadId"] = s3.create_multipart_upload(**named)["UploadId"]
    tags = [s3.upload_part(**named, PartNumber=number, Body=b"small")["ETag"] for number in (1, 2)]
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    complete = s3.complete_multipart_upload
    refused("EntityTooSmall", complete, **named, MultipartUpload={"Parts": parts})
    refused("InvalidPartOrder", complete, **named, MultipartUpload={"Parts": parts[::-1]})
    wrong = [{"PartNumber": 1, "ETag": '"0123456789abcdef0123456789abcdef"'}]
    refused("InvalidPart", complete, **named, MultipartUpload={"Parts": wrong})
    assert [each["Key"] for each in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["o"]
    pages = s3.get_paginator("list_parts").paginate(**named, PaginationConfig={"PageSize": 1})
    assert [each["PartNumber"] for page in pages for each in page["Parts"]] == [1, 2]
    s3.abort_multipart_upload(**named)
    refused("NoSuchUpload", s3.list_parts, **named)
    refused("NoSuchUpload", complete, **named, MultipartUpload={"Parts": parts})
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_parts_are_read_one_by_one(s3: Any, bucket: str) -> None:
    s3.upload_fileobj(BytesIO(2 * PART), bucket, "o", Config=TransferConfig(multipart_chunksize=len(PART)))
    got = s3.get_object(Bucket=bucket, Key="o", PartNumber=2)
    assert (got["PartsCount"], got["ContentLength"]) == (2, len(PART))
    assert s3.head_object(Bucket=bucket, Key="o")["ETag"].endswith('-2"')
    s3.copy({"Bucket": bucket, "Key": "o"}, bucket, "p", Config=TransferConfig(multipart_threshold=len(PART)))
    assert s3.get_object(Bucket=bucket, Key="p")["Body"].read() == 2 * PART


def test_copies(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="a", Body=b"a", Metadata={"color": "red"}, ContentType="text/plain")["ETag"]
    source = {"Bucket": bucket, "Key": "a"}
    s3.copy_object(Bucket=bucket, Key="b", CopySource=source)
    assert s3.head_object(Bucket=bucket, Key="b")["Metadata"] == {"color": "red"}
    s3.copy_object(Bucket=bucket, Key="a", CopySource=source, MetadataDirective="REPLACE", Metadata={"size": "1"})
    assert s3.head_object(Bucket=bucket, Key="a")["Metadata"] == {"size": "1"}
    refused("InvalidRequest", s3.copy_object, Bucket=bucket, Key="a", CopySource=source)
    refused("PreconditionFailed", s3.copy_object, Bucket=bucket, Key="c", CopySource=source, CopySourceIfNoneMatch=tag)
    refused("NoSuchKey", s3.copy_object, Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "none"})
    refused("NoSuchBucket", s3.copy_object, Bucket=bucket, Key="c", CopySource={"Bucket": "none-here", "Key": "a"})


def test_conditional_writes(s3: Any, bucket: str) -> None:
    named = {"Bucket": bucket, "Key": "o"}
    tag = s3.put_object(**named, Body=b"1", IfNoneMatch="*")["ETag"]
    refused("PreconditionFailed", s3.put_object, **named, Body=b"2", IfNoneMatch="*")
    s3.put_object(**named, Body=b"2", IfMatch=tag)
    refused("PreconditionFailed", s3.put_object, **named, Body=b"3", IfMatch=tag)
    refused("NoSuchKey", s3.put_object, Bucket=bucket, Key="none", Body=b"3", IfMatch=tag)
    assert s3.get_object(**named)["Body"].read() == b"2"
    upload = s3.create_multipart_upload(**named)["UploadId"]
    part = s3.upload_part(**named, UploadId=upload, PartNumber=1, Body=b"4")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    complete = s3.complete_multipart_upload
    refused("PreconditionFailed", complete, **named, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")


def test_versions_come_back_and_go(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=bucket, Key="o", Body=body)["VersionId"] for body in (b"1", b"2")]
    s3.copy_object(Bucket=bucket, Key="o", CopySource={"Bucket": bucket, "Key": "o", "VersionId": ids[0]})
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == b"1"
    marker = s3.delete_object(Bucket=bucket, Key="o")["VersionId"]
    refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="o")
    refused("MethodNotAllowed", s3.get_object, Bucket=bucket, Key="o", VersionId=marker)
    s3.delete_object(Bucket=bucket, Key="o", VersionId=marker)
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == b"1"
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
    found = [each for page in pages for each in page.get("Versions", [])]
    assert [each["IsLatest"] for each in found] == [True, False, False]
    s3.delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": "o", "VersionId": each["VersionId"]} for each in found]}
    )
    refused("NoSuchVersion", s3.get_object, Bucket=bucket, Key="o", VersionId=ids[0])
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert "VersionId" not in s3.put_object(Bucket=bucket, Key="o", Body=b"3")
    assert s3.head_object(Bucket=bucket, Key="o")["VersionId"] == "null"
    s3.delete_object(Bucket=bucket, Key="o", VersionId="null")
    s3.delete_bucket(Bucket=bucket)


def test_tags_of_objects(s3: Any, bucket: str) -> None:
    named = {"Bucket": bucket, "Key": "o"}
    s3.put_object(**named, Body=b"", Tagging="a=1&b=2")
    assert s3.get_object_tagging(**named)["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    assert s3.get_object(**named)["TagCount"] == 2
    s3.put_object_tagging(**named, Tagging={"TagSet": [{"Key": "c", "Value": "3"}]})
    assert s3.get_object_tagging(**named)["TagSet"] == [{"Key": "c", "Value": "3"}]
    s3.delete_object_tagging(**named)
    assert s3.get_object_tagging(**named)["TagSet"] == []
    many = [{"Key": str(number), "Value": ""} for number in range(11)]
    refused("InvalidTag", s3.put_object_tagging, **named, Tagging={"TagSet": many})


def test_pages_of_other_sites(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="o", Body=b"x")
    rule = {"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["http://a.example"], "AllowedHeaders": ["*"]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "o"})
    with urlopen(Request(url, headers={"Origin": "http://a.example"})) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == "http://a.example"
    asked = {"Origin": "http://a.example", "Access-Control-Request-Method": "PUT"}
    with urlopen(Request(url, headers=asked, method="OPTIONS")) as answer:
        assert "PUT" in answer.headers["Access-Control-Allow-Methods"]
    s3.delete_bucket_cors(Bucket=bucket)
    refused("NoSuchCORSConfiguration", s3.get_bucket_cors, Bucket=bucket)


def test_buckets_that_have_hosts(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args, **more: found("127.0.0.1", *args, **more))
    hosted = client("virtual", os.environ["CLOUD_S3"])
    hosted.put_object(Bucket=bucket, Key="a b/é", Body=b"data")
    assert hosted.get_object(Bucket=bucket, Key="a b/é")["Body"].read() == b"data"
    assert [each["Key"] for each in hosted.list_objects_v2(Bucket=bucket)["Contents"]] == ["a b/é"]
    url = hosted.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b/é"})
    assert url.startswith(f"http://{bucket}.") and status(url) == 200


def test_ranges_and_errors(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="o", Body=b"0123456789")
    assert s3.get_object(Bucket=bucket, Key="o", Range="bytes=-3")["Body"].read() == b"789"
    refused("InvalidRange", s3.get_object, Bucket=bucket, Key="o", Range="bytes=20-")
    refused("NoSuchBucket", s3.list_objects_v2, Bucket="none-here")
    refused("NoSuchBucket", s3.put_object, Bucket="none-here", Key="o", Body=b"")
    refused("BadDigest", s3.put_object, Bucket=bucket, Key="o", Body=b"x", ChecksumSHA256="A" * 43 + "=")
    refused("KeyTooLongError", s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"")
    refused("InvalidArgument", s3.list_objects_v2, Bucket=bucket, ContinuationToken="?")
    stranger = boto3.client(
        "s3", endpoint_url=f"{URL}/s3", aws_access_key_id="none", aws_secret_access_key="x", region_name="RegionOne"
    )
    refused("InvalidAccessKeyId", stranger.list_buckets)
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == b"0123456789"


LOCKED = {"ObjectLockEnabled": "Enabled"}
ENCRYPTED = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
# The method → what it is given beside the bucket.
REFUSED: dict[str, dict[str, Any]] = {
    "put_object_lock_configuration": {"ObjectLockConfiguration": LOCKED},
    "put_object_retention": {"Key": "o", "Retention": {"Mode": "GOVERNANCE"}},
    "get_object_retention": {"Key": "o"},
    "put_object_legal_hold": {"Key": "o", "LegalHold": {"Status": "ON"}},
    "get_object_legal_hold": {"Key": "o"},
    "get_object_torrent": {"Key": "o"},
    "restore_object": {"Key": "o", "RestoreRequest": {"Days": 1}},
    "put_bucket_encryption": {"ServerSideEncryptionConfiguration": ENCRYPTED},
    "put_bucket_website": {"WebsiteConfiguration": {"IndexDocument": {"Suffix": "index.html"}}},
    "put_bucket_accelerate_configuration": {"AccelerateConfiguration": {"Status": "Enabled"}},
    "put_bucket_logging": {"BucketLoggingStatus": {}},
    "put_bucket_notification_configuration": {"NotificationConfiguration": {}},
    "put_bucket_request_payment": {"RequestPaymentConfiguration": {"Payer": "Requester"}},
    "list_bucket_analytics_configurations": {},
    "list_bucket_inventory_configurations": {},
    "list_bucket_metrics_configurations": {},
    "list_bucket_intelligent_tiering_configurations": {},
    "delete_bucket_metrics_configuration": {"Id": "x"},
    "delete_bucket_encryption": {},
    "delete_bucket_website": {},
    "delete_bucket_replication": {},
}
UNSET = {
    "get_object_lock_configuration": "ObjectLockConfigurationNotFoundError",
    "get_bucket_encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "get_bucket_website": "NoSuchWebsiteConfiguration",
    "get_bucket_replication": "ReplicationConfigurationNotFoundError",
    "get_bucket_policy_status": "NoSuchBucketPolicy",
    "get_public_access_block": "NoSuchPublicAccessBlockConfiguration",
    "get_bucket_ownership_controls": "OwnershipControlsNotFoundError",
}


def test_what_is_not_offered_is_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="o", Body=b"x")
    for name, wishes in REFUSED.items():
        refused("NotImplemented", getattr(s3, name), Bucket=bucket, **wishes)
    for name, code in UNSET.items():
        refused(code, getattr(s3, name), Bucket=bucket)
    refused("NotImplemented", s3.create_bucket, Bucket=f"{bucket}-locked", ObjectLockEnabledForBucket=True)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": "2040-01-01T00:00:00Z"}
    refused("NotImplemented", s3.put_object, Bucket=bucket, Key="p", Body=b"x", **lock)
    refused("NotImplemented", s3.put_object, Bucket=bucket, Key="p", Body=b"x", ServerSideEncryption="AES256")
    refused("InvalidStorageClass", s3.put_object, Bucket=bucket, Key="p", Body=b"x", StorageClass="GLACIER")
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["o"]


@pytest.mark.parametrize("kind", ["COMPOSITE", "FULL_OBJECT"])
def test_the_sum_of_what_comes_in_parts(s3: Any, bucket: str, kind: str) -> None:
    named = {"Bucket": bucket, "Key": "o"}
    begun = s3.create_multipart_upload(**named, ChecksumAlgorithm="CRC32C", ChecksumType=kind)
    named |= {"UploadId": begun["UploadId"]}
    parts = []
    for number, data in enumerate((PART, b"end"), 1):
        told = s3.upload_part(**named, PartNumber=number, Body=data, ChecksumAlgorithm="CRC32C")
        parts.append({"PartNumber": number, "ETag": told["ETag"], "ChecksumCRC32C": told["ChecksumCRC32C"]})
    done = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts}, ChecksumType=kind)
    got = s3.get_object(Bucket=bucket, Key="o")
    assert got["Body"].read() == PART + b"end"  # held against the sum, where it is of all
    assert (done["ChecksumCRC32C"], got["ChecksumCRC32C"], got["ChecksumType"]) == (*[done["ChecksumCRC32C"]] * 2, kind)


def test_what_is_closed_to_the_public(s3: Any, bucket: str) -> None:
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicAcls": True})
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]["BlockPublicAcls"]
    refused("AccessDenied", s3.put_bucket_acl, Bucket=bucket, ACL="public-read")
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_ownership_controls(
        Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    )
    refused("AccessControlListNotSupported", s3.put_bucket_acl, Bucket=bucket, ACL="public-read")
