"""A libvirtd of the tests' own, in a mount namespace: nothing of this machine's is touched."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from uuid import uuid4

DRIVER = Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so")
PROGRAMS = ("libvirtd", "unshare", "qemu-system-x86_64", "qemu-img", "genisoimage")
PRIVATE = ("/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt")

DAEMON = """
listen_tls = 0
unix_sock_dir = "{directory}"
auth_unix_rw = "none"
auth_unix_ro = "none"
host_uuid = "{uuid}"
keepalive_interval = 2
keepalive_count = 3
log_outputs = "2:file:{directory}/libvirtd.log"
"""
QEMU = """
security_driver = "none"
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""


def lacking() -> str | None:
    """Why there can be no libvirtd here."""
    if os.geteuid() != 0:
        return "libvirtd needs root"
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"libvirt's tests need {', '.join(missing)}"
    if not DRIVER.exists():
        return "libvirt's driver of QEMU is not installed"
    try:
        import libvirt  # noqa: F401 - the question is whether it is there
    except ImportError as error:
        return str(error)
    return None


class Libvirtd:
    """`uri` leads to it. Its guests end with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "libvirt-sock"
        self.uri = f"qemu+unix:///system?socket={self.socket}"
        (directory / "libvirtd.conf").write_text(DAEMON.format(directory=directory, uuid=uuid4()))
        (directory / "qemu.conf").write_text(QEMU)
        mounts = ["mount --make-rprivate /", "mount -t tmpfs tmpfs /run", "mkdir -p /run/libvirt"]
        for number, path in enumerate(PRIVATE):
            mine = directory / f"private{number}"
            mine.mkdir()
            mounts.append(f"mkdir -p {path} && mount --bind {mine} {path}")
        # The user that Debian's packages make; libvirt asks for it whatever qemu.conf says.
        for name, line in (("passwd", "libvirt-qemu:x:64055:64055::/:/bin/false"), ("group", "libvirt-qemu:x:64055:")):
            (directory / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
            mounts.append(f"mount --bind {directory}/{name} /etc/{name}")
        mounts.append(f"cp {directory}/qemu.conf /etc/libvirt/")
        # The shell stays the first process: it reaps what QEMU leaves behind, and libvirtd waits for that.
        mounts.append(f"libvirtd --config {directory}/libvirtd.conf --pid-file {directory}/pid; true")
        # The end of `unshare` is a power cut: all that runs within is killed.
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (directory / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "sh", "-ec", "; ".join(mounts)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._wait()

    def _wait(self) -> None:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                raise AssertionError((self.directory / "output").read_text())
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(self.socket))
                    return
                except OSError:
                    time.sleep(0.05)
        raise AssertionError("libvirtd does not come up")

    @property
    def pid(self) -> int:
        """Of the daemon: the shell's first child."""
        found = self.process.pid
        for _ in range(2):
            found = int(Path(f"/proc/{found}/task/{found}/children").read_text().split()[0])
        return found

    def pid_file(self, id: str) -> Path:
        """Of the guest's QEMU, as seen from outside of the namespace."""
        return Path(f"/proc/{self.pid}/root/run/libvirt/qemu/{id}.pid")

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def empty(self) -> None:
        """No guest and no pool is left."""
        import libvirt

        connection = libvirt.open(self.uri)
        for domain in connection.listAllDomains():
            if domain.isActive():
                domain.destroy()
            domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
        for pool in connection.listAllStoragePools():
            pool.destroy()
            pool.undefine()
        connection.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
