"""How fast the object store is, beside what the machine does in the same run.

    python benchmarks/objects.py [--mib 1024] [--rows 1000000] [--seconds 4]

Large objects: an upload beside the same bytes written to a file and synced; a download beside a process that does
nothing but sendfile(2) of such a file, as nginx does. Small ones: 4 KiB objects a second beside a bare Klein route.
Listings: a page of a container with a thousand objects, and of one with many, whose rows are written straight into the
tables. Memory: the most that the process ever had.
"""

from __future__ import annotations

import argparse
import os
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import Serial, encode, rate
from processor import BareKlein

from tests.live.process import LiveCloud

MIB = 2**20
SMALL = b"x" * 4096
FEW = 1000
PAGE = 100
LONGEST = 600.0  # seconds that an answer may take
AT_ONCE = 10_000  # rows


class Server:
    """Sends a file by sendfile(2) to each who connects, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            with connection, self.path.open("rb") as file:
                connection.recv(65536)
                size = os.fstat(file.fileno()).st_size
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
                connection.sendfile(file)


def download(port: int, request: bytes, size: int) -> float:
    """Seconds until the last of so many bytes of the body is there."""
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
    """Seconds until the answer is there."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST) as connection, path.open("rb") as file:
        connection.sendall(head)
        connection.sendfile(file)
        answer = connection.recv(65536)
    if b" 201 " not in answer[:20]:
        raise RuntimeError(answer[:300])
    return time.perf_counter() - began


def written(path: Path, mib: int) -> float:
    """Seconds for so many bytes in a file and on the disk."""
    data = os.urandom(MIB)
    began = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - began


@contextmanager
def stopped(cloud: LiveCloud):
    cloud.stop()
    try:
        yield
    finally:
        cloud.start()


def fill(database: Path, project: str, container: str, count: int) -> None:
    """Rows of empty objects, as an upload of nothing leaves them."""
    columns = "container_id, name, project_id, size, etag, content_type, headers, updated_at, version"
    with closing(sqlite3.connect(database)) as connection:
        (id,) = connection.execute("SELECT id FROM object_containers WHERE name = ?", [container]).fetchone()
        empty = ("d41d8cd98f00b204e9800998ecf8427e", "text/plain", "{}", "2026-01-01 00:00:00.000000", "")
        for start in range(0, count, AT_ONCE):
            rows = ((id, f"o{number:09}", project, 0, *empty) for number in range(start, min(start + AT_ONCE, count)))
            connection.executemany(f"INSERT INTO objects ({columns}) VALUES (?,?,?,?,?,?,?,?,?)", rows)
            connection.commit()


def most_memory(pid: int) -> float:
    """MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def told(name: str, value: float, unit: str, beside: float, what: str) -> None:
    print(f"{name:<34}{value:>10.1f} {unit:<6}{what}: {beside:>9.1f}   {100 * value / beside:5.1f} %", flush=True)


class Store:
    """The account of the user demo in a cloud."""

    def __init__(self, cloud: LiveCloud) -> None:
        self.cloud = cloud
        self.project = cloud.ask("GET", "/identity/v3/auth/projects")[1]["projects"][0]["id"]
        self.root = f"/object-store/v1/AUTH_{self.project}"
        self.headers = {"X-Auth-Token": cloud.token(), "Accept": "application/json"}

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        return encode(method, f"{self.root}/{path}", self.headers, body)

    def make(self, container: str) -> None:
        status = Serial(self.cloud.port).ask(self.request("PUT", container))[0]
        assert status == 201, status

    def page(self, container: str, middle: str) -> Callable[[int], bytes]:
        return lambda number: self.request("GET", f"{container}?limit={PAGE}&marker={middle}&x={number}")


def large(store: Store, directory: Path, mib: int) -> None:
    path = directory / "large"
    disk = mib / written(path, mib)
    head = store.request("PUT", "large/o").replace(b"Content-Length: 0", f"Content-Length: {mib * MIB}".encode())
    told("upload", mib / upload(store.cloud.port, head, path), "MiB/s", disk, "disk")
    bare = Server(path)
    request = store.request("GET", "large/o")
    for _ in range(2):  # the first one warms what both read
        sent = mib / download(bare.port, b"GET / HTTP/1.1\r\n\r\n", mib * MIB)
        got = mib / download(store.cloud.port, request, mib * MIB)
    told("download", got, "MiB/s", sent, "sendfile")
    path.unlink()


def small(store: Store, klein: BareKlein, seconds: float) -> None:
    bare = rate(klein.port, lambda number: encode("GET", "/thing/x", {}), seconds)
    puts = rate(store.cloud.port, lambda number: store.request("PUT", f"small/{uuid4()}", SMALL), seconds, expected=201)
    told("PUT of 4 KiB", puts, "/s", bare, "Klein")
    Serial(store.cloud.port).ask(store.request("PUT", "small/o", SMALL))
    gets = rate(store.cloud.port, lambda number: store.request("GET", f"small/o?x={number}"), seconds)
    told("GET of 4 KiB", gets, "/s", bare, "Klein")


def pages(store: Store, rows: int) -> None:
    database = store.cloud.state_dir / "cloudctl.sqlite"
    with stopped(store.cloud):
        for container, count in (("few", FEW), ("many", rows)):
            fill(database, store.project, container, count)
    serial = Serial(store.cloud.port)
    few = 1000 * serial.typical(store.page("few", f"o{FEW // 2:09}"), 100)
    many = 1000 * serial.typical(store.page("many", f"o{rows // 2:09}"), 100)
    told(f"page of {PAGE} of {rows:,}", many, "ms", few, f"of {FEW:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--directory", type=Path, help="on the disk that is meant")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        directory, klein = Path(name), BareKlein()
        cloud = LiveCloud(directory)
        try:
            cloud.start()
            store = Store(cloud)
            for container in ("large", "small", "few", "many"):
                store.make(container)
            large(store, directory, given.mib)
            assert cloud.process is not None
            print(f"{'memory after that, at most':<34}{most_memory(cloud.process.pid):>10.1f} MiB")
            small(store, klein, given.seconds)
            pages(store, given.rows)
        finally:
            cloud.kill()
            klein.process.kill()


if __name__ == "__main__":
    main()
