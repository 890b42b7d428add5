"""Version documents, schemas and information."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.image.schemas import SCHEMAS
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, create, project_of, stored

JSON_TYPES = {
    "string": str, "integer": int, "boolean": bool, "null": type(None), "array": list, "object": dict,
}  # fmt: skip


@pytest.mark.parametrize(("path", "status"), [("", 300), ("/", 300), ("/versions", 200), ("/v2", 200), ("/v2/", 200)])
def test_versions_need_no_token(cloud: MemoryCloud, path: str, status: int) -> None:
    answer = cloud.anonymous(**{"X-Auth-Token": "bad"}).get(f"/image{path}")
    assert answer.status == status
    versions = answer.json()["versions"]
    assert [each["status"] for each in versions] == ["CURRENT"] + ["SUPPORTED"] * (len(versions) - 1)
    assert (versions[0]["id"], versions[-1]["id"]) == ("v2.17", "v2.0")
    assert {each["links"][0]["href"] for each in versions} == {"http://cloud.example.com/image/v2/"}


@pytest.mark.parametrize("path", ["/image", "/image/versions", "/image/v2"])
def test_another_method_on_versions_is_405(cloud: MemoryCloud, path: str) -> None:
    answer = cloud.anonymous().post(path)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_head_is_for_documents(demo: Client) -> None:
    image = create(demo)
    path = f"{IMAGES}/{image['id']}"
    answers = [demo.request("HEAD", each) for each in ("/image/v2", IMAGES, path, f"{path}/file")]
    assert [(each.status, each.headers.get("allow"), each.body) for each in answers] == [
        (200, None, b""), (405, "GET, POST", b""), (405, "DELETE, GET, PATCH", b""), (405, "GET, PUT", b""),
    ]  # fmt: skip
    assert demo.put(path).headers["Allow"] == "DELETE, GET, PATCH"


@pytest.mark.parametrize("name", ["image", "images", "member", "members", "task", "tasks"])
def test_a_schema_has_its_name(demo: Client, name: str) -> None:
    schema = demo.get(f"/image/v2/schemas/{name}").json()
    assert schema["name"] == name
    assert schema == SCHEMAS[name]


def test_an_unknown_schema_is_404(demo: Client) -> None:
    assert demo.get("/image/v2/schemas/nothing").status == 404


def valid(value: Any, schema: Any) -> bool:
    """Whether a value is what its schema says, by the words that the schemas here use."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) is JSON_TYPES[name] for name in types):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    return len(value) <= schema.get("maxLength", 10**9) if isinstance(value, str) else True


def test_every_record_is_what_its_schema_says(demo: Client, alt: Client, admin: Client, cloud: MemoryCloud) -> None:
    shown = stored(demo, name="x", tags=["t"], prop="v")
    create(demo, name=None, disk_format=None, container_format=None)
    demo.post(f"{IMAGES}/{shown['id']}/members", {"member": project_of(alt)})
    member = demo.get(f"{IMAGES}/{shown['id']}/members").json()["members"][0]
    made = {"import_from": "http://example.com/", "import_from_format": "raw"}
    task = admin.post("/image/v2/tasks", {"type": "import", "input": made}).json()
    cloud.settle()
    records = [("image", image) for image in admin.get(IMAGES).json()["images"]]
    records += [("member", member), ("task", task), ("task", admin.get(f"/image{task['self']}").json())]
    for name, record in records:
        for key, value in record.items():
            described = SCHEMAS[name]["properties"].get(key, SCHEMAS[name].get("additionalProperties"))
            assert described is not None, (name, key)
            assert valid(value, described), (name, key, value)
    assert set(SCHEMAS["image"]["properties"]) <= set(shown)


def test_import_methods(demo: Client) -> None:
    told = demo.get("/image/v2/info/import").json()["import-methods"]
    assert told["value"] == ["glance-direct", "web-download", "glance-download"]


def test_stores(demo: Client, admin: Client) -> None:
    assert demo.get("/image/v2/info/stores").json() == {
        "stores": [{"id": "default", "description": "", "default": "true"}]
    }
    assert demo.get("/image/v2/info/stores/detail").status == 403
    assert admin.get("/image/v2/info/stores/detail").json()["stores"][0]["type"] == "file"


def test_usage_of_a_project(demo: Client) -> None:
    stored(demo, bytes(2**20 + 1))
    create(demo)
    usage = demo.get("/image/v2/info/usage").json()["usage"]
    assert usage == {
        "image_size_total": {"limit": -1, "usage": 2},
        "image_stage_total": {"limit": -1, "usage": 0},
        "image_count_total": {"limit": -1, "usage": 2},
        "image_count_uploading": {"limit": -1, "usage": 0},
    }


@pytest.mark.parametrize("path", ["/cached", "/metadefs/nothing", "/images/x/places", "/nothing"])
def test_what_is_not_offered_is_an_unknown_path(demo: Client, path: str) -> None:
    assert demo.get(f"/image/v2{path}").status == 404
