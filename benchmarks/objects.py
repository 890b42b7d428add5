"""How fast the object store is, compared with what the machine does in the same run.

    python benchmarks/objects.py [--mib 1024] [--rows 1000000] [--seconds 4] [--rounds 3]

Large objects: an upload, which is answered when it is on disk, compared with `cat` to a file that is synced, and with
MD5, which no upload hashed in sequence can beat; `cat` without the sync is reported, too. A download is compared with
nginx with sendfile. They take turns, and each is represented by its best round: other work on the machine disturbs them
all. The server's processor time for an upload is compared with that of hashing the same bytes, without which there is
no tag.

Small objects: 4 KiB objects per second by Swift and by S3, compared with a bare Klein route. Listings: a page of a
container with a thousand objects, and of one with many, whose rows are written straight into the tables. Memory: what
the process had before, and at most.

nginx comes from the system (`apt-get install nginx-light`).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import Serial, encode, rate, until
from processor import BareKlein, spent

from tests.live.process import LiveCloud, free_port
from tests.live.test_object_store_kill import S3
from tests.object_store.signing import UNSIGNED, Key

MIB = 2**20
SMALL = b"x" * 4096
FEW = 1000
PAGE = 100
LONGEST = 600.0  # seconds that an answer may take
AT_ONCE = 10_000  # rows


class Nginx:
    """Sends the files of a directory, and nothing else."""

    CONFIGURATION = """
daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/nginx.log;
events {{ }}
http {{
  access_log off; sendfile on; tcp_nopush on; client_body_temp_path {directory}/nginx;
  proxy_temp_path {directory}/nginx; fastcgi_temp_path {directory}/nginx; uwsgi_temp_path {directory}/nginx;
  scgi_temp_path {directory}/nginx;
  server {{ listen 127.0.0.1:{port}; root {directory}; }}
}}
"""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.configuration = directory / "nginx.conf"
        self.configuration.write_text(self.CONFIGURATION.format(directory=directory, port=self.port))
        directory.chmod(0o755)

    def __enter__(self) -> Nginx:
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            raise SystemExit("nginx is not installed (apt-get install nginx-light)")
        self.process = subprocess.Popen(
            [program, "-c", str(self.configuration), "-e", str(self.configuration.with_suffix(".log"))],
            stderr=subprocess.DEVNULL,
        )
        until(self._answers, 30, "nginx does not answer")
        return self

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def download(port: int, request: bytes, size: int) -> float:
    """Seconds until all `size` bytes of the body have arrived."""
    room = bytearray(MIB)
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST) as connection:
        connection.sendall(request)
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        head, _, rest = head.partition(b"\r\n\r\n")
        if b" 200 " not in head[:20]:
            raise RuntimeError(head[:300])
        left = size - len(rest)
        while left:
            count = connection.recv_into(room)
            if not count:
                raise RuntimeError(f"{left} bytes did not come")
            left -= count
    return time.perf_counter() - began


def upload(port: int, head: bytes, path: Path) -> float:
    """Seconds until the answer has arrived."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST) as connection, path.open("rb") as file:
        connection.sendall(head)
        connection.sendfile(file)
        answer = connection.recv(65536)
    if answer[9:12] not in (b"200", b"201"):
        raise RuntimeError(answer[:300])
    return time.perf_counter() - began


def copied(path: Path, target: Path) -> tuple[float, float]:
    """Seconds until `cat` has written a copy, and until it is on the disk."""
    began = time.perf_counter()
    with target.open("wb") as file:
        subprocess.run(["cat", str(path)], stdout=file, check=True)
        written = time.perf_counter() - began
        os.fsync(file.fileno())
    took = time.perf_counter() - began
    target.unlink()
    return written, took


def hashing(mib: int) -> float:
    """Seconds of processor time for the MD5 of `mib` MiB."""
    data, digest = os.urandom(MIB), hashlib.md5(usedforsecurity=False)
    began = time.thread_time()
    for _ in range(mib):
        digest.update(data)
    return time.thread_time() - began


@contextmanager
def stopped(cloud: LiveCloud):
    cloud.stop()
    try:
        yield
    finally:
        cloud.start()


def fill(database: Path, project: str, container: str, count: int) -> None:
    """Rows of empty objects, as an empty upload leaves them."""
    columns = "container_id, name, project_id, size, etag, content_type, headers, updated_at, version"
    with closing(sqlite3.connect(database)) as connection:
        (id,) = connection.execute("SELECT id FROM object_containers WHERE name = ?", [container]).fetchone()
        empty = ("d41d8cd98f00b204e9800998ecf8427e", "text/plain", "{}", "2026-01-01 00:00:00.000000", "")
        for start in range(0, count, AT_ONCE):
            rows = ((id, f"o{number:09}", project, 0, *empty) for number in range(start, min(start + AT_ONCE, count)))
            connection.executemany(f"INSERT INTO objects ({columns}) VALUES (?,?,?,?,?,?,?,?,?)", rows)
            connection.commit()


