"""Formats are told by their headers, and data that points at other files is refused."""

from __future__ import annotations

import os
from io import BytesIO
from struct import pack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudctl.image.inspection import (
    VHDX_DISK_SIZE,
    VHDX_FILE_PARAMETERS,
    VHDX_METADATA,
    Inspected,
    inspect,
    refusal,
)

GIB = 2**30


def look(data: bytes) -> Inspected:
    return inspect(BytesIO(data), len(data))


def qcow2(version: int = 3, backing: int = 0, features: int = 0, size: int = GIB) -> bytes:
    head = pack(">4sIQIIQ", b"QFI\xfb", version, backing, 0, 16, size)
    return head + bytes(72 - len(head)) + pack(">Q", features) + bytes(24)


def vmdk(kind: bytes) -> bytes:
    description = b'# Disk DescriptorFile\nversion=1\ncreateType="' + kind + b'"\n'
    head = pack("<4sII4Q", b"KDMV", 1, 3, GIB // 512, 128, 1, 1)
    return head.ljust(512, b"\0") + description.ljust(512, b"\0")


def vdi() -> bytes:
    return bytes(0x40) + pack("<I", 0xBEDA107F) + bytes(0x170 - 0x44) + pack("<Q", GIB)


def vhd(kind: int) -> bytes:
    return b"content" + pack(">8s40xQ4xI", b"conectix", GIB, kind).ljust(512, b"\0")


def vhdx(flags: int) -> bytes:
    start = 2**20
    data = bytearray(start + 2**17)
    data[:8] = b"vhdxfile"
    regions = pack("<4sIII", b"regi", 0, 1, 0) + VHDX_METADATA + pack("<QII", start, 2**16, 1)
    data[192 * 1024 : 192 * 1024 + len(regions)] = regions
    items = pack("<8sHH20x", b"metadata", 0, 2)
    items += VHDX_FILE_PARAMETERS + pack("<IIII", 65536, 8, 0, 0)
    items += VHDX_DISK_SIZE + pack("<IIII", 65544, 8, 0, 0)
    data[start : start + len(items)] = items
    data[start + 65536 : start + 65552] = pack("<IIQ", 2**20, flags, GIB)
    return bytes(data)


def iso() -> bytes:
    return bytes(0x8001) + b"CD001" + bytes(100)


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (qcow2(), "qcow2"),
        (qcow2(version=2), "qcow2"),
        (vmdk(b"monolithicSparse"), "vmdk"),
        (vmdk(b"streamOptimized"), "vmdk"),
        (vdi(), "vdi"),
        (vhd(3), "vhd"),
        (vhdx(0), "vhdx"),
    ],
)
def test_a_format_and_its_virtual_size_are_read(data: bytes, format: str) -> None:
    assert look(data) == Inspected(format, GIB)


def test_an_iso_is_as_large_as_its_file() -> None:
    assert look(iso()) == Inspected("iso", len(iso()))


def test_anything_else_is_raw() -> None:
    assert look(b"hello") == Inspected("raw", 5)
    assert look(b"") == Inspected("raw", 0)


@pytest.mark.parametrize(
    "data",
    [
        qcow2(backing=4096),
        qcow2(features=1 << 2),
        qcow2(version=9),
        vmdk(b"twoGbMaxExtentSparse"),
        vmdk(b"monolithicFlat"),
        b"# Disk DescriptorFile\nRW 1 FLAT /etc/shadow 0",
        b"\n  # Disk DescriptorFile\n",
        vhd(4),
        vhdx(2),
    ],
)
def test_data_that_points_elsewhere_is_unsafe(data: bytes) -> None:
    found = look(data)
    assert found.unsafe
    assert refusal(found.format, "bare", found) == found.unsafe


@pytest.mark.parametrize("declared", ["raw", "ami", "ploop"])
@pytest.mark.parametrize("data", [qcow2(), vmdk(b"streamOptimized"), vdi(), vhd(3), vhdx(0)])
def test_a_known_format_does_not_pass_for_raw(declared: str, data: bytes) -> None:
    assert refusal(declared, "bare", look(data)) is not None


def test_an_iso_may_be_declared_raw() -> None:
    assert refusal("raw", "bare", look(iso())) is None


def test_other_data_does_not_pass_for_a_known_format() -> None:
    assert refusal("qcow2", "bare", look(b"hello")) == "The data is not in the format qcow2: it looks like raw."


def test_what_is_in_an_archive_is_not_looked_at() -> None:
    assert refusal("vmdk", "ova", look(b"a tar file")) is None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([qcow2(), vmdk(b"streamOptimized"), vdi(), vhd(3), vhdx(0)]),
    st.lists(st.tuples(st.integers(0, 2**18), st.binary(min_size=1, max_size=8)), max_size=6),
    st.integers(0, 2**20 + 2**17),
)
def test_damaged_headers_never_fail(data: bytes, changes: list[tuple[int, bytes]], length: int) -> None:
    damaged = bytearray(data)
    for place, change in changes:
        at = place % len(damaged)
        damaged[at : at + len(change)] = change
    found = look(bytes(damaged[:length]))
    assert 0 <= found.virtual_size < 2**63


def test_random_bytes_are_raw() -> None:
    assert look(os.urandom(4096)).format == "raw"
