"""Images whose data a driver of objects keeps: machines without a common directory have the same."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from cloudctl.drivers.errors import NoCapacity, Unreachable
from cloudctl.drivers.file.driver import ObjectFiles
from cloudctl.drivers.loader import check
from cloudctl.errors import ConfigError
from cloudctl.image import kept
from cloudctl.image.kept import KeptStore
from cloudctl.image.options import ImageOptions, StoreOptions
from cloudctl.image.store import ImageStore, held
from cloudctl.image.stores import in_the_data_directory
from cloudctl.image.tables import Image
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import DATA, IMAGES, create, show, stored, upload
from tests.image.test_image_recovery import restart

IMAGE = str(uuid4())


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[MemoryCloud]:
    made = MemoryCloud(
        {
            "image": {"stores": {"default": {"driver": "file"}}},
            "driver": {"objects": {"file": {"directory": str(tmp_path / "elsewhere")}}},
        }
    )
    yield made
    made.close()


def store_of(cloud: MemoryCloud) -> KeptStore:
    found: Any = cloud.cloud.made(ImageStore)
    assert isinstance(found, KeptStore)
    return found


def forget(cloud: MemoryCloud) -> None:
    """As if the next call came to another machine."""
    store = store_of(cloud)
    store.remove(*(store.directory / name for name in store.names()))


def download(client: Client, image_id: str) -> bytes:
    answer = client.get(f"{IMAGES}/{image_id}/file")
    assert answer.status == 200, answer
    return bytes(answer.body)


@pytest.fixture
def far(tmp_path: Path) -> ObjectFiles:
    made = ObjectFiles(tmp_path / "far")
    check(made, "far")
    return made


@pytest.fixture
def machines(tmp_path: Path, far: ObjectFiles) -> tuple[KeptStore, KeptStore]:
    made = KeptStore(tmp_path / "one", contents=far), KeptStore(tmp_path / "two", contents=far)
    for each in made:
        each.prepare()
    return made


def arrived(store: KeptStore, data: bytes) -> Path:
    path = store.incoming(str(uuid4()))
    path.write_bytes(data)
    return path


# -- the store


def test_what_one_has_received_the_other_reads_and_removes(machines: tuple[KeptStore, KeptStore]) -> None:
    one, two = machines
    one.receive(arrived(one, b"half of an upload that died"), IMAGE)
    one.receive(arrived(one, b"data"), IMAGE)
    one.stage(arrived(one, b"staged"), IMAGE)
    staged = two.fetch_staged(IMAGE)
    assert staged is not None and staged.read_bytes() == b"staged"
    assert two.fetch(IMAGE).read_bytes() == b"data"
    two.remove_all(IMAGE)
    assert two.names() == [] and one.fetch_staged(IMAGE) is None and not one.fetch(IMAGE).exists()


def test_a_copy_of_what_may_still_change_is_never_taken_for_it(machines: tuple[KeptStore, KeptStore]) -> None:
    one, two = machines
    one.receive(arrived(one, b"first"), IMAGE)
    assert two.fetch(IMAGE, settled=False).read_bytes() == b"first"
    one.receive(arrived(one, b"second"), IMAGE)
    assert two.fetch(IMAGE, settled=False).read_bytes() == two.fetch(IMAGE).read_bytes() == b"second"


def test_a_copy_goes_when_nobody_has_used_it_for_long(machines: tuple[KeptStore, KeptStore]) -> None:
    one, two = machines
    ids = [str(uuid4()) for _ in range(3)]
    for id in ids:
        one.receive(arrived(one, id.encode()), id)
    old = time.time() - kept.COPY_KEPT - 60
    for id in ids[:2]:
        os.utime(two.fetch(id), (old, old))
    two.fetch(ids[0])
    two.fetch(ids[2])
    assert two.names() == sorted([ids[0], ids[2]])
    assert two.fetch(ids[1]).read_bytes() == ids[1].encode()


def test_an_upload_has_died_where_its_file_is_and_nobody_holds_it(machines: tuple[KeptStore, KeptStore]) -> None:
    one, two = machines
    path = one.incoming("upload")
    path.write_bytes(b"")
    with held(path):
        assert not one.has_died(IMAGE, "upload", 10.0)
    assert one.has_died(IMAGE, "upload", 10.0)
    # Another machine cannot know; but some day nobody can be at it any more.
    assert not two.has_died(IMAGE, "upload", 10.0)
    assert two.has_died(IMAGE, "upload", kept.GIVEN_UP + 1)


def test_contents_of_no_image_are_removed_once_they_cannot_be_of_a_new_one(
    machines: tuple[KeptStore, KeptStore], far: ObjectFiles
) -> None:
    one, _ = machines
    lost, image, waiting = (str(uuid4()) for _ in range(3))
    for id in (lost, image):
        one.receive(arrived(one, b"data"), id)
    one.stage(arrived(one, b"data"), waiting)

    def known(ids: Any) -> list[tuple[str, bool]]:
        return [(id, False) for id in ids if id == image] + [(waiting, True)]

    assert one.sweep(known, time.time() - kept.YOUNG) == 0
    assert one.sweep(known, time.time() + 60) == 1
    assert not one.fetch(lost).exists() and one.fetch(image).exists() and one.fetch_staged(waiting)


@pytest.mark.parametrize("raised", [NoCapacity("full"), Unreachable("away")])
def test_what_the_driver_cannot_is_told_as_a_disk_tells_it(
    machines: tuple[KeptStore, KeptStore], monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    one, _ = machines

    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr(ObjectFiles, "ensure_kept", fails)
    with pytest.raises(OSError, match=str(raised)):
        one.receive(arrived(one, b"data"), IMAGE)


# -- the configuration


def test_only_what_is_in_the_data_directory_is_needed_by_all() -> None:
    assert in_the_data_directory(ImageOptions()) == ["image.stores.default"]
    kept = {"default": StoreOptions(driver="rados")}
    assert in_the_data_directory(ImageOptions(stores=kept)) == []
    assert in_the_data_directory(ImageOptions(stores=kept, web_store=True)) == ["image.web_store"]
    elsewhere = {"default": StoreOptions("/srv/images"), "cheap": StoreOptions("cheap")}
    assert in_the_data_directory(ImageOptions(stores=elsewhere)) == ["image.stores.cheap"]


@pytest.mark.parametrize(
    ("stores", "told"),
    [
        ({"default": {}}, "either a directory or a driver"),
        ({"default": {"directory": "a", "driver": "file"}}, "either a directory or a driver"),
        ({"other": {"driver": "file"}}, "only the store default"),
    ],
)
def test_a_store_is_one_thing(stores: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        MemoryCloud({"image": {"stores": stores}})


# -- in a cloud, whose every call may come to another machine


def test_an_image_is_downloaded_where_it_was_not_uploaded(cloud: MemoryCloud, demo: Client) -> None:
    image_id = stored(demo)["id"]
    forget(cloud)
    size = show(demo, image_id)["size"]
    assert len(download(demo, image_id)) == size
    assert store_of(cloud).names() == [image_id]
    restart(cloud)
    demo.delete(f"{IMAGES}/{image_id}")
    cloud.settle()
    assert store_of(cloud).names() == [] and not store_of(cloud).fetch(image_id).exists()


def test_staged_data_are_imported_elsewhere(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    assert demo.put(f"{IMAGES}/{image_id}/stage", body=b"data", headers=DATA).status == 204
    forget(cloud)
    assert demo.post(f"{IMAGES}/{image_id}/import", {"method": {"name": "glance-direct"}}).status == 202
    cloud.settle()
    assert show(demo, image_id)["status"] == "active"
    forget(cloud)
    assert download(demo, image_id) == b"data"
    # What waited is gone from everywhere.
    assert store_of(cloud).fetch_staged(image_id) is None


def test_guests_boot_from_images_of_elsewhere_and_become_such(cloud: MemoryCloud, demo: Client) -> None:
    image = demo.get(f"{IMAGES}?name=tiny").json()["images"][0]["id"]
    forget(cloud)
    wish = {"name": "s", "imageRef": image, "flavorRef": "1", "networks": "none"}
    newest = {"OpenStack-API-Version": "compute 2.96"}
    server = demo.post("/compute/v2.1/servers", {"server": wish}, headers=newest).json()["server"]["id"]
    cloud.settle()
    assert demo.get(f"/compute/v2.1/servers/{server}").json()["server"]["status"] == "ACTIVE"
    assert store_of(cloud).names() == [image]

    forget(cloud)
    action = {"createImage": {"name": "taken"}}
    taken = demo.post(f"/compute/v2.1/servers/{server}/action", action, headers=newest).json()["image_id"]
    cloud.settle()
    assert show(demo, taken)["status"] == "active", show(demo, taken)
    assert store_of(cloud).names() == []
    assert len(download(demo, taken)) == show(demo, taken)["size"] > 0


def test_a_guest_is_defined_anew_though_its_image_is_gone(cloud: MemoryCloud, demo: Client) -> None:
    """The name that the file of such an image has was taken for an id."""
    image = stored(demo)["id"]
    wish = {"name": "s", "imageRef": image, "flavorRef": "1", "networks": "none"}
    newest = {"OpenStack-API-Version": "compute 2.96"}
    server = demo.post("/compute/v2.1/servers", {"server": wish}, headers=newest).json()["server"]["id"]
    cloud.settle()
    assert demo.delete(f"{IMAGES}/{image}").status == 204
    cloud.settle()
    path = f"/compute/v2.1/servers/{server}"
    assert demo.post(f"{path}/action", {"reboot": {"type": "HARD"}}).status == 202
    cloud.settle()
    found = demo.get(path).json()["server"]
    assert (found["status"], found.get("fault")) == ("ACTIVE", None)


def test_an_upload_that_is_refused_leaves_nothing(cloud: MemoryCloud, demo: Client) -> None:
    before = [each.id for each in store_of(cloud).contents.inventory("")]
    image_id = create(demo, disk_format="qcow2")["id"]
    assert upload(demo, image_id, b"no qcow2").status == 415
    assert [each.id for each in store_of(cloud).contents.inventory("")] == before
    assert store_of(cloud).names() == []


def test_what_a_driver_writes_is_left_alone_by_a_process_that_starts(cloud: MemoryCloud, demo: Client) -> None:
    """The directory may be common to processes, for the sake of others of its contents."""
    image_id = create(demo)["id"]
    cloud.transact(lambda conn: conn.execute(update(Image).where(Image.id == image_id).values(status="saving")))
    # Where a snapshot is written before it is stored (`near`), and read before it is known (`activate`).
    path = store_of(cloud).staged(image_id)
    path.write_bytes(b"half a snapshot")
    restart(cloud)
    assert path.exists()
    demo.delete(f"{IMAGES}/{image_id}")
    restart(cloud)
    assert not path.exists()
