"""What SQLite forgives: the statements of the image service on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

import orjson
import pytest
from attrs import evolve
from twisted.internet.task import Clock
from twisted.web.http_headers import Headers

from cloudctl.db import Database
from cloudctl.db.columns import utc
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.errors import Conflict
from cloudctl.image import definitions, images, imports, members, namespaces, properties, uploads
from cloudctl.image.api import listing
from cloudctl.image.api.imports import listed
from cloudctl.image.bootstrap import define
from cloudctl.image.data import Measured
from cloudctl.image.images import NewImage
from cloudctl.image.imports import NewImport
from cloudctl.image.namespaces import NewNamespace
from cloudctl.image.options import ImageOptions
from cloudctl.image.quotas import QUOTAS
from cloudctl.image.tables import ObjectDefinition
from cloudctl.rest import policy, quota
from cloudctl.rest.call import Call, Query
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity

START = 1_800_000_000.0
POLICY = policy.load(["image"], None)
OPTIONS = ImageOptions()
MEASURED = Measured(2**41, 2**42, "m" * 32, "h" * 128)


def caller(project: str = "p") -> Caller:
    identity = Identity(user_id="u", project_id=project, roles=frozenset({"member", "reader"}))
    return Caller(identity, POLICY, utc(START), "req-1")


def call(query: str = "", project: str = "p") -> Call:
    return Call(caller(project), (0, 0), Query.parse(query.encode()), "", "", "", Headers(), BytesIO())


@pytest.fixture
def run(postgresql_with_tables: str) -> Iterator[Any]:
    """`run(fn, …)`: `fn(conn, …)` in a transaction."""
    inline: Any = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, Clock())
    yield partial(db.transact, False)
    db.engine.dispose()


def made(run: Any, number: int = 0, **fields: Any) -> str:
    new = NewImage("p", name=f"n{number}", disk_format="raw", container_format="bare", **fields)
    return str(run(images.create, new, utc(START + number)))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["n2", "n1", "n0"]),
        ("name=in:n0,n2", ["n2", "n0"]),
        ("tag=t&a=b", ["n1"]),
        ("size_min=0", []),
        ("size_max=9223372036854775807", []),
        ("min_disk=9223372036854775807", []),
        ("min_ram=4611686018427387904", []),
        ("min_ram=0&min_disk=0&protected=false", ["n2", "n1", "n0"]),
        ("created_at=gt:2027-01-15T08:00:00Z&updated_at=lte:9999-12-31", ["n2", "n1"]),
        ("visibility=all&member_status=all", ["n2", "n1", "n0"]),
        ("sort=size,disk_format:asc,name:asc", ["n0", "n1", "n2"]),
    ],
)
def test_lists(run: Any, query: str, found: list[str]) -> None:
    made(run, 0)
    made(run, 1, tags=["t"], properties={"a": "b"})
    made(run, 2)
    assert [image.row.name for image in run(listing.page, call(query))[0]] == found
    assert run(listing.page, call(query, project="q"))[0] == []


@pytest.mark.parametrize("sort", ["", "sort=name", "sort=name:asc,size:desc,created_at:asc", "sort=status,updated_at"])
def test_pages(run: Any, sort: str) -> None:
    for number in range(3):
        made(run, number)
    everything = [image.row.id for image in run(listing.page, call(sort))[0]]
    after = run(listing.page, call(f"{sort}&limit=1&marker={everything[0]}"))
    assert ([image.row.id for image in after[0]], after[1]) == ([everything[1]], True)


def test_a_taken_id_is_a_conflict_within_a_transaction_that_goes_on(run: Any) -> None:
    image_id = made(run)

    def again(conn: Any) -> str:
        with pytest.raises(Conflict):
            images.create(conn, NewImage("p", id=image_id), utc(START))
        return str(images.get(conn, image_id).id)

    assert run(again) == image_id


def test_members_and_properties(run: Any) -> None:
    image_id = made(run)
    run(members.add, caller(), image_id, "q", 5)
    run(members.answer, caller("q"), image_id, "q", "accepted")
    assert [image.row.id for image in run(listing.page, call(project="q"))[0]] == [image_id]
    run(properties.change, image_id, {"a": "1", "b": "é" * 5000}, ["c"])
    run(properties.set_tags, image_id, ["y", "x"])
    (image,) = run(lambda conn: images.full(conn, [images.own(conn, caller(), image_id, "image:images:update")]))
    assert (image.properties, image.tags) == ({"a": "1", "b": "é" * 5000}, ["x", "y"])


def test_an_upload_of_terabytes(run: Any) -> None:
    image_id = made(run)
    run(uploads.begin, caller(), image_id, "one", 2**41, "saving")
    assert run(uploads.abandon, image_id, "one", utc(START))
    run(uploads.begin, caller(), image_id, "two", 2**41, "saving")
    assert run(images.activate, image_id, "saved", MEASURED, utc(START))
    assert run(images.get, image_id).size == 2**41
    run(lambda conn: images.remove(conn, images.own(conn, caller(), image_id, "image:images:update"), caller()))
    with pytest.raises(Conflict):
        run(images.create, NewImage("p", id=image_id), utc(START))


def test_imports(run: Any) -> None:
    image_id = made(run)
    run(imports.start, caller(), image_id, NewImport("web-download", "http://x/", {}), OPTIONS)
    (task,) = run(listed, call()).rows
    image = run(imports.processing, task.id, image_id, utc(START))
    run(imports.finish, task.id, image, MEASURED, ["default"], [], utc(START), 10.0)
    new = NewImage("p", disk_format="raw", container_format="bare")
    other = run(imports.start_task, caller(), new, {"import_from": "http://x/"}, "http://x/", OPTIONS)
    run(imports.fail, other.id, new.id, "no", utc(START), 10.0, caller())
    assert {row.status for row in run(listed, call()).rows} == {"success", "failure"}


def test_copies_and_stores(run: Any) -> None:
    admin = Caller(Identity(user_id="u", project_id="p", roles=frozenset({"admin"})), POLICY, utc(START), "req-1")
    image_id = made(run)
    run(uploads.begin, caller(), image_id, "one", 5, "saving")
    assert run(images.activate, image_id, "saved", MEASURED, utc(START), stores=("a",))
    run(imports.start, admin, image_id, NewImport("copy-image", None, {}, ["a", "b"]), OPTIONS)
    image = run(images.get, image_id)
    assert (image.stores, image.importing_to) == (["a"], "b")
    (task,) = run(listed, call()).rows
    assert run(imports.copying, task.id, image_id, utc(START)).status == "active"
    run(imports.finish_copy, task.id, image_id, ["a", "b"], [], utc(START), 10.0)
    image = run(images.get, image_id)
    assert (image.stores, image.importing_to, image.failed_import) == (["a", "b"], "", "")
    with pytest.raises(Conflict):  # nobody works on the tasks here
        run(images.leave, image, "a", utc(START), caller())


def test_definitions(run: Any) -> None:
    run(define, "p", utc(START))
    usual = run(namespaces.visible, caller("q"), "OS::Compute::LibvirtImage")
    made = run(definitions.create, ObjectDefinition, usual, {"name": "o", "required": ["é"]}, utc(START))
    changed = run(definitions.change, made, {"name": "new", "properties": {"a": {"type": "string"}}}, utc(START))
    assert run(definitions.get, ObjectDefinition, usual, "new") == changed

    def again(conn: Any) -> str:
        with pytest.raises(Conflict):
            namespaces.create(conn, NewNamespace(usual.namespace, "p"), utc(START))
        with pytest.raises(Conflict):
            definitions.create(conn, ObjectDefinition, usual, {"name": "new"}, utc(START))
        return str(definitions.get(conn, ObjectDefinition, usual, "new").name)

    assert run(again) == "new"
    opened = run(namespaces.change, usual, {"protected": False}, utc(START))
    run(namespaces.remove, opened)
    assert run(definitions.of, ObjectDefinition, [usual.id]) == {usual.id: []}


def test_limits(run: Any) -> None:
    assert run(quota.limits, QUOTAS, "p")["image_count_total"] == -1


def test_usage(run: Any) -> None:
    image_id = made(run)
    run(uploads.begin, caller(), image_id, "one", 1, "saving")
    assert orjson.dumps(run(quota.usage, QUOTAS, "p")["image_size_total"]) == b"1"
    run(images.activate, image_id, "saved", evolve(MEASURED, size=1), utc(START))
    assert orjson.dumps(run(quota.usage, QUOTAS, "p")["image_size_total"]) == b"1"
