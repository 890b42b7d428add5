"""How open buckets may be, whatever their lists and policies say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.db import Database
from cloudctl.object_store import bucket_policy, exposure
from cloudctl.object_store.api.s3 import buckets
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account
from tests.object_store.signing import S3, bare, code

FLAGS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    made.put("bucket/key", b"data")
    return made


def block(s3: S3, *flags: str) -> None:
    said = "".join(f"<{flag}>{'true' if flag in flags else 'false'}</{flag}>" for flag in FLAGS)
    body = f"<PublicAccessBlockConfiguration>{said}</PublicAccessBlockConfiguration>".encode()
    assert s3.ask("PUT", "bucket", "publicAccessBlock", body=body).status == 200


def policy(condition: dict[str, Any] | None = None, principal: Any = "*", effect: str = "Allow") -> str:
    said = {"Effect": effect, "Principal": principal, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}
    return json.dumps({"Statement": [said | ({} if condition is None else {"Condition": condition})]})


def owned(s3: S3, how: str) -> Any:
    body = f"<OwnershipControls><Rule><ObjectOwnership>{how}</ObjectOwnership></Rule></OwnershipControls>".encode()
    return s3.ask("PUT", "bucket", "ownershipControls", body=body)


def test_what_is_closed_is_shown_and_can_be_opened_again(s3: S3) -> None:
    nothing = (404, "NoSuchPublicAccessBlockConfiguration")
    assert code(s3.get("bucket", "publicAccessBlock")) == nothing
    block(s3, "BlockPublicAcls", "RestrictPublicBuckets")
    shown = bare(s3.get("bucket", "publicAccessBlock"))
    assert {each.tag: each.text for each in shown} == dict(zip(FLAGS, ("true", "false", "false", "true"), strict=True))
    wrong = b"<PublicAccessBlockConfiguration><BlockPublicAcls>1</BlockPublicAcls></PublicAccessBlockConfiguration>"
    assert code(s3.ask("PUT", "bucket", "publicAccessBlock", body=wrong)) == (400, "MalformedXML")
    assert s3.ask("DELETE", "bucket", "publicAccessBlock").status == 204
    assert code(s3.get("bucket", "publicAccessBlock")) == nothing


def test_public_lists_are_refused(s3: S3) -> None:
    block(s3, "BlockPublicAcls")
    for canned in ("public-read", "authenticated-read"):
        assert code(s3.ask("PUT", "bucket", "acl", x_amz_acl=canned)) == (403, "AccessDenied")
        assert code(s3.ask("PUT", "bucket/key", body=b"x", x_amz_acl=canned)) == (403, "AccessDenied")
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="private").status == 200
    block(s3)
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read").status == 200


def test_public_lists_are_ignored_by_both_apis_and_others_are_not(
    s3: S3, mine: Account, cloud: MemoryCloud, alt: Client
) -> None:
    other, at = S3(cloud, alt), f"/s3/{s3.project_id}:bucket/key"
    native = f"/object-store/v1/AUTH_{s3.project_id}/bucket/key"
    assert mine.post("bucket", X_Container_Read=".r:*,.rlistings,*:*").status == 204
    anybody = cloud.anonymous()
    assert [anybody.get(path).status for path in (at, native)] == [200, 200]
    assert (other.get(f"{s3.project_id}:bucket/key").status, alt.get(native).status) == (200, 200)
    block(s3, "IgnorePublicAcls")
    assert [anybody.get(path).status for path in (at, native)] == [403, 401]
    assert (other.get(f"{s3.project_id}:bucket/key").status, alt.get(native).status) == (403, 403)
    assert s3.get("bucket/key").body == b"data"
    assert mine.post("bucket", X_Container_Read=f".r:*,{other.project_id}:*").status == 204
    assert (other.get(f"{s3.project_id}:bucket/key").status, alt.get(native).status) == (200, 200)


@pytest.mark.parametrize(
    ("text", "public"),
    [
        (policy(), True),
        (policy(principal={"AWS": ["p", "*"]}), True),
        (policy(principal={"AWS": "p"}), False),
        (policy(effect="Deny"), False),
        (policy({"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8::/32"]}}), False),
        (policy({"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "0.0.0.0/1"]}}), True),
        (policy({"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}), True),
        (policy({"StringLike": {"aws:Referer": "https://example.com/*"}}), True),
    ],
)
def test_which_policies_are_public(s3: S3, text: str, public: bool) -> None:
    assert exposure.is_public(bucket_policy.parse(text, "bucket")) is public
    block(s3, "BlockPublicPolicy")
    answer = s3.ask("PUT", "bucket", "policy", body=text.encode())
    assert (answer.status == 403) is public
    block(s3)
    assert s3.ask("PUT", "bucket", "policy", body=text.encode()).status == 204
    assert bare(s3.get("bucket", "policyStatus")).findtext("IsPublic") == str(public).lower()


def test_a_bucket_without_a_policy_has_no_status(s3: S3) -> None:
    assert code(s3.get("bucket", "policyStatus")) == (404, "NoSuchBucketPolicy")


def test_public_policies_let_in_nobody_from_elsewhere_where_that_is_closed(
    s3: S3, cloud: MemoryCloud, alt: Client
) -> None:
    other, at = S3(cloud, alt), f"{s3.project_id}:bucket/key"
    assert s3.ask("PUT", "bucket", "policy", body=policy().encode()).status == 204
    assert (other.get(at).status, cloud.anonymous().get(f"/s3/{at}").status) == (200, 200)
    block(s3, "RestrictPublicBuckets")
    assert (other.get(at).status, cloud.anonymous().get(f"/s3/{at}").status) == (403, 403)
    assert s3.get("bucket/key").status == 200
    named = policy(principal={"AWS": other.project_id}).encode()
    assert s3.ask("PUT", "bucket", "policy", body=named).status == 204
    assert other.get(at).status == 200


def test_public_policies_delete_nothing_for_others_where_that_is_closed(
    s3: S3, cloud: MemoryCloud, alt: Client
) -> None:
    other, at = S3(cloud, alt), f"{s3.project_id}:bucket"
    assert s3.ask("PUT", "bucket", "policy", body=policy().replace("GetObject", "DeleteObject").encode()).status == 204
    block(s3, "RestrictPublicBuckets")
    body = b"<Delete><Object><Key>key</Key></Object></Delete>"
    refused = other.ask("POST", at, "delete", body=body)
    assert refused.status == 403 or b"AccessDenied" in refused.body
    assert s3.get("bucket/key").status == 200
    block(s3)
    assert other.ask("POST", at, "delete", body=body).status == 200
    assert s3.get("bucket/key").status == 404


def test_a_bucket_of_its_owner_has_no_lists(s3: S3) -> None:
    assert code(s3.get("bucket", "ownershipControls")) == (404, "OwnershipControlsNotFoundError")
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read").status == 200
    assert code(owned(s3, "BucketOwnerEnforced")) == (400, "InvalidBucketAclWithObjectOwnership")
    assert owned(s3, "BucketOwnerPreferred").status == 200
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="private").status == 200
    assert owned(s3, "BucketOwnerEnforced").status == 200
    shown = bare(s3.get("bucket", "ownershipControls"))
    assert shown.findtext("Rule/ObjectOwnership") == "BucketOwnerEnforced"
    refused = (400, "AccessControlListNotSupported")
    assert code(s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read")) == refused
    assert code(s3.ask("PUT", "bucket/key", "acl", x_amz_acl="private")) == refused
    assert code(s3.ask("PUT", "bucket/key", body=b"x", x_amz_acl="private")) == refused
    assert s3.ask("PUT", "bucket/key", body=b"x", x_amz_acl="bucket-owner-full-control").status == 200
    assert s3.ask("DELETE", "bucket", "ownershipControls").status == 204
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read").status == 200
    assert code(owned(s3, "ObjectWriter")) == (501, "NotImplemented")
    assert code(owned(s3, "Nobody")) == (400, "MalformedXML")


def test_a_new_bucket_says_whose_its_objects_are(s3: S3) -> None:
    enforced: dict[str, Any] = {"x_amz_object_ownership": "BucketOwnerEnforced"}
    s3.put("other", **enforced)
    assert code(s3.ask("PUT", "other", "acl", x_amz_acl="public-read")) == (400, "AccessControlListNotSupported")
    answer = s3.ask("PUT", "third", x_amz_acl="public-read", x_amz_object_ownership="BucketOwnerEnforced")
    assert code(answer) == (400, "InvalidBucketAclWithObjectOwnership")


# What is asked → what another request does just before it is done.
AT_ONCE: dict[str, tuple[Callable[[S3], Any], Callable[[S3], Any]]] = {
    "a list": (
        lambda s3: s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read"),
        lambda s3: block(s3, "BlockPublicAcls"),
    ),
    "no lists": (
        lambda s3: owned(s3, "BucketOwnerEnforced"),
        lambda s3: s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read"),
    ),
    "a policy": (
        lambda s3: s3.ask("PUT", "bucket", "policy", body=policy().encode()),
        lambda s3: block(s3, "BlockPublicPolicy"),
    ),
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_what_is_closed_at_once_is_not_opened(s3: S3, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    ask, other = AT_ONCE[what]
    run: Callable[..., Any] = Database.run

    def late(self: Database, fn: Any, *args: Any) -> Any:
        if fn is buckets.change:
            monkeypatch.undo()
            other(s3)
        return run(self, fn, *args)

    monkeypatch.setattr(Database, "run", late)
    assert ask(s3).status in (400, 403)
