"""After a `kill -9` uploads are queued again and no file is left without an image; nothing that lives is touched."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.image import recovery, uploads
from cloudctl.image.recovery import recover
from cloudctl.image.store import ImageStore, held, is_held
from cloudctl.image.stores import Stores
from cloudctl.image.tables import Image
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.conftest import LoggedFailures
from tests.image.asking import DATA, IMAGES, create, show, stored, upload


def restart(cloud: MemoryCloud) -> None:
    recover(cloud.db, cloud.cloud.made(Stores))


def under_way(cloud: MemoryCloud, image_id: str, status: str) -> Path:
    """The image as it is while an upload is looked at; the upload's file."""
    upload_id = new_id()
    path = cloud.cloud.made(ImageStore).incoming(upload_id)
    path.write_bytes(b"arrived")

    def change(conn: Connection) -> None:
        conn.execute(update(Image).where(Image.id == image_id).values(status=status, upload_id=upload_id))

    cloud.transact(change)
    return path


@pytest.mark.parametrize("status", ["saving", "uploading"])
def test_an_upload_that_died_is_queued_again(cloud: MemoryCloud, demo: Client, status: str) -> None:
    image_id = create(demo)["id"]
    path = under_way(cloud, image_id, status)
    restart(cloud)
    assert show(demo, image_id)["status"] == "queued"
    assert not path.exists()
    assert upload(demo, image_id).status == 204


@pytest.mark.parametrize("status", ["saving", "uploading"])
def test_an_upload_that_lives_is_left_alone(cloud: MemoryCloud, demo: Client, status: str) -> None:
    image_id = create(demo)["id"]
    path = under_way(cloud, image_id, status)
    with held(path):
        restart(cloud)
        assert show(demo, image_id)["status"] == status
        assert path.exists()


@pytest.mark.parametrize("status", ["saving", "uploading"])
def test_the_audit_finds_an_upload_that_died(cloud: MemoryCloud, demo: Client, status: str) -> None:
    """Its process may never start again."""
    image_id = create(demo)["id"]
    path = under_way(cloud, image_id, status)
    with held(path):
        cloud.cloud.audit.run()
        assert show(demo, image_id)["status"] == status
    cloud.cloud.audit.run()
    assert show(demo, image_id)["status"] == "queued"
    assert not path.exists()
    assert [(each.kind, each.resource_id) for each in cloud.cloud.audit.latest["image"]] == [("upload-died", image_id)]
    assert upload(demo, image_id).status == 204
    cloud.cloud.audit.run()
    assert cloud.cloud.audit.latest["image"] == ()


def test_what_an_upload_that_died_has_stored_is_gone_before_the_next_one() -> None:
    cloud = MemoryCloud({"image": {"stores": {"fast": {"directory": "fast", "weight": 10}}}})
    demo = cloud.client("demo")
    image_id = create(demo)["id"]
    under_way(cloud, image_id, "saving")
    cloud.cloud.made(Stores)["fast"].path(image_id).write_bytes(b"of the upload that died")
    cloud.cloud.audit.run()
    assert upload(demo, image_id).status == 204
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"data"
    cloud.close()


def test_the_audit_queues_an_image_whose_failure_could_not_be_recorded(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch, logged_failures: LoggedFailures
) -> None:
    def gone(*_: object) -> None:
        raise OperationalError("", {}, Exception("the database is gone"))

    image_id = create(demo, disk_format="qcow2")["id"]
    monkeypatch.setattr(uploads, "abandon", gone)
    assert upload(demo, image_id, b"raw").status == 500
    monkeypatch.undo()
    assert logged_failures.flush(OperationalError)
    assert show(demo, image_id)["status"] == "saving"
    cloud.cloud.audit.run()
    assert show(demo, image_id)["status"] == "queued"


