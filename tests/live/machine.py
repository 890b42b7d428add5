"""Compute hosts of a cluster, each a machine of its own as far as one kernel allows: libvirtd, Open vSwitch with its
datapath in userspace, ovn-controller; and the wires between them.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import define, field

from cloudctl.drivers.netns import inside
from tests.bounds import WITH_ME
from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.netns.lab import run
from tests.drivers.ovn.lab import SOUTHBOUND, VSWITCH
from tests.drivers.ovn.ovsdb import Server

OUTSIDE = "203.0.113.1"
# The bridges: for control traffic, for guests' packets, and for the outside.
MANAGEMENT, UNDERLAY, PUBLIC = "management", "underlay", "public"
SOUTHBOUND_PORT = 6642

# A userspace bridge loses its address when the daemon dies; a machine's network management sets it again.
SWITCH = """
mkdir -p /run/openvswitch /run/ovn
ip link set lo up
keep ovsdb-server {directory}/switch.db --remote=punix:/run/openvswitch/db.sock --log-file={directory}/switch.log \
    -vconsole:off &
while [ ! -e /run/openvswitch/db.sock ]; do sleep 0.02; done
ovs-vsctl --no-wait init -- set open . {settings}
keep ovs-vswitchd --log-file={directory}/ovs-vswitchd.log -vconsole:off &
for bridge in br-underlay:wire1 {public}; do
    ovs-vsctl --may-exist add-br ${{bridge%:*}} -- set bridge ${{bridge%:*}} datapath_type=netdev \
        -- --may-exist add-port ${{bridge%:*}} ${{bridge#*:}}
done
addressed() {{
    ip -4 address show dev br-underlay | grep -q {tunnel} || ip address add {tunnel}/24 dev br-underlay
    ip link set br-underlay up
}}
(while :; do addressed 2>/dev/null || true; sleep 0.3; done) &
keep ovn-controller --log-file={directory}/ovn-controller.log -vconsole:off &
"""
PROXY = """
[driver.network.ovn]
southbound = ["{southbound}"]
datapath = "netdev"
metadata_urls = [{urls}]
metadata_secret = "{secret}"
"""
METADATA_PORTS = (8775, 8776)  # of the processes: all are on this machine
METADATA_SECRET = "of the hosts and the processes"


class Machine(Libvirtd):
    """A host with a chassis of the same name. `gateway`: it has a wire to the outside; `metadata`: for its guests."""

    def __init__(self, wires: Wires, directory: Path, pki: Path, name: str, gateway: bool, metadata: bool) -> None:
        number = wires.plug(name, gateway)
        super().__init__(directory, pki, name, wires.namespace(name), wires.address(number))
        self.tunnel = wires.tunnel(number)
        self.southbound = wires.southbound
        self.gateway = gateway
        self.metadata = metadata
        self.wires = wires
        subprocess.run(["ovsdb-tool", "create", directory / "switch.db", VSWITCH], check=True)

    def beside(self) -> Iterator[str]:
        told = {
            "ovn-remote": self.southbound,
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": self.tunnel,
            "system-id": self.name,
            "hostname": self.name,
            "ovn-bridge-datapath-type": "netdev",
            "ovn-bridge-mappings": "public:br-ex" if self.gateway else "",
        }
        settings = [f"external-ids:{key}='\"{value}\"'" for key, value in told.items() if value]
        settings += ["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"]
        public = "br-ex:wire2" if self.gateway else ""
        yield SWITCH.format(directory=self.directory, settings=" ".join(settings), public=public, tunnel=self.tunnel)
        if self.metadata:
            file = self.directory / "proxy.toml"
            urls = ", ".join(f'"http://{self.wires.here}:{port}"' for port in METADATA_PORTS)
            file.write_text(PROXY.format(southbound=self.southbound, urls=urls, secret=METADATA_SECRET))
            proxy = f"{sys.executable} -m cloudctl.cli --config={file} metadata-proxy"
            yield f"keep {proxy} 2>> {self.directory}/proxy.log &"

    def tell(self) -> None:
        """Print what is worth reading after a failure: why daemons gave up, and guests' last output."""
        lines = [f"-- {self.name}"]
        if self.metadata:
            lines += (self.directory / "proxy.log").read_text().splitlines()[-12:]
        for name in ("ovs-vswitchd.log", "ovn-controller.log"):
            lines += [line for line in (self.directory / name).read_text().splitlines() if "|EMER|" in line]
        lines += [line for line in (self.directory / "libvirtd.log").read_text().splitlines() if " : " in line][-12:]
        for log in sorted(self.directory.glob("private*/qemu/*.log")):
            lines += [f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-4:]]
        for console in sorted(self.directory.glob("private*/guests/*.console")):
            lines += [f"-- {console.name}", *console.read_text(errors="replace").splitlines()[-12:]]
        print(*lines, *self.processors(), sep="\n")

    def processors(self) -> Iterator[str]:
        """Where the guests' processors are, at two moments: one that is lost is at the same place in both."""
        import libvirt
        import libvirt_qemu

        by_people = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
        try:
            connection = libvirt.open(self.uri)
            for guest in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
                yield f"-- the processor of {guest.name()}"
                for _ in range(2):
                    told = libvirt_qemu.qemuMonitorCommand(guest, "info registers", by_people)
                    yield from (line for line in told.splitlines() if "RIP=" in line or "CR2=" in line)
                    time.sleep(0.2)
            connection.close()
        except libvirt.libvirtError as error:
            yield f"-- its processors cannot be asked: {error}"  # it is down, or its guest on its way

    def cut(self) -> None:
        """Unplug its cables; what runs there goes on."""
        self.wires.cable(self.name, "down")

    def mend(self) -> None:
        self.wires.cable(self.name, "up")


@define
class Wires:
    """A bridge for each purpose in a namespace, with this machine, the hosts and the outside on them."""

    prefix: str = field(factory=lambda: f"c{secrets.token_hex(2)}")
    # Up to 250 others, of 198.18.0.0/15, may run on this machine at the same time.
    number: int = field(factory=lambda: secrets.randbelow(250) + 2)
    plugged: list[str] = field(factory=list)

    def namespace(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def address(self, number: int) -> str:
        return f"198.18.{self.number}.{number + 2}"

    def tunnel(self, number: int) -> str:
        return f"198.19.{self.number}.{number + 2}"

    @property
    def here(self) -> str:
        """This machine's address."""
        return f"198.18.{self.number}.1"

    @property
    def southbound(self) -> str:
        return f"tcp:{self.here}:{SOUTHBOUND_PORT}"

    @property
    def outside(self) -> str:
        return self.namespace("outside")

    def start(self) -> None:
        for name in ("wires", "outside"):
            run("ip", "netns", "add", self.namespace(name))
        lines = [f"link add name {each} type bridge forward_delay 0" for each in (MANAGEMENT, UNDERLAY, PUBLIC)]
        lines += [f"link set dev {each} up" for each in (MANAGEMENT, UNDERLAY, PUBLIC)]
        lines += [f"link add name here type veth peer name {self.prefix} netns {os.getpid()}"]
        lines += [f"link set dev here master {MANAGEMENT} up"]
        lines += [f"link add name outside type veth peer name eth0 netns {self.outside}"]
        lines += [f"link set dev outside master {PUBLIC} up"]
        self._in("wires", lines)
        run("ip", "address", "add", f"{self.here}/24", "dev", self.prefix)
        run("ip", "link", "set", "dev", self.prefix, "up")
        self._in("outside", ["link set dev lo up", f"address add {OUTSIDE}/24 dev eth0", "link set dev eth0 up"])
        inside.compute_checksums(self.outside, "eth0")

    def stop(self) -> None:
        for name in sorted(os.listdir("/run/netns")):
            if name.startswith(f"{self.prefix}-"):
                run("ip", "netns", "del", name)

    def plug(self, name: str, gateway: bool) -> int:
        """Plug in a host's cables. Returns its number."""
        self.plugged.append(name)
        number = len(self.plugged)
        run("ip", "netns", "add", self.namespace(name))
        lines = []
        for each, bridge in enumerate((MANAGEMENT, UNDERLAY, PUBLIC) if gateway else (MANAGEMENT, UNDERLAY)):
            lines.append(f"link add name {name}{each} type veth peer name wire{each} netns {self.namespace(name)}")
            lines.append(f"link set dev {name}{each} master {bridge} up")
        self._in("wires", lines)
        self._in(name, [f"address add {self.address(number)}/24 dev wire0", "link set dev wire0 up"])
        self._in(name, [f"link set dev wire{each} up" for each in (1, 2)[: 2 if gateway else 1]])
        return number

    def cable(self, name: str, state: str) -> None:
        links = run("ip", "-n", self.namespace("wires"), "-o", "link", "show").splitlines()
        mine = [words[1].split("@")[0] for words in map(str.split, links) if words[1].startswith(name)]
        self._in("wires", [f"link set dev {each} {state}" for each in mine])

    def _in(self, name: str, lines: Sequence[str]) -> None:
        run("ip", "-n", self.namespace(name), "-batch", "-", stdin="\n".join(lines))


class Central:
    """OVN's databases and the daemon between them, each of which can be killed; the killer restarts it."""

    def __init__(self, wires: Wires) -> None:
        # Paths of sockets must be short.
        self.directory = Path(tempfile.mkdtemp(prefix="cc-"))
        self.northbound = Server(self.directory)
        remote = f"--remote=ptcp:{SOUTHBOUND_PORT}:{wires.here}"
        self.southbound = Server(self.directory, remote, name="sb", schema=SOUTHBOUND)
        self.northd: subprocess.Popen[bytes] | None = None
        self.start_northd()

    def start_northd(self) -> None:
        own = [f"--unixctl={self.directory}/northd.ctl", f"--log-file={self.directory}/northd.log", "-vconsole:off"]
        remotes = [f"--ovnnb-db={self.northbound.remote}", f"--ovnsb-db={self.southbound.remote}"]
        self.northd = subprocess.Popen([*WITH_ME, "ovn-northd", *remotes, *own], stdin=subprocess.DEVNULL)

    def stop_northd(self) -> None:
        if self.northd is not None:
            self.northd.kill()
            self.northd.wait()
            self.northd = None

    def stop(self) -> None:
        self.stop_northd()
        for server in (self.northbound, self.southbound):
            server.stop()
