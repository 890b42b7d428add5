"""Two transactions at once on PostgreSQL: who comes later sees what came before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.image import images, imports, properties
from cloudctl.image.images import NewImage
from cloudctl.image.imports import NewImport
from tests.image.test_image_postgresql import MEASURED, OPTIONS, START, caller
from tests.meanwhile import Others, at_once, others

NOW = utc(START)
Change = Callable[[Connection], Any]


@pytest.fixture
def other(postgresql_with_tables: str) -> Iterator[Others]:
    with others(postgresql_with_tables) as made:
        yield made


def new(**fields: Any) -> NewImage:
    return NewImage("p", disk_format="raw", container_format="bare", **fields)


def deleted(image_id: str) -> Change:
    return lambda conn: images.remove(conn, images.own(conn, caller(), image_id, "image:images:delete"), caller())


def test_an_id_is_used_once_even_while_its_image_is_being_deleted(other: Others) -> None:
    image_id = other.db.transact(False, images.create, new(), NOW)
    again = NewImage("q", id=image_id)
    assert at_once(other, deleted(image_id), lambda conn: images.create(conn, again, NOW)) == "Conflict"


def test_an_image_of_a_failed_task_is_removed_once(other: Others) -> None:
    wanted = new()
    task = other.db.transact(False, imports.start_task, caller(), wanted, {}, "http://x/", OPTIONS)
    assert at_once(
        other, deleted(wanted.id), lambda conn: imports.fail(conn, task.id, wanted.id, "no", NOW, 1.0, caller())
    ) == ""  # fmt: skip
    assert other.db.transact(True, imports.get, task.id).status == "failure"


def test_a_copy_of_an_image_that_is_being_deleted_fails(other: Others) -> None:
    image_id = other.db.transact(False, images.create_stored, new(), MEASURED, NOW)

    def failed(conn: Connection) -> None:
        imports.fail_copy(conn, "task", image_id, ["default"], "no", NOW, 1.0)

    assert at_once(other, deleted(image_id), failed) == ""


def test_properties_that_an_import_brings_are_set_beside_those_of_a_patch(other: Others) -> None:
    image_id = other.db.transact(False, images.create, new(), NOW)
    origin_id = other.db.transact(False, images.create, new(properties={"hw_a": "origin's"}), NOW)
    (origin,) = other.db.transact(True, lambda conn: images.full(conn, [images.get(conn, origin_id)]))
    wish = NewImport("web-download", "http://x/", {})
    other.db.transact(False, imports.start, caller(), image_id, wish, OPTIONS)
    image = other.db.transact(True, imports.importing, image_id)

    def patched(conn: Connection) -> None:
        images.own(conn, caller(), image_id, "image:images:update")
        properties.change(conn, image_id, {"hw_a": "user's"})

    def finished(conn: Connection) -> None:
        imports.finish(conn, "task", image, MEASURED, ["default"], [], NOW, 1.0, origin)

    assert at_once(other, patched, finished) == ""
    assert other.db.transact(True, properties.of, [image_id])[image_id] == {"hw_a": "origin's"}
