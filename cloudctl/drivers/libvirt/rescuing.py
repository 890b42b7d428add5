"""A guest that is rescued, in libvirt's words: its tree with another disk to start from, and back. Pure.

How it starts otherwise is noted in the tree itself, so whoever finds it can undo it.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement

import orjson
from attrs import asdict, evolve, field, frozen

from cloudctl.drivers.libvirt import domain

NAME = "rescue"
ALIAS = f"ua-{NAME}"
KERNEL, RAMDISK = "rescue-kernel", "rescue-ramdisk"


@frozen
class Start:
    """What a guest starts from: a kernel, or disks in an order."""

    # kernel, initrd, cmdline of `os`; nothing: it has none
    kernel: Mapping[str, str] = field(factory=dict)
    # alias of a disk → its place
    order: Mapping[str, str] = field(factory=dict)


def begin(tree: Element, disk: Element, kernel: Mapping[str, str] | None) -> None:
    """It starts from this disk, which is its first. `kernel`: as in `Start`; None: that which it has."""
    own = start_of(tree)
    used = own.kernel if kernel is None else kernel
    devices = domain.devices(tree)
    first = next((at for at, each in enumerate(devices) if each.tag == "disk"), len(devices))
    devices.insert(first, disk)
    _set(tree, Start(used, {} if used else {ALIAS: "1"}))
    notes = domain.notes_of(tree)
    domain.set_notes(tree, evolve(notes, rescuing=True, own=orjson.dumps(asdict(own)).decode()))


def again(tree: Element, before: Element) -> None:
    """A tree that was made anew is rescued as the one before was."""
    disk = domain.find_device(before, ALIAS)
    assert disk is not None, "it was"
    begin(tree, disk, start_of(before).kernel)


def end(tree: Element) -> None:
    """It starts as it did before. What it was rescued from may be there still."""
    notes = domain.notes_of(tree)
    disk = domain.find_device(tree, ALIAS)
    if disk is not None:
        domain.devices(tree).remove(disk)
    _set(tree, Start(**orjson.loads(notes.own)))
    domain.set_notes(tree, evolve(notes, own=""))


def start_of(tree: Element) -> Start:
    kernel = {each.tag: each.text or "" for each in _system(tree) if each.tag in ("kernel", "initrd", "cmdline")}
    order = {}
    for disk in domain.devices(tree).iterfind("disk"):
        alias, boot = disk.find("alias"), disk.find("boot")
        if alias is not None and boot is not None:
            order[alias.get("name", "")] = boot.get("order", "")
    return Start(kernel, order)


def _set(tree: Element, start: Start) -> None:
    system = _system(tree)
    for tag in ("kernel", "initrd", "cmdline"):
        if (found := system.find(tag)) is not None:
            system.remove(found)
        if tag in start.kernel:
            SubElement(system, tag).text = start.kernel[tag]
    names = domain.target_names(frozenset())
    for disk in domain.devices(tree).iterfind("disk"):
        alias, target = disk.find("alias"), disk.find("target")
        # libvirt gives them places anew: the guest's kernel finds them in that order.
        for gone in (disk.find("boot"), disk.find("address")):
            if gone is not None:
                disk.remove(gone)
        if target is not None:
            target.set("dev", next(names))
        if alias is not None and alias.get("name") in start.order:
            SubElement(disk, "boot", order=start.order[alias.get("name", "")])


def _system(tree: Element) -> Element:
    found = tree.find("os")
    assert found is not None, "each guest has one"
    return found
