"""What may be given to QEMU, and what must not be."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers import disk_formats
from cloudctl.drivers.disk_formats import HEAD, QEMU_FORMATS, Qcow2Header, format_of, objection, qcow2_header
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.specs import ImageSource
from tests.drivers.qcow2 import live


def qcow2(version: Any = 3, backing: Any = 0, size: Any = 1 << 30, features: Any = 0) -> Any:
    head = struct.pack(">4sIQIIQ", b"QFI\xfb", version, backing, 0, 16, size).ljust(72, b"\0")
    return (head + struct.pack(">Q", features)).ljust(112, b"\0")


def vmdk(
    capacity: Any = 2048, descriptor: Any = 1, length: Any = 20, text: bytes = b'createType="monolithicSparse"'
) -> Any:
    head = struct.pack("<4sII4Q", b"KDMV", 1, 3, capacity, 128, descriptor, length).ljust(512, b"\0")
    return head + text.ljust(length * 512, b"\0")


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (qcow2(), Qcow2Header(1 << 30, False, False)),
        (qcow2(version=2, features=4), Qcow2Header(1 << 30, False, False)),
        (qcow2(backing=512, size=5), Qcow2Header(5, True, False, backing_at=(512, 0))),
        (qcow2(features=4), Qcow2Header(1 << 30, False, True)),
        (qcow2(features=3), Qcow2Header(1 << 30, False, False)),
    ],
)
def test_a_qcow2_header_is_read(head: Any, found: Any) -> None:
    assert qcow2_header(head) == found


@pytest.mark.parametrize("head", [b"", b"QFI\xfb", bytes(200), qcow2(version=1), qcow2(version=4), qcow2()[:90]])
def test_what_is_no_qcow2_is_refused(head: Any) -> None:
    with pytest.raises(ValueError, match="qcow2"):
        qcow2_header(head)
    assert objection("qcow2", head) is not None


@pytest.mark.parametrize(
    ("format", "head"),
    [
        ("qcow2", qcow2(backing=512)),
        ("qcow2", qcow2(features=4)),
        ("vmdk", b'# Disk DescriptorFile\nRW 1 FLAT "/etc/shadow" 0\n'.ljust(1024, b"\0")),
        ("vmdk", vmdk(capacity=0)),
        ("vmdk", vmdk(text=b'parentFileNameHint="/etc/shadow"')),
        ("vmdk", vmdk(text=b'PARENTFILENAMEHINT="/etc/shadow"')),
        ("vmdk", vmdk(descriptor=1 << 40)),
        # QEMU reads the descriptor of sector 1, whatever the header says of it.
        ("vmdk", vmdk(descriptor=0, length=0) + b'parentFileNameHint="/etc/shadow"'),
        ("vmdk", vmdk(descriptor=100, length=1) + b'parentFileNameHint="/etc/shadow"'),
        ("vmdk", b"COWD" + bytes(1024)),
        ("vmdk", b"KDMV"),
    ],
)
def test_a_file_that_could_refer_to_another_one_is_refused(format: Any, head: Any) -> None:
    assert objection(format, head) is not None


@pytest.mark.parametrize(
    ("format", "head"), [("qcow2", qcow2()), ("vmdk", vmdk()), ("raw", qcow2(backing=512)), ("vpc", b""), ("vdi", b"x")]
)
def test_a_file_of_its_own_is_taken(format: Any, head: Any) -> None:
    assert objection(format, head) is None


def test_a_format_that_is_not_known_and_a_file_that_is_not_there_are_unfit(tmp_path: Path) -> None:
    there = tmp_path / "image"
    there.write_bytes(b"x")
    for source in (
        ImageSource("i", str(there), "docker"),
        ImageSource("i", None, "raw"),
        ImageSource("i", str(tmp_path / "none"), "raw"),
        ImageSource("i", str(there), "qcow2"),
    ):
        with pytest.raises(Unfit):
            format_of(source)


@pytest.mark.parametrize(
    "options",
    [("-b", "{other}", "-F", "raw"), ("-o", "data_file={other}")],
    ids=["backing file", "data file"],
)
def test_what_qemu_makes_with_another_file_is_refused(tmp_path: Path, options: Any) -> None:
    live.demand("qemu-img")
    other = live.raw_image(tmp_path / "other", 1)
    image = tmp_path / "image.qcow2"
    words = [word.format(other=other.path) for word in options]
    live.run("qemu-img", "create", "-q", "-f", "qcow2", *words, image, "1M")
    with pytest.raises(Unfit, match="another file"):
        format_of(ImageSource("i", str(image), "qcow2"))


@pytest.mark.parametrize("subformat", ["monolithicFlat", "twoGbMaxExtentSparse"])
def test_a_vmdk_of_several_files_is_refused(tmp_path: Path, subformat: Any) -> None:
    live.demand("qemu-img")
    image = live.image(tmp_path / "i.vmdk", "vmdk", "vmdk", 1, options=("-o", f"subformat={subformat}"))
    with pytest.raises(Unfit):
        format_of(image)


def test_a_vmdk_that_hides_its_parent_is_refused(tmp_path: Path) -> None:
    """With a header that says that there is no descriptor, where QEMU looks for one all the same."""
    live.demand("qemu-img")
    image = live.image(tmp_path / "i.vmdk", "vmdk", "vmdk", 1)
    other = live.image(tmp_path / "other.vmdk", "vmdk", "vmdk", 1)
    with (tmp_path / "i.vmdk").open("rb+") as file:
        file.seek(28)
        file.write(bytes(16))
        file.seek(512)
        file.write(f'# Disk DescriptorFile\nparentFileNameHint="{other.path}"\n'.encode().ljust(20 * 512, b"\0"))
    with pytest.raises(Unfit, match="another file"):
        format_of(image)


@pytest.mark.parametrize(
    ("disk_format", "options"),
    [
        ("qcow2", ()),
        ("qcow2", ("-c", "-o", "compat=0.10")),
        ("vdi", ()),
        ("vhd", ()),
        ("vhdx", ()),
        ("vmdk", ()),
        ("vmdk", ("-o", "subformat=streamOptimized")),
    ],
)
def test_what_qemu_makes_in_one_file_is_taken(tmp_path: Path, disk_format: str, options: Any) -> None:
    live.demand("qemu-img")
    image = live.image(tmp_path / "image", disk_format, QEMU_FORMATS[disk_format], 1, 2, options=options)
    assert format_of(image) == QEMU_FORMATS[disk_format]
    assert HEAD >= 21 * 512


@pytest.mark.parametrize("size_gib", [1, 3, 10240])
def test_a_qcow2_that_was_written_here_is_whole_for_qemu(tmp_path: Path, size_gib: int) -> None:
    live.demand("qemu-img")
    made = tmp_path / "disk"
    made.write_bytes(disk_formats.qcow2(b"what it holds", size_gib << 30))
    assert "No errors" in live.run("qemu-img", "check", "-f", "qcow2", made)
    assert live.info(made)["virtual-size"] == size_gib << 30
    live.run("qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=512", "count=1", f"if={made}", f"of={tmp_path / 'raw'}")
    assert (tmp_path / "raw").read_bytes() == b"what it holds".ljust(512, b"\0")
