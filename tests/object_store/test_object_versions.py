"""Versions with ids by Swift's API, CORS, and what nobody sees any more."""

from __future__ import annotations

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account, files
from tests.object_store.test_object_access import signed


@pytest.fixture
def o(mine: Account) -> Account:
    mine.put("c", X_Versions_Enabled="true")
    return mine


def listed(o: Account, query: str = "") -> list[tuple[str, str, bool]]:
    found = o.get("c", f"format=json&versions&{query}").json()
    return [(each["name"], each["version_id"], each["is_latest"]) for each in found]


def test_versions_with_ids(o: Account, cloud: MemoryCloud) -> None:
    assert o.head("c").headers["X-Versions-Enabled"] == "True"
    first, second = (o.put("c/o", data).headers["X-Object-Version-Id"] for data in (b"one", b"two"))
    assert o.get("c/o").headers["X-Object-Version-Id"] == second
    assert (o.get("c/o").headers["Content-Location"] or "").endswith(f"/c/o?version-id={second}")
    assert o.get("c/o", f"version-id={first}").body == b"one"
    assert o.get("c/o", "version-id=none").status == 404
    marker = o.delete("c/o").headers["X-Object-Version-Id"]
    assert o.get("c/o").status == o.get("c/o", f"version-id={marker}").status == 404
    assert o.get("c/o", f"version-id={marker}").headers["X-Object-Version-Id"] == marker
    every = [("o", marker, True), ("o", second, False), ("o", first, False)]
    assert listed(o) == every
    assert listed(o, "limit=1") == every[:1]
    assert listed(o, f"marker=o&version_marker={marker}") == every[1:]
    assert o.names("c") == []
    assert (o.head("c").headers["X-Container-Object-Count"], o.head("c").headers["X-Container-Bytes-Used"]) == (
        "0",
        "6",
    )
    assert o.delete("c").status == 409
    for version in (marker, second, first):
        assert o.delete("c/o", f"version-id={version}").status == 204
    assert files(cloud) == set()
    assert o.delete("c").status == 204


def test_versions_stop_and_go_on(o: Account) -> None:
    first = o.put("c/o", b"one").headers["X-Object-Version-Id"]
    assert o.post("c", X_Versions_Enabled="false").status == 204
    assert o.put("c/o", b"two").headers["X-Object-Version-Id"] is None
    o.put("c/o", b"three")
    assert listed(o) == [("o", "null", True), ("o", first, False)]
    assert o.ask("PUT", "d", X_Versions_Enabled="true", X_Versions_Location="c").status == 400


def pages(o: Account, query: str, most: int = 1) -> list[tuple[str, str, bool]]:
    """All of a listing, so many at a time."""
    found: list[tuple[str, str, bool]] = []
    more = ""
    while some := listed(o, f"limit={most}&{query}{more}"):
        found += some
        more = f"&marker={some[-1][0]}&version_marker={some[-1][1]}"
    return found


def test_versions_backwards_and_up_to_a_name(o: Account) -> None:
    for name in "abc":
        for data in (b"one", b"two"):
            o.put(f"c/{name}", data)
    o.delete("c/b")
    every = listed(o)
    assert [name for name, _, latest in every if latest] == ["a", "b", "c"] and len(every) == 7
    assert listed(o, "reverse=true") == every[::-1]
    for most in (1, 2, 3):
        assert pages(o, "", most) == every
        assert pages(o, "reverse=true", most) == every[::-1]
    assert listed(o, "end_marker=b") == every[:2]
    assert listed(o, "reverse=true&end_marker=b") == every[:4:-1]
    assert listed(o, "reverse=true&marker=b") == every[1::-1]
    assert listed(o, "reverse=true&prefix=b") == every[4:1:-1]
    assert listed(o, "marker=a&end_marker=c") == every[2:5]


def test_versions_are_listed_as_json_alone(o: Account) -> None:
    o.put("c/o", b"data")
    for query, accept in (
        ("format=json&versions", "text/plain"),
        ("versions", "*/*"),
        ("versions", "application/json"),
    ):
        assert o.get("c", query, Accept=accept).json()[0]["name"] == "o"
    for query, accept in (("format=plain&versions", "*/*"), ("format=xml&versions", "*/*"), ("versions", "text/xml")):
        assert o.get("c", query, Accept=accept).status == 406


