"""Which disks a server can have. Reference: compute.md, section 5.3."""

from __future__ import annotations

import pytest

from cloudctl.compute.block_devices import NewDevice, arrange, named, next_name
from cloudctl.compute.options import ComputeOptions
from cloudctl.errors import Forbidden, Invalid

OPTIONS = ComputeOptions()
IMAGE_DISK = NewDevice("image", "local", "I", boot_index=0)


def volume(index: int | None = None, **fields: object) -> NewDevice:
    return NewDevice("volume", "volume", "V", boot_index=index, **fields)  # type: ignore[arg-type]  # a test's shorthand


def test_an_image_alone_is_the_root_disk_with_the_flavors_extras() -> None:
    found = arrange([], "I", 3, 512, OPTIONS)
    assert (found.volumes, found.image_id, found.ephemeral_gib, found.swap_mib) == ((), "I", 3, 512)


def test_the_images_own_disk_may_be_named() -> None:
    assert arrange([IMAGE_DISK], "I", 0, 0, OPTIONS).volumes == ()


def test_volumes_are_in_the_order_of_booting() -> None:
    devices = [NewDevice("snapshot", "volume", "S", boot_index=index) for index in (None, 1, 0)]
    found = arrange(devices, "", 0, 0, OPTIONS)
    assert [device.boot_index for device in found.volumes] == [0, 1, None]


def test_a_boot_volume_stands_in_the_place_of_the_image() -> None:
    found = arrange([volume(0)], "I", 0, 0, OPTIONS)
    assert (found.image_id, len(found.volumes)) == ("", 1)


def test_local_disks_replace_the_flavors_extras() -> None:
    blank = NewDevice("blank", "local", volume_size=2)
    swap = NewDevice("blank", "local", volume_size=100, guest_format="swap")
    found = arrange([IMAGE_DISK, blank, swap], "I", 5, 512, OPTIONS)
    assert (found.ephemeral_gib, found.swap_mib) == (2, 100)


@pytest.mark.parametrize(
    ("devices", "image"),
    [
        ([volume(None)], ""),
        ([volume(1)], ""),
        ([volume(0), volume(0)], ""),
        ([volume(0), volume(2)], ""),
        ([volume(0), IMAGE_DISK], "I"),
        ([IMAGE_DISK], "J"),
        ([NewDevice("image", "local", "I", boot_index=1)], "I"),
        ([NewDevice("blank", "local", volume_size=6)], "I"),
        ([NewDevice("blank", "local", volume_size=600, guest_format="swap")], "I"),
        ([NewDevice("blank", "local", guest_format="swap")] * 2, "I"),
        ([NewDevice("blank", "local", "x")], "I"),
        ([NewDevice("blank", "local", volume_size=1)] * 4, "I"),
        ([NewDevice("snapshot", "local", "S")], "I"),
        ([NewDevice("blank", "local", volume_size=1, volume_type="fast")], "I"),
        ([NewDevice("image", "volume", "I", boot_index=0)], ""),
        ([NewDevice("volume", "volume", "V")] * 2, "I"),
        ([NewDevice("volume", "volume", "V", boot_index=0), NewDevice("volume", "volume", "V")], ""),
    ],
)
def test_a_wish_that_cannot_be_is_refused(devices: list[NewDevice], image: str) -> None:
    with pytest.raises(Invalid):
        arrange(devices, image, 5, 512, OPTIONS)


def test_too_many_volumes_are_refused() -> None:
    with pytest.raises(Forbidden):
        arrange([volume(None)] * 27, "I", 0, 0, OPTIONS)


def test_devices_get_the_first_free_name() -> None:
    found = named([volume(0), volume(None), volume(None, device_name="/dev/vdb"), volume(None)], has_image=False)
    assert [device.device_name for device in found] == ["/dev/vda", "/dev/vdc", "/dev/vdb", "/dev/vdd"]
    found = named([volume(None), volume(None)], has_image=True)
    assert [device.device_name for device in found] == ["/dev/vdb", "/dev/vdc"]
    found = named([volume(None, device_name=f"/dev/vd{letter}") for letter in "abcbb"], has_image=True)
    assert [device.device_name for device in found] == [f"/dev/vd{letter}" for letter in "dbcef"], "none has another's"
    assert next_name([f"/dev/vd{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]) == "/dev/vdaa"
