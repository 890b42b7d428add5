"""The query string of a request."""

from __future__ import annotations

import pytest

from cloudctl.errors import Invalid
from cloudctl.rest.body import INTEGER_MOST
from cloudctl.rest.call import Query


@pytest.mark.parametrize("digits", ["2147483647", "2147483648", "9" * 20])
def test_a_number_beyond_all_is_the_largest_one(digits: str) -> None:
    query = Query.parse(f"limit={digits}&least=-{digits}".encode())
    assert query.integer("limit") == INTEGER_MOST
    with pytest.raises(Invalid, match="at least 0"):
        query.integer("least")


@pytest.mark.parametrize("text", ["", "a", "1.5", "1e3", " 5", "9" * 21, "\u0665"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="an integer is expected"):
        Query([("limit", text)]).integer("limit")
