"""Requests over a project's or an address's rate are 429, and nobody else waits for them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cloudctl.rest import admission
from cloudctl.rest.admission import Buckets
from cloudctl.testing.cloud import MemoryCloud
from tests.effort import lines

RATES = {
    "admission": {
        "rates": True, "project_rate": 2.0, "project_burst": 5.0, "address_rate": 1000.0, "address_burst": 1000.0,
    }
}  # fmt: skip
LISTS = {
    "/compute/v2.1/servers": "overLimit",
    "/volume/v3/volumes": "overLimit",
    "/networking/v2.0/networks": "NeutronError",
    "/image/v2/images": "429 Too Many Requests",
    "/identity/v3/regions": "error",
}


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    buckets = Buckets(2.0, 3.0)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b", 0.0) == 0.0
    assert buckets.take("a", 0.5) == 0.0
    assert buckets.take("a", 0.5) == 0.5
    assert [buckets.take("a", 100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("a", 50.0) > 0  # a clock that is set back gives nothing


def test_the_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST", 50)
    buckets = Buckets(1.0, 1.0)
    for number in range(500):
        buckets.take(str(number), 0.0)
    assert len(buckets._kept) == 50


@pytest.mark.parametrize("path", LISTS)
def test_each_api_says_it_in_its_own_words(path: str) -> None:
    cloud = MemoryCloud(RATES)
    demo = cloud.client("demo")
    answers = [demo.get(path) for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[-1].headers["Retry-After"] == "1"
    assert LISTS[path] in answers[-1].body.decode(), answers[-1]
    if LISTS[path] == "overLimit":
        assert answers[-1].json()["overLimit"]["retryAfter"] == "1"
    cloud.advance(1.0)
    assert [demo.get(path).status for _ in range(3)] == [200, 200, 429]
    cloud.close()


def test_a_project_that_floods_does_not_starve_another() -> None:
    """In whatever order they come: the other one is answered each time, and a refusal costs a fraction of an answer."""
    cloud = MemoryCloud(RATES)
    flood, other = cloud.client("admin"), cloud.client("demo")
    answered = []
    for turn in range(200):
        refused = flood.get("/compute/v2.1/servers/detail?all_tenants=1")
        assert turn < 5 or refused.status == 429
        if turn % 50 == 0:
            answered.append(other.get("/compute/v2.1/servers").status)
    assert answered == [200] * 4
    served = lines(lambda: other.get("/compute/v2.1/servers/detail?status=ACTIVE"), sys.maxsize)
    turned_away = lines(lambda: flood.get("/compute/v2.1/servers/detail?status=ACTIVE"), sys.maxsize)
    assert turned_away < served / 2
    cloud.close()


def test_an_address_is_counted_before_its_token_is_looked_at() -> None:
    tables: Any = {"admission": {**RATES["admission"], "address_rate": 1.0, "address_burst": 3.0}}
    cloud = MemoryCloud(tables)
    told = [cloud.anonymous().get("/compute/v2.1/servers").status for _ in range(5)]
    assert told == [401, 401, 401, 429, 429]
    cloud.close()


def test_an_address_of_a_proxy_is_not_counted() -> None:
    tables: Any = {"admission": {**RATES["admission"], "address_rate": 1.0, "address_burst": 3.0}}
    cloud = MemoryCloud({**tables, "server": {"trusted_proxies": ["127.0.0.1"]}})
    assert {cloud.anonymous().get("/compute/v2.1/servers").status for _ in range(5)} == {401}
    cloud.close()


def test_nothing_is_counted_unless_it_is_switched_on() -> None:
    cloud = MemoryCloud()
    demo = cloud.client("demo")
    assert {demo.get("/compute/v2.1/flavors").status for _ in range(500)} == {200}
    cloud.close()
