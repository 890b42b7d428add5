"""`GET /servers` and `/servers/detail`: filters, order, pages. Reference: compute.md, section 6.1."""

from __future__ import annotations

import sqlite3
from urllib.parse import quote, urlsplit

import pytest
from sqlalchemy import text

from cloudctl.testing.cloud import MemoryCloud, connection
from tests.compute.asking import LATEST, V21, Asking, refusal


@pytest.fixture
def three(demo: Asking) -> list[str]:
    """Ids of «alpha», «beta» and «gamma», in the order in which they were made."""
    ids = []
    for name, flavor in (("alpha", "1"), ("beta", "2"), ("gamma", "1")):
        ids.append(demo.boot("2.52", name=name, flavorRef=flavor, tags=[name, "all"]))
        demo.cloud.advance(10)
    return ids


def test_the_newest_is_first(demo: Asking, three: list[str]) -> None:
    assert demo.names() == ["gamma", "beta", "alpha"]


def test_a_list_shows_id_name_and_links_alone(demo: Asking, three: list[str]) -> None:
    found = demo.get("/servers", LATEST).json()["servers"][0]
    assert found.keys() == {"id", "name", "links"}


def test_pages_follow_each_other_to_the_end(demo: Asking, three: list[str]) -> None:
    names, path = [], f"{V21}/servers?limit=1&name=a"
    while path:
        page = demo.client.get(path).json()
        names += [server["name"] for server in page["servers"]]
        links = page.get("servers_links", [])
        path = f"{urlsplit(links[0]['href']).path}?{urlsplit(links[0]['href']).query}" if links else ""
        assert "name=a" in path or not path
    assert names == ["gamma", "beta", "alpha"]


def test_limit_zero_is_an_empty_list(demo: Asking, three: list[str]) -> None:
    assert demo.get("/servers?limit=0").json() == {"servers": []}


@pytest.mark.parametrize("query", ["limit=-1", "limit=x", "marker=nobody", "sort_dir=up"])
def test_a_wrong_page_is_refused(demo: Asking, query: str) -> None:
    assert demo.get(f"/servers?{query}").status == 400


def test_an_unknown_marker_is_named(demo: Asking) -> None:
    assert refusal(demo.get("/servers?marker=nobody")) == (400, "badRequest", "marker [nobody] not found")


def test_the_order_can_be_chosen(demo: Asking, three: list[str]) -> None:
    assert demo.names("?sort_key=display_name&sort_dir=asc") == ["alpha", "beta", "gamma"]
    assert demo.names("?sort_key=instance_type_id&sort_dir=desc&sort_key=display_name&sort_dir=asc") == [
        "beta",
        "alpha",
        "gamma",
    ]


FILTERS = [
    ("name=^be", ["beta"]),
    ("name=a$", ["gamma", "beta", "alpha"]),
    ("name=" + quote("^(al|ga)"), ["gamma", "alpha"]),
    ("flavor=2", ["beta"]),
    ("flavor=none-such", []),
    ("status=active", ["gamma", "beta", "alpha"]),
    ("status=ACTIVE&status=SHUTOFF", ["gamma", "beta", "alpha"]),
    ("status=SHUTOFF", []),
    ("status=BOGUS", []),
    ("tags=alpha,all", ["alpha"]),
    ("tags-any=alpha,beta", ["beta", "alpha"]),
    ("not-tags=alpha,all", ["gamma", "beta"]),
    ("not-tags-any=alpha,beta", ["gamma"]),
    ("tags=ALPHA", []),
    ("tags=alp", []),
    ("key_name=zzz", ["gamma", "beta", "alpha"]),  # not a filter of members before 2.83
    ("host=fake-1", ["gamma", "beta", "alpha"]),  # never one of members
]


@pytest.mark.parametrize(("query", "names"), FILTERS)
def test_a_filter_shows_what_matches(demo: Asking, three: list[str], query: str, names: list[str]) -> None:
    assert demo.names(f"?{query}", "2.37") == names


def test_the_displayed_status_is_what_is_filtered(demo: Asking, three: list[str]) -> None:
    demo.act(three[0], {"reboot": {"type": "HARD"}})
    assert demo.status(three[0]) == "HARD_REBOOT"
    assert demo.names("?status=ACTIVE") == ["gamma", "beta"]
    assert demo.names("?status=HARD_REBOOT") == ["alpha"]


def test_an_unknown_status_is_refused_from_2_38_on(demo: Asking) -> None:
    assert refusal(demo.get("/servers?status=BOGUS", "2.38")) == (400, "badRequest", "Invalid status value")


def test_addresses_are_filtered_by_a_regular_expression(demo: Asking, three: list[str]) -> None:
    address = demo.server(three[1])["addresses"]["private"][0]["addr"]
    assert demo.names(f"?ip=^{address}$") == ["beta"]
    assert demo.names("?ip=^192") == []
    assert demo.names("?ip6=::", "2.5") == []


def test_an_address_may_match_more_servers_than_a_statement_has_parameters(demo: Asking) -> None:
    demo.boot(min_count=10)
    driver = connection(demo.cloud.cloud)
    before = driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 10)
    try:
        assert len(demo.names("?ip=^[0-9]&limit=1")) == 1
    finally:
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, before)


