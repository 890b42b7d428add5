"""Listings: order, markers, prefixes, folders, forms."""

from __future__ import annotations

from itertools import product
from urllib.parse import quote

import pytest

from cloudctl.object_store.listing import Wanted, after
from tests.object_store.asking import Account

NAMES = ["a", "a/", "a/b", "a/b/c", "a/b/d", "a/e", "ab", "b", "b/x", "é", "z//y", "\U0010ffff"]


def expected(wanted: Wanted) -> list[str]:
    """What a listing shows, found the long way."""
    shown: list[str] = []
    for name in sorted(NAMES, reverse=wanted.reverse):
        if not name.startswith(wanted.prefix):
            continue
        low, high = (wanted.end_marker, wanted.marker) if wanted.reverse else (wanted.marker, wanted.end_marker)
        if (low and name <= low) or (high and name >= high):
            continue
        end = name.find(wanted.delimiter, len(wanted.prefix)) if wanted.delimiter else -1
        entry = name if end < 0 else name[: end + len(wanted.delimiter)]
        if entry not in shown and not (end >= 0 and entry == wanted.marker):
            shown.append(entry)
    return shown[: wanted.limit]


@pytest.fixture
def filled(mine: Account) -> Account:
    mine.holding("c", *NAMES)
    return mine


def test_every_combination_is_what_the_long_way_finds(filled: Account) -> None:
    texts = ("", "a", "a/", "a/b", "b", "z")
    wrong = []
    for prefix, delimiter, marker, end, reverse in product(texts, ("", "/", "b"), texts, texts, (False, True)):
        wanted = Wanted(3, marker, end, prefix, delimiter, reverse)
        query = f"limit=3&marker={marker}&end_marker={end}&prefix={prefix}&delimiter={delimiter}"
        found = filled.names("c", query + ("&reverse=on" if reverse else ""))
        if found != expected(wanted):
            wrong.append((wanted, found, expected(wanted)))
    assert wrong == []


def test_pages_end_to_end(filled: Account) -> None:
    for query in ("", "delimiter=/", "reverse=true"):
        seen: list[str] = []
        while page := filled.names("c", f"limit=2&marker={quote(seen[-1]) if seen else ''}&{query}"):
            seen += page
        assert seen == filled.names("c", query)


def test_a_path_is_one_level(filled: Account) -> None:
    assert filled.names("c", "path=a") == ["a/b", "a/e"]
    assert filled.names("c", "path=a/b") == ["a/b/c", "a/b/d"]
    assert filled.names("c", "path=") == ["a", "a/", "ab", "b", "é", "\U0010ffff"]
    assert filled.names("c", "path=&reverse=on") == ["\U0010ffff", "é", "b", "ab", "a/", "a"]


def test_forms(filled: Account) -> None:
    plain = filled.get("c", "limit=2", Accept="text/plain")
    assert (plain.status, plain.body) == (200, b"a\na/\n")
    xml = filled.get("c", "limit=1&format=xml")
    assert xml.headers["Content-Type"] == "application/xml; charset=utf-8"
    assert b'<container name="c"><object><name>a</name><hash>d41d8cd98f00b204e9800998ecf8427e</hash>' in xml.body
    assert b'<subdir name="a/"><name>a/</name></subdir>' in filled.get("c", "delimiter=/&format=xml").body
    assert filled.get("c", Accept="image/png").status == 406
    assert filled.get("c", "limit=10001").status == 412
    assert filled.get("c", "marker=%ff").status in (400, 412)
    assert filled.get("c", "marker=zzzzz&end_marker=zzzzz", Accept="text/plain").status == 204
    assert filled.names("", "prefix=c") == ["c"]


def test_after_a_prefix() -> None:
    assert after("a") == "b"
    assert after("\ud7ff") == "\ue000"
    assert after("a\U0010ffff") == "b"
    assert after("\U0010ffff") == ""
