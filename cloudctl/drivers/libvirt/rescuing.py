"""A rescued guest in libvirt's terms: its tree with another disk to start from, and back. Pure.

How it normally starts is noted in the tree itself, so any process can undo the rescue.
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

    # kernel, initrd, cmdline of `os`; empty: it has no kernel
    kernel: Mapping[str, str] = field(factory=dict)
    # alias of a disk → its place in the boot order
    order: Mapping[str, str] = field(factory=dict)


def begin(tree: Element, disk: Element, kernel: Mapping[str, str] | None) -> None:
    """Make it start from this disk, which becomes its first. `kernel`: as in `Start`; None: the one that it has."""
    own = start_of(tree)
    used = own.kernel if kernel is None else kernel
    devices = domain.devices(tree)
    first = next((at for at, each in enumerate(devices) if each.tag == "disk"), len(devices))
    devices.insert(first, disk)
    _set(tree, Start(used, {} if used else {ALIAS: "1"}))
    notes = domain.notes_of(tree)
    domain.set_notes(tree, evolve(notes, rescuing=True, own=orjson.dumps(asdict(own)).decode()))


def again(tree: Element, before: Element) -> None:
    """Make a new tree rescued as the previous one was."""
    disk = domain.find_device(before, ALIAS)
    assert disk is not None, "it was"
    begin(tree, disk, start_of(before).kernel)


def end(tree: Element) -> None:
    """Make it start as before. The disk that it was rescued from may still exist."""
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
        # libvirt assigns new addresses: the guest's kernel finds the disks in that order.
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
