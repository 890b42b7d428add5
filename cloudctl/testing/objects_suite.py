"""What every driver of objects' data must do. Used as `hypervisor_suite` is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloudctl.drivers.errors import DriverError, UnknownContent
from cloudctl.drivers.interfaces import IManyContents
from cloudctl.testing.driver_checks import Contract, Make, Move, at_once, driving, need, refused, twice

ID = "0a" * 16
OTHER = "f3" * 16
DATA = bytes(range(256)) * 4096


def objects_suite(make: Make, many: int = 52, data: bytes = DATA) -> type[Any]:
    """A class of tests for the driver that `make(directory)` returns. `many`: how many contents count as a lot for it.

    `data`: a content of a usual size, at least 1 MiB.
    """

    class ObjectsSuite(Contract):
        kind = "objects"
        made = staticmethod(make)

        def file(self, directory: Path, content: bytes = data) -> str:
            path = directory / "content"
            path.write_bytes(content)
            return str(path)

        async def read(self, driver: Any, id: str) -> bytes | None:
            try:
                with await driver.open(id) as file:
                    return bytes(file.read())
            except UnknownContent:
                return None

        async def ids(self, driver: Any) -> list[str]:
            """The ids of everything that is kept."""
            found: list[str] = []
            while page := await driver.inventory(found[-1] if found else ""):
                found += [each.id for each in page]
            assert found == sorted(set(found)), "the inventory is not sorted by id"
            return found

        async def see(self, driver: Any) -> dict[str, bytes | None]:
            """Everything, on which `open` and `inventory` must agree."""
            listed = await self.ids(driver)
            found = {id: await self.read(driver, id) for id in sorted({*listed, ID, OTHER})}
            assert [id for id in found if found[id] is not None] == listed, "inventory and open disagree"
            return {id: found[id] for id in listed}

        async def moves(self, driver: Any, directory: Path) -> Sequence[Move]:
            source = self.file(directory)
            return (
                Move("ensure_kept", (ID, source), {ID: data}),
                Move("ensure_kept", (OTHER, source), {ID: data, OTHER: data}),
                Move("ensure_absent", (ID,), {OTHER: data}),
                Move("ensure_absent", (OTHER,), {}),
            )

        async def test_a_new_driver_holds_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                assert await self.see(driver) == {}

        async def test_what_is_there_stays_as_it_is(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_kept(ID, self.file(tmp_path))
                (tmp_path / "content").unlink()
                await driver.ensure_kept(ID, self.file(tmp_path, b"something else"))
                (tmp_path / "content").unlink()
                assert await self.see(driver) == {ID: data}

        async def test_many_at_once(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IManyContents)
                sources = {ID: tmp_path / "one", OTHER: tmp_path / "other"}
                for id, source in sources.items():
                    source.write_bytes(id.encode())
                await driver.ensure_all_kept(())
                await driver.ensure_all_kept(((ID, str(sources[ID])),))
                kept = {ID: ID.encode(), OTHER: OTHER.encode()}
                moves = (Move("ensure_all_kept", ([(id, str(path)) for id, path in sources.items()],), kept),)
                await twice(driver, moves, lambda: self.see(driver))
                await at_once(driver, moves, lambda: self.see(driver))

        async def test_unknown_ids(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await refused(UnknownContent, driver.open, ID)
                await driver.ensure_absent(ID)

        async def test_a_file_that_is_not_there_is_not_kept(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await refused(DriverError, driver.ensure_kept, ID, str(tmp_path / "none"))
                assert await self.see(driver) == {}

        async def test_nothing_is_a_content_too(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_kept(ID, self.file(tmp_path, b""))
                assert await self.see(driver) == {ID: b""}

        async def test_parts_are_read_from_anywhere(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_kept(ID, self.file(tmp_path))
                with await driver.open(ID) as file:
                    for start, length in ((len(data) - 3, 10), (0, 1), (700_000, 65_536)):
                        file.seek(start)
                        assert file.read(length) == data[start : start + length]

        async def test_who_reads_goes_on_when_it_is_removed(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_kept(ID, self.file(tmp_path))
                with await driver.open(ID) as file:
                    await driver.ensure_absent(ID)
                    assert file.read() == data

        async def test_the_inventory_has_all_and_says_since_when(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                wanted = sorted(f"{number:02x}{number:030x}" for number in range(0, 256, -(-256 // many)))
                source = self.file(tmp_path, b"x")
                for id in reversed(wanted):
                    await driver.ensure_kept(id, source)
                assert await self.ids(driver) == wanted
                first = await driver.inventory("")
                assert all(each.since > 0 for each in first) and first == await driver.inventory("")

    return ObjectsSuite
