"""The tree of a guest that is rescued, and what it is afterwards. No libvirt is needed."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, fromstring

import pytest
from attrs import evolve

from cloudctl.drivers.libvirt import domain, rescuing
from cloudctl.drivers.libvirt.domain import Notes, Paths
from cloudctl.drivers.specs import GuestSpec
from tests.drivers.libvirt.test_libvirt_domain import CONFIG, IMAGE, SPEC, VOLUME

NOTES = Notes("token", True, 1.5, "west")
WITH_KERNEL = evolve(IMAGE, kernel_path="/kernel", ramdisk_path="/ramdisk")
FROM_VOLUME = evolve(SPEC, image=None, volumes=(evolve(VOLUME, boot_index=0), evolve(VOLUME, volume_id="other")))
OTHER_KERNEL = {"kernel": "/srv/other", "cmdline": "quiet"}


def made(spec: GuestSpec) -> Element:
    """As libvirt gives it back: with places of devices."""
    tree = fromstring(domain.text(domain.guest(CONFIG, spec, NOTES)))
    for number, disk in enumerate(domain.devices(tree).iterfind("disk")):
        SubElement(disk, "address", type="pci", bus=str(number))
    return tree


def disk() -> Element:
    return domain.image_disk(Paths(CONFIG.directory, SPEC.id), rescuing.NAME, "", None)


def seen(tree: Element) -> tuple[list[tuple[str, str, str | None, bool]], list[tuple[str, str | None]]]:
    """Its disks, by alias, target, place and whether they stay where they were; and its kernel."""
    disks = []
    for each in domain.devices(tree).iterfind("disk"):
        alias, target, boot = each.find("alias"), each.find("target"), each.find("boot")
        assert alias is not None and target is not None
        order = None if boot is None else boot.get("order")
        disks.append((alias.get("name", ""), target.get("dev", ""), order, each.find("address") is not None))
    return disks, [
        (each.tag, each.text) for each in tree.iterfind("os/*") if each.tag in ("kernel", "initrd", "cmdline")
    ]


def test_a_rescued_guest_starts_from_the_disk_for_it_with_its_own_behind() -> None:
    tree = made(evolve(SPEC, ephemeral_gib=1))
    rescuing.begin(tree, disk(), None)
    disks, kernel = seen(tree)
    assert disks == [
        ("ua-rescue", "vda", "1", False),
        ("ua-root", "vdb", None, False),
        ("ua-ephemeral", "vdc", None, False),
    ]
    assert kernel == []
    notes = domain.notes_of(tree)
    assert notes.rescued and notes.rescuing and notes.token == "token"


def test_a_kernel_that_the_image_has_is_started_and_one_of_the_guest_where_it_has_none() -> None:
    tree = made(SPEC)
    rescuing.begin(tree, disk(), OTHER_KERNEL)
    assert seen(tree)[1] == list(OTHER_KERNEL.items())
    assert [order for _alias, _dev, order, _stays in seen(tree)[0]] == [None, None]

    own = made(evolve(SPEC, image=WITH_KERNEL))
    before = seen(own)[1]
    rescuing.begin(own, disk(), None)
    assert seen(own)[1] == before and len(before) == 3

    without = made(evolve(SPEC, image=WITH_KERNEL))
    rescuing.begin(without, disk(), {})
    assert seen(without) == ([("ua-rescue", "vda", "1", False), ("ua-root", "vdb", None, False)], [])


@pytest.mark.parametrize("spec", [SPEC, evolve(SPEC, image=WITH_KERNEL), FROM_VOLUME], ids=["disk", "kernel", "volume"])
@pytest.mark.parametrize("kernel", [None, {}, OTHER_KERNEL], ids=["own", "none", "other"])
def test_it_starts_afterwards_as_it_did_before(spec: GuestSpec, kernel: dict[str, str] | None) -> None:
    tree, before = made(spec), made(spec)
    rescuing.begin(tree, disk(), kernel)
    # What libvirt keeps.
    tree = fromstring(domain.text(tree))
    rescuing.end(tree)
    assert [each[:3] for each in seen(tree)[0]] == [each[:3] for each in seen(before)[0]]
    assert sorted(seen(tree)[1]) == sorted(seen(before)[1])
    # Its disk may be there until somebody has removed it.
    assert domain.notes_of(tree) == evolve(NOTES, rescuing=True)


def test_one_that_is_made_anew_meanwhile_stays_rescued() -> None:
    before = made(SPEC)
    rescuing.begin(before, disk(), OTHER_KERNEL)
    wished = evolve(SPEC, vcpus=3, volumes=(VOLUME,))
    tree = domain.guest(CONFIG, wished, domain.notes_of(before))
    rescuing.again(tree, fromstring(domain.text(before)))
    disks, kernel = seen(tree)
    assert [each[:2] for each in disks] == [("ua-rescue", "vda"), ("ua-root", "vdb"), ("ua-volume-volume", "vdc")]
    assert kernel == list(OTHER_KERNEL.items()) and domain.notes_of(tree).token == "token"
    rescuing.end(tree)
    assert seen(tree) == seen(domain.guest(CONFIG, wished, NOTES))
