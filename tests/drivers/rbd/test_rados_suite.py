"""The public suite of objects' data against the driver `rados`, with a real Ceph; and what killed processes leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, UnknownContent, Unreachable, Unusable
from cloudctl.drivers.rados import driver as rados
from cloudctl.drivers.specs import DriverResources
from cloudctl.testing.faults import with_faults
from cloudctl.testing.objects_suite import DATA, ID, objects_suite
from tests.drivers.rbd.cluster import POOL, USER, Cluster

_makers: list[Callable[..., Any]] = []
_numbers: Iterator[int] = count()


def make_driver(directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(_makers[-1](directory), reactor)


@pytest.fixture
def make(reactor: Any, cluster: Cluster) -> Callable[..., Any]:
    """`make(directory, part)`: a driver of a namespace that is empty at first."""
    namespace = f"o{next(_numbers)}"

    def made(directory: Path, part: str = "", piece_mib: int = 1) -> Any:
        resources = DriverResources(reactor, "rados", reactor, directory / "state", part=part)
        where: dict[str, Any] = {"pool": POOL, "namespace": namespace}
        config = rados.Config([cluster.monitor], USER, cluster.keyring, **where, piece_mib=piece_mib)
        return rados.create(config, resources)

    return made


class TestRados(objects_suite(make_driver, many=3)):
    @pytest.fixture(autouse=True)
    def _in_a_namespace(self, make: Callable[..., Any]) -> None:
        _makers[:] = [make]


async def test_pieces_parts_and_what_a_killed_process_leaves(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, images = make(tmp_path), make(tmp_path, "images")
    await driver.check()
    content = tmp_path / "content"
    content.write_bytes(large := DATA * 2 + b"and a rest")

    def gone(*words: Any) -> bytes:
        # Half of it has been written.
        if words[2][:2] == ("put", f"{ID}.1"):
            raise Unreachable("killed")
        return run(*words)

    run = rados._run
    with monkeypatch.context() as patch:
        patch.setattr(rados, "_run", gone)
        with pytest.raises(Unreachable):
            driver.ensure_kept(ID, str(content))
    with pytest.raises(UnknownContent):
        driver.open(ID)
    assert driver.inventory("") == ()
    # Once nobody can be at it any more, the cloud is told of it, and has it removed.
    with monkeypatch.context() as patch:
        patch.setattr(rados, "ABANDONED", -1.0)
        assert [each.id for each in driver.inventory("")] == [ID]
    driver.ensure_absent(ID)
    assert set(driver._rados("ls").decode().split()) == {rados.INDEX, rados._index(ID)}

    driver.ensure_kept(ID, str(content))
    assert images.inventory("") == ()
    with driver.open(ID) as file:
        assert file.read() == large
    assert {f"{ID}.{number}" for number in range(3)} < set(driver._rados("ls").decode().split())


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
async def test_contents_stay_whole_when_the_size_of_pieces_is_changed(
    make: Callable[..., Any], tmp_path: Path, before: int, after: int
) -> None:
    content = tmp_path / "content"
    content.write_bytes(large := bytes(range(256)) * 4096 * 3)
    make(tmp_path, piece_mib=before).ensure_kept(ID, str(content))
    driver = make(tmp_path, piece_mib=after)
    await driver.check()
    with driver.open(ID) as file:
        assert file.read() == large
    driver.ensure_absent(ID)
    assert set(driver._rados("ls").decode().split()) == {rados.INDEX, rados._index(ID)}


async def test_what_lacks_a_part_never_looks_whole(make: Callable[..., Any], tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(DATA)
    driver = make(tmp_path)
    await driver.check()
    driver.ensure_kept(ID, str(content))
    driver._rados("put", f"{ID}.0", "-", stdin=DATA[:-1])
    with pytest.raises(DriverError, match="bytes, and had"):
        driver.open(ID)


async def test_a_place_for_no_files_is_unusable(make: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(Unusable, match="cannot keep files in"):
        await make(tmp_path).check()
