"""A cloud in memory, as those use it who test their own software."""

from __future__ import annotations

from cloudctl.testing.cloud import MemoryCloud


def test_a_client_that_is_made_late_has_a_token_that_is_valid() -> None:
    cloud = MemoryCloud({"identity": {"token_lifetime": 600}})
    early = cloud.client("demo")
    assert cloud.client("demo").token == early.token
    cloud.advance(601)
    assert early.get("/volume/v3/volumes").status == 401
    assert cloud.client("demo").get("/volume/v3/volumes").status == 200
    cloud.close()