@pytest.mark.parametrize("pattern", ["(", "[", "a**", "\\1", "(?=a)", "a{999}", "x" * 300])
def test_a_bad_regular_expression_is_refused(demo: Asking, pattern: str) -> None:
    for name in ("name", "ip"):
        assert demo.get(f"/servers?{name}={quote(pattern)}").status == 400


def test_a_malicious_regular_expression_costs_no_time(demo: Asking) -> None:
    demo.boot(name="a" * 250 + "b")
    assert demo.names(f"?name={quote('(a+)+$')}") == []


def test_tags_filter_nothing_before_2_26(demo: Asking, three: list[str]) -> None:
    assert demo.names("?tags=alpha", "2.25") == ["gamma", "beta", "alpha"]


def test_unknown_parameters_are_refused_from_2_75_on(demo: Asking) -> None:
    assert demo.get("/servers?colour=red", "2.74").status == 200
    status, _, message = refusal(demo.get("/servers?colour=red", "2.75"))
    assert (status, message) == (400, "Additional properties are not allowed ('colour' was unexpected)")


def test_all_projects_are_for_administrators(demo: Asking, admin: Asking, three: list[str]) -> None:
    assert admin.names() == []
    assert admin.names("?all_tenants=1") == ["gamma", "beta", "alpha"]
    assert admin.names("?all_tenants=True&name=beta") == ["beta"]
    assert admin.names("?all_tenants") == ["gamma", "beta", "alpha"]
    assert admin.names("?all_tenants=0") == []
    assert admin.get("/servers?all_tenants=maybe").status == 400
    assert refusal(demo.get("/servers?all_tenants=1"))[:2] == (403, "forbidden")


def test_a_project_counts_only_with_all_tenants(demo: Asking, admin: Asking, three: list[str]) -> None:
    project = demo.server(three[0])["tenant_id"]
    assert admin.names(f"?tenant_id={project}") == []
    assert admin.names(f"?all_tenants=1&tenant_id={project}&limit=1") == ["gamma"]
    assert admin.names("?all_tenants=1&project_id=nobody") == []


def test_administrators_filter_by_host(admin: Asking, three: list[str]) -> None:
    hosts = {server_id: admin.server(server_id)["OS-EXT-SRV-ATTR:host"] for server_id in three}
    found = admin.get(f"/servers?all_tenants=1&host={hosts[three[0]]}").json()["servers"]
    assert {server["id"] for server in found} == {
        server_id for server_id, host in hosts.items() if host == hosts[three[0]]
    }


def test_members_do_not_sort_by_host(demo: Asking) -> None:
    assert demo.get("/servers?sort_key=host").status == 403


def test_changes_since_shows_what_is_gone(demo: Asking, three: list[str]) -> None:
    demo.cloud.advance(600)
    before = demo.cloud.clock.seconds()
    demo.delete(f"/servers/{three[1]}")
    demo.cloud.settle()
    since = f"changes-since={_iso(before)}"
    assert demo.names() == ["gamma", "alpha"]
    assert demo.names(f"?{since}") == ["beta"]
    (gone,) = demo.get(f"/servers/detail?{since}", LATEST).json()["servers"]
    assert (gone["status"], gone["id"]) == ("DELETED", three[1])
    assert demo.names(f"?changes-since={_iso(before + 600)}") == []


def test_changes_before_is_an_upper_bound_from_2_66_on(demo: Asking, three: list[str]) -> None:
    early, late = _iso(0), _iso(demo.cloud.clock.seconds() + 60)
    assert demo.names(f"?changes-before={late}", "2.66") == ["gamma", "beta", "alpha"]
    assert demo.names(f"?changes-before={early}", "2.66") == []
    assert demo.get(f"/servers?changes-since={late}&changes-before={early}", "2.66").status == 400


def test_a_server_is_changed_before_the_time_that_it_shows(demo: Asking) -> None:
    """A bound of a whole second is of all of it."""
    demo.cloud.advance(0.4)
    server_id = demo.boot("2.66", name="early")
    demo.cloud.advance(10)
    demo.boot("2.66", name="late")
    shown = demo.server(server_id)["updated"]
    assert demo.names(f"?changes-before={shown}", "2.66") == ["early"]


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01", "", "9999999999"])
def test_a_time_that_is_none_is_refused(demo: Asking, value: str) -> None:
    assert demo.get(f"/servers?changes-since={value}").status == 400


def test_deleted_servers_are_listed_for_administrators_alone(demo: Asking, admin: Asking, three: list[str]) -> None:
    demo.delete(f"/servers/{three[0]}")
    demo.cloud.settle()
    assert refusal(demo.get("/servers?status=deleted"))[0] == 403
    assert admin.names("?all_tenants=1&status=deleted") == ["alpha"]
    assert admin.names("?all_tenants=1&deleted=true") == ["alpha"]


def test_locked_servers_are_filtered_from_2_73_on(demo: Asking, three: list[str], cloud: MemoryCloud) -> None:
    cloud.transact(
        lambda conn: conn.execute(text("UPDATE servers SET locked_by = 'owner' WHERE name = 'beta'")) and None
    )
    assert demo.names("?locked=true", "2.73") == ["beta"]
    assert demo.names("?locked=false", "2.73") == ["gamma", "alpha"]
    assert demo.get("/servers?locked=maybe", "2.73").status == 400
    assert demo.names("?locked=true", "2.72") == ["gamma", "beta", "alpha"]


def _iso(seconds: float) -> str:
    from cloudctl.db.columns import utc

    return utc(seconds).isoformat() + "Z"
