"""The header Accept, and the forms of error bodies that it chooses from."""

from __future__ import annotations

import pytest

from cloudctl.rest.accept import preferred
from cloudctl.rest.faults import HTML, JSON, PLAIN, Faults, Form, named, plain_problems

OFFERS = ("text/html", "application/json")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("text/html,application/json", "text/html"),
        ("text/html;q=0.5, application/json", "application/json"),
        ("*/*", "text/html"),
        ("*/*;q=0.1, application/*", "application/json"),
        ("text/html;q=0, */*", "application/json"),
        ("application/json;q=0.000", None),
        ("text/plain", None),
        ("", None),
        ("nonsense, ;;, application/json;q=0.8", "application/json"),
    ],
)
def test_what_the_client_likes_best_is_chosen(accept: str, chosen: str | None) -> None:
    assert preferred(accept, OFFERS) == chosen


def test_a_long_header_is_read_as_far_as_anybody_means_it() -> None:
    assert preferred("a/b," * 10_000 + "text/html", OFFERS) is None


@pytest.mark.parametrize(("accept", "form"), [("*/*", HTML), ("application/json", JSON), ("", PLAIN)])
def test_a_service_may_offer_forms(accept: str, form: Form) -> None:
    faults = Faults(named({}, "error"), plain_problems, forms=(HTML, JSON), otherwise=PLAIN)
    assert faults.form(accept) is form


def test_without_a_choice_it_is_json() -> None:
    assert Faults(named({}, "error"), plain_problems).form("text/html") is JSON


def test_no_markup_of_a_message_gets_into_html() -> None:
    body = HTML.write({"code": "400 Bad Request", "message": "<script>alert(1)</script>", "title": "Bad Request"})
    assert b"<script>" not in body and b"&lt;script&gt;" in body
