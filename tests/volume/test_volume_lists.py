"""Lists of volumes: pages, order, filters. Reference: volume.md, section 1.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.effort import lines
from tests.volume.asking import V3, at


@pytest.fixture(scope="module")
def three() -> Iterator[Client]:
    """A member of a project with the volumes a, b and c."""
    cloud = MemoryCloud()
    demo = cloud.client("demo")
    for name, size in (("a", 1), ("b", 2), ("c", 1)):
        demo.post(f"{V3}/volumes", {"volume": {"size": size, "name": name, "metadata": {"k": name, "all": "x"}}})
        cloud.settle()
    yield demo
    cloud.close()


def test_pages_follow_their_links_to_the_end(make: Any, demo: Any) -> None:
    ids = [make(name=str(number))["id"] for number in range(3)]
    found, url = [], f"{V3}/volumes?limit=2&sort=name:asc"
    while url:
        answer = demo.get(url).json()
        found += [each["id"] for each in answer["volumes"]]
        links = answer.get("volumes_links")
        url = links[0]["href"].removeprefix("http://cloud.example.com") if links else ""
    assert found == ids


def test_the_next_link_of_a_detailed_list_keeps_its_form(make: Any, demo: Any) -> None:
    made = make()
    project = made["os-vol-tenant-attr:tenant_id"]
    answer = demo.get(f"{V3}/{project}/volumes/detail?limit=1&name={made['name'] or ''}&status=available").json()
    assert answer["volumes"] == []
    answer = demo.get(f"{V3}/{project}/volumes/detail?limit=1&status=available").json()
    (link,) = answer["volumes_links"]
    start = f"http://cloud.example.com/volume/v3/{project}/volumes/detail?"
    assert link["href"].startswith(start) and "status=available" in link["href"] and made["id"] in link["href"]
    assert answer["volumes"][0]["links"][0]["href"].startswith(f"http://cloud.example.com/volume/v3/{project}/volumes/")


def test_another_project_in_the_path_is_malformed(demo: Any) -> None:
    assert demo.get(f"{V3}/0123456789abcdef0123456789abcdef/volumes").status == 400


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["c", "b", "a"]),
        ("sort=name:asc", ["a", "b", "c"]),
        ("sort=size,name:asc", ["b", "a", "c"]),
        ("sort=size:asc,name:desc", ["c", "a", "b"]),
        ("sort_key=name&sort_dir=desc", ["c", "b", "a"]),
        ("limit=0", []),
        ("limit=5000", ["c", "b", "a"]),
        ("offset=1", ["b", "a"]),
        ("offset=1&limit=1", ["b"]),
        ("offset=99", []),
        ("name=b", ["b"]),
        ("status=available", ["c", "b", "a"]),
        ("status=error", []),
        ("size=2", ["b"]),
        ("size=" + "9" * 5000, []),
        ("bootable=true", []),
        ("bootable=false", ["c", "b", "a"]),
        ("availability_zone=nova", ["c", "b", "a"]),
        ("metadata={'k': 'a'}", ["a"]),
        ('metadata={"k":"b","all":"x"}', ["b"]),
        ("metadata={'k': 'a', 'all': 'y'}", []),
        ("metadata={'k\"': 'a'}", []),
        ("colour=red", ["c", "b", "a"]),
        ("created_at=2027-01-15T08:00:00", ["a"]),
    ],
)
def test_a_list_is_filtered_sorted_and_cut(three: Client, query: str, names: list[str]) -> None:
    answer = three.get(f"{V3}/volumes?{quote(query, safe='=&,:')}")
    assert answer.status == 200
    assert [each["name"] for each in answer.json()["volumes"]] == names


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1", "limit=x", "limit=1.5", "offset=-1", "offset=x", "offset=2147483648", "sort=colour", "sort=name:up",
        "sort_key=colour", "sort_key=name&sort_dir=up", "sort=name&sort_key=name", "metadata=x", "metadata=[1]",
        "metadata={'a':1}", "metadata=" + "(" * 200, "metadata={'a':'%5Cud800'}", "metadata={'%5Cx00':'a'}",
        "size=x", "size=-1", "size=1.5", "size=", "size=%C2%B2",
    ],
)  # fmt: skip
def test_a_wrong_query_is_refused(three: Client, query: str) -> None:
    answer = three.get(f"{V3}/volumes?{query}")
    assert answer.status == 400
    assert "badRequest" in answer.json()


def test_a_key_that_is_named_again_changes_nothing_and_costs_little(three: Client) -> None:
    """The condition of a page grows with the square of the number of keys, and a query has room for a thousand."""
    (marker,) = [each["id"] for each in three.get(f"{V3}/volumes").json()["volumes"] if each["name"] == "a"]

    def listed(sort: str) -> list[str]:
        answer = three.get(f"{V3}/volumes?sort={sort}&marker={marker}")
        assert answer.status == 200, answer
        return [each["name"] for each in answer.json()["volumes"]]

    once, often = "name:asc,id:desc", ",".join(["name:asc", "id:desc", "name:desc", "id:asc"] * 250)
    assert listed(once) == listed(often) == ["b", "c"]
    few = lines(lambda: listed(once), 100_000)
    assert lines(lambda: listed(often), few + 50_000) > few


def test_filters_that_came_with_a_microversion(make: Any, demo: Any, admin: Any) -> None:
    make(name="abc")

    def count(query: str, version: str, who: Any = demo) -> int | None:
        """How many are found; None if the query is refused."""
        answer = who.get(f"{V3}/volumes?{query}", headers=at(version))
        return None if answer.status == 400 else len(answer.json()["volumes"])

    assert (count("colour=red", "3.30"), count("colour=red", "3.31")) == (1, None)
    assert (count("name~=b", "3.33"), count("name~=b", "3.34"), count("name~=x", "3.34")) == (None, 1, 0)
    assert (count("bootable=maybe", "3.1"), count("bootable=maybe", "3.2")) == (1, None)
    assert count("created_at=gt:2020-01-01T00:00:00,lt:2030-01-01T00:00:00", "3.60") == 1
    assert count("created_at=lt:2020-01-01T00:00:00", "3.60") == 0
    assert count("created_at=near:2020-01-01T00:00:00", "3.60") is None
    assert (count("consumes_quota=true", "3.65"), count("consumes_quota=false", "3.65")) == (1, 0)
    assert count("all_tenants=1&colour=red", "3.71", admin) == 0
    assert count("host=cloudctl@volumes%23volumes&all_tenants=1", "3.71", admin) == 1


def test_a_count_comes_with_the_list_from_3_45_on(make: Any, demo: Any) -> None:
    for _ in range(2):
        make()
    assert demo.get(f"{V3}/volumes?with_count=true&limit=1", headers=at("3.45")).json()["count"] == 2
    assert "count" not in demo.get(f"{V3}/volumes?with_count=true", headers=at("3.44")).json()


def test_a_summary_adds_up(make: Any, demo: Any) -> None:
    make(size=1, metadata={"k": "a"})
    make(size=2, metadata={"k": "b"})
    url = f"{V3}/volumes/summary"
    assert demo.get(url).status == 404
    assert demo.get(url, headers=at("3.12")).json() == {"volume-summary": {"total_count": 2, "total_size": 3}}
    assert demo.get(url, headers=at("3.36")).json()["volume-summary"]["metadata"] == {"k": ["a", "b"]}


def test_an_unknown_marker_is_not_found(demo: Any) -> None:
    assert demo.get(f"{V3}/volumes?marker=3a81fdac-e8ae-4e61-b6a2-2e14ff316f19").status == 404


def test_a_size_of_backups_is_a_number_too(admin: Any) -> None:
    url = f"{V3}/backups?all_tenants=1&size="
    assert [admin.get(url + size, headers=at("3.71")).status for size in ("2", "x")] == [200, 400]