def test_an_upload_that_died_between_rename_and_commit_leaves_no_data(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    final = cloud.cloud.made(ImageStore).path(image_id)
    under_way(cloud, image_id, "saving").replace(final)
    restart(cloud)
    assert show(demo, image_id)["status"] == "queued"
    assert not final.exists()


def test_an_upload_that_lives_between_rename_and_commit_is_left_alone(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    path, final = under_way(cloud, image_id, "saving"), cloud.cloud.made(ImageStore).path(image_id)
    with held(path):
        path.replace(final)
        restart(cloud)
        assert show(demo, image_id)["status"] == "saving"
        assert final.exists()


def test_files_of_no_image_are_removed_and_others_are_kept(cloud: MemoryCloud, demo: Client) -> None:
    store = cloud.cloud.made(ImageStore)
    active = stored(demo)["id"]
    staged = create(demo)["id"]
    demo.put(f"{IMAGES}/{staged}/stage", body=b"x", headers=DATA)
    orphans = [store.path(new_id()), store.staged(new_id()), store.incoming(new_id()), store.staged(active)]
    strangers = [store.directory / name for name in ("upload-abc", "lost+found", "README")]
    for path in (*orphans, *strangers):
        path.write_bytes(b"x")
    restart(cloud)
    assert [path.exists() for path in orphans] == [False] * 4
    kept = [store.path(active), store.staged(staged), *strangers]
    assert [path.exists() for path in kept] == [True] * 5


def test_an_upload_that_comes_while_old_files_are_removed_keeps_its_data(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes to another process."""
    image_id = create(demo)["id"]
    cloud.cloud.made(ImageStore).path(image_id).write_bytes(b"left by a dead process")

    def slow(path: Path) -> bool:
        monkeypatch.undo()
        assert upload(demo, image_id).status == 204
        return is_held(path)

    monkeypatch.setattr(recovery, "is_held", slow)
    restart(cloud)
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"data"


def test_what_a_driver_is_writing_is_kept(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    path = cloud.cloud.made(ImageStore).path(image_id)
    path.write_bytes(b"half a snapshot")

    def saving(conn: Connection) -> None:
        conn.execute(update(Image).where(Image.id == image_id).values(status="saving"))

    cloud.transact(saving)
    restart(cloud)
    assert path.exists()
    assert show(demo, image_id)["status"] == "saving"


def test_data_of_a_deleted_image_that_comes_back_is_removed(cloud: MemoryCloud, demo: Client) -> None:
    image_id = stored(demo)["id"]
    demo.delete(f"{IMAGES}/{image_id}")
    path = cloud.cloud.made(ImageStore).path(image_id)
    cloud.settle()
    path.write_bytes(b"back after a power cut")
    restart(cloud)
    assert not path.exists()


def test_a_file_is_held_until_the_work_ends(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"")
    assert not is_held(path)
    with held(path):
        assert is_held(path)
        path.rename(other)
        assert is_held(other)
        assert not is_held(path)
    assert not is_held(other)


def test_a_spooled_body_is_kept_without_a_copy(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    store.prepare()
    with (store.directory / "upload-1").open("w+b") as spooled:
        spooled.write(b"body")
        assert store.take(spooled, "one")
        assert store.incoming("one").read_bytes() == b"body"
        assert store.incoming("one").stat().st_nlink == 2


def test_a_body_from_elsewhere_is_copied(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    store.prepare()
    with (tmp_path / "elsewhere").open("w+b") as body:
        body.write(b"body")
        assert not store.take(body, "one")
        store.copy(body, "one")
    assert store.incoming("one").read_bytes() == b"body"


def test_a_body_that_is_being_copied_is_held(tmp_path: Path) -> None:
    """It may take long, and another process that starts must not take it for one of a dead process."""
    store = ImageStore(tmp_path)
    seen: list[bool] = []

    class Body(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            seen.append(is_held(store.incoming("one")))
            return super().read(size)

    store.copy(Body(b"body"), "one")
    assert seen == [True, True]


def test_a_spooled_body_whose_name_is_gone_can_still_be_copied(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    with (tmp_path / "upload-1").open("w+b") as spooled:
        spooled.write(b"body")
        (tmp_path / "upload-1").unlink()
        assert not store.take(spooled, "one")
        store.copy(spooled, "one")
    assert store.incoming("one").read_bytes() == b"body"
