"""The guest image of `tools/guest_image`, built once for each change of its sources."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "guest_image"
KEPT = Path("/var/tmp")
# For direct boot. A damaged kernel panics instead of limping on; one that does not test its own cryptography first
# needs a sixth less of an emulated processor's time to start.
KERNEL_ARGUMENTS = (
    "root=/dev/vda1 console=ttyS0 no_timer_check cryptomgr.notests quiet oops=panic panic=-1"
    " sysctl.kernel.panic_on_rcu_stall=1"
)
PROGRAMS = ("apt-get", "dpkg-deb", "cpio", "gzip", "mke2fs", "qemu-img")


def lacking() -> str | None:
    """The programs of the build that are missing here."""
    missing = [name for name in PROGRAMS if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    return f"the guest image is built with {', '.join(missing)}" if missing else None


def ensure() -> Path:
    """The directory with guest.qcow2, vmlinuz and initrd. Builds it if needed; several processes may call at once."""
    sources = sorted(file for file in TOOL.rglob("*") if file.is_file())
    digest = sha256(b"\0".join(bytes(file.relative_to(TOOL)) + b"\0" + file.read_bytes() for file in sources))
    directory = KEPT / f"cloudctl-guest-{digest.hexdigest()[:12]}"
    with (KEPT / "cloudctl-guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The build moves its files into place at its end, the initrd last.
        if not (directory / "initrd").exists():
            subprocess.run([TOOL / "build", directory], check=True, stdout=subprocess.DEVNULL)
    return directory