def test_access_lists_and_signatures_are_about_what_is_there(o: Account, cloud: MemoryCloud, alt: Client) -> None:
    first, second = (str(o.put("c/o", data).headers["X-Object-Version-Id"]) for data in (b"one", b"two"))
    guest, nobody = Account(alt, o.project_id), Account(cloud.anonymous(), o.project_id)
    o.post("c", X_Container_Read=".r:*", X_Container_Write=f"{Account(alt).project_id}:*")
    for version in (first, second):
        query = f"version-id={version}"
        assert (guest.get("c/o", query).status, nobody.get("c/o", query).status) == (403, 401)
        assert (guest.delete("c/o", query).status, guest.ask("PUT", "c/o", query).status) == (403, 403)
    assert guest.get("c/o").body == nobody.get("c/o").body == b"two"
    o.post("c", X_Container_Meta_Temp_URL_Key="key", X_Container_Read="")
    for method in ("GET", "DELETE"):
        nobody.ask(method, "c/o", f"{signed(o, method, 'c/o', 'key')}&version-id={first}")
    assert nobody.get("c/o", f"{signed(o, 'GET', 'c/o', 'key')}&version-id={first}").status == 404
    assert [version for _, version, _ in listed(o)][1:] == [second, first]


def test_folders_of_versions_backwards(o: Account) -> None:
    for name in ("a", "b/1", "b/2", "c"):
        for data in (b"one", b"two"):
            o.put(f"c/{name}", data)
    found = o.get("c", "format=json&versions&delimiter=/&reverse=true").json()
    assert [each.get("name", each.get("subdir")) for each in found] == ["c", "c", "b/", "a", "a"]


def test_an_old_version_is_the_object_again(o: Account, cloud: MemoryCloud) -> None:
    ids = [str(o.put("c/o", data).headers["X-Object-Version-Id"]) for data in (b"one", b"two", b"three")]
    told = o.ask("PUT", "c/o", f"version-id={ids[1]}")
    assert (told.status, told.headers["X-Object-Version-Id"]) == (201, ids[1])
    assert (o.get("c/o").body, o.get("c/o", f"version-id={ids[2]}").body) == (b"two", b"three")
    every = [("o", ids[2], False), ("o", ids[1], True), ("o", ids[0], False)]
    assert listed(o) == pages(o, "") == pages(o, "reverse=true")[::-1] == every
    assert (o.names("c"), o.head("c").headers["X-Container-Bytes-Used"]) == (["o"], "11")
    fourth = str(o.put("c/o", b"four").headers["X-Object-Version-Id"])
    assert listed(o) == [("o", fourth, True), *((name, each, False) for name, each, _ in every)]
    marker = str(o.delete("c/o").headers["X-Object-Version-Id"])
    assert o.ask("PUT", "c/o", f"version-id={ids[0]}").status == 201
    assert o.get("c/o").body == b"one"
    assert o.ask("PUT", "c/o", f"version-id={marker}").status == 404
    assert o.ask("PUT", "c/o", f"version-id={ids[1]}", body=b"x").status == 400
    for wrong, status in (("null", 400), ("bad", 400), ("0" * 14, 404)):
        assert o.ask("PUT", "c/o", f"version-id={wrong}").status == status
    assert o.get("c/o").body == b"one"
    for each in (*ids, fourth, marker):
        assert o.delete("c/o", f"version-id={each}").status == 204
    assert files(cloud) == set()


def test_a_version_is_copied_by_its_id(o: Account) -> None:
    old = o.put("c/v", b"old").headers["X-Object-Version-Id"]
    o.put("c/v", b"new")
    made = o.ask("COPY", "c/v", f"version-id={old}", Destination="c/copy")
    assert made.status == 201 and made.headers["X-Object-Version-Id"] is not None
    assert o.get("c/copy").body == b"old"
    o.ask("PUT", "c/v", f"version-id={old}", X_Copy_From="c/v")
    assert (o.get("c/v").body, len(o.get("c", "versions&prefix=v&format=json").json())) == (b"old", 3)
    marker = o.delete("c/v").headers["X-Object-Version-Id"]
    assert o.ask("COPY", "c/v", f"version-id={marker}", Destination="c/copy").status == 404


def test_an_old_version_that_has_expired_is_not_brought_back_only_to_be_lost(o: Account, cloud: MemoryCloud) -> None:
    first = str(o.put("c/o", b"one", X_Delete_After="100").headers["X-Object-Version-Id"])
    o.put("c/o", b"two")
    cloud.advance(101)
    assert o.ask("PUT", "c/o", f"version-id={first}").status == 404
    assert o.ask("COPY", "c/o", f"version-id={first}", Destination="c/p").status == 404
    cloud.advance(60)
    assert o.get("c/o").body == b"two"
    assert first in [version for _, version, _ in listed(o)]