def memory(pid: int, what: str) -> float:
    """MiB. `what`: VmRSS for now, VmHWM for the peak so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def told(name: str, value: float, unit: str, beside: float, what: str) -> None:
    print(f"{name:<34}{value:>10.1f} {unit:<6}{what}: {beside:>9.1f}   {100 * value / beside:5.1f} %", flush=True)


class Store:
    """The account of the user demo in a cloud."""

    def __init__(self, cloud: LiveCloud) -> None:
        self.cloud = cloud
        self.project = cloud.ask("GET", "/identity/v3/auth/projects")[1]["projects"][0]["id"]
        self.root = f"/object-store/v1/AUTH_{self.project}"
        self.headers = {"X-Auth-Token": cloud.token(), "Accept": "application/json"}

        self.s3 = S3(cloud)

    @property
    def pid(self) -> int:
        assert self.cloud.process is not None
        return self.cloud.process.pid

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        return encode(method, f"{self.root}/{path}", self.headers, body)

    def by_s3(self, method: str, path: str, body: bytes = b"") -> bytes:
        key, host = Key(self.s3.key.access, self.s3.key.secret, time.time()), f"127.0.0.1:{self.cloud.port}"
        signed = key.signed(method, f"/s3/{path}", "", {"Host": host}, UNSIGNED)
        return encode(method, f"/s3/{path}", signed, body)

    def make(self, container: str) -> None:
        status = Serial(self.cloud.port).ask(self.request("PUT", container))[0]
        assert status == 201, status

    def page(self, container: str, middle: str) -> Callable[[int], bytes]:
        return lambda number: self.request("GET", f"{container}?limit={PAGE}&marker={middle}&x={number}")


Way = Callable[..., bytes]


def large(store: Store, directory: Path, mib: int, rounds: int) -> None:
    path = directory / "source"
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
    ways: dict[str, Way] = {"Swift": store.request, "S3": store.by_s3}
    took: defaultdict[str, list[float]] = defaultdict(list)
    with Nginx(directory) as nginx:
        for _ in range(rounds):
            for name, seconds in zip(("cat, not synced", "cat"), copied(path, directory / "target"), strict=True):
                took[name].append(seconds)
            took["MD5"].append(hashing(mib))
            for name, way in ways.items():
                head = way("PUT", "large/o").replace(b"Content-Length: 0", f"Content-Length: {mib * MIB}".encode())
                before = spent(store.pid)
                took[f"upload by {name}"].append(upload(store.cloud.port, head, path))
                took[f"processor, upload by {name}"].append(spent(store.pid) - before)
            took["nginx"].append(download(nginx.port, encode("GET", "/source", {}), mib * MIB))
            for name, way in ways.items():
                took[f"download by {name}"].append(download(store.cloud.port, way("GET", "large/o"), mib * MIB))
    path.unlink()
    best = {name: min(seconds) for name, seconds in took.items()}
    told("cat, not synced", mib / best["cat, not synced"], "MiB/s", mib / best["cat"], "cat")
    for what, beside in (("upload", "cat"), ("upload", "MD5"), ("download", "nginx")):
        for name in ways:
            told(f"{what} by {name}", mib / best[f"{what} by {name}"], "MiB/s", mib / best[beside], beside)
    for name in ways:
        told(f"processor, upload by {name}", best[f"processor, upload by {name}"], "s", best["MD5"], "MD5")


def small(store: Store, klein: BareKlein, seconds: float) -> None:
    bare = rate(klein.port, klein.request, seconds)
    ways: tuple[tuple[str, Way, int], ...] = (("Swift", store.request, 201), ("S3", store.by_s3, 200))
    for name, way, made in ways:
        puts = rate(
            store.cloud.port, lambda number, way=way: way("PUT", f"small/{uuid4()}", SMALL), seconds, expected=made
        )
        told(f"PUT of 4 KiB by {name}", puts, "/s", bare, "Klein")
        Serial(store.cloud.port).ask(way("PUT", "small/o", SMALL))
        again = way("GET", "small/o")
        gets = rate(store.cloud.port, lambda number, again=again: again, seconds)
        told(f"GET of 4 KiB by {name}", gets, "/s", bare, "Klein")


def pages(store: Store, rows: int) -> None:
    database = store.cloud.state_dir / "cloudctl.sqlite"
    with stopped(store.cloud):
        for container, count in (("few", FEW), ("many", rows)):
            fill(database, store.project, container, count)
    serial = Serial(store.cloud.port)
    ways = {FEW: store.page("few", f"o{FEW // 2:09}"), rows: store.page("many", f"o{rows // 2:09}")}
    took: dict[int, list[float]] = {count: [] for count in ways}
    for number in range(200):
        for count, way in ways.items():
            took[count].append(1000 * serial.ask(way(number))[2])
    told(f"page of {PAGE} of {rows:,}", median(took[rows]), "ms", median(took[FEW]), f"of {FEW:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="on the disk that is meant")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        directory, klein = Path(name), BareKlein()
        cloud = LiveCloud(directory, afresh=True)
        try:
            cloud.start()
            store = Store(cloud)
            for container in ("large", "small", "few", "many"):
                store.make(container)
            small(store, klein, 1.0)  # one-time work is done now
            before = memory(store.pid, "VmRSS")
            large(store, directory, given.mib, given.rounds)
            small(store, klein, given.seconds)
            most = memory(store.pid, "VmHWM")
            told("memory at most", most, "MiB", before, "before")
            pages(store, given.rows)
            told("memory after the pages", memory(store.pid, "VmHWM"), "MiB", before, "before")
        finally:
            cloud.kill()
            klein.close()


if __name__ == "__main__":
    main()
