"""Metadata definitions: namespaces, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete

from cloudctl.image.definition_schemas import SCHEMAS
from cloudctl.image.tables import Association, Namespace, PropertyDefinition, ResourceType
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import project_of

BASE = "/image/v2/metadefs"
NAMESPACES = f"{BASE}/namespaces"
COLOR = {"title": "Color", "type": "string", "enum": ["red", "green"], "operators": ["<in>"]}


@pytest.fixture(scope="module")
def cloud() -> Iterator[MemoryCloud]:
    """One for all: every test names things of its own."""
    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"NS::{abs(hash(request.node.name)) % 10**9}"


@pytest.fixture
def ns(admin: Client, name: str) -> str:
    """The path of a public namespace that was just made."""
    create(admin, name)
    return f"{NAMESPACES}/{name}"


def create(client: Client, name: str, **fields: Any) -> dict[str, Any]:
    answer = client.post(NAMESPACES, {"namespace": name, "visibility": "public", **fields})
    assert answer.status == 201, answer
    made: dict[str, Any] = answer.json()
    return made


def listed(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"{NAMESPACES}?limit=1000&{query}")
    assert answer.status == 200, answer
    return [each["namespace"] for each in answer.json()["namespaces"]]


# -- namespaces


def test_a_namespace_is_made_with_what_is_said_and_defaults_for_the_rest(admin: Client, name: str) -> None:
    answer = admin.post(NAMESPACES, {"namespace": name})
    made = answer.json()
    assert answer.status == 201
    assert answer.headers["Location"] == f"http://cloud.example.com{NAMESPACES}/{name}"
    assert {key: made[key] for key in made if not key.endswith("_at")} == {
        "namespace": name,
        "display_name": None,
        "description": None,
        "visibility": "private",
        "protected": False,
        "owner": project_of(admin),
        "self": f"/v2/metadefs/namespaces/{name}",
        "schema": "/v2/schemas/metadefs/namespace",
    }


def test_a_namespace_may_be_made_with_all_that_it_holds(admin: Client, demo: Client, name: str) -> None:
    shape = {"name": "shape", "description": "of it", "required": ["color"], "properties": {"color": COLOR}}
    create(
        admin,
        name,
        resource_type_associations=[{"name": "OS::Glance::Image", "prefix": "hw_"}],
        properties={"color": COLOR},
        objects=[shape],
        tags=[{"name": "b"}, {"name": "a"}],
    )
    shown = demo.get(f"{NAMESPACES}/{name}").json()
    assert [each["name"] for each in shown["tags"]] == ["a", "b"]
    assert shown["properties"] == {"color": {"name": "color", **COLOR}}
    assert {key: shown["objects"][0][key] for key in shape} == shape
    assert shown["resource_type_associations"][0]["prefix"] == "hw_"
    prefixed = demo.get(f"{NAMESPACES}/{name}?resource_type=OS::Glance::Image").json()
    assert list(prefixed["properties"]) == ["hw_color"]
    assert prefixed["objects"][0]["required"] == ["hw_color"] and "hw_color" in prefixed["objects"][0]["properties"]
    other = demo.get(f"{NAMESPACES}/{name}?resource_type=OS::Nova::Flavor").json()
    assert other == shown


def test_a_name_is_taken_once_among_all(admin: Client, name: str, ns: str) -> None:
    assert admin.post(NAMESPACES, {"namespace": name}).status == 409
    create(admin, f"{name}2")
    assert admin.put(f"{NAMESPACES}/{name}2", {"namespace": name}).status == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"namespace": ""},
        {"namespace": "x" * 81},
        {"namespace": "x", "visibility": "shared"},
        {"namespace": "x", "protected": "yes"},
        {"namespace": "x", "unknown": 1},
        {"namespace": "x", "properties": {"p": {"title": "without a type"}}},
        {"namespace": "x", "properties": {"p": {"title": "p", "type": "integer", "minimum": 2, "maximum": 1}}},
        {"namespace": "x", "objects": [{"name": "o", "properties": {"p": {"title": "p", "type": "color"}}}]},
    ],
)
def test_what_is_no_namespace_is_400(admin: Client, body: Any) -> None:
    assert admin.post(NAMESPACES, body).status == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("objects", {"name": "a/b"}),
        ("properties", {"name": "a/b", "title": "t", "type": "string"}),
        ("tags", {"tags": [{"name": "a/b"}]}),
        ("resource_types", {"name": "a/b"}),
        ("", {"namespace": "a/b"}),
        ("", {"namespace": "c", "properties": {"a/b": {"title": "t", "type": "string"}}}),
        ("", {"namespace": "c", "objects": [{"name": "a/b"}]}),
    ],
)
def test_a_name_that_no_path_could_hold_is_400(admin: Client, ns: str, path: str, body: Any) -> None:
    """It could be neither shown nor deleted."""
    assert admin.post(f"{ns}/{path}" if path else NAMESPACES, body).status == 400


def test_a_slash_elsewhere_is_taken(admin: Client, ns: str) -> None:
    part = {"a/b": {"title": "t", "type": "string", "operators": ["x/y"]}}
    assert admin.post(f"{ns}/objects", {"name": "o", "required": ["a/b"], "properties": part}).status == 201
    assert admin.post(f"{ns}/resource_types", {"name": "t", "prefix": "a/"}).status == 201


def test_two_of_one_name_are_not_both_made(admin: Client, name: str) -> None:
    assert admin.post(NAMESPACES, {"namespace": name, "tags": [{"name": "a"}, {"name": "a"}]}).status == 409
    assert admin.get(f"{NAMESPACES}/{name}").status == 404


def test_a_put_replaces_the_namespace_and_keeps_what_it_holds(admin: Client, name: str, ns: str) -> None:
    admin.post(f"{ns}/tags/kept")
    answer = admin.put(ns, {"namespace": f"{name}-new", "description": "new", "tags": [{"made up": 1}]})
    assert answer.status == 200
    assert (answer.json()["visibility"], answer.json()["description"]) == ("private", "new")
    shown = admin.get(f"{ns}-new").json()
    assert [tag["name"] for tag in shown["tags"]] == ["kept"]
    assert admin.get(ns).status == 404


def test_what_was_shown_can_be_sent_back(admin: Client, name: str) -> None:
    """As python-glanceclient does, without what is read-only."""
    create(admin, name, properties={"color": COLOR}, objects=[{"name": "o"}], tags=[{"name": "t"}])
    shown = admin.get(f"{NAMESPACES}/{name}").json()
    for key in ("self", "schema", "created_at", "updated_at"):
        del shown[key]
    assert admin.put(f"{NAMESPACES}/{name}", shown).status == 200


def test_nothing_of_a_protected_namespace_is_deleted(admin: Client, name: str) -> None:
    ns = f"{NAMESPACES}/{name}"
    create(admin, name, protected=True, properties={"p": COLOR}, objects=[{"name": "o"}], tags=[{"name": "t"}],
           resource_type_associations=[{"name": "OS::Glance::Image"}])  # fmt: skip
    paths = ["", "/properties", "/properties/p", "/objects", "/objects/o", "/tags", "/tags/t",
             "/resource_types/OS::Glance::Image"]  # fmt: skip
    assert {admin.delete(ns + path).status for path in paths} == {403}
    assert admin.post(f"{ns}/tags", {"tags": []}).status == 403
    assert admin.put(ns, {"namespace": name, "protected": False}).status == 200
    assert {admin.delete(ns + path).status for path in reversed(paths)} == {204}
    assert admin.get(ns).status == 404


def test_a_private_namespace_is_its_projects(admin: Client, demo: Client, alt: Client, name: str) -> None:
    mine = create(admin, name, visibility="private", owner=project_of(demo))
    assert demo.get(f"{NAMESPACES}/{name}").json()["owner"] == mine["owner"]
    assert name in listed(demo) and name in listed(admin) and name not in listed(alt)
    assert alt.get(f"{NAMESPACES}/{name}").status == 404
    assert alt.get(f"{NAMESPACES}/{name}/objects").status == 404
    # Nor is there anything to be refused.
    wishes = [alt.delete(f"{NAMESPACES}/{name}"), alt.post(f"{NAMESPACES}/{name}/objects", {"name": "o"})]
    assert [answer.status for answer in wishes] == [404, 404]
    assert [demo.delete(f"{NAMESPACES}/{name}").status, alt.delete(f"{NAMESPACES}/unheard-of").status] == [403, 404]


def test_only_administrators_define(demo: Client, ns: str) -> None:
    assert demo.post(NAMESPACES, {"namespace": "mine"}).status == 403
    assert demo.put(ns, {"namespace": "mine"}).status == 403
    assert demo.post(f"{ns}/objects", {"name": "o"}).status == 403
    assert demo.delete(ns).status == 403


def test_lists_are_filtered_sorted_and_paged(admin: Client, name: str) -> None:
    for letter, kind in (("b", "T::One"), ("a", "T::Two"), ("c", "T::One")):
        create(admin, f"{name}{letter}", resource_type_associations=[{"name": kind}])
    assert listed(admin, "resource_types=T::One&sort_key=namespace&sort_dir=asc") == [f"{name}b", f"{name}c"]
    assert sorted(listed(admin, "resource_types=T::One,T::Two")) == [f"{name}{letter}" for letter in "abc"]
    query = "resource_types=T::One,T::Two&sort_key=namespace&sort_dir=asc&limit=2"
    first = admin.get(f"{NAMESPACES}?{query}").json()
    assert [each["namespace"] for each in first["namespaces"]] == [f"{name}a", f"{name}b"]
    assert first["first"].startswith("/v2/metadefs/namespaces?") and first["schema"].endswith("/namespaces")
    second = admin.get(f"/image{first['next']}").json()
    assert [each["namespace"] for each in second["namespaces"]] == [f"{name}c"] and "next" not in second
    assert second["namespaces"][0]["resource_type_associations"][0]["name"] == "T::One"
    assert admin.get(f"{NAMESPACES}?sort_key=color").status == 400
    assert admin.get(f"{NAMESPACES}?marker=nobody").status == 400
    assert name + "a" not in listed(admin, "visibility=private")


# -- what they hold


def test_an_object_is_made_shown_replaced_and_deleted(admin: Client, demo: Client, ns: str) -> None:
    answer = admin.post(f"{ns}/objects", {"name": "o", "properties": {"p": COLOR}})
    made = answer.json()
    assert (answer.status, made["required"], made["description"]) == (201, [], None)
    assert made["self"].endswith("/objects/o") and made["schema"] == "/v2/schemas/metadefs/object"
    assert demo.get(f"{ns}/objects/o").json() == made
    changed = admin.put(f"{ns}/objects/o", {"name": "new"}).json()
    assert (changed["name"], changed["properties"]) == ("new", {})
    assert admin.get(f"{ns}/objects/o").status == 404
    assert admin.delete(f"{ns}/objects/new").status == 204
    assert admin.get(f"{ns}/objects").json()["objects"] == []


def test_a_property_is_made_shown_replaced_and_deleted(admin: Client, demo: Client, ns: str) -> None:
    made = admin.post(f"{ns}/properties", {"name": "color", **COLOR})
    assert (made.status, made.json()) == (201, {"name": "color", **COLOR})
    assert demo.get(f"{ns}/properties").json() == {"properties": {"color": {"name": "color", **COLOR}}}
    number = {"name": "size", "title": "Size", "type": "number", "minimum": 0.5, "default": 1}
    assert admin.put(f"{ns}/properties/color", number).json() == number
    listed = {"name": "l", "title": "L", "type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 3}
    assert admin.post(f"{ns}/properties", listed).json() == listed
    assert admin.delete(f"{ns}/properties").status == 204
    assert demo.get(f"{ns}/properties").json() == {"properties": {}}


def test_objects_and_properties_are_described_at_length(admin: Client, ns: str) -> None:
    """Published definitions have paragraphs of more than 500 characters, and only a namespace's has a limit."""
    long = "It is said at length. " * 50
    wheel = {"name": "wheel", "description": long, "properties": {"color": {**COLOR, "description": long}}}
    made = admin.post(f"{ns}/objects", wheel)
    assert made.status == 201, made
    assert made.json()["description"] == made.json()["properties"]["color"]["description"] == long
    made = admin.post(f"{ns}/properties", {"name": "color", **COLOR, "title": long, "description": long})
    assert made.status == 201, made
    assert (made.json()["title"], made.json()["description"]) == (long, long)
    whole = {"namespace": "x", "objects": [{"name": "x", "description": long}], "description": long}
    refused = admin.post(NAMESPACES, whole)
    assert refused.status == 400
    assert "$.objects" not in refused.json()["message"]


