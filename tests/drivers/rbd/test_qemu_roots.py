"""Root disks of QEMU's guests in a real Ceph: all that becomes of them, and what is left of them by who was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError, InvalidPower, Unfit, Unreachable, Unusable
from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qemu import processes
from cloudctl.drivers.rbd.options import Pool
from cloudctl.drivers.specs import GuestSpec, ImageSource, Power
from tests.drivers.qemu import tiny_guest
from tests.drivers.qemu.real import HOST, ID, IMAGE, booted, disk_info, driver_in, tiny, write
from tests.drivers.qemu.test_qemu_linux import direct, logged_in, on_console
from tests.drivers.rbd.cluster import POOL, USER, Cluster
from tests.there import there

ROOT, BASE = f"root-{ID}", f"image-{IMAGE}"


@pytest.fixture
def drive(cluster: Cluster, namespace: str, tmp_path: Path, runtime_dir: Path) -> Callable[..., Any]:
    """`drive(directory, **options)`: a driver whose root disks are in that namespace; by default the same one again."""

    def made(directory: Path = tmp_path, **options: Any) -> Any:
        pool = Pool([cluster.monitor], USER, cluster.keyring, answer_timeout=120.0, namespace=namespace)
        return driver_in(directory, runtime_dir, **{"root_disks": "rbd", "rbd": pool, **options})

    return made


@pytest.fixture
def images(cluster: Cluster, namespace: str) -> Callable[[], set[str]]:
    """Those of the namespace, with its trash."""

    def found() -> set[str]:
        place = f"{POOL}/{namespace}"
        kept, gone = (orjson.loads(cluster.rbd(*words, place, "--format=json")) for words in (("ls",), ("trash", "ls")))
        return {*kept, *(each["name"] for each in gone)}

    return found


def size(cluster: Cluster, namespace: str, image: str = ROOT) -> int:
    return int(orjson.loads(cluster.rbd("info", f"{POOL}/{namespace}/{image}", "--format=json"))["size"])


async def run(driver: Any, spec: GuestSpec) -> None:
    await driver.ensure_defined(spec)
    await driver.ensure_running(spec.id)


async def power(driver: Any) -> Power:
    return there(await driver.observe(ID)).power


async def test_a_guest_starts_from_a_clone_grows_is_copied_and_leaves_nothing(
    drive: Callable[..., Any], images: Callable[[], set[str]], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    driver, spec = drive(), tiny(tmp_path)
    await driver.check()
    for _ in range(2):
        await driver.ensure_defined(spec)
    assert images() == {ROOT, BASE}
    assert [each.disk_gib for each in await driver.hosts()] == [await driver.disks.roots.size_gib()]
    await driver.ensure_running(ID)
    assert await booted(driver) == 1
    files = driver.records.files(ID)
    assert not files.root.exists() and not list((tmp_path / "state" / "images").glob("*"))
    command = Path(f"/proc/{there(processes.find(files.pid))}/cmdline").read_text()
    key = there(driver.records.get(ID)).root.key()
    assert key not in command
    left = [each for each in files.directory.iterdir() if each.is_file() and key.encode() in each.read_bytes()]
    assert left == [], "the key is in a file"

    target = tmp_path / "captured"
    assert await driver.ensure_captured(ID, str(target)) == "qcow2"
    assert (disk_info(target)["virtual-size"], disk_info(target).get("backing-filename")) == (1 << 30, None)
    await driver.ensure_rebooted(ID, "once", True)
    assert await booted(driver) == 2
    larger = evolve(spec, disk_gib=2)
    with pytest.raises(InvalidPower):
        await driver.ensure_defined(larger)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_defined(larger)
    assert size(cluster, namespace) == 2 << 30
    await driver.ensure_running(ID)
    assert await booted(driver) == 3
    await driver.ensure_absent(ID)
    assert images() == set()
    await driver.close()


async def test_a_rescued_guest_has_its_root_disk_beside_the_one_it_starts_from(
    drive: Callable[..., Any], images: Callable[[], set[str]], tmp_path: Path
) -> None:
    driver = drive()
    await run(driver, tiny(tmp_path))
    for _ in range(2):
        await driver.ensure_rescued(ID, None, "secret")
    monitor = await driver.monitors.get(ID, driver.records.files(ID))
    nodes = await monitor.execute("query-named-block-nodes", {"flat": True})
    assert sorted(each["drv"] for each in nodes if each["drv"] in ("rbd", "qcow2")) == ["qcow2", "qcow2", "rbd"]
    await driver.ensure_unrescued(ID)
    assert (await power(driver), images()) == (Power.RUNNING, {ROOT, BASE})
    await driver.ensure_absent(ID)
    assert images() == set()
    await driver.close()


async def test_a_guest_that_is_made_anew_elsewhere_finds_what_it_had_written(
    drive: Callable[..., Any], images: Callable[[], set[str]], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Of the machine that it was on nothing is left: neither its record nor its process."""
    first, spec = drive(tmp_path / "first"), tiny(tmp_path)
    await run(first, spec)
    pid = there(processes.find(first.records.files(ID).pid))
    # Into its second MiB, which the image has not.
    await write(first, 7, 1 << 20)
    await first.close()
    os.kill(pid, signal.SIGKILL)

    second = drive(tmp_path / "second")
    await run(second, spec)
    assert await booted(second) == 1
    cluster.rbd("export", "--no-progress", f"{POOL}/{namespace}/{ROOT}", str(exported := tmp_path / "exported"))
    with exported.open("rb") as file:
        assert file.read(tiny_guest.SIZE) == tiny_guest.disk()
        assert file.read(4096) == bytes([7]) * 4096
    await second.ensure_absent(ID)
    assert images() == set()
    await second.close()


