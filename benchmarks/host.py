"""How long a real guest takes, compared with the same QEMU started by hand in the same run on the same machine.

    python benchmarks/host.py [--rounds 3]

As root, with the Debian packages of `.ci/run`. In each round a server is booted through the API until it is ACTIVE,
until its guest has an address by DHCP, and until ssh through a floating IP answers; then, with the cloud idle, QEMU is
started with the arguments that cloudctl used, on a fresh copy of the disk and without a network, until it runs and
until the guest has started. The difference of the two is what cloudctl itself adds until ACTIVE.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.live.host import Host, a_host, lacking

STARTED = "guest: started"
LIMIT = 120.0  # seconds to wait for anything


def since(began: float) -> float:
    return time.monotonic() - began


def wait(test: Callable[[], Any]) -> None:
    end = time.monotonic() + LIMIT
    while not test():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {LIMIT} s")
        time.sleep(0.005)


class Bench:
    def __init__(self, host: Host) -> None:
        self.host = host
        new = {"name": "guest", "disk_format": "qcow2", "container_format": "bare"}
        self.image = host.ask("POST", "/image/v2/images", new)["id"]
        host.upload(self.image, host.images / "guest.qcow2")
        flavor = {"id": "tiny", "name": "tiny", "ram": 96, "vcpus": 1, "disk": 1}
        host.ask("POST", "/compute/v2.1/flavors", {"flavor": flavor}, "admin")
        key = {"name": "key", "public_key": host.key.with_suffix(".pub").read_text()}
        host.ask("POST", "/compute/v2.1/os-keypairs", {"keypair": key})
        networks = {each["name"]: each["id"] for each in host.ask("GET", "/networking/v2.0/networks")["networks"]}
        self.private, self.public = networks["private"], networks["public"]
        [group] = host.ask("GET", "/networking/v2.0/security-groups?name=default")["security_groups"]
        rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
        host.ask("POST", "/networking/v2.0/security-group-rules", {"security_group_rule": rule})

    def guest(self) -> tuple[dict[str, float], list[str]]:
        """Seconds until ACTIVE, a lease and ssh; and the command line of its QEMU."""
        host, began = self.host, time.monotonic()
        server = host.boot("bench", self.private, self.image, key_name="key")
        path = f"/compute/v2.1/servers/{server}"
        wait(lambda: host.ask("GET", path)["server"]["status"] == "ACTIVE")
        times = {"ACTIVE": since(began)}
        [port] = host.ask("GET", f"/networking/v2.0/ports?device_id={server}")["ports"]
        wanted = {"floating_network_id": self.public, "port_id": port["id"]}
        floating = host.ask("POST", "/networking/v2.0/floatingips", {"floatingip": wanted})["floatingip"]
        wait(lambda: "guest: eth0 has" in host.console(server))
        times["DHCP lease"] = since(began)
        assert host.ssh(floating["floating_ip_address"], "hostname") == "bench"
        times["ssh"] = since(began)
        [command] = [words for words in map(words_of, host.processes()) if words[0].endswith("x86_64")]
        host.ask("DELETE", f"/networking/v2.0/floatingips/{floating['id']}")
        host.ask("DELETE", path)
        host.is_gone(path)
        return times, command

    def bare(self, command: list[str], directory: Path) -> dict[str, float]:
        """Seconds until QEMU, started by hand, runs, and until its guest has started."""
        words = elsewhere(command, {self.host.runtime: directory / "r", self.host.live.state_dir: directory / "s"})
        [disk] = [each["file"]["filename"] for each in map(json.loads, after(words, "-blockdev"))]
        [console] = [word.partition("logfile=")[2].partition(",")[0] for word in after(words, "-chardev")]
        [pid] = after(words, "-pidfile")
        [qmp] = [word.removeprefix("unix:").partition(",")[0] for word in after(words, "-qmp")]
        for file in (disk, console, pid, qmp):
            Path(file).parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        backing = ("-F", "qcow2", "-b", str(self.host.images / "guest.qcow2"))
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, disk, "1G"], check=True)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        times = {"QEMU runs": since(began)}
        wait(lambda: STARTED in Path(console).read_text(errors="replace"))
        times["guest started"] = since(began)
        subprocess.run(["kill", "-9", Path(pid).read_text().strip()], check=True)
        return times


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]


def after(words: list[str], option: str) -> list[str]:
    """The values of an option."""
    return [value for name, value in pairwise(words) if name == option]


def elsewhere(words: list[str], places: dict[Path, Path]) -> list[str]:
    """The same command with its files in other places, and without a network."""
    kept, at = [], 0
    while at < len(words):
        if words[at] == "-netdev" or (words[at] == "-device" and "virtio-net" in words[at + 1]):
            at += 2
        else:
            kept.append(words[at])
            at += 1
    for old, new in places.items():
        kept = [word.replace(str(old), str(new)) for word in kept]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    if reason := lacking():
        print(f"no real host here: {reason}")
        return
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="cc") as name:
        directory = Path(name)
        (directory / "cloud").mkdir()
        with a_host(directory / "cloud", killing=False) as host:
            bench = Bench(host)
            for number in range(rounds):
                times, command = bench.guest()
                times |= bench.bare(command, directory / f"b{number}")
                times["cloudctl's own until ACTIVE"] = times["ACTIVE"] - times["QEMU runs"]
                for what, seconds in times.items():
                    seen.setdefault(what, []).append(seconds)
    print(f"{'ms, of ' + str(rounds) + ' rounds':32}{'least':>8}{'median':>8}{'most':>8}")
    for what, found in seen.items():
        print(f"{what:32}" + "".join(f"{each * 1000:8.0f}" for each in (min(found), median(found), max(found))))


if __name__ == "__main__":
    main()
