"""Lifecycle rules of buckets: what they say, and what goes by them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from cloudctl.db.columns import utc
from cloudctl.object_store.tables import Container, Object, Upload, Version
from cloudctl.testing.cloud import MemoryCloud
from tests.object_store.asking import Account
from tests.object_store.signing import S3, Key, bare, code

HOUR = 3600.0
TAG = "<Tag><Key>color</Key><Value>red</Value></Tag>"


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    return made


def an_hour_later(s3: S3, cloud: MemoryCloud) -> None:
    cloud.advance(HOUR)
    s3.key = Key(s3.key.access, s3.key.secret, cloud.clock.seconds())


def rules(*each: str) -> bytes:
    return (
        f"<LifecycleConfiguration>{''.join(f'<Rule>{rule}</Rule>' for rule in each)}</LifecycleConfiguration>".encode()
    )


def rule(action: str, chosen: str = "<Filter/>", status: str = "Enabled") -> str:
    return f"<Status>{status}</Status>{chosen}{action}"


def days(number: int) -> str:
    return f"<Expiration><Days>{number}</Days></Expiration>"


def put(s3: S3, *each: str) -> None:
    assert s3.ask("PUT", "bucket", "lifecycle", body=rules(*each)).status == 200


def made_before(cloud: MemoryCloud, age: float, *names: str) -> None:
    """What has one of these names is so many days old."""
    when = utc(cloud.clock.seconds()) - timedelta(days=age)
    for kind in (Object, Version):
        cloud.transact(
            lambda conn, kind=kind: conn.execute(update(kind).where(kind.name.in_(names)).values(updated_at=when))
        )
    cloud.transact(lambda conn: conn.execute(update(Upload).where(Upload.name.in_(names)).values(created_at=when)))


def test_rules_are_shown_as_they_were_set_and_can_be_removed(s3: S3) -> None:
    assert code(s3.get("bucket", "lifecycle")) == (404, "NoSuchLifecycleConfiguration")
    put(
        s3,
        "<ID>a</ID>" + rule(days(3), "<Filter><Prefix>logs/</Prefix></Filter>"),
        "<ID>b</ID>"
        + rule(
            "<Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>"
            "<NoncurrentVersionExpiration><NoncurrentDays>4</NoncurrentDays>"
            "<NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"
            "<AbortIncompleteMultipartUpload><DaysAfterInitiation>5</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
            "<Filter><And><Prefix>x</Prefix><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan>"
            "<ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>",
            "Disabled",
        ),
        rule("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>", "<Prefix/>"),
    )
    first, second, third = bare(s3.get("bucket", "lifecycle")).findall("Rule")
    assert [first.findtext(path) for path in ("ID", "Status", "Filter/Prefix", "Expiration/Days")] == [
        "a", "Enabled", "logs/", "3",
    ]  # fmt: skip
    assert {each.tag: each.text for each in second.iter() if each.text} == {
        "ID": "b",
        "Status": "Disabled",
        "Prefix": "x",
        "ObjectSizeGreaterThan": "0",
        "ObjectSizeLessThan": "9",
        "Date": "2030-01-01T00:00:00Z",
        "NoncurrentDays": "4",
        "NewerNoncurrentVersions": "2",
        "DaysAfterInitiation": "5",
    }
    assert third.findtext("ID") and third.findtext("Expiration/ExpiredObjectDeleteMarker") == "true"
    assert s3.ask("DELETE", "bucket", "lifecycle").status == 204
    assert code(s3.get("bucket", "lifecycle")) == (404, "NoSuchLifecycleConfiguration")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (rules(), "MalformedXML"),
        (rules(rule("")), "InvalidRequest"),
        (rules(rule(days(1), status="On")), "MalformedXML"),
        (rules(rule(days(0))), "InvalidArgument"),
        (rules(rule(days(2**31))), "InvalidArgument"),
        (rules(rule("<Expiration><Days>x</Days></Expiration>")), "MalformedXML"),
        (rules(rule("<Expiration><Days>1</Days><Date>2030-01-01</Date></Expiration>")), "MalformedXML"),
        (rules(rule("<Expiration><Date>2030-01-01T01:00:00Z</Date></Expiration>")), "InvalidArgument"),
        (rules(rule("<Expiration><Date>soon</Date></Expiration>")), "MalformedXML"),
        (rules(rule("<Expiration><Date>9999-12-31T23:00:00-01:00</Date></Expiration>")), "MalformedXML"),
        (rules(rule("<NoncurrentVersionExpiration/>")), "MalformedXML"),
        (rules(rule(days(1), "")), "MalformedXML"),
        (rules(rule(days(1), "<Filter/><Prefix/>")), "MalformedXML"),
        (rules(rule(days(1), "<Filter><Tag><Value>b</Value></Tag></Filter>")), "InvalidTag"),
        (rules(rule(days(1), f"<Filter><And>{TAG}{TAG}</And></Filter>")), "InvalidTag"),
        (rules(rule(days(1), f"<Filter>{TAG}{TAG}</Filter>")), "MalformedXML"),
        (
            rules(
                rule(
                    "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
                    f"<Filter>{TAG}</Filter>",
                )
            ),
            "InvalidRequest",
        ),
        (
            rules(
                rule(
                    "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
                    "</AbortIncompleteMultipartUpload>",
                    f"<Filter>{TAG}</Filter>",
                )
            ),
            "InvalidRequest",
        ),
        (rules(rule("<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>")), "NotImplemented"),
        (rules("<ID>a</ID>" + rule(days(1)), "<ID>a</ID>" + rule(days(2))), "InvalidArgument"),
        (rules(f"<ID>{'a' * 256}</ID>" + rule(days(1))), "InvalidArgument"),
        (rules(*(rule(days(1), f"<Prefix>{'p' * 1000}</Prefix>") for _ in range(100))), "InvalidRequest"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_are_refused(s3: S3, body: bytes, told: str) -> None:
    assert code(s3.ask("PUT", "bucket", "lifecycle", body=body))[1] == told
    assert code(s3.get("bucket", "lifecycle")) == (404, "NoSuchLifecycleConfiguration")


def test_objects_go_from_the_midnight_on_that_follows_their_days(s3: S3, cloud: MemoryCloud) -> None:
    for name in ("logs/old", "logs/young", "other/old", "logs/large"):
        s3.put(f"bucket/{name}", b"x" * (100 if name.endswith("large") else 1))
    put(
        s3,
        rule(days(3), "<Filter><And><Prefix>logs/</Prefix><ObjectSizeLessThan>100</ObjectSizeLessThan></And></Filter>"),
        rule(days(1), "<Filter><Prefix>logs/young</Prefix></Filter>", "Disabled"),
    )
    made_before(cloud, 4, "logs/old", "other/old", "logs/large")
    # Three days old some time today, so it stays until midnight.
    today = cloud.clock.seconds() % 86_400 / 86_400
    made_before(cloud, 2 + today, "logs/young")
    an_hour_later(s3, cloud)
    assert s3.names("bucket") == ["logs/large", "logs/young", "other/old"]


def test_a_date_is_for_all_at_once_and_new_rules_are_gone_by_on_the_same_day(s3: S3, cloud: MemoryCloud) -> None:
    s3.put("bucket/a", b"x")
    put(s3, rule("<Expiration><Date>2999-01-01</Date></Expiration>"))
    an_hour_later(s3, cloud)
    assert s3.names("bucket") == ["a"]
    put(s3, rule("<Expiration><Date>2001-01-01</Date></Expiration>"))
    an_hour_later(s3, cloud)
    assert s3.names("bucket") == []


def test_where_versions_are_kept_a_marker_takes_the_place_and_old_ones_go(s3: S3, cloud: MemoryCloud) -> None:
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert s3.ask("PUT", "bucket", "versioning", body=enabled).status == 200
    for name in ("a", "b"):
        for number in range(4):
            s3.put(f"bucket/{name}", bytes([number]))
            cloud.clock.advance(1)
    s3.ask("DELETE", "bucket/gone")
    made_before(cloud, 10, "a", "b", "gone")
    old = "<NoncurrentVersionExpiration><NoncurrentDays>5</NoncurrentDays>{}</NoncurrentVersionExpiration>"
    put(
        s3,
        rule(days(5), "<Filter><Prefix>a</Prefix></Filter>"),
        rule(old.format(""), "<Filter><Prefix>a</Prefix></Filter>"),
        rule(old.format("<NewerNoncurrentVersions>2</NewerNoncurrentVersions>"), "<Filter><Prefix>b</Prefix></Filter>"),
        rule("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"),
    )
    an_hour_later(s3, cloud)
    listed = s3.xml("bucket", "versions")
    shown = [
        (each.tag, each.findtext("Key"), each.findtext("IsLatest")) for each in listed if each.find("Key") is not None
    ]
    # What became an old version just now has its days before it.
    assert sorted(shown) == [
        ("DeleteMarker", "a", "true"),
        ("Version", "a", "false"),
        ("Version", "b", "false"),
        ("Version", "b", "false"),
        ("Version", "b", "true"),
    ]


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_an_old_version_that_is_the_object_again_stays(
    s3: S3, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr("cloudctl.object_store.ageing.PAGE", page)
    account = Account(cloud.client("demo"))
    account.post("bucket", X_Versions_Enabled="true")
    ids = [str(account.put("bucket/o", data).headers["X-Object-Version-Id"]) for data in (b"one", b"two", b"three")]
    assert account.ask("PUT", "bucket/o", f"version-id={ids[1]}").status == 201
    made_before(cloud, 10, "o")
    put(s3, rule("<NoncurrentVersionExpiration><NoncurrentDays>5</NoncurrentDays></NoncurrentVersionExpiration>"))
    an_hour_later(s3, cloud)
    # Nobody knows since when the third one is an old one.
    listed = s3.xml("bucket", "versions").findall("Version")
    shown = [(each.findtext("VersionId"), each.findtext("IsLatest")) for each in listed]
    assert shown == [(ids[2], "false"), (ids[1], "true")]
    assert s3.get("bucket/o").body == b"two"


def test_uploads_that_nobody_finished_go(s3: S3, cloud: MemoryCloud) -> None:
    for name in ("old", "young"):
        upload = bare(s3.ask("POST", f"bucket/{name}", "uploads")).findtext("UploadId")
        assert s3.ask("PUT", f"bucket/{name}", f"partNumber=1&uploadId={upload}", body=b"part").status == 200
    made_before(cloud, 3, "old")
    action = (
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
    )
    put(s3, rule(action))
    an_hour_later(s3, cloud)
    assert [each.findtext("Key") for each in s3.xml("bucket", "uploads").findall("Upload")] == ["young"]


def test_a_long_bucket_is_walked_page_by_page(s3: S3, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudctl.object_store.ageing.PAGE", 3)
    names = [f"o{number}" for number in range(8)]
    for name in names:
        s3.put(f"bucket/{name}", b"x")
    made_before(cloud, 3, *names[::2])
    put(s3, rule(days(1)))
    an_hour_later(s3, cloud)
    assert s3.names("bucket") == names[1::2]


def test_what_has_all_the_tags_of_a_rule_goes(s3: S3, cloud: MemoryCloud) -> None:
    said = {"red": "color=red", "both": "size=1&color=red", "blue": "color=blue", "none": ""}
    for name, tags in said.items():
        s3.put(f"bucket/{name}", b"x", x_amz_tagging=tags)
    both = f"<Filter><And>{TAG}<Tag><Key>size</Key><Value>1</Value></Tag></And></Filter>"
    put(s3, rule(days(1), both))
    shown = bare(s3.get("bucket", "lifecycle")).find("Rule/Filter/And")
    assert shown is not None
    assert [(each.tag, each.findtext("Key")) for each in shown] == [("Tag", "color"), ("Tag", "size")]
    made_before(cloud, 2, *said)
    an_hour_later(s3, cloud)
    assert s3.names("bucket") == ["blue", "none", "red"]
    put(s3, rule(days(1), f"<Filter>{TAG}</Filter>"))
    assert bare(s3.get("bucket", "lifecycle")).findtext("Rule/Filter/Tag/Value") == "red"
    an_hour_later(s3, cloud)
    assert s3.names("bucket") == ["blue", "none"]


def test_a_bucket_whose_rules_cannot_be_applied_holds_up_no_other(s3: S3, cloud: MemoryCloud) -> None:
    s3.put("other")
    for bucket in ("bucket", "other"):
        s3.put(f"{bucket}/old", b"x")
        assert s3.ask("PUT", bucket, "lifecycle", body=rules(rule(days(1)))).status == 200
    made_before(cloud, 3, "old")
    by_id = select(Container.name).order_by(Container.id)
    first, last = cloud.transact(lambda conn: conn.scalars(by_id).all())
    Account(cloud.client("demo")).post(first, X_History_Location="history")  # which does not exist
    an_hour_later(s3, cloud)
    assert (s3.names(first), s3.names(last)) == (["old"], [])
    # Its turn comes as soon as its owner has put it right.
    s3.put("history")
    an_hour_later(s3, cloud)
    assert s3.names(first) == []
