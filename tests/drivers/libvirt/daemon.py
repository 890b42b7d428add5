"""A libvirtd of the tests' own, in a mount namespace: nothing of this machine's is touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

from tests.bounds import WITH_ME
from tests.drivers.libvirt.pki import an_address
from tests.live.process import free_port

DRIVER = Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so")
PROGRAMS = ("libvirtd", "unshare", "qemu-system-x86_64", "qemu-img", "genisoimage")
CACHE = "/var/cache/libvirt"
PRIVATE = ("/etc/libvirt", "/var/lib/libvirt", CACHE, "/var/log/libvirt")
# What libvirtd finds out about the installed QEMU, by starting it again and again: three quarters of its own start. It
# sees by itself when that is out of date.
FOUND_OUT = Path("/var/tmp/cloudctl-libvirt")

DAEMON = """
listen_tls = 1
listen_addr = "{listen}"
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
# In the background or not: what is killed is started again, as a service would be.
KEEP = """
keep() { while :; do "$@" || true; sleep 0.2; done; }
"""
TLS_PORT = 16514
# Of what shall arrive soon: milliseconds that it may stand still, and MiB/s.
PAUSE, SPEED = 2000, 1000


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
    """A host: `uri` leads to its daemon, `tls_uri` as from another machine. Its guests end with it.

    `pki` is a directory of `tests.drivers.libvirt.pki`; hosts that move guests to each other have the same. A daemon
    that is killed is started again, and the guests go on.
    """

    def __init__(self, directory: Path, pki: Path, name: str = "east", namespace: str = "", address: str = "") -> None:
        """Without a network namespace of its own, in which it has the address, it shares this machine's."""
        self.directory = directory
        self.name = name
        self.pki = pki
        self.namespace = namespace
        self.socket = directory / "libvirt-sock"
        self.listen, self.port = (address, TLS_PORT) if address else ("127.0.0.1", free_port())
        self.uri = f"qemu+unix:///system?socket={self.socket}"
        self.tls_uri = f"qemu+tls://{self.listen}:{self.port}/system?pkipath={pki}"
        self.address = address or an_address(pki)
        self.uuid = uuid4()

    def start(self) -> None:
        """As a machine that is switched on: its disks are as they were. `wait` waits until it is up."""
        directory = self.directory
        settings = DAEMON.format(directory=directory, uuid=self.uuid, listen=self.listen, port=self.port, pki=self.pki)
        (directory / "libvirtd.conf").write_text(settings)
        settings = QEMU.replace("{pki}", str(self.pki)).replace("{address}", self.address)
        (directory / "qemu.conf").write_text(settings)
        # Nobody takes another one's name for its own when guests move between them.
        (directory / "pid").unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)
        # The user that Debian's packages make; libvirt asks for it whatever qemu.conf says.
        for name, line in (("passwd", "libvirt-qemu:x:64055:64055::/:/bin/false"), ("group", "libvirt-qemu:x:64055:")):
            (directory / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
        (directory / "start").write_text("\n".join([*self._mounts(), KEEP, *self.beside(), self._daemon(), ""]))
        copy(FOUND_OUT, self._found_out)
        # The end of `unshare` is a power cut: all that runs within is killed.
        command = [*WITH_ME, *(("ip", "netns", "exec", self.namespace) if self.namespace else ())]
        command += ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (directory / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "sh", "-e", directory / "start"], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def _found_out(self) -> Path:
        return self._private(CACHE) / "qemu" / "capabilities"

    def _private(self, path: str) -> Path:
        return self.directory / f"private{PRIVATE.index(path)}"

    def beside(self) -> Iterator[str]:
        """What else is started on this host, before libvirtd: lines for a shell."""
        yield from ()

    def _mounts(self) -> Iterator[str]:
        directory = self.directory
        yield f"echo {self.name} > /proc/sys/kernel/hostname"
        yield "mount --make-rprivate /"
        yield "mount -t tmpfs tmpfs /run"
        yield "mkdir -p /run/libvirt /run/lock"
        for path in PRIVATE:
            mine = self._private(path)
            mine.mkdir(exist_ok=True)
            yield f"mkdir -p {path}"
            yield f"mount --bind {mine} {path}"
        for name in ("passwd", "group"):
            yield f"mount --bind {directory}/{name} /etc/{name}"
        yield f"cp {directory}/qemu.conf /etc/libvirt/"

    def _daemon(self) -> str:
        # The shell stays the first process: it reaps what QEMU leaves behind, and libvirtd waits for that.
        return f"keep libvirtd --listen --config {self.directory}/libvirtd.conf --pid-file {self.directory}/pid"

    def wait(self) -> None:
        give_up = time.monotonic() + 240
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                break
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(self.socket))
                    return
                except OSError:
                    time.sleep(0.05)
        raise AssertionError(f"libvirtd does not come up: {(self.directory / 'output').read_text()}")

    def pids(self, program: str) -> list[int]:
        """Of a program on this host, as seen from outside of it."""
        mine = os.readlink(f"/proc/{self.first}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "comm").read_text().strip() == program[:15] and os.readlink(entry / "ns/pid") == mine:
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended
        return found

    @property
    def first(self) -> int:
        """The first process within."""
        found = self.process.pid
        return int(Path(f"/proc/{found}/task/{found}/children").read_text().split()[0])

    @property
    def pid(self) -> int:
        """Of the daemon."""
        return min(self.pids("libvirtd"))

    def kill(self, program: str) -> None:
        """kill -9; it is started again."""
        self._send(signal.SIGKILL, self.pids(program))

    def kill_guest(self, id: str) -> None:
        """kill -9 of its QEMU."""
        for each in self.pids("qemu-system-x86_64"):
            with suppress(OSError):  # it has ended since it was seen
                if id in Path(f"/proc/{each}/cmdline").read_text():
                    os.kill(each, signal.SIGKILL)

    @staticmethod
    def _send(what: signal.Signals, pids: Sequence[int]) -> None:
        for each in pids:
            with suppress(ProcessLookupError):  # it has ended since it was seen
                os.kill(each, what)

    def pid_file(self, id: str) -> Path:
        """Of the guest's QEMU, as seen from outside of the namespace."""
        return self.inside(f"/run/libvirt/qemu/{id}.pid")

    def inside(self, path: str) -> Path:
        """A file of the host, as seen from outside of the namespace."""
        return Path(f"/proc/{self.first}/root{path}")

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """If it was not killed meanwhile."""
        self._send(signal.SIGCONT, self.pids("libvirtd"))

    def stands_still(self, id: str) -> bool | None:
        """None if the guest is not here."""
        import libvirt

        with closing(libvirt.open(self.uri)) as connection:
            for guest in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
                if guest.name() == id:
                    return bool(guest.state()[0] == libvirt.VIR_DOMAIN_PAUSED)
        return None

    def is_sending(self, id: str) -> bool:
        """What the guest has in its memory is on its way from here."""
        import libvirt

        with suppress(libvirt.libvirtError), closing(libvirt.open(self.uri)) as connection:  # it is not on
            return bool(connection.lookupByName(id).jobStats(0).get("memory_total"))
        return False

    def hasten(self, id: str) -> None:
        """What is on its way from here arrives soon."""
        import libvirt

        with suppress(libvirt.libvirtError), closing(libvirt.open(self.uri)) as connection:  # it has gone
            guest = connection.lookupByName(id)
            guest.migrateSetMaxDowntime(PAUSE, 0)
            guest.migrateSetMaxSpeed(SPEED)

    def monitor(self, id: str, command: str, **arguments: object) -> None:
        """QEMU does what it is told. Raises KeyError if it does not."""
        import libvirt
        import libvirt_qemu

        asked = json.dumps({"execute": command, "arguments": arguments})
        with closing(libvirt.open(self.uri)) as connection:
            json.loads(libvirt_qemu.qemuMonitorCommand(connection.lookupByName(id), asked, 0))["return"]

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
            shell = Path(f"/proc/{self.first}")
        except (OSError, IndexError):  # it has ended, or never began
            shell = Path("/proc/none")
        self.process.kill()
        self.process.wait()
        # The kernel ends the others of the namespace before the first.
        while shell.exists():
            time.sleep(0.02)
        copy(self._found_out, FOUND_OUT)


def copy(source: Path, target: Path) -> None:
    """Each file is there whole or not at all: others may do the same meanwhile."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.xml"):
        new = target / f"{file.name}.{uuid4()}"
        shutil.copyfile(file, new)
        new.replace(target / file.name)