def test_of_a_large_object_the_version_that_is_named_goes_with_its_segments(o: Account, cloud: MemoryCloud) -> None:
    o.holding("s")
    put, gone = "multipart-manifest=put", "multipart-manifest=delete"
    versions = []
    for number in "12":
        o.put(f"s/{number}", number.encode())
        made = o.ask("PUT", "c/o", put, body=b'[{"path": "s/%s"}]' % number.encode())
        versions.append(made.headers["X-Object-Version-Id"])
    first, second = versions
    said = o.delete("c/o", f"{gone}&version-id={first}", Accept="application/json").json()
    assert (said["Number Deleted"], said["Errors"]) == (2, [])
    assert (listed(o), o.names("s"), o.get("c/o").body) == ([("o", second, True)], ["2"], b"2")
    assert o.delete("c/o", f"{gone}&version-id={first}").status == 404
    o.delete("c/o", f"{gone}&version-id={second}")
    assert (listed(o), files(cloud)) == ([], set())


def test_versions_are_not_copied_by_others(o: Account, alt: Client) -> None:
    o.post("c", X_Container_Read="*:*", X_Container_Write="*:*")
    old = o.put("c/v", b"old").headers["X-Object-Version-Id"]
    other = Account(alt, o.project_id)
    assert other.ask("COPY", "c/v", Destination="c/copy").status == 201
    assert other.ask("COPY", "c/v", f"version-id={old}", Destination="c/copy").status == 403


@pytest.mark.parametrize("header", ["X-Versions-Location", "X-History-Location"])
def test_the_only_version_is_named_null(mine: Account, header: str) -> None:
    """Old ones are objects of their own: the object is deleted as without an id."""
    mine.put("old")
    mine.put("c", **{header: "old"})
    for data in (b"1", b"2"):
        mine.put("c/o", data)
    assert mine.get("c/o", "version-id=null").body == b"2"
    assert mine.delete("c/o", "version-id=null").status == 204
    found = mine.get("c/o")
    brings_back = header == "X-Versions-Location"
    assert (found.status, len(mine.names("old"))) == ((200, 0) if brings_back else (404, 3))


def test_pages_of_other_sites(mine: Account, cloud: MemoryCloud) -> None:
    mine.put(
        "c",
        X_Container_Meta_Access_Control_Allow_Origin="https://a.example.com",
        X_Container_Meta_Access_Control_Max_Age="9",
    )
    mine.put("c/o", b"x")
    page = {"Origin": "https://a.example.com"}
    told = mine.get("c/o", **page).headers
    assert told["Access-Control-Allow-Origin"] == page["Origin"]
    assert "x-trans-id" in told["Access-Control-Expose-Headers"]
    mine.post("c", X_Container_Meta_Color="blue")
    mine.put("c/colored", X_Object_Meta_Color="red")
    for path, name in (("c", "x-container-meta-color"), ("c/colored", "x-object-meta-color")):
        for answer in (mine.get(path, **page), mine.head(path, **page)):
            assert name in str(answer.headers["Access-Control-Expose-Headers"]).split(", ")
    assert mine.get("c/o", Origin="https://b.example.com").headers["Access-Control-Allow-Origin"] is None
    before = {**page, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "X-Auth-Token"}
    for path in ("c", "c/o"):
        asked = cloud.anonymous().request("OPTIONS", f"{mine.url}/{path}", headers=before)
        assert (asked.status, asked.headers["Access-Control-Allow-Headers"]) == (200, "x-auth-token")
        assert asked.headers["Access-Control-Max-Age"] == "9"
        elsewhere = {**before, "Origin": "https://b.example.com"}
        assert cloud.anonymous().request("OPTIONS", f"{mine.url}/{path}", headers=elsewhere).status == 401
    assert "COPY" in cloud.anonymous().request("OPTIONS", f"{mine.url}/c/o").headers["Allow"]
    assert cloud.anonymous().request("OPTIONS", mine.url).status == 200


def test_what_has_expired_is_not_listed_and_holds_nothing_up(mine: Account, cloud: MemoryCloud) -> None:
    mine.put("c")
    mine.put("c/o", b"x", X_Delete_After="5")
    assert mine.names("c") == ["o"]
    cloud.clock.rightNow += 6
    assert mine.names("c") == []
    assert mine.delete("c").status == 204
    assert files(cloud) == set()


def test_the_deletion_of_what_is_not_there_leaves_a_marker(o: Account) -> None:
    refused = o.delete("c/o")
    assert refused.status == 404
    marker = refused.headers["X-Object-Version-Id"]
    assert listed(o) == [("o", marker, True)]
    # As lines of text versions could not be told apart.
    assert o.get("c", "versions").json()[0]["version_id"] == marker


