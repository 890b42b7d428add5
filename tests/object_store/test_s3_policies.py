"""Policies of buckets: what they say is done, and what they cannot say is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cloudctl.object_store import bucket_policy
from cloudctl.object_store.bucket_policy import Asked, Effect, Malformed
from cloudctl.object_store.likes import Likes
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.signing import S3, bare, code

BUCKET, OBJECTS = "arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"


def statement(**members: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": OBJECTS, **members}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def decided(text: str, action: str, name: str = "", user: str = "u", project: str = "p", **facts: str) -> Effect | None:
    known = {key.replace("_", ":"): value for key, value in facts.items()}
    return bucket_policy.parse(text, "bucket").decide(Asked(user, project, action, name, known))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a*c", "abbc", True),
        ("a*c", "abbcd", False),
        ("?", "", False),
        ("?b*", "abcdef", True),
        ("*", "a/b\nc", True),
        ("a.c", "abc", False),
        ("", "", True),
    ],
)
def test_wildcards(pattern: str, text: str, expected: bool) -> None:
    assert Likes.of([pattern]).holds(text) is expected
    assert Likes.of(["x", "y*", "z?", pattern]).holds(text) is expected


def test_a_statement_is_about_whom_and_what_it_names() -> None:
    principals = {"AWS": ["arn:aws:iam::p:user/u", "arn:aws:iam::q:root", "r"]}
    text = document(statement(Principal=principals, Action=["s3:Get*", "s3:ListBucket"], Resource=[BUCKET, OBJECTS]))
    assert decided(text, "s3:GetObjectTagging", "x") is Effect.ALLOW
    assert decided(text, "s3:ListBucket") is Effect.ALLOW
    assert decided(text, "s3:PutObject", "x") is None
    for user, project, expected in (
        ("v", "p", None),
        ("v", "q", Effect.ALLOW),
        ("v", "r", Effect.ALLOW),
        ("", "r", None),
    ):
        assert decided(text, "s3:GetObject", "x", user, project) is expected
    only = document(statement(Resource=f"{BUCKET}/a/*"))
    assert decided(only, "s3:GetObject", "a/b") is Effect.ALLOW
    assert decided(only, "s3:GetObject", "b") is None
    assert decided(only, "s3:GetObject", "a") is None


def test_who_denies_is_right() -> None:
    text = document(statement(), statement(Effect="Deny", Resource=f"{BUCKET}/secret"))
    assert decided(text, "s3:GetObject", "secret") is Effect.DENY
    assert decided(text, "s3:GetObject", "other", user="") is Effect.ALLOW


@pytest.mark.parametrize(
    ("condition", "facts", "expected"),
    [
        ({"StringEquals": {"s3:prefix": ["a/", "b/"]}}, {"s3_prefix": "b/"}, True),
        ({"StringEquals": {"s3:prefix": "a/"}}, {"s3_prefix": "A/"}, False),
        ({"StringEquals": {"s3:delimiter": "/"}}, {}, False),
        ({"StringNotEquals": {"s3:delimiter": "/"}}, {}, True),
        ({"StringNotEquals": {"s3:prefix": ["a", "b"]}}, {"s3_prefix": "b"}, False),
        ({"StringLike": {"aws:Referer": "https://a.example/*"}}, {"aws_Referer": "https://a.example/x"}, True),
        ({"StringNotLike": {"aws:Referer": "https://a.example/*"}}, {"aws_Referer": "https://a.example/x"}, False),
        ({"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}, {"aws_SourceIp": "192.0.2.9"}, True),
        ({"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}, {"aws_SourceIp": "2001:db8::1"}, False),
        ({"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}, {}, False),
        ({"NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8::/32"]}}, {"aws_SourceIp": "2001:db8::1"}, False),
        (
            {"StringEquals": {"s3:prefix": "a"}, "IpAddress": {"aws:SourceIp": "192.0.2.1"}},
            {"s3_prefix": "a", "aws_SourceIp": "192.0.2.2"},
            False,
        ),
    ],
)
def test_conditions(condition: dict[str, Any], facts: dict[str, str], expected: bool) -> None:
    text = document(statement(Action="s3:ListBucket", Resource=BUCKET, Condition=condition))
    assert (decided(text, "s3:ListBucket", **facts) is Effect.ALLOW) is expected


MALFORMED: dict[str, str] = {
    "no JSON": "{",
    "no object": "[]",
    "no statement": '{"Version": "2012-10-17"}',
    "an empty list": '{"Statement": []}',
    "another version": json.dumps({"Version": "2020-01-01", "Statement": [statement()]}),
    "another member": json.dumps({"Statement": [statement()], "X": 1}),
    "an Id that is no text": json.dumps({"Statement": [statement()], "Id": 1}),
    "a statement that is none": '{"Statement": [1]}',
    "NotAction": document(statement(NotAction="s3:GetObject")),
    "NotPrincipal": document(statement(NotPrincipal="*")),
    "an effect in lower case": document(statement(Effect="allow")),
    "no principal": json.dumps({"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": OBJECTS}}),
    "a canonical user": document(statement(Principal={"CanonicalUser": "x"})),
    "a role": document(statement(Principal={"AWS": "arn:aws:iam::p:role/x"})),
    "no action": document(statement(Action=[])),
    "an unknown action": document(statement(Action="s3:GetObjectRetention")),
    "an action of a bucket's configuration": document(statement(Action="s3:PutBucketPolicy")),
    "an action that is no text": document(statement(Action=[1])),
    "an action that is for buckets": document(statement(Action="s3:ListBucket")),
    "an action that is for objects": document(statement(Resource=BUCKET)),
    "another bucket": document(statement(Resource="arn:aws:s3:::other/*")),
    "any bucket": document(statement(Resource="arn:aws:s3:::*")),
    "a bucket with a slash": document(statement(Resource=f"{BUCKET}/")),
    "a variable": document(statement(Resource=f"{BUCKET}/${{aws:username}}/*")),
    "an unknown operator": document(statement(Condition={"DateLessThan": {"aws:CurrentTime": "2026"}})),
    "an operator with IfExists": document(statement(Condition={"StringEqualsIfExists": {"aws:Referer": "x"}})),
    "an unknown key": document(statement(Condition={"StringEquals": {"aws:UserAgent": "x"}})),
    "a key of another operator": document(statement(Condition={"StringEquals": {"aws:SourceIp": "192.0.2.1"}})),
    "a tag without a key": document(statement(Condition={"StringEquals": {"s3:ExistingObjectTag/": "x"}})),
    "a tag that is an address": document(statement(Condition={"IpAddress": {"s3:ExistingObjectTag/a": "192.0.2.1"}})),
    "no network": document(statement(Condition={"IpAddress": {"aws:SourceIp": "192.0.2.0/99"}})),
    "too many wildcards": document(statement(Resource=[f"{BUCKET}/*{number}" for number in range(101)])),
    "too many wildcards in conditions": document(
        statement(Condition={"StringLike": {"aws:Referer": ["?" * 101]}}),
    ),
    "too much": document(statement(Sid="x" * bucket_policy.MOST)),
    "a text that is too long": document(statement(Resource=f"{BUCKET}/{'*a' * 600}")),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_not_understood_is_refused(case: str) -> None:
    with pytest.raises(Malformed):
        bucket_policy.parse(MALFORMED[case], "bucket")


# -- in a cloud


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    for name in ("open/a", "open/b", "secret/c"):
        made.put(f"bucket/{name}", name.encode())
    return made


def declare(s3: S3, *statements: dict[str, Any]) -> None:
    answer = s3.ask("PUT", "bucket", "policy", body=document(*statements).encode())
    assert (answer.status, answer.body) == (204, b"")


def test_a_policy_is_kept_as_it_was_sent_until_it_is_taken_away(s3: S3) -> None:
    assert code(s3.get("bucket", "policy")) == (404, "NoSuchBucketPolicy")
    declare(s3, statement())
    answer = s3.get("bucket", "policy")
    assert (answer.body.decode(), answer.headers["content-type"]) == (document(statement()), "application/json")
    answer = s3.ask("PUT", "bucket", "policy", body=MALFORMED["an unknown action"].encode())
    assert code(answer) == (400, "MalformedPolicy")
    assert code(s3.ask("PUT", "bucket", "policy", body=b"\xff")) == (400, "MalformedPolicy")
    assert s3.get("bucket", "policy").status == 200
    for _ in range(2):
        assert s3.ask("DELETE", "bucket", "policy").status == 204
    assert code(s3.get("bucket", "policy")) == (404, "NoSuchBucketPolicy")


def test_others_are_let_in_as_far_as_it_says(s3: S3, cloud: MemoryCloud, alt: Client) -> None:
    other, at = S3(cloud, alt), f"{s3.project_id}:bucket"
    principal = {"AWS": f"arn:aws:iam::{other.project_id}:root"}
    declare(
        s3,
        statement(Principal=principal, Action=["s3:GetObject", "s3:PutObject"], Resource=f"{BUCKET}/open/*"),
        statement(
            Principal=principal,
            Action="s3:ListBucket",
            Resource=BUCKET,
            Condition={"StringLike": {"s3:prefix": "open/*"}},
        ),
    )
    assert other.get(f"{at}/open/a").body == b"open/a"
    assert other.names(at, "prefix=open/") == ["open/a", "open/b"]
    assert other.ask("PUT", f"{at}/open/new", body=b"x").status == 200
    copied = other.ask("PUT", f"{at}/open/copy", x_amz_copy_source=f"{at}/open/a")
    assert copied.status == 200
    refused = [
        other.get(at),
        other.get(f"{at}/secret/c"),
        other.ask("PUT", f"{at}/secret/d", body=b"x"),
        other.ask("PUT", f"{at}/open/e", x_amz_copy_source=f"{at}/secret/c"),
        other.ask("DELETE", f"{at}/open/a"),
        other.get(at, "policy"),
        other.ask("PUT", at, "policy", body=document(statement()).encode()),
        other.get(at, "versions&prefix=open/"),
    ]
    assert [code(each) for each in refused] == [(403, "AccessDenied")] * len(refused)
    assert cloud.anonymous().get(f"/s3/{at}/open/a").status == 403
    assert s3.get("bucket/open/copy").body == b"open/a"


def test_everybody_is_let_in_where_it_says(s3: S3, cloud: MemoryCloud) -> None:
    declare(s3, statement(Resource=f"{BUCKET}/open/*"))
    url = f"/s3/{s3.project_id}:bucket"
    assert cloud.anonymous().get(f"{url}/open/a").body == b"open/a"
    assert cloud.anonymous().get(f"{url}/secret/c").status == 403
    assert cloud.anonymous().get(url).status == 403


def test_what_it_denies_holds_for_owners_too_who_may_take_it_away(s3: S3) -> None:
    declare(s3, statement(Effect="Deny", Action="s3:*", Resource=[BUCKET, f"{BUCKET}/secret/*"]))
    for answer in (
        s3.get("bucket/secret/c"),
        s3.get("bucket/secret/c", "versionId=null"),
        s3.get("bucket/secret/c", "tagging"),
        s3.ask("PUT", "bucket/secret/c", body=b"x"),
        s3.ask("POST", "bucket/secret/c", "uploads"),
        s3.ask("DELETE", "bucket/secret/c"),
        s3.ask("PUT", "bucket/open/x", x_amz_copy_source="bucket/secret/c"),
        s3.get("bucket"),
        s3.get("bucket", "list-type=2"),
        s3.get("bucket", "versions"),
    ):
        assert code(answer) == (403, "AccessDenied"), answer
    assert s3.get("bucket/open/a").status == 200
    assert s3.ask("DELETE", "bucket", "policy").status == 204
    assert s3.get("bucket/secret/c").body == b"secret/c"


def test_many_deletions_are_decided_one_by_one(s3: S3, cloud: MemoryCloud, alt: Client) -> None:
    body = b"".join(b"<Object><Key>%s</Key></Object>" % name for name in (b"open/a", b"secret/c"))
    body = b"<Delete>" + body + b"</Delete>"
    declare(s3, statement(Effect="Deny", Action="s3:DeleteObject", Resource=f"{BUCKET}/secret/*"))
    root = bare(s3.ask("POST", "bucket", "delete", body=body))
    assert [each.findtext("Key") for each in root.findall("Deleted")] == ["open/a"]
    assert [(each.findtext("Key"), each.findtext("Code")) for each in root.findall("Error")] == [
        ("secret/c", "AccessDenied")
    ]
    other, at = S3(cloud, alt), f"{s3.project_id}:bucket"
    assert code(other.ask("POST", at, "delete", body=body)) == (403, "AccessDenied")
    declare(s3, statement(Action="s3:DeleteObject", Resource=f"{BUCKET}/open/*"))
    body = body.replace(b"open/a", b"open/b")
    root = bare(other.ask("POST", at, "delete", body=body))
    assert [each.findtext("Key") for each in root.findall("Deleted")] == ["open/b"]
    assert s3.names("bucket") == ["secret/c"]


def test_tags_that_an_object_has_decide_who_reads_it(s3: S3, cloud: MemoryCloud, alt: Client) -> None:
    other, at = S3(cloud, alt), f"{s3.project_id}:bucket"
    s3.put("bucket/red", b"red", x_amz_tagging="color=red&x=y")
    red = {"StringEquals": {"s3:ExistingObjectTag/color": "red"}}
    principal = {"AWS": f"arn:aws:iam::{other.project_id}:root"}
    declare(
        s3,
        statement(Principal=principal, Action=["s3:GetObject*", "s3:PutObjectTagging"], Condition=red),
        statement(Effect="Deny", Action="s3:GetObject", Condition={"StringLike": {"s3:ExistingObjectTag/secret": "*"}}),
    )
    assert other.get(f"{at}/red").body == b"red"
    assert other.get(f"{at}/red", "tagging").status == 200
    assert code(other.get(f"{at}/open/a")) == (403, "AccessDenied")
    assert code(other.get(f"{at}/none")) == (403, "AccessDenied")
    assert s3.ask("PUT", "bucket/red", "tagging", body=TAGS.format("secret", "1").encode()).status == 200
    assert code(other.get(f"{at}/red")) == (403, "AccessDenied")
    assert code(s3.get("bucket/red")) == (403, "AccessDenied")
    assert code(s3.get("bucket/red", "versionId=none"))[0] in (400, 404)


def test_tags_of_the_version_that_is_copied_decide_whether_it_may_be(s3: S3, cloud: MemoryCloud, alt: Client) -> None:
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert s3.ask("PUT", "bucket", "versioning", body=enabled).status == 200
    colors = ("blue", "red")
    blue, red = (
        s3.put("bucket/o", b"x", x_amz_tagging=f"color={color}").headers["x-amz-version-id"] for color in colors
    )
    other, at = S3(cloud, alt), f"{s3.project_id}:bucket"
    principal = {"AWS": f"arn:aws:iam::{other.project_id}:root"}
    chosen = {"StringEquals": {"s3:ExistingObjectTag/color": "red"}}
    declare(s3, statement(Principal=principal, Action="s3:GetObjectVersion", Condition=chosen))
    other.put("mine")
    upload = bare(other.ask("POST", "mine/part", "uploads")).findtext("UploadId")
    for target, query in (("mine/copy", ""), ("mine/part", f"partNumber=1&uploadId={upload}")):
        assert other.ask("PUT", target, query, x_amz_copy_source=f"{at}/o?versionId={red}").status == 200
        # The version of a query is not the source's.
        for asked in (query, f"{query}&versionId={red}".strip("&")):
            refused = other.ask("PUT", target, asked, x_amz_copy_source=f"{at}/o?versionId={blue}")
            assert code(refused) == (403, "AccessDenied")


TAGS = "<Tagging><TagSet><Tag><Key>{}</Key><Value>{}</Value></Tag></TagSet></Tagging>"


def test_tags_that_a_request_gives_decide_whether_it_may(s3: S3) -> None:
    declare(
        s3,
        statement(
            Effect="Deny",
            Action=["s3:PutObject", "s3:PutObjectTagging"],
            Condition={"StringNotEquals": {"s3:RequestObjectTag/team": "a"}},
        ),
    )
    assert code(s3.ask("PUT", "bucket/new", body=b"x")) == (403, "AccessDenied")
    assert code(s3.ask("PUT", "bucket/new", body=b"x", x_amz_tagging="team=b")) == (403, "AccessDenied")
    s3.put("bucket/new", b"x", x_amz_tagging="team=a")
    assert code(s3.ask("PUT", "bucket/new", "tagging", body=TAGS.format("team", "b").encode())) == (403, "AccessDenied")
    assert code(s3.ask("PUT", "bucket/new", "tagging", body=b"<x/>")) == (403, "AccessDenied")
    assert s3.ask("PUT", "bucket/new", "tagging", body=TAGS.format("team", "a").encode()).status == 200
    copy = {"x_amz_copy_source": "bucket/new", "x_amz_tagging": "team=a"}
    assert code(s3.ask("PUT", "bucket/copy", body=b"", **copy)) == (403, "AccessDenied")
    assert s3.ask("PUT", "bucket/copy", body=b"", **copy, x_amz_tagging_directive="REPLACE").status == 200
    none = b"<Tagging><TagSet/></Tagging>"
    assert code(s3.ask("PUT", "bucket/new", "tagging", body=none, x_amz_tagging="team=a")) == (403, "AccessDenied")


# -- what they cost


LONG: dict[str, list[dict[str, Any]]] = {
    "names": [statement(Action="s3:DeleteObject", Resource=[f"{BUCKET}/x{number}" for number in range(600)])],
    "beginnings": [statement(Action="s3:*", Resource=[f"{BUCKET}/x{number}*" for number in range(600)])],
    "wildcards": [statement(Action="s3:*", Resource=[f"{BUCKET}/*{'a*' * 97}b"])],
    "statements": [statement(Sid=str(number), Action="s3:D*") for number in range(150)],
    "principals": [statement(Action="s3:*", Principal={"AWS": [f"{number:032}" for number in range(550)] + ["*"]})],
    "conditions": [
        statement(
            Action="s3:*", Condition={"NotIpAddress": {"aws:SourceIp": [f"10.0.{n}.0/24" for n in range(256)] * 4}}
        )
    ],
}


@pytest.mark.parametrize("what", LONG)
def test_no_policy_makes_a_deletion_of_many_objects_cost_much(s3: S3, what: str) -> None:
    """Of names that are as hard as they can be; in seconds of processor time."""
    assert s3.ask("PUT", "bucket", "policy", body=document(*LONG[what]).encode()).status == 204
    keys = "".join(f"<Object><Key>{'a' * 70}{number}</Key></Object>" for number in range(1000))
    body = f"<Delete>{keys}</Delete>".encode()
    spent = []
    for _ in range(3):
        before = time.process_time()
        answer = s3.ask("POST", "bucket", "delete", body=body)
        spent.append(time.process_time() - before)
        assert answer.status == 200
    without = []
    assert s3.ask("DELETE", "bucket", "policy").status == 204
    for _ in range(3):
        before = time.process_time()
        assert s3.ask("POST", "bucket", "delete", body=body).status == 200
        without.append(time.process_time() - before)
    assert min(spent) < min(without) + 0.25, (spent, without)
