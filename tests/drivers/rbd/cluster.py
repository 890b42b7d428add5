"""A Ceph of the tests' own: a monitor, a manager and a daemon that keeps its objects in memory; on ports of its own."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import time
from base64 import b64encode
from pathlib import Path
from uuid import uuid4

import orjson

from tests.bounds import WITH_ME
from tests.live.process import free_port

PROGRAMS = ("ceph", "rbd", "rados", "ceph-mon", "ceph-mgr", "ceph-osd", "monmaptool")
ROOM = 6 << 30  # bytes; nothing is taken up before it is written
POOL = "volumes"
USER = "cloud"

SETTINGS = """
[global]
fsid = {fsid}
mon_host = {monitor}
public_addr = {address}
ms_bind_ipv6 = false
keyring = {directory}/keyring
mon_data = {directory}/mon
mgr_data = {directory}/mgr
osd_data = {directory}/osd
run_dir = {directory}
admin_socket = {directory}/$name.asok
log_file = {directory}/$name.log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_crit = 1
mon_data_avail_warn = 2
mon_tick_interval = 1
mgr_initial_modules =
mgr_module_path = {directory}/modules
mgr_stats_period = 1
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
mgr_tick_period = 1
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = {room}
osd_client_watch_timeout = 12
"""


def lacking() -> str | None:
    """Why there can be no Ceph here."""
    if os.geteuid() != 0:
        return "Ceph's daemons are started as root"
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if not any(Path("/usr/lib").glob("*/qemu/block-rbd.so")):
        missing.append("QEMU's driver of rbd")
    return f"Ceph's tests need {', '.join(missing)}" if missing else None


def entry(name: str, **rights: str) -> str:
    """Of a keyring, with a new key: its kind (AES), when it was made, its length, 16 bytes."""
    key = b64encode(struct.pack("<HIIH", 1, int(time.time()), 0, 16) + os.urandom(16)).decode()
    return f"[{name}]\n    key = {key}\n" + "".join(f'    caps {on} = "{what}"\n' for on, what in rights.items())


class Cluster:
    """`monitor` is where it is reached, by `USER` with the key in `keyring`. What it keeps goes with it."""

    def __init__(self, directory: Path, address: str = "127.0.0.1") -> None:
        """`address`: one of this machine's, by which the hosts of guests reach it."""
        self.directory = directory
        self.address = address
        self.monitor = f"{address}:{free_port()}"
        self.conf = directory / "ceph.conf"
        self.keyring = directory / f"{USER}.keyring"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        fsid, osd, map = str(uuid4()), str(uuid4()), str(self.directory / "map")
        named = {"fsid": fsid, "monitor": f"v2:{self.monitor}", "address": self.address}
        self.conf.write_text(SETTINGS.format(**named, directory=self.directory, room=ROOM))
        for name in ("mon", "mgr", "osd", "modules"):
            (self.directory / name).mkdir()
        everything = {"mon": "allow *", "osd": "allow *", "mgr": "allow *"}
        profile = f"profile rbd pool={POOL}"
        keys = {
            "mon.": entry("mon.", mon="allow *"),
            "client.admin": entry("client.admin", **everything),
            "mgr.x": entry("mgr.x", mon="profile mgr", osd="allow *"),
            "osd.0": entry("osd.0", **{**everything, "mon": "profile osd"}),
            USER: entry(f"client.{USER}", mon="profile rbd", osd=profile, mgr=profile),
        }
        (self.directory / "keyring").write_text("".join(keys.values()))
        self.keyring.write_text(keys[USER])
        self._tool("monmaptool", "--create", "--addv", "a", f"[v2:{self.monitor}]", "--fsid", fsid, map)
        self._tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", map, "--keyring", str(self.directory / "keyring"))
        self._daemon("ceph-mon", "a")
        self._daemon("ceph-mgr", "x")
        # One process for all of them: it waits for the monitor, and each start of it costs a second.
        orders = [f"osd new {osd} 0", f"osd pool create {POOL} 8 8", f"osd pool application enable {POOL} rbd"]
        # By default ten at once, whose buffers are other ones each time: to have memory cleared was most of an export.
        orders.append("config set client rbd_concurrent_management_ops 2")
        self.ceph(stdin="".join(f"{each}\n" for each in orders))
        self._tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._daemon("ceph-osd", "0")
        # The manager counts; before it has, nobody knows what there is.
        give_up = time.monotonic() + 120
        while not self._room():
            assert time.monotonic() < give_up, "Ceph does not come up"
            time.sleep(0.2)

    def _room(self) -> int:
        pools = orjson.loads(self.ceph("df", "--format=json"))["pools"]
        return sum(int(each["stats"]["max_avail"]) for each in pools if each["name"] == POOL)

    def _key(self, name: str, **rights: str) -> str:
        """A file with a new key for this entity; the daemons find theirs in the keyring of all."""
        file = self.directory / f"{name}.key"
        words = [word for service, right in rights.items() for word in ("--cap", service, right)]
        self._tool("ceph-authtool", "--create-keyring", str(file), "--gen-key", "-n", name, *words)
        if not name.startswith("client."):
            self._tool("ceph-authtool", str(self.directory / "keyring"), "--import-keyring", str(file))
        return str(file)

    def ceph(self, *words: str, stdin: str = "") -> str:
        """Without words: a command in each line of `stdin`."""
        return self._tool("ceph", "--connect-timeout", "60", *words, stdin=stdin)

    def rbd(self, *words: str) -> str:
        return self._tool("rbd", *words)

    def _tool(self, program: str, *words: str, stdin: str = "") -> str:
        """What it says. Raises CalledProcessError, TimeoutExpired."""
        return subprocess.run(
            [program, "--conf", str(self.conf), *words],
            input=stdin,
            capture_output=True,
            timeout=120,
            check=True,
            text=True,
        ).stdout

    def _daemon(self, program: str, id: str) -> None:
        with (self.directory / f"{program}.output").open("wb") as output:
            command = [*WITH_ME, program, "--conf", str(self.conf), "-i", id, "-f"]
            self._daemons[program] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def freeze(self, program: str) -> None:
        self._daemons[program].send_signal(signal.SIGSTOP)

    def thaw(self, program: str) -> None:
        self._daemons[program].send_signal(signal.SIGCONT)

    def end(self) -> None:
        for process in self._daemons.values():
            process.kill()
        for process in self._daemons.values():
            process.wait()
