"""Lists of images: filters, order, pages, and what each caller is shown."""

from __future__ import annotations

import pytest

from cloudctl.errors import Invalid
from cloudctl.image.listing import split
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, create, names, project_of, stored


@pytest.fixture
def three(cloud: MemoryCloud, demo: Client) -> Client:
    """Images a, b and c of demo, a minute apart."""
    create(demo, name="a", min_ram=64, os_distro="cirros", tags=["x", "y"], visibility="private")
    cloud.advance(60)
    stored(demo, bytes(100), name="b", tags=["x"], disk_format="ami", container_format="ami")
    cloud.advance(60)
    stored(demo, bytes(300), name="c", protected=True, min_disk=2)
    return demo


def test_the_newest_is_first(three: Client) -> None:
    assert names(three) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=a", ["a"]),
        ("name=in:a,c", ["c", "a"]),
        ('name=in:"a","b"', ["b", "a"]),
        ("name=nothing", []),
        ("name=", []),
        ("status=active", ["c", "b"]),
        ("status=in:queued,saving", ["a"]),
        ("disk_format=raw", ["c", "a"]),
        ("container_format=in:ami,bare&disk_format=ami", ["b"]),
        ("size_min=100", ["c", "b"]),
        ("size_min=101&size_max=300", ["c"]),
        ("size_max=99", []),
        ("size=300", ["c"]),
        ("min_ram=64", ["a"]),
        ("min_disk=2", ["c"]),
        ("min_disk=4611686018427387904", []),
        ("protected=true", ["c"]),
        ("protected=False", ["b", "a"]),
        ("tag=x", ["b", "a"]),
        ("tag=x&tag=y", ["a"]),
        ("os_distro=cirros", ["a"]),
        ("os_distro=other", []),
        ("nothing=such", []),
        ("visibility=private", ["a"]),
        ("visibility=shared", ["c", "b"]),
        ("visibility=all", ["c", "b", "a"]),
        ("created_at=gt:2027-01-15T08:00:00Z", ["c", "b"]),
        ("created_at=gte:2027-01-15T08:01:00Z&created_at=lt:2027-01-15T08:02:00", ["b"]),
        ("created_at=2027-01-15T08:01:00Z", ["b"]),
        ("created_at=neq:2027-01-15T08:01:00%2B00:00", ["c", "a"]),
        ("updated_at=lte:2027-01-15T08:00:00Z", ["a"]),
        ("sort_key=name&sort_dir=asc", ["a", "b", "c"]),
        ("sort_key=name", ["c", "b", "a"]),
        ("sort_dir=asc", ["a", "b", "c"]),
        ("sort=size:asc,name", ["a", "b", "c"]),
        ("sort=status:asc,name:desc", ["c", "b", "a"]),
        ("sort_key=status&sort_key=name&sort_dir=desc&sort_dir=asc", ["a", "b", "c"]),
        ("sort=name:asc,name:desc,name:asc", ["a", "b", "c"]),
        ("limit=0", []),
        ("limit=5000", ["c", "b", "a"]),
        ("member_status=all", ["c", "b", "a"]),
    ],
)
def test_what_a_query_finds(three: Client, query: str, found: list[str]) -> None:
    assert names(three, query) == found


@pytest.mark.parametrize(
    "query",
    ["limit=-1", "limit=x", "limit=1e3", "limit=" + "9" * 30, "marker=nothing", "marker=" + "x" * 999, "sort=nothing",
     "sort=name:up", "sort=", "sort=name,,id", "sort=name&sort_key=id", "sort=name&sort_dir=asc", "sort_key=owner",
     "sort_key=protected", "sort_dir=up", "sort_key=name&sort_dir=asc&sort_dir=desc",
     "sort_key=name&sort_key=id&sort_key=size&sort_dir=asc&sort_dir=asc", "visibility=secret", "visibility=",
     "member_status=x", "protected=1", "protected=", "os_hidden=yes", "size_min=-1", "size_min=x", "size_max=1.5",
     "size_max=" + "9" * 30, "min_ram=x", "created_at=x", "created_at=gt:x", "created_at=gt:", "updated_at=in:2027",
     "created_at=0001-01-01T00:00:00%2B14:00", 'name=in:"a', 'name=in:"a"b', "changes-since=2027-01-01", "a=%00",
     "a=%ff", "id=in:" + ",".join("x" for _ in range(201))],
)  # fmt: skip
def test_a_wrong_query_is_400(three: Client, query: str) -> None:
    answer = three.get(f"{IMAGES}?{query}")
    assert (answer.status, answer.json()["code"]) == (400, "400 Bad Request")