async def test_a_guest_that_moves_while_it_runs_keeps_what_it_wrote_on_either_side(
    drive: Callable[..., Any], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    driver, spec = drive(hosts={HOST: "", "there": ""}), tiny(tmp_path)
    await run(driver, spec)
    assert await booted(driver) == 1
    await write(driver, 7, 1 << 20)
    for byte, host in ((8, "there"), (9, HOST)):
        await driver.ensure_migrated(evolve(spec, host=host))
        assert (await driver.observe(ID)).host == host
        await write(driver, byte, (1 << 20) + 4096 * (byte - 7))
    await driver.ensure_stopped(ID, 0.0)
    cluster.rbd("export", "--no-progress", f"{POOL}/{namespace}/{ROOT}", str(exported := tmp_path / "exported"))
    with exported.open("rb") as file:
        file.seek(1 << 20)
        assert file.read(3 * 4096) == b"".join(bytes([byte]) * 4096 for byte in (7, 8, 9))
    await driver.ensure_absent(ID)
    await driver.close()


async def test_a_linux_finds_its_files_when_the_machine_that_it_was_on_has_died(
    drive: Callable[..., Any], images: Callable[[], set[str]], image: Path, tmp_path: Path
) -> None:
    # Its boot loader needs as much time as it does: that a disk in Ceph can be started from is shown by tiny guests.
    first, spec = drive(tmp_path / "first"), direct(image, disk_gib=1)
    await first.check()
    await run(first, spec)
    await on_console(first, "guest login:")
    console = await logged_in(first)
    await console.type("echo what matters > /root/file && sync && echo done$?", "done0")
    await console.hang_up()
    os.kill(there(processes.find(first.records.files(ID).pid)), signal.SIGKILL)
    await first.close()

    second = drive(tmp_path / "second")
    await second.check()
    await run(second, spec)
    await on_console(second, "guest login:")
    console = await logged_in(second)
    await console.type("cat /root/file; echo done$?", "what matters\r\ndone0")
    await console.hang_up()
    await second.ensure_absent(ID)
    assert images() == set()
    await second.close()


async def test_a_disk_that_is_a_file_stays_one_and_one_in_ceph_is_not_forgotten(
    drive: Callable[..., Any], images: Callable[[], set[str]], tmp_path: Path
) -> None:
    files_only, driver = drive(root_disks="files"), drive()
    spec = tiny(tmp_path)
    await files_only.ensure_defined(spec)
    await driver.ensure_defined(evolve(spec, disk_gib=2))
    assert disk_info(driver.records.files(ID).root)["virtual-size"] == 2 << 30
    assert images() == set()
    await driver.ensure_absent(ID)

    await driver.ensure_defined(spec)
    for refused in (files_only.ensure_defined(spec), files_only.ensure_absent(ID)):
        with pytest.raises(Unfit, match="root_disks"):
            await refused
    await driver.ensure_absent(ID)
    assert images() == set()
    with pytest.raises(Unusable, match="dry run"):
        await drive(dry_run=True).check()
    await files_only.close()
    await driver.close()


@pytest.mark.parametrize("wrong", ["larger", "none"])
async def test_an_image_that_does_not_fit_is_refused_and_leaves_nothing(
    drive: Callable[..., Any], images: Callable[[], set[str]], tmp_path: Path, wrong: str
) -> None:
    driver, image = drive(), tmp_path / "image"
    image.write_bytes(b"no qcow2 at all")
    if wrong == "larger":
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "3G"], check=True)
    with pytest.raises(Unfit):
        await driver.ensure_defined(tiny(tmp_path, image=ImageSource(IMAGE, str(image), "qcow2")))
    assert (images(), await driver.inventory()) == (set(), ())
    await driver.close()


@pytest.mark.slow
async def test_nothing_is_left_in_the_pool_wherever_a_process_was_killed(
    drive: Callable[..., Any], images: Callable[[], set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each program that changes something, while a guest is made, grows and goes; the next process goes on."""
    left = 0  # programs that are still run
    change = Programs.change

    async def until_killed(self: Programs, name: str, *words: Any, **options: Any) -> bytes:
        nonlocal left
        if left <= 0:
            raise Unreachable("the process was killed")
        told = await change(self, name, *words, **options)
        if name == "rbd" and not {"info", "ls", "children"} & set(words):
            left -= 1
            if left == 0:
                raise Unreachable("the process was killed")
        return told

    monkeypatch.setattr(Programs, "change", until_killed)
    spec = tiny(tmp_path)
    killed, points = True, 0
    while killed:
        killed = False
        for step in (
            lambda driver: driver.ensure_defined(spec),
            lambda driver: driver.ensure_defined(evolve(spec, disk_gib=2)),
            lambda driver: driver.ensure_absent(ID),
        ):
            left = points + 1
            driver = drive()
            driver.disks.roots.bases.looked = driver.resources.clock.seconds()
            try:
                await step(driver)
            except DriverError as error:
                assert "killed" in str(error)
                killed, left = True, 1 << 30
                await step(driver := drive())
            left = 1 << 30
            assert {each for each in images() if each.startswith("root-")} <= {ROOT}
            states = await driver.inventory()
            await driver.close()
        assert (images(), states) == (set(), ())
        points += 1
    assert points > 3
