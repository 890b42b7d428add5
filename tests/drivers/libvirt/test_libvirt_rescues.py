"""What becomes of a rescued guest of a real libvirtd: it restarts, is killed halfway, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from attrs import evolve

from cloudctl.drivers import config_drive
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.specs import GuestSpec, ImageSource, Power
from tests.drivers.qemu import real, tiny_guest
from tests.drivers.qemu.real import ID

OTHER = "6f1c0f5e-0000-4000-8000-0000000000ee"


def other(directory: Path) -> ImageSource:
    path = directory / "other"
    path.write_bytes(tiny_guest.disk())
    return ImageSource(OTHER, str(path), "raw")


def spec_of(directory: Path, **changes: Any) -> GuestSpec:
    return evolve(real.tiny(directory), host="here", config_drive=True, **changes)


async def tree(driver: Any) -> Any:
    host = await driver.fleet.where(ID)
    return fromstring(await driver.fleet.run(host, lambda found: found.lookupByName(ID).XMLDesc(0)))


async def disks(driver: Any) -> list[str]:
    """Where its disks are, the first first."""
    return [Path(each.get("file")).name for each in (await tree(driver)).iterfind("devices/disk/source")]


def files(driver: Any) -> set[str]:
    return {each.name.partition(".")[2] for each in Path(driver.config.directory).glob(f"{ID}.*")}


def password(driver: Any) -> object:
    drive = config_drive.files(Path(driver.config.directory, f"{ID}.config").read_bytes())
    return json.loads(drive["openstack/latest/meta_data.json"]).get("admin_pass")


async def test_a_rescued_guest_is_restarted_made_anew_and_goes_back_to_what_it_was(driver: Any, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ephemeral_gib=1)
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    own, had = [f"{ID}.{name}" for name in ("root", "ephemeral", "config")], files(driver)
    assert (await disks(driver), password(driver)) == (own, None)
    for _ in range(2):
        await driver.ensure_rescued(ID, other(tmp_path), "sécret")
    assert (await disks(driver), password(driver)) == ([f"{ID}.rescue", *own], "sécret")
    # It is over the image that was named, as large as that is.
    over = real.disk_info(Path(driver.config.directory, f"{ID}.rescue"))
    assert over["backing-filename"].endswith(f"/image-{OTHER}")
    assert over["virtual-size"] == Path(str(other(tmp_path).path)).stat().st_size

    await driver.ensure_rebooted(ID, "token", hard=True)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_defined(evolve(spec, vcpus=2))
    await driver.ensure_running(ID)
    found = await driver.observe(ID)
    assert (found.rescued, found.power, found.vcpus) == (True, Power.RUNNING, 2)
    assert await disks(driver) == [f"{ID}.rescue", *own]

    for _ in range(2):
        await driver.ensure_unrescued(ID)
    found = await driver.observe(ID)
    assert (found.rescued, found.power) == (False, Power.RUNNING)
    assert (await disks(driver), files(driver)) == (own, had)
    # It was not rescued any more: who stops it is not overruled.
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_unrescued(ID)
    assert (await driver.observe(ID)).power is Power.STOPPED

    # From its own image, with a kernel of its own.
    await driver.ensure_rescued(ID, None, "secret")
    over = real.disk_info(Path(driver.config.directory, f"{ID}.rescue"))
    assert over["backing-filename"].endswith(f"/image-{real.IMAGE}")
    await driver.ensure_absent(ID)
    assert files(driver) == set()
    await driver.close()


async def test_a_rescue_that_was_killed_anywhere_is_made_whole_or_undone(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloudctl.drivers.libvirt import guests, rescues, secrets
    from cloudctl.drivers.libvirt.storage import Storage

    await driver.ensure_defined(spec_of(tmp_path))
    await driver.ensure_running(ID)
    there: list[tuple[Any, str]] = [(rescues, "begin"), (Storage, "replace"), (secrets, "ensure"), (guests, "start")]
    back: list[tuple[Any, str]] = [(guests, "start"), (rescues, "clear"), (Storage, "forget"), (rescues, "done")]
    for begins, ends in zip(there, back, strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(*begins, killed)
            with pytest.raises(Killed):
                await driver.ensure_rescued(ID, other(tmp_path), "secret")
        await driver.ensure_rescued(ID, other(tmp_path), "secret")
        found = await driver.observe(ID)
        assert (found.rescued, found.power) == (True, Power.RUNNING), begins
        with monkeypatch.context() as patch:
            patch.setattr(*ends, killed)
            with pytest.raises(Killed):
                await driver.ensure_unrescued(ID)
        await driver.ensure_unrescued(ID)
        found = await driver.observe(ID)
        assert (found.rescued, found.power) == (False, Power.RUNNING), ends
        assert not {each for each in files(driver) if each.startswith("rescue")}
    await driver.ensure_absent(ID)
    await driver.close()


async def test_a_guest_that_boots_from_a_volume_is_rescued_from_an_image_alone(driver: Any, tmp_path: Path) -> None:
    volume = evolve(real.volume(tmp_path), boot_index=0)
    spec = spec_of(tmp_path, image=None, disk_gib=0, volumes=(volume,))
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    with pytest.raises(Unfit):
        await driver.ensure_rescued(ID, None, "secret")
    assert (await driver.observe(ID)).power is Power.RUNNING, "nothing has changed"
    await driver.ensure_rescued(ID, other(tmp_path), "secret")
    orders = [each.find("boot") is not None for each in (await tree(driver)).iterfind("devices/disk")]
    assert orders == [True, False, False]
    await driver.ensure_unrescued(ID)
    found = [
        (each.findtext("serial"), each.find("boot") is not None)
        for each in (await tree(driver)).iterfind("devices/disk")
    ]
    assert found == [("config", False), (real.VOLUME[:20], True)]
    await driver.ensure_absent(ID)
    await driver.close()


async def test_disks_are_made_of_images_of_other_formats_which_are_converted_once(driver: Any, tmp_path: Path) -> None:
    raw, vmdk = tmp_path / "raw", tmp_path / "vmdk"
    raw.write_bytes(tiny_guest.disk())
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "vmdk", raw, vmdk], check=True)
    image = ImageSource(OTHER, str(vmdk), "vmdk")
    spec = spec_of(tmp_path, image=image)
    await driver.ensure_defined(spec)
    [converted] = (tmp_path / "images").iterdir()
    at = converted.stat().st_ino
    # It is there, so it is not read.
    vmdk.rename(tmp_path / "away")
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)

    async def is_up() -> bool:
        return tiny_guest.LAST_LINE in await driver.console_output(ID)

    assert await real.soon(is_up)
    await driver.ensure_rescued(ID, image, "secret")
    assert converted.stat().st_ino == at
    over = real.disk_info(Path(driver.config.directory, f"{ID}.rescue"))
    assert (over["backing-filename-format"], over["virtual-size"]) == ("qcow2", raw.stat().st_size)
    await driver.ensure_absent(ID)

    broken = tmp_path / "broken"
    broken.write_bytes(b"no disk at all".ljust(4096))
    with pytest.raises(Unfit):
        await driver.ensure_defined(evolve(spec, image=ImageSource("broken", str(broken), "vhdx")))
    await driver.close()


class Killed(Exception):
    """In place of the end of a process."""


def killed(*_args: Any, **_kwargs: Any) -> None:
    raise Killed
