"""What a clone of an image in Ceph costs, compared with Ceph's own programs run by hand in the same run.

    python benchmarks/ceph.py [--rounds 10]

As root, with the Debian packages of `.ci/run`. A Ceph of its own, and a cloud in a process of its own. A volume is
created from an image through the API until it is available; then `rbd clone` clones the same base. The first volume
brings the image into the pool, and is reported separately. Beside it: the cost of one program that only looks.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.drivers.qemu import tiny_guest
from tests.drivers.rbd.cluster import POOL, USER, Cluster, lacking
from tests.live.process import LiveCloud

TOML = """
[drivers]
volume = "rbd"
[driver.volume.rbd]
monitors = ["{monitor}"]
user = "{user}"
keyring = "{keyring}"
"""
IMAGES, VOLUMES = "/image/v2/images", "/volume/v3/volumes"
PAUSE = 0.005  # seconds between two looks


def took(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


class Bench:
    def __init__(self, cloud: LiveCloud, cluster: Cluster) -> None:
        self.cloud, self.cluster = cloud, cluster
        wish = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
        self.image = self.ask("POST", IMAGES, wish)["id"]
        status, _ = cloud.ask(
            "PUT", f"{IMAGES}/{self.image}/file", tiny_guest.disk(), **{"Content-Type": "application/octet-stream"}
        )
        if status >= 300:
            raise RuntimeError(f"the image was answered {status}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.cloud.ask(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def volume(self) -> tuple[str, float]:
        """A new volume's id, and the seconds until it was available."""
        wish = {"volume": {"size": 1, "imageRef": self.image}}
        began = time.monotonic()
        id = self.ask("POST", VOLUMES, wish)["volume"]["id"]
        while (status := self.ask("GET", f"{VOLUMES}/{id}")["volume"]["status"]) != "available":
            if status == "error":
                raise RuntimeError(f"volume {id} is in error")
            time.sleep(PAUSE)
        return id, time.monotonic() - began

    def clone(self) -> dict[str, float]:
        id, api = self.volume()
        base = f"{POOL}/image-{self.image}@base"
        clone = ("clone", "--rbd-default-clone-format=2", base, f"{POOL}/by-hand")
        by_hand = took(lambda: self.rbd(*clone))
        one = took(lambda: self.rbd("info", f"{POOL}/by-hand"))
        self.rbd("rm", "--no-progress", f"{POOL}/by-hand")
        self.ask("DELETE", f"{VOLUMES}/{id}")
        while self.cloud.ask("GET", f"{VOLUMES}/{id}")[0] != 404:
            time.sleep(PAUSE)
        return {"clone, API": api, "clone, rbd clone": by_hand, "rbd info": one, "clone, own share": api - by_hand}

    def rbd(self, *words: str) -> None:
        """Run `rbd` with the same user, key and settings as the driver."""
        who = ("--conf", "/dev/null", "-m", self.cluster.monitor, "--id", USER, "--keyring", str(self.cluster.keyring))
        subprocess.run(["rbd", *who, *words], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    if reason := lacking():
        print(f"no Ceph here: {reason}")
        return
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="cc-") as name:
        directory = Path(name)
        for each in ("ceph", "cloud"):
            (directory / each).mkdir()
        cluster = Cluster(directory / "ceph")
        cloud = None
        try:
            cluster.start()
            words = {"monitor": cluster.monitor, "user": USER, "keyring": cluster.keyring}
            cloud = LiveCloud(directory / "cloud", TOML.format(**words), afresh=True)
            cloud.start()
            bench = Bench(cloud, cluster)
            # As long as this volume exists, the image is in the pool.
            _id, first = bench.volume()
            seen["first of an image, API"] = [first]
            for _ in range(rounds):
                for what, seconds in bench.clone().items():
                    seen.setdefault(what, []).append(seconds)
        finally:
            if cloud is not None:
                cloud.kill()
            cluster.end()
    print(f"{'ms':32}{'least':>8}{'median':>8}{'most':>8}")
    for what, found in seen.items():
        print(f"{what:32}" + "".join(f"{each * 1000:8.0f}" for each in (min(found), median(found), max(found))))


if __name__ == "__main__":
    main()