def test_what_no_answer_could_hold_is_no_default(admin: Client, ns: str) -> None:
    def defined(depth: int) -> int:
        body = f'{{"name": "x", "title": "X", "type": "array", "default": {"[" * depth}{"]" * depth}}}'
        headers = {"Content-Type": "application/json"}
        return admin.post(f"{ns}/properties", body=body.encode(), headers=headers).status

    assert [defined(1000), defined(100), defined(99)] == [400, 400, 201]
    assert admin.get(f"{ns}/properties").status == 200


def test_a_property_is_found_by_its_name_for_a_resource_type(admin: Client, ns: str) -> None:
    admin.post(f"{ns}/properties", {"name": "color", **COLOR})
    admin.post(f"{ns}/resource_types", {"name": "OS::Glance::Image", "prefix": "hw_"})
    path = f"{ns}/properties/hw_color?resource_type=OS::Glance::Image"
    assert admin.get(path).json()["name"] == "color"
    assert admin.get(f"{ns}/properties/color?resource_type=OS::Glance::Image").status == 404


def test_tags_are_made_one_by_one_or_together(admin: Client, ns: str) -> None:
    made = admin.post(f"{ns}/tags/one")
    assert (made.status, sorted(made.json())) == (201, ["created_at", "name", "updated_at"])
    assert admin.post(f"{ns}/tags/one").status == 409
    assert admin.post(f"{ns}/tags", {"tags": [{"name": "a"}, {"name": "b"}]}).json() == {
        "tags": [{"name": "a"}, {"name": "b"}]
    }
    assert tags(admin, ns) == ["a", "b"]
    assert admin.post(f"{ns}/tags", {"tags": [{"name": "c"}]}, headers={"X-Openstack-Append": "True"}).status == 201
    assert tags(admin, ns) == ["a", "b", "c"]
    assert admin.post(f"{ns}/tags", {"tags": []}, headers={"X-Openstack-Append": "maybe"}).status == 400
    assert admin.put(f"{ns}/tags/a", {"name": "b"}).status == 409
    assert admin.put(f"{ns}/tags/a", {"name": "z"}).json()["name"] == "z"
    page = admin.get(f"{ns}/tags?sort_key=name&sort_dir=asc&limit=2").json()
    assert [tag["name"] for tag in page["tags"]] == ["b", "c"]
    assert admin.get(f"/image{page['next']}").json()["tags"][0]["name"] == "z"
    assert admin.delete(f"{ns}/tags").status == 204
    assert tags(admin, ns) == []
    assert admin.post(f"{ns}/tags/{'x' * 81}").status == 400


