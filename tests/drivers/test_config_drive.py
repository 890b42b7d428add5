"""A config drive is read as it was made, by genisoimage, and told another password."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers import config_drive, guest_data
from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qemu.disks import Disks
from cloudctl.drivers.qemu.records import Files
from cloudctl.drivers.specs import GuestFile, GuestSpec
from tests.drivers.qcow2.live import demand

SPEC = GuestSpec(
    "6f1c0f5e-0000-4000-8000-00000000000a",
    "name",
    "here",
    1,
    16,
    1,
    user_data=b64encode(bytes(range(256)) * 200).decode(),
    # More names than fit into one sector of a directory.
    files=tuple(GuestFile(f"/etc/file{number}", b64encode(b"%d" % number).decode()) for number in range(90)),
)


async def test_all_files_are_read_as_they_were_written(reactor: Any, tmp_path: Path) -> None:
    demand("genisoimage")
    content, files = dict(guest_data.files(SPEC)), Files(tmp_path, tmp_path)
    await Disks(Programs(reactor, reactor), reactor, tmp_path, 0.0, 60.0).pack(content, files)
    drive = files.config_drive.read_bytes()
    assert config_drive.files(drive) == content

    for broken in (b"", bytes(1 << 16), drive[: 24 * config_drive.SECTOR]):
        with pytest.raises(ValueError):
            config_drive.files(broken)


def test_a_password_is_told_in_each_version_and_nothing_else_changes() -> None:
    before = dict(guest_data.files(SPEC))
    after = config_drive.with_password(config_drive.with_password(before, "first"), "sécret")
    told = {path for path in before if path.endswith("/meta_data.json")}
    assert len(told) == len(guest_data.OPENSTACK_VERSIONS) + 1
    for path, content in before.items():
        if path in told:
            assert json.loads(after[path]) == {**json.loads(content), "admin_pass": "sécret"}
        else:
            assert after[path] == content
