"""What an operator may set for the hypervisor driver `libvirt`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

from attrs import field, frozen
from attrs.validators import ge, gt, le

from cloudctl.drivers.qemu.options import MOST_PAUSE, MOST_SLOTS
from cloudctl.drivers.rbd.options import Pool


def _uris(_instance: object, attribute: Any, value: dict[str, str]) -> None:
    for name, uri in value.items():
        if not name or any(character.isspace() or character == "/" for character in name):
            raise ValueError("must map names of hosts to URIs")
        if urlsplit(uri).scheme.partition("+")[0] not in ("qemu", "test"):
            raise ValueError(f"the URI of {name} must begin with qemu+tls:, qemu+unix: or qemu:")


def _apart(_instance: object, attribute: Any, value: dict[str, str]) -> None:
    named: dict[str, str] = {}
    for name, uri in value.items():
        # Each connection to libvirt's test driver is a host of its own.
        if uri in named and urlsplit(uri).scheme != "test":
            raise ValueError(f"{named[uri]} and {name} are the same libvirtd: each host needs one of its own")
        named[uri] = name


def _absolute(_instance: object, attribute: Any, value: str) -> None:
    if not PurePosixPath(value).is_absolute():
        raise ValueError("must be an absolute path")


@frozen
class Config:
    """`[driver.hypervisor.libvirt]`"""

    # Host → where its libvirtd is reached: qemu+tls://HOST/system?pkipath=DIRECTORY, qemu+unix:///system?socket=PATH.
    hosts: dict[str, str] = field(factory=dict, validator=[_uris, _apart])
    # Host → where the libvirtd of other hosts reaches its libvirtd, to move guests there. Hosts that are not named: as
    # we reach them, with the certificates that each host has in libvirt's default place.
    peers: dict[str, str] = field(factory=dict, validator=_uris)
    # What runs guest code: tcg translates it and works everywhere; kvm needs /dev/kvm on the hosts and is many times
    # faster.
    accelerator: Literal["tcg", "kvm"] = "kvm"
    # QEMU's name of the machine type. One with a version keeps guests movable between releases of QEMU.
    machine: str = "q35"
    # The CPU model that guests see. Empty: qemu64 with tcg, the host's model with kvm.
    cpu: str = ""
    # A directory on each host for disks and consoles, and the storage pool that libvirt makes from it.
    directory: str = field(default="/var/lib/libvirt/cloudctl", validator=_absolute)
    pool: str = "cloudctl"
    # Where the root disks of guests are: files of the hosts, or clones of their images in this pool of Ceph. Guests
    # whose disks are files keep them.
    root_disks: Literal["files", "rbd"] = "files"
    rbd: Pool = field(factory=Pool)
    # Volumes and ports that can be added to a guest while it runs.
    slots: int = field(default=16, validator=[gt(0), le(MOST_SLOTS)])
    # Arguments of a kernel that is booted directly, unless its image has the property os_command_line.
    kernel_arguments: str = "root=/dev/vda console=ttyS0 no_timer_check"
    # KiB of a serial console's log that are read at most.
    console_kib: int = field(default=512, validator=gt(0))
    # Seconds that a guest has for a soft reboot before its power is cut.
    soft_reboot_timeout: float = field(default=120.0, validator=ge(0))
    # Seconds that a running guest has to release a device.
    unplug_timeout: float = field(default=10.0, validator=gt(0))
    # Seconds until a connection to a host, an answer from it, or a copy of a disk is given up.
    open_timeout: float = field(default=10.0, validator=gt(0))
    answer_timeout: float = field(default=30.0, validator=gt(0))
    copy_timeout: float = field(default=1800.0, validator=gt(0))
    # Whether memory and disks of guests go from host to host over TLS, for which QEMU needs certificates there.
    migration_tls: bool = True
    # Seconds that a live migration may take; then it is given up, or ended with post-copy.
    migration_timeout: float = field(default=3600.0, validator=gt(0))
    # Whether a hurried or late guest starts on its new host before all of its memory is there. If the connection
    # between the hosts breaks meanwhile, the guest is lost.
    post_copy: bool = False
    # Seconds that a guest may stand still when it arrives; a guest that writes too fast to its memory is slowed down.
    migration_pause: float = field(default=0.3, validator=[gt(0), le(MOST_PAUSE)])
    # MiB/s that a migration may take; 0: unlimited.
    migration_mib_per_second: int = field(default=0, validator=ge(0))
    # Seconds between two attempts to reach a host that is down.
    retry_seconds: float = field(default=5.0, validator=gt(0))
    # Seconds between two keepalive requests to a host; it is down after three without an answer.
    keepalive_seconds: int = field(default=2, validator=gt(0))
    # Calls that may wait for one host at the same time.
    calls: int = field(default=8, validator=gt(0))
