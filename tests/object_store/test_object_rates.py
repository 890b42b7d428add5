"""How often accounts and containers may be written to, where it is limited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl.errors import ConfigError
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account
from tests.object_store.signing import S3, code

RATES = {
    "account_rate": 0.5,
    "container_rates": [{"rate": 1.0}, {"objects": 3, "rate": 0.5}],
    "listing_rates": [{"objects": 2, "rate": 1.0}],
    "rate_buffer": 4.0,
}


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud({"object_store": RATES})
    yield made
    made.close()


def test_a_container_takes_so_many_writes_and_fewer_when_it_is_full(cloud: MemoryCloud) -> None:
    mine = Account(cloud.client("demo"))
    mine.put("c")
    mine.put("other")
    for number in range(3):
        mine.put(f"c/{number}", b"x")
    # It is full now, of which others tell; two at once, and one each two seconds.
    for _ in range(2):
        mine.put("c/0", b"x" * 100_000)
    refused = mine.ask("PUT", "c/0", body=b"x" * 100_000)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "2")
    for asked in (mine.delete("c/0"), mine.post("c/0"), mine.ask("COPY", "c/0", Destination="c/9")):
        assert asked.status == 429
    mine.put("other/0")
    assert mine.get("c/0").status == 200
    cloud.clock.advance(2.0)
    assert mine.delete("c/0").status == 204
    assert mine.delete("c/1").status == 204  # two are left, so it may be written to more often


def test_nobody_spends_what_is_others(cloud: MemoryCloud, alt: Client) -> None:
    mine = Account(cloud.client("demo"))
    mine.put("c")
    other = Account(alt, mine.project_id)
    assert [other.ask("PUT", "c/o").status for _ in range(9)] == [403] * 9
    mine.put("c/o")


def test_an_account_takes_so_many_containers(cloud: MemoryCloud) -> None:
    mine = Account(cloud.client("demo"))
    mine.put("a")
    assert mine.delete("a").status == 204
    assert mine.ask("PUT", "b").status == 429
    assert mine.post(X_Account_Meta_Color="red").status == 204
    cloud.clock.advance(2.0)
    mine.put("b")


def test_listings_have_a_rate_of_their_own(cloud: MemoryCloud) -> None:
    mine = Account(cloud.client("demo"))
    mine.holding("c", "1", "2")
    assert [mine.get("c").status for _ in range(5)] == [200] * 4 + [429]
    assert mine.head("c").status == 204


def test_s3_says_slow_down(cloud: MemoryCloud) -> None:
    s3 = S3(cloud, cloud.client("demo"))
    s3.put("bucket")
    for number in range(3):
        s3.put(f"bucket/{number}", b"x")
    for _ in range(2):
        s3.put("bucket/0", b"x")
    assert code(s3.ask("PUT", "bucket/0", body=b"x")) == (503, "SlowDown")
    many = b"<Delete><Object><Key>0</Key></Object></Delete>"
    assert code(s3.ask("POST", "bucket", "delete", body=many)) == (503, "SlowDown")
    assert s3.get("bucket/0").body == b"x"


def test_clients_are_told(cloud: MemoryCloud) -> None:
    told = cloud.anonymous().get("/object-store/info").json()["ratelimit"]
    assert told == {
        "account_ratelimit": 0.5,
        "max_sleep_time_seconds": 0.0,
        "container_ratelimits": [[0, 1.0], [3, 0.5]],
        "container_listing_ratelimits": [[2, 1.0]],
    }
    usual = MemoryCloud()
    assert "ratelimit" not in usual.anonymous().get("/object-store/info").json()
    usual.close()


@pytest.mark.parametrize("wrong", [[{"rate": 0.0}], [{"rate": 1.0, "objects": -1}], [{"objects": 1}], "1"])
def test_rates_that_cannot_be(wrong: object) -> None:
    with pytest.raises(ConfigError, match="container_rates"):
        MemoryCloud({"object_store": {"container_rates": wrong}})
