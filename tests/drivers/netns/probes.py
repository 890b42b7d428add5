"""Sockets in other network namespaces, so that a test waits for nothing but what has to come."""

from __future__ import annotations

import secrets
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address

from attrs import define

from cloudctl.drivers.netns import inside

PATIENCE = 60.0  # seconds for what must come; it takes milliseconds, unless the machine is busy
AGAIN = 1.0  # seconds after which another request is sent, as `ping` does: one that is lost stays lost


@define
class Echo:
    """One flow of echo requests, as of one `ping`."""

    made: socket.socket
    address: str
    number: int

    def __call__(self, patience: float = PATIENCE) -> bool:
        """An echo comes back within the time."""
        body = struct.pack("!BBHHH", 8, 0, 0, self.number, 1)
        body = struct.pack("!BBHHH", 8, 0, checksum(body), self.number, 1)
        limit = time.monotonic() + patience
        while (left := limit - time.monotonic()) > 0:
            try:
                self.made.sendto(body, (self.address, 0))
            except OSError:
                return False
            if self._comes_back(time.monotonic() + min(left, AGAIN)):
                return True
        return False

    def _comes_back(self, limit: float) -> bool:
        while (left := limit - time.monotonic()) > 0 and select.select([self.made], [], [], left)[0]:
            packet = self.made.recv(2048)
            if packet[20] == 0 and packet[24:26] == struct.pack("!H", self.number):
                return True
        return False


@contextmanager
def pinging(namespace: str, address: str, source: str | None = None) -> Iterator[Echo]:
    def make() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        if source is not None:
            made.bind((source, 0))
        return made

    with inside.within(namespace, make) as made:
        yield Echo(made, address, secrets.randbelow(65536))


def ping(namespace: str, address: str, source: str | None = None, patience: float = PATIENCE) -> bool:
    with pinging(namespace, address, source) as echo:
        return echo(patience)


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def connects(namespace: str, address: str, port: int, patience: float = PATIENCE) -> bool:
    """A TCP connection is accepted by the kernel at the other end."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside.within(namespace, lambda: socket.socket(family, socket.SOCK_STREAM)) as made:
        made.settimeout(patience)
        try:
            made.connect((address, port))
        except OSError:
            return False
        return True


def datagrams(namespace: str) -> socket.socket:
    """A UDP socket there."""
    return inside.within(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))


def http_get(namespace: str, address: str, path: str) -> bytes:
    with inside.within(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as made:
        made.settimeout(PATIENCE)
        made.connect((address, 80))
        made.sendall(f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        received = b""
        while chunk := made.recv(65536):
            received += chunk
        return received.partition(b"\r\n\r\n")[2]


def arp_request(mac: str, sender: str, target: str) -> bytes:
    """A frame that asks who has `target`, as `sender`."""
    own = bytes.fromhex(mac.replace(":", ""))
    head = b"\xff" * 6 + own + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1)
    return head + own + IPv4Address(sender).packed + bytes(6) + IPv4Address(target).packed