def tags(client: Client, ns: str) -> list[str]:
    return [tag["name"] for tag in client.get(f"{ns}/tags?sort_key=name&sort_dir=asc").json()["tags"]]


def test_a_namespace_is_for_resource_types(admin: Client, demo: Client, ns: str) -> None:
    answer = admin.post(f"{ns}/resource_types", {"name": "My::Type", "prefix": "p_", "properties_target": "image"})
    assert answer.status == 201
    assert (answer.json()["prefix"], answer.json()["properties_target"]) == ("p_", "image")
    assert admin.post(f"{ns}/resource_types", {"name": "My::Type"}).status == 409
    shown = demo.get(f"{ns}/resource_types").json()["resource_type_associations"]
    assert [each["name"] for each in shown] == ["My::Type"]
    known = [each["name"] for each in demo.get(f"{BASE}/resource_types").json()["resource_types"]]
    assert {"My::Type", "OS::Glance::Image", "OS::Nova::Flavor"} <= set(known)
    assert admin.delete(f"{ns}/resource_types/My::Type").status == 204
    assert admin.delete(f"{ns}/resource_types/My::Type").status == 404


def test_a_resource_type_may_have_an_empty_prefix(admin: Client, ns: str) -> None:
    """A form that was left empty is sent as such; it means the same as none."""
    answer = admin.post(f"{ns}/resource_types", {"name": "My::Type", "prefix": "", "properties_target": ""})
    assert answer.status == 201, answer
    assert admin.post(f"{ns}/properties", {"name": "color", **COLOR}).status == 201
    assert admin.get(f"{ns}/properties/color?resource_type=My::Type").json()["name"] == "color"


