"""/OS-ENDPOINT-POLICY: which stored policy counts for an endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select

from cloudctl.identity.tables import PolicyAssociation

EXTENSION = "OS-ENDPOINT-POLICY"


@pytest.fixture
def admin(keystone: Any) -> str:
    return str(keystone.admin())


class Site:
    """An endpoint in the region `room`, which is in `city`, which is in `land`; and another without a region."""

    def __init__(self, keystone: Any, admin: str) -> None:
        self.keystone, self.admin = keystone, admin
        for id, parent in (("land", None), ("city", "land"), ("room", "city"), ("away", "land")):
            keystone.make(admin, "regions", "region", id=id, parent_region_id=parent)
        self.service = keystone.make(admin, "services", "service", type="x", name="x")["id"]
        self.endpoint, self.other = (self.make_endpoint(region) for region in ("room", None))

    def make_endpoint(self, region: str | None) -> str:
        fields = {"interface": "public", "url": "http://x.example", "service_id": self.service, "region_id": region}
        return str(self.keystone.make(self.admin, "endpoints", "endpoint", **fields)["id"])

    def policy(self, blob: str = "x") -> str:
        return str(self.keystone.make(self.admin, "policies", "policy", blob=blob, type="text/plain")["id"])

    def targets(self) -> dict[str, str]:
        """From the one that counts last to the one that counts first."""
        service = f"services/{self.service}"
        regions = {region: f"{service}/regions/{region}" for region in ("land", "city", "room")}
        return {"service": service, **regions, "endpoint": f"endpoints/{self.endpoint}"}

    def ask(self, method: str, policy: str, target: str) -> int:
        return int(self.keystone.ask(method, f"/policies/{policy}/{EXTENSION}/{target}", token=self.admin).status)

    def counts(self, endpoint: str | None = None) -> str | None:
        path = f"/endpoints/{endpoint or self.endpoint}/{EXTENSION}/policy"
        answer = self.keystone.ask("GET", path, token=self.admin)
        assert answer.status in (200, 404)
        return answer.json()["policy"]["id"] if answer.status == 200 else None

    def endpoints(self, policy: str, query: str = "") -> list[str]:
        answer = self.keystone.ask("GET", f"/policies/{policy}/{EXTENSION}/endpoints{query}", token=self.admin)
        assert answer.status == 200
        return sorted(each["id"] for each in answer.json()["endpoints"])


@pytest.fixture
def site(keystone: Any, admin: str) -> Site:
    return Site(keystone, admin)


@pytest.mark.parametrize("kind", ["service", "land", "endpoint"])
def test_a_policy_is_associated_until_it_is_replaced_or_taken_away(site: Site, kind: str) -> None:
    target, one, two = site.targets()[kind], site.policy(), site.policy()
    assert site.ask("GET", one, target) == 404
    assert site.ask("PUT", one, target) == 204
    assert site.ask("PUT", one, target) == 204
    assert [site.ask("GET", one, target), site.ask("HEAD", one, target)] == [204, 204]
    assert site.ask("GET", two, target) == 404
    assert site.ask("PUT", two, target) == 204
    assert [site.ask("GET", one, target), site.ask("GET", two, target)] == [404, 204]
    # It is not associated any more, so nothing is taken away.
    assert site.ask("DELETE", one, target) == 204
    assert site.counts() == two
    assert site.ask("DELETE", two, target) == 204
    assert site.ask("GET", two, target) == 404
    assert site.counts() is None


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_there_is_no_association_of_what_there_is_not(site: Site, method: str) -> None:
    policy = site.policy()
    for target in ("endpoints/x", "services/x", "services/x/regions/land", f"services/{site.service}/regions/x"):
        assert site.ask(method, policy, target) == 404
    for target in site.targets().values():
        assert site.ask(method, "x", target) == 404
    path = f"/policies/x/{EXTENSION}/endpoints"
    assert site.keystone.ask("GET", path, token=site.admin).status == 404
    assert site.keystone.ask("GET", f"/endpoints/x/{EXTENSION}/policy", token=site.admin).status == 404


def test_the_nearest_policy_counts(site: Site) -> None:
    """Each target comes before those that were associated before it, and after it is gone they count again."""
    made = []
    for target in site.targets().values():
        policy = site.policy()
        assert site.ask("PUT", policy, target) == 204
        assert site.counts() == policy
        made.append((policy, target))
    while made:
        policy, target = made.pop()
        assert site.counts() == policy
        assert site.ask("DELETE", policy, target) == 204
    assert site.counts() is None


def test_the_policy_that_counts_is_shown_as_it_is_stored(site: Site) -> None:
    policy = site.policy("rules")
    site.ask("PUT", policy, f"services/{site.service}")
    shown = site.keystone.ask("GET", f"/policies/{policy}", token=site.admin).json()
    path = f"/endpoints/{site.other}/{EXTENSION}/policy"
    assert site.keystone.ask("GET", path, token=site.admin).json() == shown
    head = site.keystone.ask("HEAD", path, token=site.admin)
    assert (head.status, head.body) == (200, b"")


def test_a_policy_lists_the_endpoints_that_it_reaches(site: Site) -> None:
    away = site.make_endpoint("away")
    reached = {
        "endpoint": [site.endpoint],
        "room": [site.endpoint],
        "city": [site.endpoint],
        "land": [site.endpoint, away],
        "service": [site.endpoint, away, site.other],
    }
    for kind, endpoints in reached.items():
        policy = site.policy()
        assert site.endpoints(policy) == []
        site.ask("PUT", policy, site.targets()[kind])
        assert site.endpoints(policy) == sorted(endpoints)
    both = site.policy()
    for kind in ("endpoint", "room", "service"):
        site.ask("PUT", both, site.targets()[kind])
    assert site.endpoints(both) == sorted(reached["service"])
    assert site.endpoints(both, "?limit=2") != site.endpoints(both)


@pytest.mark.parametrize(("gone", "left"), [("policies", 0), ("endpoints", 2), ("services", 0), ("regions", 2)])
def test_associations_go_with_what_they_name(site: Site, gone: str, left: int) -> None:
    """A region, or a service, may be made again under its name; it begins without a policy."""
    site.keystone.ask("DELETE", f"/endpoints/{site.other}", token=site.admin)
    policy, targets = site.policy(), site.targets()
    for kind in ("service", "room", "endpoint"):
        site.ask("PUT", policy, targets[kind])
    if gone == "regions":
        change = {"endpoint": {"region_id": None}}
        site.keystone.ask("PATCH", f"/endpoints/{site.endpoint}", change, site.admin)
    id = {"policies": policy, "endpoints": site.endpoint, "services": site.service, "regions": "room"}[gone]
    assert site.keystone.ask("DELETE", f"/{gone}/{id}", token=site.admin).status == 204
    query = select(func.count()).select_from(PolicyAssociation.table)
    assert site.keystone.db.transact(True, lambda conn: conn.execute(query).scalar()) == left


def test_an_administrator_of_a_domain_alone_does_not_reach_them(site: Site) -> None:
    keystone, policy = site.keystone, site.policy()
    keystone.make_user("boss", role="admin", scope="domains", on="default")
    boss = keystone.login("boss", scope={"domain": {"id": "default"}})
    paths = [f"/policies/{policy}/{EXTENSION}/{target}" for target in (*site.targets().values(), "endpoints")]
    for path in (*paths, f"/endpoints/{site.endpoint}/{EXTENSION}/policy"):
        assert keystone.ask("GET", path, token=boss).status == 403
