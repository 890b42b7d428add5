"""In which words a wrong body is refused. Reference: network.md, section 1.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
from sqlalchemy import String

from cloudctl.rest.body import Length, wire_names
from tests.network.conftest import Neutron
from tests.network.samples import UNKNOWN
from tests.network.test_network_bad_input import fields
from tests.network.test_network_lists import RESOURCES

PAIRS = "Invalid input for allowed_address_pairs. Reason: "
REFUSALS: list[tuple[str, Any, str]] = [
    ("/networks", {}, "Unable to find 'network' in request body"),
    ("/networks", {"net": {}}, "Unable to find 'network' in request body"),
    ("/networks", [], "Resource body required"),
    ("/networks", {"network": {"a": 1, "b": 2}}, "Unrecognized attribute(s) 'a, b'"),
    ("/networks", {"network": {"name": 5}}, "Invalid input for name. Reason: '5' is not a valid string."),
    ("/networks", {"network": {"name": None}}, "Invalid input for name. Reason: 'None' is not a valid string."),
    ("/networks", {"network": {"mtu": "a"}}, "Invalid input for mtu. Reason: 'a' is not an integer."),
    (
        "/networks",
        {"network": {"mtu": -1}},
        "Invalid input for mtu. Reason: '-1' is too small - must be at least '0'.",
    ),
    (
        "/networks",
        {"network": {"mtu": 10**10}},
        "Invalid input for mtu. Reason: '10000000000' is too large - must be no larger than '2147483647'.",
    ),
    (
        "/networks",
        {"network": {"shared": "maybe", "name": 5}},
        "Invalid input for name. Reason: '5' is not a valid string. "
        "Invalid input for shared. Reason: 'maybe' cannot be converted to boolean.",
    ),
    # Of several it is said which.
    (
        "/networks",
        {"networks": [{}, {"name": 5}]},
        "Invalid input for name. Reason: '5' is not a valid string. @ $.networks[1].name",
    ),
    ("/networks", {"network": {"id": "i", "status": "UP"}}, "Attribute 'id, status' not allowed in POST"),
    ("/networks", b"", "Resource body required"),
    (
        "/ports",
        {"port": {"network_id": UNKNOWN, "tags": ["a", 5]}},
        "Invalid input for tags. Reason: '5' is not a valid string. @ $.port.tags[1]",
    ),
    ("/subnets", {"subnet": {}}, "Failed to parse request. Required attribute 'network_id' not specified"),
    ("/ports", {"port": {"network_id": "x"}}, "Invalid input for network_id. Reason: 'x' is not a valid UUID."),
    ("/ports", {"port": {"network_id": UNKNOWN, "allowed_address_pairs": 5}}, PAIRS + "'5' is not a list."),
    # The name of a field is that of the body.
    (
        "/ports",
        {"port": {"network_id": UNKNOWN, "binding:profile": 5}},
        "Invalid input for binding:profile. Reason: '5' is not a dictionary.",
    ),
]


@pytest.mark.parametrize(("path", "body", "message"), REFUSALS, ids=[str(body)[:40] for _, body, _ in REFUSALS])
def test_a_wrong_body_is_refused_in_the_words_of_networking(
    neutron: Neutron, path: str, body: Any, message: str
) -> None:
    told = neutron.refused(400, "HTTPBadRequest", "POST", path, body, "admin")
    assert told.startswith(message) if path == "/subnets" else told == message


def test_what_cannot_be_changed_is_named(neutron: Neutron) -> None:
    network = neutron.create("network")
    path, sent = f"/networks/{network['id']}", {"network": {"tenant_id": "other", "id": "i"}}
    message = neutron.refused(400, "HTTPBadRequest", "PUT", path, sent)
    assert message == "Cannot update read-only attribute id, tenant_id"


def lengths(type_: Any) -> Iterator[int]:
    """How long a text of this type may be: only where the body itself is one."""
    if get_origin(type_) is Annotated and get_args(type_)[0] is str:
        yield from (
            note.maximum for note in type_.__metadata__ if isinstance(note, Length) and get_args(type_)[0] is str
        )
    elif get_origin(type_) not in (list, dict):
        for argument in get_args(type_):
            yield from lengths(argument)


def test_every_text_that_is_too_long_is_refused(neutron: Neutron) -> None:
    """Whatever the resource: it is said of the field, by its name."""
    asked, wrong = 0, []
    for method, path, key, body, name in fields():
        for most in lengths(wire_names(body)[name].type):
            sent = {name: "x" * (most + 1)}
            path = "/networking" + re.sub("<[a-z_]+>", UNKNOWN, path)
            answer = neutron.ask(method, path, {key: sent} if key else sent, "admin")
            error = answer.json()["NeutronError"] if answer.status == 400 else {}
            begins, ends = f"Invalid input for {name}. Reason: 'xxx", f"exceeds maximum length of {most}."
            if begins not in error.get("message", "") or ends not in error["message"]:
                wrong.append((method, path, name, answer))
            asked += 1
    assert asked > 100 and not wrong


# What is read before it is written: as a name of a list, as an address, or as the id of something that must be there.
READ = {
    "resource_type", "ethertype", "protocol", "remote_ip_prefix", "remote_group_id", "remote_address_group_id",
    "mac_address",
}  # fmt: skip


def test_what_a_body_may_have_a_column_holds() -> None:
    """PostgreSQL would not cut it off, and SQLite would not notice."""
    seen, longer = 0, set()
    for declared in RESOURCES:
        for attribute in declared.attributes:
            if attribute.column is None or not isinstance(attribute.column.type, String):
                continue
            for most in lengths(attribute.type):
                seen += 1
                if most > (attribute.column.type.length or most):
                    longer.add(attribute.name)
    assert seen > 50 and longer <= READ
