"""VLANs inside a guest's tap, for trunks: small eBPF programs at two ends.

A subport is a pair of links: one end in the bridge of its network, like a tap, the other beside it. A frame that comes
out of the trunk's tap with the subport's VLAN id loses the tag and goes in at that other end; a frame that comes out
there gets the tag and goes to the guest. So a subport is filtered like any port, without VLAN links, which not every
kernel has, or a further process, which would be slow. It takes Linux 6.6, which can attach such programs to links.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Mapping

from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.netns import inside

KERNEL = (6, 6)
SYSCALL = {"x86_64": 321, "aarch64": 280}  # bpf(2)

# linux/bpf.h
PROG_LOAD, PROG_ATTACH, PROG_DETACH, PROG_GET_FD_BY_ID, PROG_QUERY = 5, 8, 9, 13, 16
SCHED_CLS, TCX_INGRESS = 3, 46
VLAN_PUSH, VLAN_POP, REDIRECT = 18, 19, 23  # helpers
PASS_ON, DROP = -1, 2
VLAN_PRESENT, VLAN_TCI, VLAN_PROTO = 20, 24, 28  # offsets in struct __sk_buff
ETH_P_8021Q = int.from_bytes(struct.pack("!H", 0x8100), "little")  # as the program finds it
ATTACHED_MOST = 16


def is_possible() -> bool:
    """Whether this machine supports it."""
    version = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    return version >= KERNEL and platform.machine() in SYSCALL


# -- programs: 8 bytes per instruction


def untag(targets: Mapping[int, int]) -> bytes:
    """Frames with these VLAN ids go to the links of these numbers, without their tag; other frames are not touched."""
    parts = [
        _copy(6, 1),
        _load(2, 6, VLAN_PRESENT),
        _load(3, 6, VLAN_PROTO),
        _load(7, 6, VLAN_TCI),
        _instruction(0x57, 7, immediate=0xFFF),  # r7 &= 0xfff
        _unless(2, 1, 1 + 7 * len(targets)),
        _unless(3, ETH_P_8021Q, 7 * len(targets)),
    ]
    for vlan, link in sorted(targets.items()):
        parts += [_unless(7, vlan, 6), _copy(1, 6), _call(VLAN_POP), *_redirected(link)]
    return b"".join([*parts, _set(0, PASS_ON), EXIT])


def tag(vlan: int, link: int) -> bytes:
    """All frames go to the link of this number, tagged with this VLAN id."""
    pushed = [_set(2, ETH_P_8021Q), _set(3, vlan), _call(VLAN_PUSH), _unless(0, 0, 4), *_redirected(link)]
    return b"".join([*pushed, _set(0, DROP), EXIT])


def _redirected(link: int) -> tuple[bytes, ...]:
    return _set(1, link), _set(2, 0), _call(REDIRECT), EXIT


def _instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
    return struct.pack("<BBhi", code, of << 4 | to, offset, immediate)


def _set(to: int, value: int) -> bytes:
    return _instruction(0xB7, to, immediate=value)


def _copy(to: int, of: int) -> bytes:
    return _instruction(0xBF, to, of)


def _load(to: int, of: int, offset: int) -> bytes:
    """32 bits."""
    return _instruction(0x61, to, of, offset)


def _unless(which: int, value: int, over: int) -> bytes:
    """Skip `over` instructions unless the register has this value."""
    return _instruction(0x55, which, offset=over, immediate=value)


def _call(helper: int) -> bytes:
    return _instruction(0x85, immediate=helper)


EXIT = _instruction(0x95)


# -- the kernel


def attach(namespace: str, link: int, program: bytes) -> None:
    """Frames that come in by a link pass this program and no other; empty: pass none. Raises DriverError."""
    try:
        if namespace:
            inside.within(namespace, lambda: _attach(link, program))
        else:
            _attach(link, program)
    except (OSError, Unreachable) as error:
        raise DriverError(f"the kernel takes no program for VLANs of trunks: {error}") from error


def _attach(link: int, program: bytes) -> None:
    """The new program is attached first, so that no frame bypasses both."""
    before = _attached(link)
    if program:
        loaded = _load_program(program)
        try:
            _bpf(PROG_ATTACH, struct.pack("=IIIIIIQ", link, loaded, TCX_INGRESS, 0, 0, 0, 0))
        finally:
            os.close(loaded)
    for id in before:
        old = _bpf(PROG_GET_FD_BY_ID, struct.pack("=III", id, 0, 0))
        try:
            _bpf(PROG_DETACH, struct.pack("=IIIIIIQ", link, old, TCX_INGRESS, 0, 0, 0, 0))
        finally:
            os.close(old)


def _attached(link: int) -> list[int]:
    """The ids of the programs that are attached to a link."""
    ids = (ctypes.c_uint32 * ATTACHED_MOST)()
    asked = struct.pack("=IIIIQIIQQQQ", link, TCX_INGRESS, 0, 0, ctypes.addressof(ids), ATTACHED_MOST, 0, 0, 0, 0, 0)
    given = ctypes.create_string_buffer(asked, len(asked))
    _bpf_in(PROG_QUERY, given)
    (count,) = struct.unpack_from("=I", given, 24)
    return list(ids[:count])


def _load_program(program: bytes) -> int:
    body, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"Apache-2.0")
    places = ctypes.addressof(body), ctypes.addressof(licence)
    size = len(program) // 8
    return _bpf(PROG_LOAD, struct.pack("=IIQQIIQII16s", SCHED_CLS, size, *places, 0, 0, 0, 0, 0, b"cloudctl_trunk"))


def _bpf(command: int, attributes: bytes) -> int:
    return _bpf_in(command, ctypes.create_string_buffer(attributes, len(attributes)))


def _bpf_in(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    """What the call returns. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(SYSCALL[platform.machine()], command, attributes, len(attributes))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
