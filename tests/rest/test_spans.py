"""Spans of microversions: of fields in bodies and of parameters in the query."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from attrs import frozen

from cloudctl.rest import body as bodies
from cloudctl.rest.body import Body, BodyError, Items, Missing, extra, gated
from cloudctl.rest.call import Query
from cloudctl.rest.route import Operation
from cloudctl.rest.versions import ALWAYS, Span, Version, since, until


@frozen
class Port:
    name: str
    tag: str | Missing = gated(Span((2, 32), (2, 36)), since(2, 42))


@frozen
class Server:
    name: str
    ports: Annotated[list[Port], Items(0, 3)] | Missing = gated(since(2, 5))
    old: str | Missing | None = gated(until(2, 9), name="old:name")
    others: dict[str, Any] = extra()


@frozen
class Plain:
    name: str


def problems(value: Any, version: Version, body: Body | None = None) -> list[tuple[str, str, str]]:
    with pytest.raises(BodyError) as caught:
        bodies.read(body or Body(Server, key="server"), value, version)
    return [(problem.path, problem.message, problem.kind) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        (ALWAYS, [(0, 0), (9, 99)], []),
        (since(2, 10), [(2, 10), (2, 11), (3, 0)], [(2, 9), (1, 99)]),
        (until(2, 10), [(2, 10), (2, 9), (1, 99)], [(2, 11), (3, 0)]),
        (Span((2, 3), (2, 5)), [(2, 3), (2, 4), (2, 5)], [(2, 2), (2, 6)]),
    ],
)
def test_both_ends_of_a_span_belong_to_it(span: Span, inside: list[Version], outside: list[Version]) -> None:
    assert all(version in span for version in inside)
    assert not any(version in span for version in outside)


def test_a_field_is_taken_at_its_versions_alone() -> None:
    body = Body(Server, key="server")
    sent = {"server": {"name": "a", "old:name": None}}
    assert bodies.read(body, sent, (2, 9)).old is None
    gone = "Additional properties are not allowed ('old:name' was unexpected)"
    assert problems(sent, (2, 10)) == [("$.server", gone, "unknown")]


def test_a_field_is_refused_at_any_depth_and_each_of_them_is_named() -> None:
    sent = {"server": {"name": "a", "ports": [{"name": "b"}, {"name": "c", "tag": "t"}]}}
    unknown = "Additional properties are not allowed ('{}' was unexpected)"
    tag, ports = (
        ("$.server.ports[1]", unknown.format("tag"), "unknown"),
        ("$.server", unknown.format("ports"), "unknown"),
    )
    assert problems(sent, (2, 31)) == [tag]
    assert problems(sent, (2, 37)) == [tag]
    assert problems(sent, (2, 4)) == [ports, tag]
    for version in ((2, 32), (2, 36), (2, 42)):
        assert bodies.read(Body(Server, key="server"), sent, version).ports[1].tag == "t"


def test_what_came_in_bulk_and_what_has_no_envelope_is_looked_at_too() -> None:
    tagged = {"name": "a", "tag": "t"}
    (one,) = problems({"ports": [tagged]}, (2, 1), Body(Port, key="port", bulk="ports"))
    assert one[0] == "$.ports[0]"
    (one,) = problems(tagged, (2, 1), Body(Port))
    assert one[0] == "$"
    with pytest.raises(BodyError):
        bodies.structure(tagged, Port | None, "$.plug", (2, 1))
    assert bodies.structure(None, Port | None, "$.plug", (2, 1)) is None


def test_the_spans_of_a_body_are_known_before_one_comes() -> None:
    assert bodies.spans(Server) == {
        ".ports": (since(2, 5),),
        ".ports[].tag": (Span((2, 32), (2, 36)), since(2, 42)),
        ".old:name": (until(2, 9),),
    }
    assert bodies.spans(Plain) == {}


def test_a_parameter_is_as_good_as_not_sent_outside_of_its_span() -> None:
    operation = Operation("", "GET", "/", "list", None, query={"limit": since(2, 5), "name": ALWAYS})
    query = Query.parse(b"limit=7&name=a")
    query.hidden = operation.hidden((2, 4))
    assert "limit" not in query and "name" in query
    assert (query.get("limit"), query.all("limit"), query.integer("limit"), query.flag("limit")) == (
        None,
        [],
        None,
        False,
    )
    # Who looks for what is unknown still sees it, and the link to the next page keeps it.
    assert list(query) == ["limit", "name"] and query.having(name=None) == "limit=7"
    query.hidden = operation.hidden((2, 5))
    assert query.integer("limit") == 7
