"""An OVN of the tests' own: its central daemons, and one chassis in a network namespace with packets in userspace.

Daemons keep their sockets and databases in a directory; nothing of this machine's Open vSwitch is touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import define, field

from cloudctl.drivers.netns import inside
from cloudctl.drivers.specs import PortBinding, PortSpec
from tests.bounds import WITH_ME
from tests.drivers.netns.lab import Guest, run
from tests.drivers.ovn import ovsdb
from tests.drivers.ovn.ovsdb import Server, eventually

DAEMONS = ("ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl", "ovs-vswitchd", "ovs-vsctl", "ip", "busybox")
VSWITCH = Path("/usr/share/openvswitch/vswitch.ovsschema")
SOUTHBOUND = Path("/usr/share/ovn/ovn-sb.ovsschema")
OUTSIDE = "203.0.113.1"
TUNNEL = "198.51.100"  # of what carries packets from chassis to chassis
CHASSIS = "east"
DIRECTORIES = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVN_RUNDIR", "OVN_LOGDIR")


def lacking() -> str | None:
    """Why no packet can be sent through an OVN here."""
    if os.geteuid() != 0:
        return "Open vSwitch needs root"
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    missing += [str(each) for each in (VSWITCH, SOUTHBOUND, Path("/dev/net/tun")) if not each.exists()]
    return f"OVN's packets need {', '.join(missing)}" if missing else ovsdb.lacking()


@define
class Lab:
    prefix: str
    directory: Path
    northbound: Server
    name: str = CHASSIS
    _daemons: list[subprocess.Popen[bytes]] = field(factory=list)

    @property
    def chassis(self) -> str:
        """Its namespace."""
        return f"{self.prefix}-{self.name}"

    @property
    def switch(self) -> str:
        """Where its Open vSwitch is told what to plug."""
        return f"unix:{self.directory}/switch.sock"

    @property
    def outside(self) -> str:
        return f"{self.prefix}-outside"

    def start(self) -> None:
        for name in (self.chassis, self.outside):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "dev", "lo", "up")
        southbound = f"unix:{self.directory}/sb.sock"
        self._database("sb", SOUTHBOUND)
        self._daemon("ovn-northd", f"--ovnnb-db={self.northbound.remote}", f"--ovnsb-db={southbound}")
        self._open_switch(southbound, 1)
        self.vsctl("add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev")
        self._daemon("ovn-controller", self.switch)
        self._pair(self.outside, "wire", "02:00:00:00:00:01")
        self.vsctl("add-port", "br-ex", "wire")
        run("ip", "-n", self.outside, "address", "add", f"{OUTSIDE}/24", "dev", "eth0")
        run("ip", "-n", self.outside, "link", "set", "dev", "eth0", "up")

    def reach_outside(self, other: Lab) -> None:
        """The other chassis has a wire to the outside, too."""
        lines = [
            "link add br0 type bridge forward_delay 0",
            "link set dev eth0 master br0",
            "address flush dev eth0",
            f"address add {OUTSIDE}/24 dev br0",
            f"link add eth1 type veth peer wire netns {other.chassis}",
            "link set dev eth1 master br0 up",
            "link set dev br0 up",
        ]
        run("ip", "-n", self.outside, "-batch", "-", stdin="\n".join(lines))
        run("ip", "-n", other.chassis, "link", "set", "dev", "wire", "up")
        other.vsctl("add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev")
        other.vsctl("add-port", "br-ex", "wire")

    @contextmanager
    def beside(self, name: str) -> Iterator[Lab]:
        """Another chassis of this OVN, with a wire to this one, on which packets go in tunnels."""
        directory = self.directory / name
        directory.mkdir()
        made = Lab(self.prefix, directory, self.northbound, name)
        try:
            run("ip", "netns", "add", made.chassis)
            run("ip", "-n", made.chassis, "link", "set", "dev", "lo", "up")
            run(
                "ip", "-n", made.chassis, "link", "add", "wire0", "type", "veth", "peer", "wire0", "netns", self.chassis
            )
            made._open_switch(f"unix:{self.directory}/sb.sock", 2)
            for number, each in enumerate((self, made), 1):
                run("ip", "-n", each.chassis, "link", "set", "dev", "wire0", "up")
                each.vsctl("add-br", "br-under", "--", "set", "bridge", "br-under", "datapath_type=netdev")
                each.vsctl("add-port", "br-under", "wire0")
                run("ip", "-n", each.chassis, "address", "add", f"{TUNNEL}.{number}/24", "dev", "br-under")
                run("ip", "-n", each.chassis, "link", "set", "dev", "br-under", "up")
            made._daemon("ovn-controller", made.switch)
            yield made
        finally:
            made._end_daemons()

    def _open_switch(self, southbound: str, number: int) -> None:
        """In userspace, with all that OVN's daemon looks for in it."""
        self._database("switch", VSWITCH)
        self.vsctl("--no-wait", "init")
        told = {
            "ovn-remote": southbound,
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": f"{TUNNEL}.{number}",
            "system-id": self.name,
            "hostname": self.name,
            "ovn-bridge-datapath-type": "netdev",
            "ovn-bridge-mappings": "public:br-ex",
        }
        self.vsctl("--no-wait", "set", "open", ".", *(f'external-ids:{key}="{value}"' for key, value in told.items()))
        threads = ("other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")
        self.vsctl("--no-wait", "set", "open", ".", *threads)
        self._daemon("ovs-vswitchd", self.switch)

    def stop(self) -> None:
        self._end_daemons()
        for name in sorted(os.listdir("/run/netns")):
            if name.startswith(f"{self.prefix}-"):
                run("ip", "netns", "del", name)

    def _end_daemons(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait()

    def vsctl(self, *words: str) -> str:
        return run("ovs-vsctl", f"--db={self.switch}", "--timeout=60", *words)

    def tunnelled(self, other: str) -> int:
        """How many packets have gone to that chassis."""
        tunnel = ("--bare", "--columns=name", "find", "interface", "type=geneve", f"options:remote_ip={other}")
        [name] = self.vsctl(*tunnel).split() or [""]
        return int(self.vsctl("get", "interface", name, "statistics:tx_packets")) if name else 0

    def guest(self, port: PortSpec, binding: PortBinding) -> Guest:
        """A namespace that is plugged as the binding says."""
        details = binding["vif_details"]
        namespace = f"{self.prefix}-g-{port.id[:8]}"
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "dev", "lo", "up")
        self._pair(namespace, details["tap"], port.mac)
        plugged = ("--", "set", "interface", details["tap"], f"external-ids:iface-id={details['interface_id']}")
        self.vsctl("add-port", details["bridge"], details["tap"], *plugged)
        run("ip", "-n", namespace, "link", "set", "dev", "eth0", "mtu", str(details["mtu"]), "up")
        return Guest(namespace, port.mac, self.directory)

    def kill(self, program: str) -> None:
        """kill -9 of one of its daemons."""
        [daemon] = [each for each in self._daemons if program in list(map(str, each.args))]  # type: ignore[arg-type]  # a list
        daemon.kill()
        daemon.wait()

    def settled(self) -> None:
        """The chassis does what the northbound database says now."""
        run("ovn-nbctl", f"--db={self.northbound.remote}", "--timeout=60", "--wait=hv", "sync")

    def complaints(self) -> list[str]:
        """What the daemons did not understand of it."""
        logs = ("ovn-northd", "ovn-controller")
        lines = [line for name in logs for line in (self.directory / f"{name}.log").read_text().splitlines()]
        return [line for line in lines if "|ERR|" in line or "syntax error" in line.lower() or "parsing" in line]

    def _pair(self, namespace: str, name: str, mac: str) -> None:
        """`eth0` there, whose checksums are made at once, and its other end in the chassis."""
        run(
            "ip",
            "-n",
            namespace,
            "link",
            "add",
            "eth0",
            "address",
            mac,
            "type",
            "veth",
            "peer",
            name,
            "netns",
            self.chassis,
        )
        run("ip", "-n", self.chassis, "link", "set", "dev", name, "up")
        inside.compute_checksums(namespace, "eth0")

    def _database(self, name: str, schema: Path) -> None:
        file, socket = self.directory / f"{name}.db", self.directory / f"{name}.sock"
        subprocess.run(["ovsdb-tool", "create", file, schema], check=True)
        self._daemon("ovsdb-server", str(file), f"--remote=punix:{socket}", name=name)
        eventually(socket.exists)

    def _daemon(self, program: str, *words: str, name: str = "") -> None:
        name = name or program
        own = [f"--log-file={self.directory}/{name}.log", "-vconsole:off"]
        if program != "ovn-controller":  # which has no such option, and obeys the directory
            own.append(f"--unixctl={self.directory}/{name}.ctl")
        command = [*WITH_ME, "ip", "netns", "exec", self.chassis, program, *words, *own]
        place = dict.fromkeys(DIRECTORIES, str(self.directory))
        self._daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, **place}))


@contextmanager
def lab() -> Iterator[Lab]:
    with ExitStack() as left, tempfile.TemporaryDirectory(prefix="cc-") as directory:
        northbound = Server(Path(directory))
        left.callback(northbound.stop)
        made = Lab(f"o{secrets.token_hex(2)}", Path(directory), northbound)
        left.callback(made.stop)
        made.start()
        yield made
        left.close()
