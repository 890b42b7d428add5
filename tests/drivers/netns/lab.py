"""Networks to try a driver on: hosts are namespaces, guests are namespaces with one interface, and so is what lies
outside. Nothing of the machine's own is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from attrs import define, frozen
from twisted.internet.threads import deferToThread
from twisted.internet.utils import getProcessOutputAndValue

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.netns import inside
from cloudctl.drivers.netns.driver import PROGRAMS, Config, NetnsBackend, create
from cloudctl.drivers.netns.kernel import NAMESPACES
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.programs import require
from cloudctl.drivers.specs import DriverResources, PortSpec
from tests.drivers.netns import probes
from tests.drivers.netns.probes import PATIENCE, Echo, connects, http_get, ping, pinging

HOSTS = ("host-1", "host-2")
OUTSIDE = "203.0.113.1"
SO_RCVBUFFORCE = 33  # <asm-generic/socket.h>; the socket module has no name for it

# What udhcpc says, and the least that a guest does with it.
LEASE_SCRIPT = """#!/bin/sh
[ "$1" = deconfig ] && { ip address flush dev eth0; ip link set eth0 up; }
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev eth0
ip link set eth0 mtu "${mtu:-1500}"
for each in ip mask router dns mtu staticroutes serverid; do eval "echo $each=\\"\\$$each\\""; done
set -- $staticroutes
while [ -n "$1" ]; do ip route replace "$1" via "$2" dev eth0; shift 2; done
"""


def lacking() -> str | None:
    """Why there can be no real networks here."""
    if os.geteuid() != 0:
        return "real networks need root"
    try:
        require(*PROGRAMS)
    except Unusable as error:
        return str(error)
    return "busybox is missing" if shutil.which("busybox") is None else None


def runtime_dir(prefix: str) -> Path:
    """Where dnsmasq, which gives up its privileges, can read: not in pytest's own directories."""
    return Path(tempfile.gettempdir()) / f"cloudctl-netns-{prefix}"


def left_over(prefix: str) -> list[str]:
    """Namespaces with the prefix; the links in them go with them."""
    return sorted(name for name in os.listdir(NAMESPACES) if name.startswith(prefix)) if NAMESPACES.is_dir() else []


def dnsmasq_pids(prefix: str) -> list[int]:
    """Of all that run for these networks."""
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if _is_of(path, prefix)]


def _is_of(cmdline: Path, prefix: str) -> bool:
    try:
        return f"={runtime_dir(prefix)}/".encode() in cmdline.read_bytes()
    except OSError:
        return False  # it has ended meanwhile


def run(*command: str, stdin: str = "") -> str:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, timeout=120).stdout


def make_driver(prefix: str, directory: Path, hosts: tuple[str, ...] = HOSTS, **options: Any) -> NetnsBackend:
    from twisted.internet import reactor

    namespaces = {host: f"{prefix}-{host}" for host in hosts}
    physical = {"public": "outside"}
    config = Config(
        hosts=namespaces, physical_networks=physical, runtime_dir=runtime_dir(prefix), prefix=prefix, **options
    )
    resources = DriverResources(clock=reactor, name="netns", reactor=reactor, state_dir=directory / "state")
    return create(config, resources)


@frozen
class Guest:
    """A namespace with `eth0`, plugged where a virtual machine would be."""

    namespace: str
    mac: str
    directory: Path

    async def lease(self, tries: int = 60) -> dict[str, str]:
        """What DHCP gives, and takes it; nothing if there is no answer to so many requests, one a second."""
        script = self.directory / "udhcpc.sh"
        script.write_text(LEASE_SCRIPT)
        script.chmod(0o755)
        command = ["netns", "exec", self.namespace, "busybox", "udhcpc", "-i", "eth0", "-q", "-n", "-f"]
        command += ["-t", str(tries), "-T", "1", "-O", "121", "-O", "mtu", "-s", str(script)]
        out, _, _ = await getProcessOutputAndValue("/usr/sbin/ip", command, env=dict(os.environ))
        return dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)

    def settle(self, address: str, router: str) -> None:
        """Take the address («address/prefix length») and the routes that DHCP would give."""
        lines = [f"address add {address} dev eth0", "route add 169.254.169.254 dev eth0"]
        run("ip", "-n", self.namespace, "-batch", "-", stdin="\n".join([*lines, f"route add default via {router}"]))

    def ip(self, *words: str) -> str:
        return run("ip", "-n", self.namespace, *words)

    def ping(self, address: str, source: str | None = None, patience: float = PATIENCE) -> bool:
        return ping(self.namespace, address, source, patience)

    def pinging(self, address: str) -> AbstractContextManager[Echo]:
        return pinging(self.namespace, address)

    def connects(self, address: str, port: int, patience: float = PATIENCE) -> bool:
        return connects(self.namespace, address, port, patience)

    def listen(self, port: int, address: str = "0.0.0.0") -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return inside.within(self.namespace, lambda: socket.create_server((address, port), family=family))

    def receives(self, sender: Guest, address: str, packets: int) -> int:
        """How many packets of 1000 bytes, sent to the address all at once, arrive."""
        with probes.datagrams(self.namespace) as mine, probes.datagrams(sender.namespace) as theirs:
            mine.bind((address, 9000))
            mine.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 10_000 * packets)
            for _ in range(packets):
                theirs.sendto(bytes(1000), (address, 9000))
            arrived = 0
            # The first may be late on a busy machine, what comes after another is close behind.
            mine.settimeout(60.0)
            with suppress(TimeoutError):
                while arrived < packets and mine.recv(2000):
                    arrived += 1
                    mine.settimeout(0.5)
            return arrived

    def broadcast(self, frame: bytes) -> None:
        """Send a whole frame as it is."""

        def send() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
                made.sendto(frame, ("eth0", 0))

        inside.within(self.namespace, send)

    async def get(self, path: str) -> bytes:
        """Of the metadata service, which is served by this very process."""
        return await deferToThread(http_get, self.namespace, "169.254.169.254", path)


