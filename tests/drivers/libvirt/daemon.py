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

from tests.drivers.libvirt.pki import an_address

DRIVER = Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so")
PROGRAMS = ("libvirtd", "unshare", "qemu-system-x86_64", "qemu-img", "genisoimage")
PRIVATE = ("/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt")

DAEMON = """
listen_tls = 1
listen_addr = "127.0.0.1"
tls_port = "{port}"
auth_tls = "none"
ca_file = "{pki}/cacert.pem"
cert_file = "{pki}/servercert.pem"
key_file = "{pki}/serverkey.pem"
crl_file = ""
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
migration_host = "{address}"
migration_address = "{address}"
keepalive_interval = 2
keepalive_count = 3
migrate_tls_x509_cert_dir = "{pki}"
migrate_tls_x509_verify = 1
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Libvirtd:
    """A host: `uri` leads to its daemon, `tls_uri` as from another machine. Its guests end with it.

    `pki` is a directory of `tests.drivers.libvirt.pki`; hosts that move guests to each other have the same.
    """

    def __init__(self, directory: Path, pki: Path, name: str = "east") -> None:
        self.directory = directory
        self.name = name
        self.pki = pki
        self.socket = directory / "libvirt-sock"
        self.port = free_port()
        self.uri = f"qemu+unix:///system?socket={self.socket}"
        self.tls_uri = f"qemu+tls://127.0.0.1:{self.port}/system?pkipath={pki}"
        self.address = an_address(pki)
        self.uuid = uuid4()
        self.start()

    def start(self) -> None:
        """As a machine that is switched on: its disks are as they were."""
        directory = self.directory
        settings = DAEMON.format(directory=directory, uuid=self.uuid, port=self.port, pki=self.pki)
        (directory / "libvirtd.conf").write_text(settings)
        settings = QEMU.replace("{pki}", str(self.pki)).replace("{address}", self.address)
        (directory / "qemu.conf").write_text(settings)
        # Nobody takes another one's name for its own when guests move between them.
        (directory / "pid").unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)
        mounts = [f"echo {self.name} > /proc/sys/kernel/hostname", "mount --make-rprivate /"]
        mounts += ["mount -t tmpfs tmpfs /run", "mkdir -p /run/libvirt"]
        for number, path in enumerate(PRIVATE):
            mine = directory / f"private{number}"
            mine.mkdir(exist_ok=True)
            mounts.append(f"mkdir -p {path} && mount --bind {mine} {path}")
        # The user that Debian's packages make; libvirt asks for it whatever qemu.conf says.
        for name, line in (("passwd", "libvirt-qemu:x:64055:64055::/:/bin/false"), ("group", "libvirt-qemu:x:64055:")):
            (directory / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
            mounts.append(f"mount --bind {directory}/{name} /etc/{name}")
        mounts.append(f"cp {directory}/qemu.conf /etc/libvirt/")
        # The shell stays the first process: it reaps what QEMU leaves behind, and libvirtd waits for that.
        mounts.append(f"libvirtd --listen --config {directory}/libvirtd.conf --pid-file {directory}/pid; true")
        # The end of `unshare` is a power cut: all that runs within is killed.
        command = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
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
        return self.inside(f"/run/libvirt/qemu/{id}.pid")

    def inside(self, path: str) -> Path:
        """A file of the host, as seen from outside of the namespace."""
        return Path(f"/proc/{self.pid}/root{path}")

    def stop_daemon(self) -> None:
        """kill -9; the guests go on."""
        os.kill(self.pid, signal.SIGKILL)

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
            if pool.isActive():
                pool.destroy()
            pool.undefine()
        connection.close()

    def end(self) -> None:
        """A power cut; whoever is started next finds nobody at its port."""
        try:
            daemon = Path(f"/proc/{self.pid}")
        except (OSError, IndexError):  # it has ended, or never began
            daemon = Path("/proc/none")
        self.process.kill()
        self.process.wait()
        # The kernel ends the others of the namespace after the first.
        while daemon.exists():
            time.sleep(0.02)
