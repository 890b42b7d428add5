"""What all lists share. Reference: network.md, section 1.3."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote, urlsplit

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers.fake import network as fake
from cloudctl.drivers.specs import DriverResources
from cloudctl.network import api
from cloudctl.network.api import lists
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.tags import TAGGED
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.declared import Resource
from tests.network.conftest import Neutron
from tests.there import there


@pytest.fixture
def five(neutron: Neutron) -> list[str]:
    """Ids of five networks, sorted."""
    made = neutron.expect(201, "POST", "/networks", {"networks": [{"name": name} for name in "abcde"]})["networks"]
    return sorted(network["id"] for network in made)


def ids(answer: Any) -> list[str]:
    return [network["id"] for network in answer["networks"]]


def link(answer: Any, rel: str) -> str | None:
    """The path of a link of the page."""
    for each in answer.get("networks_links", ()):
        if each["rel"] == rel:
            parts = urlsplit(each["href"])
            assert f"{parts.scheme}://{parts.netloc}" == "http://cloud.example.com"
            return f"{parts.path}?{parts.query}"
    return None


def test_without_a_limit_everything_comes_without_links(neutron: Neutron, five: Any) -> None:
    for query in ("", "?limit=0"):
        answer = neutron.get(f"/networks{query}")
        assert ids(answer) == five and "networks_links" not in answer


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_a_whole_list_comes_in_pieces(neutron: Neutron, five: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lists, "PAGE", size)
    assert ids(neutron.get("/networks")) == five
    assert ids(neutron.get(f"/networks?marker={five[1]}&fields=id")) == five[2:]
    by_name = neutron.get("/networks?sort_key=name&sort_dir=desc")["networks"]
    assert [network["name"] for network in by_name] == [*"edcba"]


def test_pages_lead_through_the_list_and_back(neutron: Neutron, five: Any) -> None:
    page = neutron.get("/networks?limit=2&fields=id")
    seen = [ids(page)]
    while (following := link(page, "next")) is not None:
        page = neutron.get(following)
        seen.append(ids(page))
    assert seen == [five[:2], five[2:4], five[4:]]
    back = neutron.get(there(link(page, "previous")))
    assert ids(back) == five[2:4]
    back = neutron.get(there(link(back, "previous")))
    assert ids(back) == five[:2]
    assert ids(neutron.get(there(link(back, "next")))) == five[2:4]


def test_an_empty_page_still_leads_back(neutron: Neutron, five: Any) -> None:
    page = neutron.get(f"/networks?limit=2&marker={five[-1]}")
    assert ids(page) == [] and link(page, "next") is None
    assert link(page, "previous") is not None
    back = neutron.get(f"/networks?limit=2&page_reverse=true&marker={five[0]}")
    assert ids(back) == [] and link(back, "previous") is None and link(back, "next") is not None


def test_the_last_page_comes_first_in_reverse(neutron: Neutron, five: Any) -> None:
    assert ids(neutron.get("/networks?limit=2&page_reverse=true")) == five[3:]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_sorting_goes_through_pages(neutron: Neutron, five: Any, direction: str) -> None:
    path: str | None = f"/networks?limit=2&sort_key=name&sort_dir={direction}&sort_key=id&sort_dir=asc"
    names: list[str] = []
    while path:
        page = neutron.get(path)
        names += [network["name"] for network in page["networks"]]
        path = link(page, "next")
    assert names == sorted("abcde", reverse=direction == "desc")


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_networks_are_sorted_by_their_zones(neutron: Neutron, five: Any, direction: str) -> None:
    hinted = neutron.create("network", availability_zone_hints=["nova"])["id"]
    path: str | None = f"/networks?limit=2&sort_key=availability_zone_hints&sort_dir={direction}"
    found: list[str] = []
    while path:
        page = neutron.get(path)
        found += ids(page)
        path = link(page, "next")
    assert sorted(found) == sorted([*five, hinted]) and hinted in (found[0], found[-1])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("x=1", "['x'] is invalid attribute for filtering"),
        ("sort_key=x&sort_dir=asc", "['x'] is invalid attribute for sort_keys"),
        ("sort_key=name", "The number of sort_keys and sort_dirs must be same"),
        ("sort_key=name&sort_dir=up", "'up' is invalid value for sort_dirs"),
        ("limit=-1", ""),
        ("limit=x", ""),
        ("page_reverse=perhaps", ""),
        ("admin_state_up=perhaps", ""),
        ("changed_since=yesterday", ""),
        ("project_id=a&tenant_id=b", "'project_id' and 'tenant_id' do not match"),
        ("name=%00", ""),
        ("name=%FF", ""),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(neutron: Neutron, query: str, message: str) -> None:
    error = neutron.expect(400, "GET", f"/networks?{query}")["NeutronError"]
    assert message in error["message"]


def test_an_unknown_marker_is_not_found(neutron: Neutron, five: Any) -> None:
    hidden = neutron.network(None, user="other")["id"]
    for marker in ("x", hidden):
        neutron.refused(404, "NetworkNotFound", "GET", f"/networks?marker={marker}")


def test_fields_are_chosen_in_lists_and_records(neutron: Neutron, five: Any) -> None:
    query = "fields=id&fields=name&fields=nonsense"
    for found in (
        neutron.get(f"/networks?{query}")["networks"][0],
        neutron.get(f"/networks/{five[0]}?{query}")["network"],
    ):
        assert sorted(found) == ["id", "name"]
    # An empty name is none.
    assert neutron.get("/networks?fields=") == neutron.get("/networks")
    assert neutron.get(f"/networks/{five[0]}?fields=") == neutron.get(f"/networks/{five[0]}")
    assert [*neutron.get("/networks?fields=&fields=id")["networks"][0]] == ["id"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name=a&name=c", "ac"),
        ("name=a&status=DOWN", ""),
        ("name=", ""),
        ("description=", "abcde"),
        ("tenant_id=demo&project_id=demo", "abcde"),
        ("project_id=other", ""),
        ("router:external=false&shared=0", "abcde"),
        ("router%3Aexternal=True", ""),
        ("mtu=1450", "abcde"),
        ("changed_since=2027-01-15T08:00:00Z", "abcde"),
        ("changed_since=2027-01-15T08:00:01Z", ""),
        ("created_at=2027-01-15T08:00:00Z", "abcde"),
        ("created_at=2027-01-15T08:00:00.9", "abcde"),
        ("created_at=2027-01-15T08:00:01Z", ""),
        ("updated_at=2027-01-15T07:59:59Z", ""),
        ("revision_number=0", "abcde"),
        ("tags=red", "ab"),
        ("tags=red,blue", "b"),
        ("tags-any=blue,green", "bc"),
        ("not-tags=red,blue", "acde"),
        ("not-tags-any=red,green", "de"),
        ("tags=red&limit=1", "a"),
    ],
)
def test_filters(neutron: Neutron, query: str, names: str) -> None:
    neutron.clock.advance(0.5)  # times are shown, and asked for, in whole seconds
    for name, tags in [("a", ["red"]), ("b", ["red", "blue"]), ("c", ["green"]), ("d", []), ("e", [])]:
        neutron.create("network", name=name, tags=tags)
    found = neutron.get(f"/networks?{query}&sort_key=name&sort_dir=asc")["networks"]
    assert [network["name"] for network in found] == list(names)


def declared() -> list[Declared[Any]]:
    """What the API declares, with a driver that can do everything. Nothing is asked of a database here."""
    driver = fake.create(fake.Config(), DriverResources(Clock(), "fake"))
    offered = api.resources(cast(Any, None), driver, "fake", NetworkOptions())
    declared = [each.declared for each in offered if isinstance(each, Resource)]
    return [each for each in declared if isinstance(each, Declared)]


RESOURCES = declared()


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
def test_every_filter_and_sort_key_can_be_used(neutron: Neutron, resource: Declared[Any]) -> None:
    path, described = resource.path, resource.collection
    neutron.create("port", network_id=neutron.network()["id"])
    values = {"fixed_ips": "ip_address=10.0.0.2"}
    for name in described.listing.filters:
        for value in (values.get(name, "1"), values.get(name, "true")):
            answer = neutron.ask("GET", f"{path}?{name}={value}", user="admin")
            is_other = name.endswith(("_at", "since")) or (value == "true" and b"a number is expected" in answer.body)
            assert answer.status == 200 or (answer.status == 400 and is_other), (name, answer)
    for name in described.listing.sort_keys:
        for direction in ("asc", "desc"):
            neutron.get(f"{path}?sort_key={name}&sort_dir={direction}&limit=1", user="admin")


def test_whatever_shows_tags_has_a_path_to_them() -> None:
    showing = {each.path.rpartition("/")[2] for each in RESOURCES if "tags" in {one.name for one in each.attributes}}
    assert showing == TAGGED.keys()


def test_rules_are_found_by_the_networks_of_their_prefixes(neutron: Neutron) -> None:
    group = neutron.create("security_group", name="g")
    own = {"security_group_id": group["id"], "direction": "ingress"}
    prefixes = {1: "10.0.0.9/24", 2: "110.0.0.0/24", 3: "0.0.0.0/0", 4: None, 5: "2001:db8::1/32", 6: "::/0"}
    made = {
        neutron.create(
            "security_group_rule",
            **own,
            protocol="tcp",
            port_range_min=port,
            port_range_max=port,
            ethertype="IPv6" if ":" in (prefix or "") else "IPv4",
            remote_ip_prefix=prefix,
        )["id"]: port
        for port, prefix in prefixes.items()
    }
    for query, ports in [
        ("normalized_cidr=10.0.0.0/24", {1}),
        ("normalized_cidr=110.0.0.0/24&normalized_cidr=2001:db8::/32", {2, 5}),
        ("normalized_cidr=0.0.0.0/0", {3}),
        ("normalized_cidr=::/0", {6}),
        ("normalized_cidr=10.0.0.9/24", set()),
        ("normalized_cidr=%25", set()),
        ("belongs_to_default_sg=true&direction=ingress", set()),
        ("belongs_to_default_sg=false&direction=ingress", {1, 2, 3, 4, 5, 6}),
    ]:
        found = neutron.get(f"/security-group-rules?{query}")["security_group_rules"]
        assert {made[rule["id"]] for rule in found if rule["id"] in made} == ports, query
        assert all(rule["id"] in made for rule in found) or "true" in query
    ordered = neutron.get("/security-group-rules?protocol=tcp&sort_key=port_range_min&sort_dir=desc&limit=3")
    assert [rule["port_range_min"] for rule in ordered["security_group_rules"]] == [6, 5, 4]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/address-groups", {"name": "g"}),
        ("/default-security-group-rules", {"direction": "ingress", "protocol": "tcp"}),
        ("/metering/metering-labels", {"name": "m"}),
        ("/flavors", {"name": "f", "service_type": "L3_ROUTER_NAT"}),
        ("/service_profiles", {"metainfo": "m"}),
    ],
)
def test_some_descriptions_are_long(neutron: Neutron, path: str, body: dict[str, Any]) -> None:
    kind = {each.path: each.name for each in RESOURCES}[path]
    for length, status in [(1024, 201), (1025, 400)]:
        neutron.expect(status, "POST", path, {kind: {**body, "description": "d" * length}}, "admin")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/networks", "mtu"),
        ("/networks", "provider:segmentation_id"),
        ("/subnets", "ip_version"),
        ("/ports", "revision_number"),
        ("/security-group-rules", "port_range_min"),
        ("/network-ip-availabilities", "ip_version"),
    ],
)
def test_a_filter_by_a_number_takes_no_word(neutron: Neutron, path: str, name: str) -> None:
    for word in ("x", "", "1.5", "²"):
        said = neutron.expect(400, "GET", f"{path}?{name}={quote(word)}", user="admin")
        assert "a number is expected" in said["NeutronError"]["message"]
    for beyond in ("-1", "2147483648", "-99999999999", "9" * 5000):
        assert neutron.expect(200, "GET", f"{path}?{name}={beyond}", user="admin")
