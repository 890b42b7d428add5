"""Files and interfaces for a running QEMU: it may open none itself, so it is handed open descriptors.

Sources: QEMU's document «QMP Reference Manual» (add-fd, getfd, netdev_add); the kernel's «Universal TUN/TAP device
driver».
"""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from fcntl import ioctl
from typing import Any

from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.netns.inside import within
from cloudctl.drivers.qemu.qmp import Monitor, Refused

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
NAME = 15  # bytes of an interface's name, at most


class NotOpened(DriverError):
    """There is no such file or interface, or it cannot be opened."""


@asynccontextmanager
async def lent_file(monitor: Monitor, block: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
    """The same node for `blockdev-add`, with a file name that is valid inside the block; QEMU keeps what it opens.

    A node that is not a file is unchanged. Raises NotOpened, and as `Monitor.execute`.
    """
    file = block.get("file")
    if file is None or file["driver"] != "file":
        yield block
        return
    try:
        descriptor = os.open(file["filename"], os.O_RDONLY if block.get("read-only") else os.O_RDWR)
    except OSError as error:
        raise NotOpened(f"{file['filename']} cannot be opened: {error.strerror}") from error
    try:
        told = await monitor.execute("add-fd", {"opaque": block["node-name"]}, descriptor=descriptor)
    finally:
        os.close(descriptor)
    try:
        yield {**block, "file": {**file, "filename": f"/dev/fdset/{told['fdset-id']}"}}
    finally:
        if not monitor.is_lost:
            await monitor.execute("remove-fd", {"fdset-id": told["fdset-id"]})


@asynccontextmanager
async def lent_tap(monitor: Monitor, backend: Mapping[str, Any], namespace: str) -> AsyncIterator[Mapping[str, Any]]:
    """The same back end for `netdev_add`, with its tap open. `namespace`: where the tap is; "": this process's own.

    Raises NotOpened, and as `Monitor.execute`.
    """
    id = backend["id"]
    descriptor = open_tap(backend["ifname"], namespace)
    try:
        await monitor.execute("getfd", {"fdname": id}, descriptor=descriptor)
    finally:
        os.close(descriptor)
    try:
        yield {"type": "tap", "id": id, "fd": id}
    except Refused:
        # A descriptor that QEMU took is QEMU's to close.
        try:
            await monitor.execute("closefd", {"fdname": id})
        except Refused as error:
            if "not found" not in error.description:
                raise
        raise


def open_tap(name: str, namespace: str) -> int:
    """A descriptor, for the caller to close. The tap is created if it does not exist, and then goes with it."""

    def attach() -> int:
        descriptor = os.open(TUN, os.O_RDWR | os.O_CLOEXEC)
        try:
            wanted = struct.pack("16sH22x", os.fsencode(name)[:NAME], IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
            ioctl(descriptor, TUNSETIFF, wanted)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    try:
        return within(namespace, attach) if namespace else attach()
    except (OSError, Unreachable) as error:
        raise NotOpened(f"interface {name} cannot be opened: {error}") from error
