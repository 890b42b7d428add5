"""JSON patches: which operations there are, and what each may do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudctl.errors import CloudError, Conflict, Forbidden, Invalid
from cloudctl.image.patching import V20, V21, Draft, Operation, apply, operations, pointed
from cloudctl.rest.body import BodyError


def patched(*wanted: Any, media: str = V21, **properties: str) -> Draft:
    draft = Draft({"name": "old", "tags": ["t"], "min_ram": 1}, dict(properties))
    apply(draft, operations(media, list(wanted)), adds_once=media == V20)
    return draft


def test_operations_of_both_forms_are_the_same() -> None:
    new = operations(V21, [{"op": "replace", "path": "/name", "value": "x"}, {"op": "remove", "path": "/a"}])
    old = operations(V20, [{"replace": "/name", "value": "x"}, {"remove": "/a"}])
    assert new == old == [Operation("replace", "name", "x"), Operation("remove", "a")]


@pytest.mark.parametrize(
    "body",
    [
        {},
        None,
        "x",
        [1],
        [[]],
        [{}],
        [{"op": 1, "path": "/a"}],
        [{"op": "move", "from": "/a", "path": "/b"}],
        [{"op": "copy", "from": "/a", "path": "/b"}],
        [{"op": "test", "path": "/name", "value": "x"}],
        [{"op": "add", "path": "/a"}],
        [{"op": "add", "value": "a"}],
        [{"op": "add", "path": 7, "value": "a"}],
        [{"add": "/a", "value": "x"}],
        [{"op": "remove", "path": "/a"}] * 1001,
    ],
)
def test_a_malformed_patch_is_invalid(body: Any) -> None:
    with pytest.raises(Invalid):
        operations(V21, body)


@pytest.mark.parametrize("body", [[{"op": "add", "path": "/a", "value": "b"}], [{"add": "/a", "remove": "/a"}]])
def test_the_older_form_has_its_own_shape(body: Any) -> None:
    with pytest.raises(Invalid):
        operations(V20, body)


@pytest.mark.parametrize("path", ["", "a", "/", "//a", "/a/", "/a//b", "/a/b", "/~", "/~2", "/" + "x" * 256, "/tags/0"])
def test_a_malformed_path_is_invalid(path: str) -> None:
    with pytest.raises(Invalid):
        pointed(path)


def test_a_path_is_decoded() -> None:
    assert pointed("/a~1b~0c~01") == ("a/b~c~1", None)
    assert pointed("/locations/-") == ("locations", "-")


def test_adding_replacing_and_removing_properties() -> None:
    draft = patched(
        {"op": "add", "path": "/new", "value": "1"},
        {"op": "replace", "path": "/old", "value": "2"},
        {"op": "add", "path": "/there", "value": "3"},
        {"op": "remove", "path": "/gone"},
        old="0",
        there="0",
        gone="0",
    )
    assert draft.properties == {"new": "1", "old": "2", "there": "3"}


def test_operations_see_what_those_before_them_did() -> None:
    draft = patched({"op": "add", "path": "/a", "value": "1"}, {"op": "remove", "path": "/a"})
    assert draft.properties == {}


@pytest.mark.parametrize("op", ["replace", "remove"])
def test_a_missing_property_is_a_conflict(op: str) -> None:
    with pytest.raises(Conflict):
        patched({"op": op, "path": "/nothing", "value": "x"})


def test_the_older_form_adds_only_what_is_not_there() -> None:
    with pytest.raises(Conflict):
        patched({"add": "/a", "value": "x"}, media=V20, a="1")


@pytest.mark.parametrize("name", ["name", "tags", "visibility", "protected", "owner", "min_disk"])
def test_a_field_is_not_removed(name: str) -> None:
    with pytest.raises(Forbidden):
        patched({"op": "remove", "path": f"/{name}"})


@pytest.mark.parametrize(
    "name",
    ["id", "status", "size", "virtual_size", "checksum", "created_at", "updated_at", "self", "file", "schema",
     "direct_url", "os_hash_algo", "os_hash_value", "locations", "location", "deleted", "deleted_at",
     "os_glance_importing_to_stores"],
)  # fmt: skip
@pytest.mark.parametrize("op", ["add", "replace", "remove"])
def test_what_is_not_the_users_is_forbidden(name: str, op: str) -> None:
    with pytest.raises(Forbidden):
        patched({"op": op, "path": f"/{name}", "value": "x"})


def test_a_member_of_locations_is_forbidden_too() -> None:
    with pytest.raises(Forbidden):
        patched({"op": "add", "path": "/locations/-", "value": {}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("visibility", "secret"),
        ("protected", "true"),
        ("min_ram", -1),
        ("min_ram", 2**31),
        ("min_disk", "5"),
        ("name", 5),
        ("name", "x" * 256),
        ("tags", "x"),
        ("tags", [1]),
        ("disk_format", "wrong"),
        ("container_format", 1),
        ("anything", 5),
        ("anything", None),
        ("anything", ["x"]),
    ],
)
def test_a_wrong_value_is_invalid(name: str, value: Any) -> None:
    with pytest.raises(BodyError):
        patched({"op": "add", "path": f"/{name}", "value": value})


def test_fields_are_set() -> None:
    draft = patched({"op": "replace", "path": "/name", "value": None}, {"op": "add", "path": "/tags", "value": ["a"]})
    assert draft.fields == {"name": None, "tags": ["a"], "min_ram": 1}
    assert draft.touched == {"name", "tags"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "replace", "remove", "move"]) | JSON,
        "path": st.sampled_from(["/name", "/tags", "/a", "/id", "/locations/-", "/~1", "/min_ram"]) | JSON,
        "value": JSON,
        "add": JSON,
    },
)


@given(st.sampled_from([V20, V21]), JSON | st.lists(ENTRY | JSON, max_size=4))
def test_no_patch_fails_otherwise(media: str, body: Any) -> None:
    draft = Draft({"name": None, "tags": []}, {"a": "1"})
    try:
        apply(draft, operations(media, body), adds_once=media == V20)
    except (CloudError, BodyError):
        return
    assert all(isinstance(value, str) for value in draft.properties.values())
