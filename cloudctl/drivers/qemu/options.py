"""What an operator may set for the hypervisor driver `qemu`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt, le

from cloudctl.drivers.accounts import DEFAULT, GUESTS, Account, account, are_numbers, exist, numbers, optional_account
from cloudctl.drivers.rbd.options import Pool

FIXED_SLOTS = 5  # for the disks that are there from the start: root, rescued root, ephemeral, swap, config drive
MOST_SLOTS = 24  # a q35 machine has room for 29 root ports
MOST_PAUSE = 2000.0  # seconds; QEMU takes none that is longer


def _whole_words(_instance: object, attribute: Any, value: dict[str, str]) -> None:
    for name, namespace in value.items():
        if not name or any(character.isspace() or character == "/" for character in name + namespace):
            raise ValueError("must map host names to network namespace names or empty strings")


def _places(_instance: object, attribute: Any, value: dict[str, str]) -> None:
    for name, place in value.items():
        if not name or not place or any(character.isspace() for character in name + place):
            raise ValueError("must map host names to what `ovs-vsctl --db` takes")


@frozen
class Config:
    """`[driver.hypervisor.qemu]`"""

    # Host → the network namespace that its guests run in; "": this machine's own. All hosts are this machine.
    # Empty: one host with this machine's name.
    hosts: dict[str, str] = field(factory=dict, validator=_whole_words)
    # Host → the database of its Open vSwitch, as `ovs-vsctl --db` takes it, for networks by OVN. A host that is not
    # named uses this machine's own.
    ovs_db: dict[str, str] = field(factory=dict, validator=_places)
    # Numbers of users, first and last: each guest's process, once started, runs as one that no other guest has.
    # If this machine (a container) has no such users, all guests run as user 65523.
    uids: str = field(default=GUESTS, validator=are_numbers)
    # The user of all guests instead: a name, or a number, which needs no name. "root": this process's own.
    user: str = field(default="", validator=optional_account)
    # The control group (cgroup v2) in which each guest gets its own; created if only its last part is missing. Empty:
    # none.
    cgroup: str = "/sys/fs/cgroup/cloudctl"
    # What runs guest code: tcg translates it and works everywhere; kvm needs /dev/kvm and is many times faster.
    accelerator: Literal["tcg", "kvm"] = "tcg"
    # QEMU's name of the machine type. A suspended guest needs the same one to resume.
    machine: str = "q35"
    # QEMU's name of the CPU model. Empty: `max` with tcg, `host` with kvm.
    cpu: str = ""
    # MiB of translated code that each guest may keep (tcg only).
    translation_cache_mib: int = field(default=64, validator=gt(0))
    # Capacity of each host; 0: what this machine has.
    vcpus: int = field(default=0, validator=ge(0))
    memory_mib: int = field(default=0, validator=ge(0))
    disk_gib: int = field(default=0, validator=ge(0))
    # Where the root disks of guests are: files of this machine, or clones of their images in this pool of Ceph. Guests
    # whose disks are files keep them.
    root_disks: Literal["files", "rbd"] = "files"
    rbd: Pool = field(factory=Pool)
    # Where sockets and process ids live. The paths of sockets are limited to 107 bytes, so it must be short.
    runtime_dir: Path = Path("/run/cloudctl")
    # Volumes and ports that a guest can have together. More of them cost time at each boot. A running guest has what it
    # was started with, and a suspended one needs as many.
    slots: int = field(default=16, validator=[gt(0), le(MOST_SLOTS)])
    # Arguments of a kernel that is booted directly, unless its image has the property os_command_line.
    kernel_arguments: str = "root=/dev/vda console=ttyS0 no_timer_check"
    # Guests have a screen, by VNC on a socket of this machine. It takes 16 MiB per guest. A suspended guest needs the
    # same to resume.
    vnc: bool = True
    # KiB of a serial console's output that are kept at least; twice as many at most.
    console_kib: int = field(default=512, validator=gt(0))
    # Seconds that a guest has for a soft reboot before its power is cut.
    soft_reboot_timeout: float = field(default=120.0, validator=ge(0))
    # Seconds that a running guest has to release a device.
    unplug_timeout: float = field(default=10.0, validator=gt(0))
    # Seconds until an answer of QEMU is given up.
    answer_timeout: float = field(default=20.0, validator=gt(0))
    # Seconds until a copy of a disk or of a guest's memory is given up.
    copy_timeout: float = field(default=1800.0, validator=gt(0))
    # Seconds that a live migration may take; then it is given up.
    migration_timeout: float = field(default=3600.0, validator=gt(0))
    # Seconds that a guest may stand still when it arrives; a guest that writes too fast to its memory is slowed down.
    migration_pause: float = field(default=0.3, validator=[gt(0), le(MOST_PAUSE)])
    # MiB/s that a migration may take; 0: unlimited.
    migration_mib_per_second: int = field(default=0, validator=ge(0))
    # Seconds that a converted image is kept after its last guest is gone.
    image_cache_seconds: float = field(default=86400.0, validator=ge(0))
    # Log what would be run, and run nothing.
    dry_run: bool = False

    def __attrs_post_init__(self) -> None:
        if self.vnc and self.slots == MOST_SLOTS:
            raise ValueError(f"slots must be at most {MOST_SLOTS - 1} with vnc: the screen takes the place of one")

    @property
    def namespaces(self) -> dict[str, str]:
        """Host → network namespace."""
        return self.hosts or {socket.gethostname(): ""}

    @property
    def account(self) -> Account | None:
        """The account of all guests; None: each has one of its own, of `numbers`."""
        if self.user or not exist(self.numbers):
            return account(self.user or DEFAULT)
        return None

    @property
    def numbers(self) -> range:
        return numbers(self.uids)

    @property
    def cpu_model(self) -> str:
        return self.cpu or {"tcg": "max", "kvm": "host"}[self.accelerator]
