"""The fencer `nbd` of a cloud that has volumes in several places: it proves nothing until all are withdrawn."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.threads import deferToThread

from cloudctl.drivers.errors import Busy, Unreachable, Unusable
from cloudctl.drivers.nbd.fenced import turn, turn_file
from cloudctl.drivers.nbd.fencer import Config, create
from cloudctl.drivers.nbd.options import Place
from cloudctl.drivers.specs import DriverResources, VolumeSpec
from tests.drivers.nbd.test_nbd_fencer import HOST, OTHER, offered
from tests.drivers.qcow2.live import demand


@pytest.fixture
def two(open_driver: Callable[..., Any], tmp_path: Path) -> Callable[[], Any]:
    """Two backends, each with a volume of its own."""
    demand("qemu-nbd")

    async def opened() -> list[Any]:
        made = []
        for name in ("fast", "slow"):
            driver = await open_driver(tmp_path / name)
            await driver.ensure_created(VolumeSpec(f"v-{name}", 1))
            made.append(driver)
        return made

    return opened


def fencer(reactor: Any, volumes: Any, **options: Any) -> Any:
    resources = DriverResources(clock=reactor, name="nbd", reactor=reactor, volumes=(object(), *volumes))
    return create(Config(**{"hosts": [HOST, OTHER], **options}), resources)


async def test_all_volumes_that_the_cloud_has_are_withdrawn(
    two: Any, client: Any, runtime_dir: Path, reactor: Any
) -> None:
    volumes = await two()
    fast, slow = volumes
    lost = [client(await fast.connect("v-fast", HOST), 1), client(await slow.connect("v-slow", HOST), 1)]
    for each in lost:
        assert (await each.write("7")).startswith("wrote")
    driver = fencer(reactor, volumes)
    await driver.check()
    proof = await driver.ensure_fenced(HOST)
    each_of = [f"none of the 1 volumes in {each.records.root}" for each in volumes]
    assert proof == f"{HOST} is offered {' and '.join(each_of)}"
    for each in lost:
        assert not (await deferToThread(each.says, "write -P 8 0 4096"))[0].startswith("wrote")
    assert offered(runtime_dir) == set()
    assert await client(await fast.connect("v-fast", OTHER)).holds("7")
    assert await client(await slow.connect("v-slow", OTHER)).holds("7")
    await driver.ensure_unfenced(HOST)
    await fast.connect("v-fast", HOST)
    await slow.connect("v-slow", HOST)


async def test_while_one_of_them_cannot_be_withdrawn_there_is_no_proof(
    two: Any, runtime_dir: Path, reactor: Any
) -> None:
    fast, slow = await two()
    await fast.connect("v-fast", HOST)
    await slow.connect("v-slow", HOST)
    places = {
        # Only of the one that is kept from its turn nobody waits for an answer.
        each.records.root.name: Place(str(each.records.root), runtime_dir=runtime_dir, answer_timeout=seconds)
        for each, seconds in ((fast, 60.0), (slow, 0.2))
    }
    driver = fencer(reactor, [fast, slow], backends=places)
    file = turn_file(slow.records, slow.records.volume("v-slow"))
    async with turn(file, reactor, 5):
        with pytest.raises(Busy):
            await driver.ensure_fenced(HOST)
        assert fast.disks.fenced.has(HOST) and slow.disks.fenced.has(HOST), "nobody offers it anything new"
        assert offered(runtime_dir) == {f"v-slow/{HOST}"}
    assert "and none of the 1 volumes" in await fencer(reactor, [fast, slow]).ensure_fenced(HOST)
    assert offered(runtime_dir) == set()


async def test_who_names_only_some_of_the_places_is_told_of_the_others(
    two: Any, runtime_dir: Path, reactor: Any
) -> None:
    fast, slow = await two()
    await fast.connect("v-fast", HOST)
    driver = fencer(reactor, [fast, slow], directory=str(fast.records.root), runtime_dir=runtime_dir)
    why = f"the cloud has volumes in {slow.records.root}, too"
    with pytest.raises(Unusable, match=why):
        await driver.check()
    with pytest.raises(Unreachable, match=why):
        await driver.ensure_fenced(HOST)
    assert offered(runtime_dir) == {f"v-fast/{HOST}"}, "it is not begun either"


async def test_a_place_that_is_gone_proves_nothing_of_the_others(two: Any, runtime_dir: Path, reactor: Any) -> None:
    fast, slow = await two()
    shutil.move(slow.records.root / "volumes", slow.records.root / "moved")
    with pytest.raises(Unreachable, match="is no directory of volumes"):
        await fencer(reactor, [fast, slow]).ensure_fenced(HOST)