@define
class Lab:
    prefix: str
    directory: Path
    driver: NetnsBackend

    @property
    def names(self) -> Names:
        return Names(self.prefix)

    @property
    def outside(self) -> str:
        return f"{self.prefix}-outside"

    def host(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    async def guest(self, port: PortSpec, host: str = "host-1") -> Guest:
        """A plugged port with a guest behind it."""
        namespace = f"{self.prefix}-g-{port.id[:8]}"
        run("ip", "netns", "add", namespace)
        tap = self.names.tap(port.id)
        host_namespace = self.host(host)
        if any(f" {tap}:" in line for line in self.links(host)):
            run("ip", "-n", host_namespace, "link", "del", "dev", tap)
        # The driver takes a link that is there under the tap's name for the tap.
        pair = f"link add name eth0 address {port.mac} type veth peer name {tap} netns {host_namespace}"
        run("ip", "-n", namespace, "-batch", "-", stdin=f"link set dev lo up\n{pair}\n")
        await self.driver.ensure_port(port, host)
        run("ip", "-n", namespace, "link", "set", "dev", "eth0", "up")
        return Guest(namespace, port.mac, self.directory)

    def outside_connects(self, address: str, port: int, patience: float = PATIENCE) -> bool:
        return connects(self.outside, address, port, patience)

    def outside_pings(self, address: str) -> bool:
        return ping(self.outside, address)

    def seen_from_outside(self, guest: Guest) -> str:
        """The address with which a guest's connection arrives outside."""
        with inside.listening(self.outside, OUTSIDE, 8080) as server:
            assert guest.connects(OUTSIDE, 8080)
            server.settimeout(PATIENCE)
            connection, (address, _) = server.accept()
            connection.close()
            return address

    def restart(self) -> None:
        """Another process with the same state."""
        self.driver = make_driver(self.prefix, self.directory)

    def reboot(self) -> None:
        """What a machine loses when it is switched off; the operator's own bridge is made anew as it starts."""
        for pid in self.dnsmasq_pids():
            os.kill(pid, 9)
        run("ip", "-batch", "-", stdin="".join(f"netns del {name}\n" for name in left_over(self.prefix)))
        self.sweep()
        self.wire_up()
        self.restart()

    def sweep(self) -> None:
        """Take away what the driver keeps for the time that the machine is up."""
        shutil.rmtree(runtime_dir(self.prefix) / self.prefix)

    def wire_up(self) -> None:
        """The hosts, and the first one's bridge to the outside."""
        namespaces = (*map(self.host, HOSTS), self.outside)
        run("ip", "-batch", "-", stdin="".join(f"netns add {name}\n" for name in namespaces))
        first = self.host(HOSTS[0])
        # The bridge comes first: both ends of the pair would have the same number, which Linux takes for a sign that
        # nothing hangs on it, and then it is up to a second late to see it come up.
        lines = ["link add name outside type bridge forward_delay 0", "link set dev outside up"]
        lines += [f"link add name wire type veth peer name eth0 netns {self.outside}"]
        run("ip", "-n", first, "-batch", "-", stdin="\n".join([*lines, "link set dev wire master outside up"]))
        lines = ["link set dev lo up", f"address add {OUTSIDE}/24 dev eth0", "link set dev eth0 up"]
        run("ip", "-n", self.outside, "-batch", "-", stdin="\n".join(lines))

    def links(self, host: str) -> list[str]:
        """Of a host: «3: name@peer: <flags> mtu …» each."""
        return run("ip", "-n", self.host(host), "-o", "link", "show").splitlines()

    def configured(self, host: str) -> dict[str, tuple[Any, ...]]:
        """What somebody has set of each link, by name. Whether it has a carrier the kernel finds in its own time."""
        links = json.loads(run("ip", "-n", self.host(host), "-j", "link", "show"))
        fields = ("ifindex", "address", "mtu", "master", "link_netnsid")
        return {each["ifname"]: (*map(each.get, fields), "UP" in each["flags"]) for each in links}

    def link_kind(self, namespace: str, name: str) -> str:
        return json.loads(run("ip", "-n", namespace, "-j", "-d", "link", "show", "dev", name))[0]["linkinfo"][
            "info_kind"
        ]

    def dnsmasq_pids(self) -> list[int]:
        return dnsmasq_pids(self.prefix)

    def nothing_left(self) -> list[str]:
        """Namespaces, links and processes of networks, ports and routers that are still there."""
        found = [name for name in left_over(self.prefix) if name.startswith((f"{self.prefix}n-", f"{self.prefix}r-"))]
        for host in HOSTS:
            for line in self.links(host):
                name = line.split(": ")[1].split("@")[0]
                if name.startswith(self.prefix) and name != self.names.underlay_link:
                    found.append(name)
            if "ct zone" in (ruleset := run("ip", "netns", "exec", self.host(host), "nft", "list", "ruleset")):
                found.append(ruleset)
        files = [str(path) for path in runtime_dir(self.prefix).rglob("*") if path.is_file()]
        records = [str(path) for path in self.directory.rglob("*.json")]
        return [*found, *files, *records, *map(str, self.dnsmasq_pids())]
