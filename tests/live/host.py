"""A cloud with real drivers on this machine; its hosts, and the outside, are network namespaces."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.programs import require
from tests.live import guest_image
from tests.live.process import LiveCloud
from tests.live.websocket import WebSocket, open_console

UUID = re.compile(r"[0-9a-f-]{36}")
PROGRAMS = (
    "ip", "tc", "nft", "conntrack", "sysctl", "dnsmasq", "qemu-system-x86_64", "qemu-img", "qemu-storage-daemon",
    "genisoimage",
)  # fmt: skip
TOOLS = ("apt-get", "dpkg-deb", "cpio", "mke2fs", "ssh", "ssh-keygen")
HOSTS = ("host-1", "host-2")
OUTSIDE = "203.0.113.1"
SILENCE = 2.0  # seconds after which a missing packet counts as dropped
PATIENCE = 300.0  # seconds to wait for anything, on a busy machine

CONFIG = """
[drivers]
hypervisor = "qemu"
volume = "nbd"
network = "netns"

[compute]
console_listen = "unix:{runtime}/consoles"
console_url = "ws://consoles"

[driver.hypervisor.qemu]
hosts = {{ {hosts} }}
runtime_dir = "{runtime}"
memory_mib = 8192
slots = 8
image_cache_seconds = 0
{guests}

[driver.volume.nbd]
runtime_dir = "{runtime}"

[driver.network.netns]
hosts = {{ {hosts} }}
physical_networks = {{ public = "outside" }}
runtime_dir = "{runtime}"
prefix = "{prefix}"