def test_quotes_hold_commas_together() -> None:
    assert split('a,"b,c",d', "name") == ["a", "b,c", "d"]
    with pytest.raises(Invalid):
        split('"', "name")


def test_pages_follow_each_other(demo: Client) -> None:
    for number in range(5):
        create(demo, name=f"n{number}", tags=["paged"])
    seen: list[str] = []
    path = f"{IMAGES}?limit=2&tag=paged&sort=name:asc"
    first = demo.get(path).json()["first"]
    assert first == "/v2/images?limit=2&tag=paged&sort=name%3Aasc"
    while path:
        page = demo.get(path).json()
        assert page["schema"] == "/v2/schemas/images"
        assert page["first"] == first
        seen += [image["name"] for image in page["images"]]
        path = f"/image{page['next']}" if "next" in page else ""
    assert seen == ["n0", "n1", "n2", "n3", "n4"]


def test_a_page_has_25_images_unless_more_are_asked(demo: Client) -> None:
    for _ in range(26):
        create(demo)
    assert len(demo.get(IMAGES).json()["images"]) == 25
    assert len(demo.get(f"{IMAGES}?limit=30").json()["images"]) == 27


def test_a_marker_that_is_not_seen_is_400(demo: Client, alt: Client) -> None:
    image_id = create(demo)["id"]
    assert alt.get(f"{IMAGES}?marker={image_id}").status == 400
    assert demo.get(f"{IMAGES}?marker={image_id}").status == 200


def test_hidden_images_are_listed_when_they_are_asked_for(demo: Client) -> None:
    create(demo, name="seen")
    create(demo, name="hidden", os_hidden=True)
    assert names(demo) == ["seen"]
    assert names(demo, "os_hidden=true") == ["hidden"]
    assert names(demo, "os_hidden=True") == ["hidden"]
    assert names(demo, "os_hidden=false") == ["seen"]


def test_each_project_is_shown_its_own_and_the_public_ones(demo: Client, alt: Client, admin: Client) -> None:
    for visibility in ("private", "shared", "community"):
        create(demo, name=f"demo-{visibility}", visibility=visibility)
    create(admin, name="admin-public", visibility="public")
    assert set(names(demo)) == {"demo-private", "demo-shared", "demo-community", "admin-public"}
    assert names(alt) == ["admin-public"]
    assert names(alt, "visibility=community") == ["demo-community"]
    assert set(names(alt, "visibility=all")) == {"demo-community", "admin-public"}
    assert [names(alt, f"visibility={visibility}") for visibility in ("private", "shared")] == [[], []]
    assert set(names(admin)) == {"demo-private", "demo-shared", "demo-community", "admin-public"}
    assert names(admin, "visibility=private") == ["demo-private"]


def test_the_owner_filter_shows_no_more_than_there_is_to_see(demo: Client, alt: Client, admin: Client) -> None:
    create(demo, name="private")
    owner = project_of(demo)
    assert names(alt, f"owner={owner}") == []
    assert names(admin, f"owner={owner}&name=private") == ["private"]


def test_another_projects_images_are_not_counted_by_any_filter(demo: Client, alt: Client) -> None:
    image = stored(demo, name="secret", tags=["t"], prop="v")
    queries = [
        f"id={image['id']}", "name=secret", "tag=t", "prop=v", f"checksum={image['checksum']}", "size_min=0",
        f"os_hash_value={image['os_hash_value']}", "visibility=all&member_status=all",
        "visibility=shared&status=active",
    ]  # fmt: skip
    assert [names(alt, query) for query in queries] == [[]] * len(queries)
    assert [names(demo, query) for query in queries] == [["secret"]] * len(queries)
