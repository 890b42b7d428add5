"""Sockets that live in another network namespace than the rest of this process.

Only a thread can change its own namespace, so each socket is made by a thread that ends right after. That takes less
than a millisecond, for which the caller is blocked.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from array import array
from collections.abc import Callable, Iterable
from fcntl import ioctl
from ipaddress import IPv4Address
from threading import Thread
from typing import TypeVar

from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.netns.kernel import NAMESPACES

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
BACKLOG = 128
ETH_P_ARP = 0x0806
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17  # <linux/sockios.h>, <linux/ethtool.h>
BROADCAST = b"\xff" * 6


def listening(namespace: str, address: str, port: int) -> socket.socket:
    """A TCP socket that listens in the namespace. Raises Unreachable."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            made.listen(BACKLOG)
            made.setblocking(False)
        except OSError:
            made.close()
            raise
        return made

    return within(namespace, make)


def announce(namespace: str, claims: Iterable[tuple[str, str, str]]) -> None:
    """Announce on the wire who has an address now: «interface, MAC, IPv4 address» each. Raises Unreachable."""

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
            for name, mac, address in claims:
                made.sendto(gratuitous_arp(mac, address), (name, ETH_P_ARP))

    within(namespace, send)


def gratuitous_arp(mac: str, address: str) -> bytes:
    """The frame (RFC 5227, section 3)."""
    sender, ip = bytes.fromhex(mac.replace(":", "")), IPv4Address(address).packed
    head = BROADCAST + sender + struct.pack("!H", ETH_P_ARP)
    return head + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + sender + ip + bytes(6) + ip


def compute_checksums(namespace: str, interface: str) -> None:
    """As `ethtool --offload INTERFACE tx off`: nothing behind the interface fills in checksums. Raises Unreachable."""
    value = array("B", struct.pack("II", ETHTOOL_STXCSUM, 0))

    def tell() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", interface.encode(), value.buffer_info()[0]))

    within(namespace, tell)


def within(namespace: str, make: Callable[[], T]) -> T:
    """What `make` returns or raises in the namespace. Raises Unreachable for an OSError, as of a missing namespace."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            _enter(namespace)
            outcome.append(make())
        except BaseException as error:  # raised again in the thread of the caller
            failure.append(error)

    thread = Thread(target=run, name=f"netns {namespace}")
    thread.start()
    thread.join()
    if failure and isinstance(failure[0], OSError):
        raise Unreachable(f"no socket in namespace {namespace}: {failure[0].strerror or failure[0]}") from failure[0]
    if failure:
        raise failure[0]
    return outcome[0]


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    finally:
        os.close(descriptor)