def test_a_place_of_old_versions_is_percent_encoded(mine: Account) -> None:
    mine.put("döner kebab")
    mine.put("c", X_Versions_Location="d%C3%B6ner%20kebab", X_Remove_Versions_Location="x")
    for data in (b"one", b"two"):
        mine.put("c/o", data)
    assert len(mine.names("döner kebab")) == 1
    # No name, and no database, has NUL.
    assert mine.post("c", X_Versions_Location="a%00").status == 412


@pytest.mark.parametrize("header", ["X_Versions_Location", "X_History_Location"])
def test_no_old_version_gets_a_name_that_no_object_may_have(mine: Account, header: str) -> None:
    mine.put("old")
    mine.put("c", **{header: "old"})
    longest, longer = "x" * 1004, "é" * 503
    for name in (longest, longer):
        mine.put(f"c/{name}", b"one")
    assert mine.ask("PUT", f"c/{longest}", body=b"two").status == 201
    assert mine.ask("PUT", f"c/{longer}", body=b"two").status == 412
    assert mine.get(f"c/{longer}").body == b"one"
    (kept,) = mine.names("old")
    assert len(kept) == 1024 and mine.delete(f"old/{kept}").status == 204
    mine.post("c", **{f"X_Remove_{header[2:]}": "x"})
    assert mine.delete(f"c/{longer}").status == 204


def test_what_is_wrong_with_a_request_is_told_in_words(mine: Account) -> None:
    mine.put("c")
    refused = mine.ask("PUT", "c/o", X_Delete_At="soon")
    assert (refused.status, refused.body, refused.headers["Content-Type"]) == (
        400,
        b"Non-integer X-Delete-At",
        "text/plain; charset=UTF-8",
    )
    assert mine.get("c/o").headers["Content-Type"] == "text/html; charset=UTF-8"


def test_who_deletes_what_is_there_by_its_id_leaves_nothing(o: Account) -> None:
    first, second = (str(o.put("c/o", data).headers["X-Object-Version-Id"]) for data in (b"one", b"two"))
    assert o.delete("c/o", f"version-id={second}").status == 204
    assert (o.get("c/o").status, o.names("c")) == (404, [])
    assert o.get("c/o", f"version-id={first}").body == b"one"
    assert o.ask("PUT", "c/o", f"version-id={first}").status == 201
    assert o.get("c/o").body == b"one"


def test_no_marker_is_made_once_versions_are_kept_no_longer(o: Account) -> None:
    first = str(o.put("c/o", b"one").headers["X-Object-Version-Id"])
    o.post("c", X_Versions_Enabled="false")
    assert o.delete("c/o").status == 204
    assert o.delete("c/o").status == o.get("c/o").status == 404
    assert [version for _, version, _ in listed(o)] == [first]
    o.put("c/o", b"two")
    o.put("c/o", b"three")
    assert [version for _, version, _ in listed(o)] == ["null", first]
    assert o.delete("c/o").status == 204
    assert [version for _, version, _ in listed(o)] == [first]


def test_an_id_of_another_store_is_of_none_here(o: Account) -> None:
    o.put("c/o", b"one")
    assert o.ask("PUT", "c/o", "version-id=1234567890.12345").status == 404


def test_deletions_between_two_ways_to_keep_old_versions(mine: Account) -> None:
    mine.put("c", X_History_Location="old")
    assert mine.delete("c/o").status == 412
    mine.put("old")
    for data in (b"one", b"two"):
        mine.put("c/o", data)
    assert [mine.delete("c/o").status for _ in range(2)] == [204, 404]
    assert len(mine.names("old")) == 4  # two that were, two markers
    mine.post("c", X_Versions_Location="old")
    assert (mine.delete("c/o").status, mine.get("c/o").status, len(mine.names("old"))) == (204, 404, 3)
    assert (mine.delete("c/o").status, mine.get("c/o").body, len(mine.names("old"))) == (204, b"two", 1)
    mine.post("c", X_History_Location="old")
    mine.delete("c/o")
    mine.put("c/o", b"three")
    mine.post("c", X_Versions_Location="old")
    assert (mine.delete("c/o").status, mine.get("c/o").status, len(mine.names("old"))) == (204, 404, 2)
    assert mine.delete("c/o").status == 404
    mine.put("c/o", b"four")
    for name in mine.names("old"):
        mine.delete(f"old/{name}")
    assert mine.delete("old").status == 204
    assert mine.delete("c/o").status == 204


def test_an_object_may_be_deleted_only_if_it_was_to_go_then(mine: Account) -> None:
    mine.put("c")
    mine.put("c/o", b"data", X_Delete_At="4000000000")
    assert mine.delete("c/o", X_If_Delete_At="bad").status == 400
    assert mine.delete("c/o", X_If_Delete_At="4000000001").status == 412
    assert mine.delete("c/o", X_If_Delete_At="4000000000").status == 204
