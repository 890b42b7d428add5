"""Error bodies of the image API are in the form that the client asks for."""

from __future__ import annotations

import pytest

from cloudctl.testing.cloud import Client
from tests.image.asking import IMAGES, create

UNKNOWN = f"{IMAGES}/0b4ee5b5-0000-4000-8000-000000000000"
MESSAGE = "No image found with ID 0b4ee5b5-0000-4000-8000-000000000000"


def test_json_for_those_who_name_it(demo: Client) -> None:
    answer = demo.get(UNKNOWN, headers={"Accept": "application/json"})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {"message": MESSAGE, "code": "404 Not Found", "title": "Not Found"}


@pytest.mark.parametrize("accept", ["*/*", "text/html", "text/html, application/json;q=0.9"])
def test_html_for_those_who_take_anything(demo: Client, accept: str) -> None:
    """As python-glanceclient does, which fails over JSON that it did not ask for."""
    answer = demo.get(UNKNOWN, headers={"Accept": accept})
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=UTF-8")
    assert b"<h1>404 Not Found</h1>" in answer.body and MESSAGE.encode() in answer.body


@pytest.mark.parametrize("accept", ["", "text/plain"])
def test_plain_text_for_all_others(demo: Client, accept: str) -> None:
    answer = demo.get(UNKNOWN, headers={"Accept": accept})
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/plain; charset=UTF-8")
    assert answer.body.decode() == f"404 Not Found\n\n{MESSAGE}\n"


def test_a_wrong_body_is_told_in_the_same_forms(demo: Client) -> None:
    answer = demo.post(IMAGES, {"name": 5}, headers={"Accept": "text/html"})
    assert (answer.status, answer.headers["Content-Type"]) == (400, "text/html; charset=UTF-8")


def test_answers_are_json_whatever_is_asked_for(demo: Client) -> None:
    answer = demo.get(f"{IMAGES}/{create(demo)['id']}", headers={"Accept": "text/html"})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_image_has_an_empty_id(demo: Client, method: str) -> None:
    assert demo.request(method, f"{IMAGES}/").status == 404
