"""The command line of a guest's QEMU process. Pure.

Source: QEMU's document «Invocation» (qemu-system-x86_64(1)).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from attrs import evolve, frozen

from cloudctl.drivers.accounts import Account
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.qemu import devices, keys, slots
from cloudctl.drivers.qemu.devices import Disk, Nic
from cloudctl.drivers.qemu.options import FIXED_SLOTS, Config
from cloudctl.drivers.qemu.records import Files, Record
from cloudctl.drivers.specs import ImageSource

PROGRAM = "qemu-system-x86_64"
# It runs no other program and changes no limits. It cannot daemonize either: it is started as a daemon.
SANDBOX = "on,obsolete=deny,spawn=deny,resourcecontrol=deny"
RUN_WITH = 9_001_000  # the version from which the user is an option of `-run-with`
# What cloud-init looks for to detect the metadata service.
PRODUCT = "OpenStack Compute"
KERNEL_ARGUMENTS_MOST = 2047  # characters that Linux takes on x86


@frozen
class Kernel:
    """Files of the guest's own that are booted directly."""

    kernel: str
    ramdisk: str | None
    arguments: str


def arguments(
    config: Config,
    record: Record,
    files: Files,
    kernel: Kernel | None,
    version: int,
    user: Account,
    incoming: bool = False,
) -> list[str]:
    """What follows the program's name. Raises Unfit.

    `user`: whom the process becomes. `incoming`: it waits for the memory of a guest.
    """
    spec = record.spec
    words = ["-name", spec.id, *_identity(spec.id), "-accel", _accelerator(config)]
    words += ["-machine", config.machine, "-cpu", config.cpu_model, "-m", str(spec.memory_mib)]
    words += ["-smp", f"{spec.vcpus},sockets={spec.vcpus},cores=1,threads=1"]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-rtc", "base=utc"]
    words += _confinement(user, version)
    # -no-shutdown: the process of a guest that powers itself off stays, so one that is gone has crashed.
    words += ["-no-shutdown", "-boot", "strict=on", "-pidfile", str(files.pid)]
    words += ["-qmp", f"unix:{_escaped(files.qmp)},server=on,wait=off"]
    words += ["-chardev", f"socket,id=serial,path={_escaped(files.serial)},server=on,wait=off,{_log(files)}"]
    words += ["-serial", "chardev:serial"]
    words += ["-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random"]
    # A guest that has more devices than new ones may have by now starts all the same.
    for slot in range(max(FIXED_SLOTS + config.slots, 1 + max(record.slots.values(), default=0))):
        # Without I/O ports, which would suffice for some fifteen only; virtio devices need none.
        port = {"driver": "pcie-root-port", "id": devices.bus(slot), "chassis": slot + 1, "io-reserve": 0}
        words += ["-device", _json(port)]
    for key in keys.needed(record):
        words += ["-object", f"secret,id={key},format=base64,file={_escaped(files.key(key))}"]
    for disk in disks(record, files):
        # QEMU boots a kernel through a ROM that already is the first boot device.
        device = disk.device if kernel is None else {k: v for k, v in disk.device.items() if k != "bootindex"}
        words += ["-blockdev", _json(disk.block), "-device", _json(device)]
    for nic in nics(record):
        words += ["-netdev", _json(nic.backend), "-device", _json(nic.device)]
    if config.vnc:
        # Last, so that devices of guests suspended by the previous release keep their places.
        words += ["-vnc", f"unix:{_escaped(files.vnc)}", "-device", "VGA"]
    if kernel is not None:
        words += ["-kernel", kernel.kernel, "-append", kernel.arguments]
        words += ["-initrd", kernel.ramdisk] if kernel.ramdisk is not None else []
    return [*words, "-incoming", "defer"] if incoming else words


def disks(record: Record, files: Files) -> Iterator[Disk]:
    """Root disk, ephemeral, swap, config drive, volumes: the order in which the guest's kernel finds them."""
    spec = record.spec
    if record.rescued:
        yield devices.file_disk("rescue", files.rescue, slots.ROOT, format="qcow2", boot=0)
    if spec.image is not None:
        slot, boot = (slots.OLD_ROOT, None) if record.rescued else (slots.ROOT, 0)
        if record.root is not None:
            yield devices.rbd_disk("root", record.root, slot, boot=boot)
        else:
            yield devices.file_disk("root", files.root, slot, format="qcow2", boot=boot)
    if spec.ephemeral_gib:
        yield devices.file_disk("ephemeral", files.ephemeral, slots.EPHEMERAL, format="qcow2")
    if spec.swap_mib:
        yield devices.file_disk("swap", files.swap, slots.SWAP, format="raw")
    if spec.config_drive:
        yield devices.file_disk("config", files.config_drive, slots.CONFIG_DRIVE, format="raw", read_only=True)
    for each in spec.volumes:
        slot, boot = record.slots[slots.volume(each.volume_id)], each.boot_index
        if record.rescued:
            slot, boot = slots.OLD_ROOT if slot == slots.ROOT else slot, None
        yield devices.volume_disk(evolve(each, boot_index=boot if spec.image is None else None), slot)


def nics(record: Record) -> Iterator[Nic]:
    for each in record.spec.ports:
        yield devices.nic(each, record.slots[slots.port(each.id)])


def boot_image(record: Record) -> ImageSource | None:
    """The image that the guest starts from now."""
    return record.rescue_image or record.spec.image if record.rescued else record.spec.image


def kernel_arguments(config: Config, image: ImageSource) -> str:
    """Raises Unfit for arguments that no program can be given."""
    given = image.properties.get("os_command_line") or config.kernel_arguments
    if "\0" in given or len(given) > KERNEL_ARGUMENTS_MOST:
        raise Unfit(
            f"os_command_line of image {image.id} has a zero byte or more than {KERNEL_ARGUMENTS_MOST} characters"
        )
    return given


def _confinement(user: Account, version: int) -> list[str]:
    """QEMU becomes another user once everything that it starts with is open, before the guest executes.

    The sandbox is active by then and must allow it. With that QEMU loses its last rights, so it cannot do it again.
    """
    if user.is_root:
        return ["-sandbox", f"{SANDBOX},elevateprivileges=deny"]
    become = ["-run-with", f"user={user}"] if version >= RUN_WITH else ["-runas", str(user)]
    return ["-sandbox", f"{SANDBOX},elevateprivileges=allow", *become]


def _identity(id: str) -> list[str]:
    words = ["-smbios", f"type=1,manufacturer=cloudctl,product={PRODUCT},serial={_escaped(id)}"]
    try:
        return ["-uuid", str(UUID(id)), *words]
    except ValueError:
        return words


def _accelerator(config: Config) -> str:
    if config.accelerator == "tcg":
        return f"tcg,thread=multi,tb-size={config.translation_cache_mib}"
    return config.accelerator


def _log(files: Files) -> str:
    return f"logfile={_escaped(files.console)},logappend=on"


def _escaped(value: object) -> str:
    """A value in a comma-separated list."""
    return str(value).replace(",", ",,")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value)