@pytest.mark.parametrize("kind", ["objects", "properties", "tags"])
def test_what_is_not_there_is_404(admin: Client, ns: str, kind: str) -> None:
    assert admin.get(f"{ns}/{kind}/none").status == 404
    assert admin.delete(f"{ns}/{kind}/none").status == 404
    assert admin.get(f"{NAMESPACES}/none/{kind}").status == 404


def test_what_a_deleted_namespace_held_is_gone(admin: Client, name: str, ns: str) -> None:
    admin.post(f"{ns}/tags/t")
    assert admin.delete(ns).status == 204
    create(admin, name)
    assert tags(admin, ns) == []


# -- what is there from the beginning, and schemas


def test_a_new_cloud_defines_the_usual_keys(demo: Client) -> None:
    assert "OS::Compute::LibvirtImage" in listed(demo, "resource_types=OS::Glance::Image")
    shown = demo.get(f"{NAMESPACES}/OS::Compute::VirtCPUTopology?resource_type=OS::Nova::Flavor").json()
    assert shown["properties"]["hw:cpu_sockets"]["type"] == "integer"
    assert shown["protected"] and shown["visibility"] == "public"


def test_a_cloud_that_is_older_gets_them_at_a_start_once() -> None:
    older = MemoryCloud()
    demo, admin = older.client("demo"), older.client("admin")
    before = listed(demo)

    def start() -> None:
        for part in older.cloud.parts:
            part.recover()

    for table in (ResourceType, Namespace, Association, PropertyDefinition):
        older.transact(lambda conn, table=table: conn.execute(delete(table)))
    assert listed(demo) == []
    start()
    assert sorted(listed(demo)) == sorted(before)
    gone = f"{NAMESPACES}/OS::Compute::Quota"
    assert admin.put(gone, {"namespace": "OS::Compute::Quota"}).status == 200
    assert admin.delete(gone).status == 204
    start()
    assert "OS::Compute::Quota" not in listed(demo) and len(listed(demo)) == len(before) - 1
    older.close()


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_every_kind_has_a_schema(demo: Client, kind: str) -> None:
    schema = demo.get(f"/image/v2/schemas/metadefs/{kind}").json()
    assert schema == SCHEMAS[kind] and schema["name"].removeprefix("resource_type_association") in ("", "s", kind)


def test_all_that_is_shown_is_in_its_schema(demo: Client, admin: Client, ns: str) -> None:
    admin.post(f"{ns}/objects", {"name": "o"})
    for shown in listed_views(demo):
        assert set(shown) <= set(SCHEMAS["namespace"]["properties"])
    assert set(demo.get(f"{ns}/objects/o").json()) <= set(SCHEMAS["object"]["properties"])
    usual = demo.get(f"{NAMESPACES}/OS::Compute::LibvirtImage").json()
    assert set(usual) <= set(SCHEMAS["namespace"]["properties"])
    assert all(set(each) <= set(SCHEMAS["property"]["properties"]) for each in usual["properties"].values())


def listed_views(client: Client) -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = client.get(NAMESPACES).json()["namespaces"]
    return views
