"""Containers as web sites."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import Response
from tests.object_store.asking import Account
from tests.object_store.test_object_access import KEY, signed


@pytest.fixture
def site(cloud: MemoryCloud) -> Account:
    o = Account(cloud.client("demo"))
    o.put("site", X_Container_Read=".r:*", X_Container_Meta_Web_Index="index.html")
    o.put("site/index.html", b"<p>home</p>")
    o.put("site/a b/index.html", b"<p>inner</p>")
    o.put("site/plain/<file>", b"file")
    return o


@pytest.fixture
def visitor(cloud: MemoryCloud, site: Account) -> Account:
    return Account(cloud.anonymous(), site.project_id)


def where(answer: Response) -> str:
    assert answer.status == 301, answer
    return str(answer.headers["Location"]).partition("/object-store/v1/")[2].partition("/")[2]


def test_a_folder_shows_its_index(site: Account, visitor: Account) -> None:
    assert where(visitor.get("site")) == "site/"
    home = visitor.get("site/")
    assert (home.status, home.body, home.headers["Content-Type"]) == (200, b"<p>home</p>", "text/html")
    assert (visitor.head("site/").status, visitor.head("site/").headers["Content-Length"]) == (200, "11")
    assert where(visitor.get("site/a b")) == "site/a%20b/"
    assert visitor.get("site/a b/").body == b"<p>inner</p>"
    assert visitor.get("site/plain/<file>").body == b"file"
    for missing in ("site/plain", "site/plain/", "site/none", "site/none/"):
        assert visitor.get(missing).status == 404
    assert visitor.get("site/index.html", Range="bytes=3-6").body == b"home"


@pytest.mark.parametrize("kind", ["", "text/folder"])
def test_an_empty_object_may_stand_for_a_folder(site: Account, visitor: Account, kind: str) -> None:
    if kind:
        site.post("site", X_Container_Meta_Web_Directory_Type=kind)
    for name in ("site/a b", "site/a b/", "site/none"):
        site.put(name, b"", Content_Type=kind or "application/directory")
    assert where(visitor.get("site/a b")) == "site/a%20b/"
    assert visitor.get("site/a b/").body == b"<p>inner</p>"
    assert where(visitor.get("site/none")) == "site/none/"
    assert visitor.get("site/none/").status == 404
    # One that has data, or is of another type, or that no visitor asks for, is an object.
    site.put("site/full", b"x", Content_Type=kind or "application/directory")
    site.put("site/empty", b"", Content_Type="text/plain")
    assert [visitor.get(name).body for name in ("site/full", "site/empty")] == [b"x", b""]
    assert site.get("site/a b").status == 200


def test_with_a_token_a_container_is_a_container_unless_one_asks(site: Account) -> None:
    assert site.names("site") == ["a b/index.html", "index.html", "plain/<file>"]
    assert site.get("site/none/").status == 404
    assert site.get("site/", X_Web_Mode="true").body == b"<p>home</p>"
    assert where(site.get("site", X_Web_Mode="true")) == "site/"


def test_listings_are_for_those_who_may_list(site: Account, visitor: Account) -> None:
    site.post("site", X_Container_Meta_Web_Listings="true", X_Remove_Container_Meta_Web_Index="x")
    assert visitor.get("site/").status == 401
    assert visitor.get("site/plain").status == 401
    site.post("site", X_Container_Read=".r:*,.rlistings")
    listed = visitor.get("site/")
    assert (listed.status, listed.headers["Content-Type"]) == (200, "text/html; charset=UTF-8")
    assert b'<a href="./a%20b/">a b/</a>' in listed.body and b"<title>Listing of /v1/AUTH_" in listed.body
    assert where(visitor.get("site/plain")) == "site/plain/"
    inner = visitor.get("site/plain/").body
    assert b'<a href="./%3Cfile%3E">&lt;file&gt;</a></td><td>4</td>' in inner and b'<a href="../">' in inner
    assert visitor.get("site/none/").status == 404
    site.post("site", X_Container_Meta_Web_Listings_CSS="style.css", X_Container_Meta_Web_Listings_Label="<me>")
    assert b'<link rel="stylesheet" type="text/css" href="style.css" />' in visitor.get("site/").body
    for said, shown in (("é.css", b"%C3%A9.css"), ("%C3%A9.css?a=b&c", b"%C3%A9.css?a=b&amp;c")):
        site.post("site", X_Container_Meta_Web_Listings_CSS=said)
        assert b'type="text/css" href="' + shown + b'" />' in visitor.get("site/").body
    site.post("site", X_Container_Meta_Web_Listings_CSS="style.css")
    inner = visitor.get("site/plain/").body
    assert b'href="../style.css"' in inner and b"<title>Listing of &lt;me&gt;/plain/</title>" in inner


@pytest.fixture
def shared(site: Account) -> Account:
    """A container that is listed to those who have a signed URL, and to nobody else."""
    site.put("pics", X_Container_Meta_Web_Listings="true", X_Container_Meta_Temp_URL_Key=KEY)
    for name in ("top", "dir/a", "dir/in/b", "other/c"):
        site.put(f"pics/{name}", name.encode())
    return site


def links(page: Response) -> list[str]:
    assert page.status == 200, page
    return [unescape(each) for each in re.findall('<a href="([^"]*)"', page.body.decode())]


def test_a_url_that_is_signed_for_a_prefix_shows_what_is_below_it(shared: Account, visitor: Account) -> None:
    for prefix, folder, names in (
        ("pics/", "pics/", ["./dir/", "./other/", "./top"]),
        ("pics/dir/", "pics/dir/", ["./a", "./in/"]),
        ("pics/dir/", "pics/dir/in/", ["../", "./b"]),
        ("pics/", "pics/dir/", ["../", "./a", "./in/"]),
    ):
        query = signed(shared, "GET", "", prefix=prefix)
        shown = links(visitor.get(folder, query))
        assert sorted(each.partition("?")[0] for each in shown) == sorted(names)
        for each in shown:
            name, _, query_of_link = each.partition("?")
            assert visitor.get(urljoin(folder, name), query_of_link).status == 200, each
    moved = visitor.get("pics", signed(shared, "GET", "", prefix="pics/"))
    assert moved.status == 301 and "/pics/?temp_url_prefix=&" in str(moved.headers["Location"])
    shown = links(visitor.get("pics/", signed(shared, "GET", "", prefix="pics/") + "&inline"))
    assert all(each.endswith("&inline") for each in shown)


def test_other_signatures_show_no_listing(shared: Account, visitor: Account) -> None:
    limited = signed(shared, "GET", "", prefix="pics/dir/")
    for path in ("pics", "pics/", "pics/other/"):
        assert visitor.get(path, limited).status == 401, path
    assert visitor.get("pics/dir/", signed(shared, "PUT", "", prefix="pics/dir/")).status == 401
    # It is signed for an object that does not exist.
    assert visitor.get("pics/dir/", signed(shared, "GET", "pics/dir/")).status == 404
    assert visitor.get("pics/", signed(shared, "GET", "pics/")).status == 401
    shared.post("pics", X_Remove_Container_Meta_Web_Listings="x")
    assert visitor.get("pics/dir/", limited).status == 404
    assert visitor.get("pics/", signed(shared, "GET", "", prefix="pics/")).status == 401


def test_errors_have_pages(site: Account, visitor: Account) -> None:
    site.post("site", X_Container_Meta_Web_Error="error.html", X_Remove_Container_Meta_Web_Index="x")
    assert b"Not Found" in visitor.get("site/none").body
    site.put("site/404error.html", b"<p>nothing here</p>")
    missing = visitor.get("site/none")
    assert (missing.status, missing.body) == (404, b"<p>nothing here</p>")
    assert visitor.head("site/none").status == 404
    # Without folders the container is what it was.
    assert visitor.get("site").status == 401
    site.put("private", X_Container_Meta_Web_Error="error.html", X_Container_Meta_Web_Index="index.html")
    site.put("private/401error.html", b"<p>no</p>")
    refused = visitor.get("private/")
    assert refused.status == 401 and b"<p>no</p>" not in refused.body


def test_a_page_for_an_error_is_sent_whole(site: Account, visitor: Account) -> None:
    site.post("site", X_Container_Meta_Web_Error="error.html")
    tag = site.put("site/404error.html", b"not here").headers["ETag"]
    for header, value in (("Range", "bytes=0-2"), ("If-None-Match", str(tag)), ("If-Match", "other")):
        page = visitor.get("site/none", **{header: value})
        assert (page.status, page.body, page.headers["Content-Range"]) == (404, b"not here", None)


def test_it_is_announced(cloud: MemoryCloud) -> None:
    assert cloud.anonymous().get("/object-store/info").json()["staticweb"] == {}
