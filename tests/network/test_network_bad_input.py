"""Nothing that a client sends is answered with a 500: each field, path and query with values that hurt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen
from twisted.internet.task import Clock

from cloudctl.drivers.fake.network import Config, create
from cloudctl.drivers.specs import DriverResources
from cloudctl.network.api import build
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.body import wire_names
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.databases import MemoryDatabase
from tests.network.conftest import START, Neutron, make_http, make_neutron
from tests.network.samples import samples

DEEP = b"[" * 900 + b"]" * 900
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, -(2**31) - 1, "", " ", "x" * 256, "x" * 5000, "🦄", "\x7f", "10.0.0.0/24", "::/0",
    "10.0.0.1", "0" * 36, [], [[]], [None], [{}], ["x"], {}, {"a": {"b": [1]}}, {"x": 10**30},
    [10**30], "²", "fe80::1%1", "1" * 40, [{"start": "10.0.0.9", "end": "::1"}], [{"ip_address": "::1"}],
    [{"destination": "::/0", "nexthop": "::"}],
]  # fmt: skip
RAW = [
    b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff", DEEP, b'{"network": {"name": "\\u0000"}}',
    b'{"network": {"name": "\\ud800"}}', b'{"network": {"name": 1e999}}', b'{"network": ' + DEEP + b"}",
    b'{"port": {"binding:profile": {"a": ' + DEEP + b"}}}", b'{"networks": {}}', b'{"networks": [[]]}',
    b'{"network": {}, "networks": []}',
]  # fmt: skip
SEGMENTS = ["x", "%00", "%FF", "x" * 3000, "%F0%9F%A6%84", "..", "a%2Fb", "'", "%25", "-1", "null", "null.json"]
QUERIES = [
    "limit=99999999999", "limit=1&marker=" + "x" * 300, "limit=1&limit=x", "fields=", "sort_key=&sort_dir=", "=",
    "a=b=c", "%00=1", "name=%00", "name=%ED%A0%80", "marker=%00", "&".join(f"id={n}" for n in range(199)),
    "&".join(f"id={n}" for n in range(300)), "mtu=" + "9" * 100, "revision_number=-1", "changed_since=9999999",
    "changed_since=0001-01-01T00:00:00%2B14:00", "fixed_ips=", "fixed_ips==", "fixed_ips=ip_address=%F0", "tags=,",
    "tags=" + "a," * 300, "not-tags=", "tags-any=" + "x" * 5000, "page_reverse=", "shared=2",
]  # fmt: skip


LISTS = (
    "networks", "subnets", "ports", "routers", "floatingips", "security-groups", "security-group-rules", "quotas",
    "extensions", "qos/policies", "qos/rule-types", "rbac-policies",
    "address-scopes", "subnetpools", "address-groups", "trunks", "agents", "default-security-group-rules",
    "network-ip-availabilities", "segments", "network_segment_ranges", "flavors", "service_profiles", "local_ips",
    "ndp_proxies", "log/logs", "metering/metering-labels", "metering/metering-label-rules",
)  # fmt: skip


def fields() -> list[tuple[str, str, str, Any, str]]:
    """(method, path, key of the envelope, body class, wire name) of every field of every body.

    A field that several bodies of a kind of resource have is read by the same code, so the first is asked.
    """
    found: dict[tuple[str, str], tuple[str, str, str, Any, str]] = {}
    clock = Clock()
    driver = create(Config(), DriverResources(clock, "fake"))
    nothing: Any = None  # is asked
    for path, operation in build(make_http(clock), nothing, driver, "fake", NetworkOptions()).operations:
        for body in (operation.body or {}).values():
            for name in wire_names(body.type):
                found.setdefault((operation.tag, name), (operation.method, path, body.key or "", body.type, name))
    return list(found.values())


@frozen
class Sampled:
    """A cloud with one of everything, and the moment at which it was made."""

    neutron: Neutron
    db: MemoryDatabase
    ids: dict[str, str]
    moment: int


@pytest.fixture(scope="module")
def sampled() -> Iterator[Sampled]:
    clock = Clock()
    clock.rightNow = START
    db = empty_database(clock)
    neutron = make_neutron(db, clock, NetworkOptions())
    ids = one_of_everything(neutron)
    neutron.settle()
    yield Sampled(neutron, db, ids, db.moment())
    neutron.engine.stopService()
    db.close()


@pytest.fixture
def neutron(sampled: Sampled) -> Iterator[Neutron]:
    """Whatever a test makes of it is undone: making one of everything again takes as long as the questions."""
    yield sampled.neutron
    sampled.neutron.settle()
    sampled.db.go_back(sampled.moment)


@pytest.fixture
def ids(sampled: Sampled) -> dict[str, str]:
    return sampled.ids


def one_of_everything(neutron: Neutron) -> dict[str, str]:
    """Variable of a path → a value for it."""
    network = neutron.network(user="admin")
    port = neutron.create("port", "admin", network_id=network["id"])
    group = neutron.create("security_group", "admin", name="g")
    rule = neutron.create("security_group_rule", "admin", security_group_id=group["id"], direction="ingress")
    external = neutron.network("203.0.113.0/24", user="admin", router__external=True)
    router = neutron.create("router", "admin", external_gateway_info={"network_id": external["id"]})
    floating = neutron.create("floatingip", "admin", floating_network_id=external["id"])
    policy = neutron.expect(201, "POST", "/qos/policies", {"policy": {"name": "p"}}, "admin")["policy"]["id"]
    found = {
        "router_id": router["id"],
        "floatingip_id": floating["id"],
        "floating_network_id": external["id"],
        "network_id": network["id"],
        "subnet_id": network["subnets"][0],
        "port_id": port["id"],
        "group_id": group["id"],
        "security_group_id": group["id"],
        "rule_id": rule["id"],
        "policy_id": policy,
        "rule_type": "bandwidth_limit",
        "project_id": "admin",
        "collection": "networks",
        "resource_id": network["id"],
        "tag": "a",
        "alias": "quotas",
        "port_forwarding_id": "2f32f072-4d17-4811-b619-3623d018bd40",
        "agent_id": "2f32f072-4d17-4811-b619-3623d018bd40",
    }

    def make(path: str, key: str, body: dict[str, Any]) -> str:
        return str(neutron.expect(201, "POST", path, {key: body}, "admin")[key]["id"])

    return found | samples(make, found, "admin")


def filled(path: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        path = path.replace(f"<{name}>", value)
    assert "<" not in path, f"tests/network/samples.py makes nothing for {path}"
    return f"/networking{path}"


REQUIRED = {
    "CreatePort": ("network_id",),
    "CreateSubnet": ("network_id", "ip_version", "cidr"),
    "CreateFloatingIp": ("floating_network_id",),
    "CreateRule": ("security_group_id", "direction"),
    "CreatePolicy": ("name",),
    "CreateBandwidthLimitRule": ("max_kbps",),
}
VALID = {"ip_version": 4, "cidr": "10.77.0.0/24", "direction": "ingress", "name": "n", "max_kbps": 1}


@pytest.mark.parametrize(("method", "path", "key", "body", "name"), fields(), ids=lambda value: str(value)[-40:])
def test_fields(neutron: Neutron, ids: Any, method: str, path: str, key: str, body: Any, name: str) -> None:
    valid = {field: {**VALID, **ids}[field] for field in REQUIRED.get(body.__name__, ())}
    for value in VALUES:
        sent = {**valid, name: value}
        answer = neutron.ask(method, filled(path, ids), {key: sent} if key else sent, "admin")
        assert answer.status < 500, (value, answer)
    neutron.settle()


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: raw[:30].decode("latin-1"))
def test_bodies(neutron: Neutron, ids: Any, raw: bytes) -> None:
    for method, path in [(each.method, path) for path, each in neutron.api.operations if each.body]:
        answer = neutron.ask(method, filled(path, ids), raw, "admin")
        # An empty body, or one of null, is refused as well.
        assert 400 <= answer.status < 500, (method, path, answer)
        assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment[:20])
def test_paths(neutron: Neutron, segment: str) -> None:
    for path, operation in neutron.api.operations:
        for name in ("collection", "resource_id", "tag"):
            path = path.replace(f"<{name}>", "networks" if name == "collection" else segment)
        parts = [segment if part.startswith("<") else part for part in path.split("/")]
        body: Any = {"network": {}} if operation.body else None
        answer = neutron.ask(operation.method, f"/networking{'/'.join(parts)}", body, "admin")
        assert answer.status < 500, (operation.key, answer)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:30])
def test_queries(neutron: Neutron, ids: Any, query: str) -> None:
    for path in LISTS:
        answer = neutron.ask("GET", f"/{path}?{query}", user="admin")
        assert answer.status < 500, (path, answer)


def test_a_huge_body_is_refused(neutron: Neutron) -> None:
    body = json.dumps({"network": {"name": "x" * 200_000}}).encode()
    assert neutron.ask("POST", "/networks", body).status == 413


def test_a_profile_is_small_and_shallow(neutron: Neutron, ids: Any) -> None:
    path = f"/ports/{ids['port_id']}"
    neutron.expect(200, "PUT", path, {"port": {"binding:profile": {"a": [1, {"b": None}]}}}, "admin")
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    for profile in ({"a": "x" * 5000}, {"a": deep}):
        neutron.expect(400, "PUT", path, {"port": {"binding:profile": profile}}, "admin")
