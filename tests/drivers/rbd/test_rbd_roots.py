"""Root disks of guests in a real Ceph: what becomes of them while guests come, go, grow, move and die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import evolve

from cloudctl.drivers.errors import InvalidPower
from cloudctl.drivers.rbd.options import Pool
from cloudctl.drivers.specs import DriverResources, Power
from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.qemu import real, tiny_guest
from tests.drivers.qemu.real import ID, IMAGE, tiny
from tests.drivers.rbd.cluster import POOL, USER, Cluster

ROOT = f"root-{ID}"
MARK = b"what the guest wrote"


@pytest.fixture(scope="module")
def daemons(start_libvirtd: Callable[[str], Libvirtd]) -> tuple[Libvirtd, Libvirtd]:
    return start_libvirtd("east"), start_libvirtd("west")


@pytest.fixture
def hosts(daemons: tuple[Libvirtd, Libvirtd]) -> Iterator[tuple[Libvirtd, Libvirtd]]:
    yield daemons
    for daemon in daemons:
        if daemon.process.poll() is None:
            daemon.empty()


@pytest.fixture
def drive(reactor: Any, cluster: Cluster, hosts: tuple[Libvirtd, Libvirtd], tmp_path: Path) -> Callable[..., Any]:
    """`drive(**options of the pool)`: a driver of both hosts, which share no directory."""
    from cloudctl.drivers.libvirt.hypervisor import Config, create

    def made(**options: Any) -> Any:
        config = Config(
            hosts={each.name: each.uri for each in hosts},
            peers={each.name: each.tls_uri for each in hosts},
            accelerator="tcg",
            directory="/var/lib/libvirt/cloudctl",
            slots=2,
            open_timeout=60.0,
            root_disks="rbd",
            rbd=Pool(**{"monitors": [cluster.monitor], "user": USER, "keyring": cluster.keyring, **options}),
        )
        return create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))

    return made


def images(cluster: Cluster) -> set[str]:
    """Of the pool, and of its trash."""
    kept, gone = (orjson.loads(cluster.rbd(*words, POOL, "--format=json")) for words in (("ls",), ("trash", "ls")))
    return {*kept, *(each["name"] for each in gone)}


def info(cluster: Cluster, image: str = ROOT) -> Any:
    return orjson.loads(cluster.rbd("info", f"{POOL}/{image}", "--format=json"))


async def is_up(driver: Any) -> bool:
    return tiny_guest.LAST_LINE in await driver.console_output(ID)


async def test_a_guest_of_libvirt_starts_from_a_clone_grows_is_copied_moves_and_leaves_nothing(
    drive: Callable[..., Any], cluster: Cluster, tmp_path: Path
) -> None:
    driver = drive()
    await driver.check()
    spec = evolve(tiny(tmp_path), host="east")
    for _ in range(2):
        await driver.ensure_defined(spec)
    assert images(cluster) == {ROOT, f"image-{IMAGE}"}
    assert info(cluster)["size"] == 1 << 30 and info(cluster)["parent"]["image"] == f"image-{IMAGE}"
    assert all(each.disk_gib for each in await driver.hosts())
    await driver.ensure_running(ID)
    assert await real.soon(lambda: is_up(driver))

    with pytest.raises(InvalidPower):
        await driver.ensure_defined(evolve(spec, disk_gib=2))
    await driver.ensure_migrated(evolve(spec, host="west"))
    assert await driver.observe(ID) == evolve(await driver.observe(ID), host="west", power=Power.RUNNING)
    await driver.ensure_stopped(ID, 0.0)
    larger = evolve(spec, disk_gib=2)
    await driver.ensure_defined(larger)  # and back to east, without its disk on the way
    assert info(cluster)["size"] == 2 << 30
    await driver.ensure_running(ID)
    assert (await driver.observe(ID)).host == "east"
    await driver.ensure_absent(ID)
    assert images(cluster) == set()
    await driver.close()


async def test_a_guest_of_libvirt_is_rescued_from_a_clone_of_which_nothing_is_left(
    drive: Callable[..., Any], cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloudctl.drivers.libvirt import rescues

    driver, spec = drive(), evolve(tiny(tmp_path), host="east", config_drive=True)
    await driver.ensure_defined(spec)
    own, rescue = {ROOT, f"image-{IMAGE}"}, f"rescue-{ID}"
    for image in (None, spec.image):
        for _ in range(2):
            await driver.ensure_rescued(ID, image, "secret")
        assert (await driver.observe(ID)).rescued
        assert images(cluster) == {*own, rescue} and info(cluster, rescue)["parent"]["image"] == f"image-{IMAGE}"
        assert await real.soon(lambda: is_up(driver))
        for _ in range(2):
            await driver.ensure_unrescued(ID)
        found = await driver.observe(ID)
        assert (found.rescued, found.power, images(cluster)) == (False, Power.RUNNING, own)

    def killed(*_args: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(rescues, "begin", killed)
        with pytest.raises(RuntimeError):
            await driver.ensure_rescued(ID, None, "secret")
    assert images(cluster) == {*own, rescue} and not (await driver.observe(ID)).rescued
    await driver.ensure_absent(ID)
    assert images(cluster) == set()
    await driver.close()