[network]
public_cidr = "203.0.113.0/24"
private_cidr = "10.11.0.0/24"
"""


def lacking() -> str | None:
    """Why a real host is impossible here."""
    if os.geteuid() != 0:
        return "a real host needs root"
    try:
        require(*PROGRAMS)
    except Unusable as error:
        return str(error)
    missing = [name for name in TOOLS if shutil.which(name) is None]
    return f"programs are missing: {', '.join(missing)}" if missing else None


def run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def until(what: str, test: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The first true value of `test`."""
    end = time.monotonic() + patience
    while not (found := test()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {patience} s")
        time.sleep(0.1)
    return found


class Host:
    """The cloud, its namespaces, and a person outside with an ssh key."""

    def __init__(self, directory: Path, images: Path, killing: bool, guests: str = "") -> None:
        # Those of the network driver's tests, which may run at the same time, begin with a t.
        self.prefix = f"h{secrets.token_hex(1)}"
        self.outside = f"{self.prefix}-outside"
        self.namespaces = {host: f"{self.prefix}-{host}" for host in HOSTS}
        # Short, for the paths of sockets, and readable by dnsmasq.
        self.runtime = Path(tempfile.mkdtemp(prefix=f"cloudctl-{self.prefix}-"))
        self.runtime.chmod(0o755)
        hosts = ", ".join(f'"{host}" = "{namespace}"' for host, namespace in self.namespaces.items())
        toml = CONFIG.format(hosts=hosts, runtime=self.runtime, prefix=self.prefix, guests=guests)
        self.live = LiveCloud(directory, toml)
        self.images = images
        self.killing = killing
        self.killed: set[tuple[str, str, str]] = set()
        self.key = directory / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))

    def prepare(self) -> None:
        """A wire from the first host to the outside."""
        first = self.namespaces[HOSTS[0]]
        for name in (first, self.outside):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", first, "link", "add", "name", "outside", "type", "bridge")
        run("ip", "-n", first, "link", "set", "outside", "up")
        run(
            "ip",
            "link",
            "add",
            "name",
            "wire",
            "netns",
            first,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            self.outside,
        )
        run("ip", "-n", first, "link", "set", "wire", "master", "outside", "up")
        run("ip", "-n", self.outside, "address", "add", f"{OUTSIDE}/24", "dev", "eth0")
        run("ip", "-n", self.outside, "link", "set", "eth0", "up")

    def close(self) -> None:
        """End everything that the test may have left."""
        self.live.kill()
        for pid in self.processes():
            os.kill(pid, 9)
        for line in run("ip", "netns", "list").splitlines():
            name = line.split()[0]
            if name.startswith(self.prefix):
                for number in run("ip", "netns", "pids", name).split():
                    os.kill(int(number), 9)
                run("ip", "netns", "delete", name)
        shutil.rmtree(self.runtime, ignore_errors=True)

    # -- the cloud

    def ask(self, method: str, path: str, body: Any = None, user: str = "demo", **headers: str) -> Any:
        """The JSON of an answer, which must not be an error."""
        status, found = self.live.ask(method, path, body, user, **headers)
        assert status < 400, (method, path, status, found)
        return found

    def begin(self, method: str, path: str, body: Any = None, user: str = "demo", **headers: str) -> Any:
        """The same, for work that goes on after the answer: the cloud is killed in the middle of it and restarted.

        Once for each kind of work: a path, ignoring the ids in it, and what is requested.
        """
        found = self.ask(method, path, body, user, **headers)
        wished = {name: list(value) if isinstance(value, dict) else None for name, value in (body or {}).items()}
        kind = method, UUID.sub("", path), str(wished)
        if self.killing and kind not in self.killed:
            self.live.kill()
            self.killed.add(kind)
            self.live.start()
        return found

    def server(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/compute/v2.1/servers/{id}", user="admin")["server"]
        assert found["status"] != "ERROR", found.get("fault")
        return found

    def boot(self, name: str, network: str, image: str, user: str = "demo", **wanted: Any) -> str:
        """The id of a server that is being built."""
        body = {"name": name, "flavorRef": "tiny", "imageRef": image, "networks": [{"uuid": network}], **wanted}
        return str(self.begin("POST", "/compute/v2.1/servers", {"server": body}, user)["server"]["id"])

    def is_now(self, id: str, status: str) -> dict[str, Any]:
        """The server once it has this status and nothing is under way."""

        def ready() -> dict[str, Any] | None:
            found = self.server(id)
            settled = found["status"] == status and found["OS-EXT-STS:task_state"] is None
            return found if settled else None

        found: dict[str, Any] = until(f"server {id} is {status}", ready)
        return found

    def has_status(self, path: str, key: str, status: str, user: str = "demo") -> dict[str, Any]:
        """A volume, snapshot, backup or image once it has this status."""

        def ready() -> dict[str, Any] | None:
            found: dict[str, Any] = self.ask("GET", path, user=user)
            found = found.get(key, found)
            assert "error" not in found["status"], found
            return found if found["status"] == status else None

        found: dict[str, Any] = until(f"{path} is {status}", ready)
        return found

    def is_gone(self, path: str, user: str = "demo") -> None:
        until(f"{path} is gone", lambda: self.live.ask("GET", path, user=user)[0] == 404)

    def upload(self, id: str, file: Path) -> None:
        headers = {"X-Auth-Token": self.live.token(), "Content-Type": "application/octet-stream"}
        request = Request(f"{self.live.url}/image/v2/images/{id}/file", file.read_bytes(), headers, method="PUT")
        urlopen(request, timeout=60).close()

    def console(self, id: str, user: str = "demo") -> str:
        found = self.ask("POST", f"/compute/v2.1/servers/{id}/action", {"os-getConsoleOutput": {}}, user)
        return str(found["output"])

    @contextmanager
    def opened(self, id: str, protocol: str, type: str) -> Iterator[WebSocket]:
        """A console of the server, opened as its user would."""
        wanted = {"remote_console": {"protocol": protocol, "type": type}}
        newest = {"OpenStack-API-Version": "compute 2.6"}
        found = self.ask("POST", f"/compute/v2.1/servers/{id}/remote-consoles", wanted, **newest)
        with open_console(self.runtime / "consoles", found["remote_console"]["url"]) as console:
            yield console

    # -- the outside

    def ssh_command(self, address: str, command: str) -> list[str]:
        arguments = ["ip", "netns", "exec", self.outside, "ssh", "-i", str(self.key), "-o", "BatchMode=yes"]
        arguments += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=2"]
        return [*arguments, "-o", "LogLevel=ERROR", f"root@{address}", command]

    def ssh(self, address: str, command: str, patience: float = PATIENCE) -> str:
        """What the command prints in the guest with this floating address; waits for its ssh server."""
        arguments = self.ssh_command(address, command)
        end = time.monotonic() + patience
        while True:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
            # 255 is ssh's own: no connection, or not let in yet.
            if done.returncode == 0:
                return done.stdout.strip()
            if done.returncode != 255 or time.monotonic() > end:
                raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
            time.sleep(0.2)

    def succeeds(self, address: str, command: str) -> bool:
        """Whether a command succeeds in a guest that can be reached."""
        return self.ssh(address, f"{command} >/dev/null 2>&1; echo $?") == "0"

    def connects(self, address: str, port: int) -> bool:
        """Whether a connection from outside is accepted within `SILENCE`."""
        command = ("timeout", str(SILENCE), "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
        done = subprocess.run(("ip", "netns", "exec", self.outside, *command), capture_output=True, check=False)
        return done.returncode == 0

    # -- what is on the machine

    def processes(self) -> list[int]:
        """Processes of QEMU, its storage daemon and dnsmasq that work for this cloud."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            mine = any(str(self.runtime) in word or str(self.live.state_dir) in word for word in words)
            if mine and any(name in words[0] for name in ("qemu", "dnsmasq")):
                found.append(int(entry.name))
        return found

    def traces(self) -> dict[str, Any]:
        """What the drivers have made, by where it is, without what the test itself has made."""
        found: dict[str, Any] = {"processes": self.processes()}
        for line in run("ip", "netns", "list").splitlines():
            name = line.split()[0]
            # The wire between the hosts is made by the drivers, as the hosts are.
            if not name.startswith(self.prefix) or name in (self.outside, f"{self.prefix}-underlay"):
                continue
            if name not in self.namespaces.values():
                found[name] = "a namespace"
                continue
            links = {link["ifname"] for link in json.loads(run("ip", "-n", name, "-j", "link"))}
            found[f"links of {name}"] = sorted(links - {"lo", "outside", "wire", f"{self.prefix}underlay"})
            found[f"tables of {name}"] = run("ip", "netns", "exec", name, "nft", "list", "tables").split("\n")[:-1]
        state = self.live.state_dir / "drivers"
        files = [*state.rglob("*"), *self.runtime.rglob("*")]
        found["files"] = sorted(str(file) for file in files if not file.is_dir())
        return found


@contextmanager
def a_host(directory: Path, killing: bool, guests: str = "") -> Iterator[Host]:
    """`guests`: more options for the guests' driver."""
    host = Host(directory, guest_image.ensure(), killing, guests)
    try:
        host.prepare()
        host.live.start()
        yield host
    finally:
        host.close()
