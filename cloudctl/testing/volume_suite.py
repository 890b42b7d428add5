"""What every volume driver must do. Used as `hypervisor_suite` is."""

from __future__ import annotations

from os import truncate
from pathlib import Path
from typing import Any

from attrs import evolve

from cloudctl.drivers.errors import InUse, NoCapacity, Unfit, UnknownSnapshot, UnknownVolume
from cloudctl.drivers.interfaces import (
    IConsistentSnapshots,
    IVolumeAdoption,
    IVolumeChanges,
    IVolumeData,
    IVolumeFormats,
    IVolumeSnapshots,
)
from cloudctl.drivers.specs import ImageSource, SnapshotSpec, SnapshotState, VolumeSpec, VolumeState
from cloudctl.image.inspection import inspect
from cloudctl.testing.driver_checks import Contract, Make, Move, after_failure, at_once, driving, need, refused, twice

ID = "9d2f4c11-0000-4000-8000-00000000000a"
OTHER = "9d2f4c11-0000-4000-8000-00000000000b"
SNAPSHOT = "c4a1e2b3-0000-4000-8000-00000000000c"
SECOND = "c4a1e2b3-0000-4000-8000-00000000000d"
HOST = "host-1"
LOOKED = 4096  # bytes of a volume that are compared


def volume_suite(make: Make) -> type[Any]:
    """A class of tests for the driver that `make(directory)` returns."""

    class VolumeSuite(Contract):
        kind = "volume"
        made = staticmethod(make)

        def volume(self, id: str) -> VolumeSpec:
            """A small empty volume."""
            return VolumeSpec(id, 1, "suite")

        async def see(self, driver: Any, id: str = ID) -> VolumeState | None:
            """The volume, on which `observe` and `inventory` must agree."""
            listed = {state.id: state for state in await driver.inventory()}
            try:
                state: VolumeState | None = await driver.observe(id)
            except UnknownVolume:
                state = None
            assert listed.get(id) == state, "inventory and observe disagree"
            return state

        async def moves(self, driver: Any, directory: Path) -> list[Move]:
            return [
                Move("ensure_created", (self.volume(ID),), VolumeState(ID, 1)),
                Move("ensure_extended", (ID, 2), VolumeState(ID, 2)),
                Move("connect", (ID, HOST), VolumeState(ID, 2, (HOST,))),
                Move("ensure_extended", (ID, 3), VolumeState(ID, 3, (HOST,))),
                Move("disconnect", (ID, HOST), VolumeState(ID, 3)),
                Move("ensure_absent", (ID,), None),
            ]

        def snapshot_moves(self) -> list[Move]:
            snapshot = SnapshotState(SNAPSHOT, ID, 1)
            return [
                Move("ensure_snapshot", (SnapshotSpec(SNAPSHOT, ID, "suite"),), (snapshot,)),
                Move("ensure_reverted", (ID, SNAPSHOT), (snapshot,)),
                Move("ensure_snapshot_absent", (SNAPSHOT,), ()),
            ]

        def together(self) -> list[Move]:
            specs = (SnapshotSpec(SNAPSHOT, ID, "suite"), SnapshotSpec(SECOND, OTHER, "suite"))
            second = SnapshotState(SECOND, OTHER, 2)
            return [
                Move("ensure_snapshots", (specs,), (SnapshotState(SNAPSHOT, ID, 1), second)),
                Move("ensure_snapshot_absent", (SNAPSHOT,), (second,)),
                Move("ensure_snapshot_absent", (SECOND,), ()),
            ]

        def file(self, directory: Path, content: bytes) -> ImageSource:
            path = directory / "content"
            path.write_bytes(content)
            return ImageSource("9d2f4c11-0000-4000-8000-0000000000ff", str(path), "raw")

        async def content(self, driver: Any, directory: Path, id: str, snapshot_id: str | None = None) -> bytes:
            """What the volume begins with."""
            target = directory / "exported"
            assert await driver.ensure_exported(id, str(target), snapshot_id) == "raw"
            with target.open("rb") as file:
                return file.read(512).rstrip(b"\0")

        # -- the contract

        async def test_a_new_driver_holds_nothing_and_has_room(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                assert tuple(await driver.inventory()) == ()
                capacity = await driver.capacity()
                assert 0 < capacity.free_gib <= capacity.total_gib
                assert capacity.allocated_gib == 0

        async def test_an_unknown_volume_is_refused(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await refused(UnknownVolume, driver.observe, ID)
                await refused(UnknownVolume, driver.ensure_extended, ID, 2)
                await refused(UnknownVolume, driver.connect, ID, HOST)
                assert await self.see(driver) is None

        async def test_the_absence_of_an_unknown_volume_is_no_error(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_absent(ID)
                await driver.disconnect(ID, HOST)

        async def test_disconnecting_a_host_that_was_never_connected_is_no_error(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_created(self.volume(ID))
                await driver.disconnect(ID, HOST)
                assert await self.see(driver) == VolumeState(ID, 1)

        async def test_names_are_any_unicode(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_created(evolve(self.volume(ID), name="Größe/量 🦄 \"'\\"))
                assert await self.see(driver) == VolumeState(ID, 1)

        async def test_a_volume_that_is_there_stays_as_it_is(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_created(self.volume(ID))
                await driver.ensure_extended(ID, 2)
                await driver.ensure_created(self.volume(ID))
                assert await self.see(driver) == VolumeState(ID, 2)

        async def test_a_volume_cannot_shrink(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_created(evolve(self.volume(ID), size_gib=2))
                await refused(Unfit, driver.ensure_extended, ID, 1)
                assert await self.see(driver) == VolumeState(ID, 2)

        async def test_a_connected_volume_is_not_deleted(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_created(self.volume(ID))
                await driver.connect(ID, HOST)
                await refused(InUse, driver.ensure_absent, ID)
                assert await self.see(driver) == VolumeState(ID, 1, (HOST,))

        async def test_a_volume_larger_than_the_backend_has_no_room(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                capacity = await driver.capacity()
                if not capacity.thin:
                    spec = evolve(self.volume(ID), size_gib=capacity.free_gib + 1)
                    await refused(NoCapacity, driver.ensure_created, spec)
                    assert await self.see(driver) is None
                await driver.ensure_created(self.volume(ID))
                assert (await driver.capacity()).allocated_gib == 1

        async def test_a_volume_can_be_made_from_a_volume(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                clone = evolve(self.volume(OTHER), volume_id=ID)
                await refused(UnknownVolume, driver.ensure_created, clone)
                await driver.ensure_created(evolve(self.volume(ID), size_gib=2))
                await refused(Unfit, driver.ensure_created, clone)
                assert await self.see(driver, OTHER) is None
                await driver.ensure_created(evolve(clone, size_gib=2))
                await driver.ensure_absent(ID)
                assert await self.see(driver, OTHER) == VolumeState(OTHER, 2)

        # -- capabilities

        async def test_snapshots_repeated_change_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeSnapshots)
                await refused(UnknownVolume, driver.ensure_snapshot, SnapshotSpec(SNAPSHOT, ID))
                await refused(UnknownSnapshot, driver.ensure_created, evolve(self.volume(ID), snapshot_id=SNAPSHOT))
                await driver.ensure_created(self.volume(ID))
                await refused(UnknownSnapshot, driver.ensure_reverted, ID, SNAPSHOT)
                await twice(driver, self.snapshot_moves(), driver.snapshots)
                await at_once(driver, self.snapshot_moves(), driver.snapshots)
                await driver.ensure_snapshot_absent("unknown")

        async def test_a_volume_with_snapshots_is_not_deleted(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeSnapshots)
                await driver.ensure_created(self.volume(ID))
                await driver.ensure_snapshot(SnapshotSpec(SNAPSHOT, ID))
                await refused(InUse, driver.ensure_absent, ID)
                await driver.ensure_snapshot_absent(SNAPSHOT)
                await driver.ensure_absent(ID)
                assert await self.see(driver) is None

        async def test_snapshots_of_one_moment_repeated_change_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IConsistentSnapshots)
                moves = self.together()
                await refused(UnknownVolume, driver.ensure_snapshots, *moves[0].args)
                await driver.ensure_created(self.volume(ID))
                await refused(UnknownVolume, driver.ensure_snapshots, *moves[0].args)
                await driver.ensure_created(evolve(self.volume(OTHER), size_gib=2))
                await twice(driver, moves, driver.snapshots)
                await at_once(driver, moves, driver.snapshots)

        async def test_snapshots_of_one_moment_can_be_repeated_after_a_lost_answer(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IConsistentSnapshots)
                await driver.ensure_created(self.volume(ID))
                await driver.ensure_created(evolve(self.volume(OTHER), size_gib=2))
                await after_failure(driver, self.together(), driver.snapshots, True)

        async def test_a_snapshot_of_an_earlier_moment_is_taken_anew_with_the_others(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IConsistentSnapshots, IVolumeSnapshots, IVolumeData)
                specs = (SnapshotSpec(SNAPSHOT, ID), SnapshotSpec(SECOND, OTHER))
                for spec in specs:
                    await driver.ensure_created(
                        evolve(self.volume(spec.volume_id), image=self.file(tmp_path, b"before"))
                    )
                await driver.ensure_snapshot(specs[1])  # as an interrupted call leaves it
                await driver.ensure_imported(OTHER, self.file(tmp_path, b"after"))
                await driver.ensure_snapshots(specs)
                assert await self.content(driver, tmp_path, ID, SNAPSHOT) == b"before"
                assert await self.content(driver, tmp_path, OTHER, SECOND) == b"after"
                await driver.ensure_imported(OTHER, self.file(tmp_path, b"later"))
                await driver.ensure_snapshots(specs)
                assert await self.content(driver, tmp_path, OTHER, SECOND) == b"after"

        async def test_content_goes_in_and_comes_out(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeData)
                await refused(UnknownVolume, driver.ensure_exported, ID, str(tmp_path / "none"))
                await refused(UnknownVolume, driver.ensure_imported, ID, self.file(tmp_path, b"x"))
                await driver.ensure_created(evolve(self.volume(ID), image=self.file(tmp_path, b"from an image")))
                await driver.ensure_created(evolve(self.volume(OTHER), volume_id=ID))
                assert await self.content(driver, tmp_path, ID) == b"from an image"
                for _ in range(2):
                    await driver.ensure_imported(ID, self.file(tmp_path, b"restored"))
                    assert await self.content(driver, tmp_path, ID) == b"restored"
                assert await self.content(driver, tmp_path, OTHER) == b"from an image"
                await driver.connect(ID, HOST)
                await refused(InUse, driver.ensure_imported, ID, self.file(tmp_path, b"too late"))

        async def test_what_has_changed_since_a_mark_is_told(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeChanges, IVolumeData, IVolumeSnapshots)
                target = tmp_path / "changes"

                async def changes(mark: str, since: str | None = None) -> tuple[Any, bytes]:
                    """Where they are, and the volume's first bytes at `mark`, given those at `since`."""
                    found = await driver.ensure_changes_exported(ID, str(target), mark, since)
                    with target.open("rb") as file:
                        held = bytearray(begins[since] if found is not None else bytes(LOOKED))
                        for offset, length in ((0, LOOKED),) if found is None else found:
                            file.seek(offset)
                            part = file.read(min(length, max(0, LOOKED - offset)))
                            held[offset : offset + len(part)] = part
                    return found, bytes(held[: target.stat().st_size]).rstrip(b"\0")

                begins: dict[str | None, bytes] = {}
                await driver.ensure_created(evolve(self.volume(ID), image=self.file(tmp_path, b"before, and more")))
                await refused(UnknownSnapshot, driver.ensure_changes_exported, ID, str(target), "first")
                await driver.ensure_marked(ID, "first")
                assert await changes("first") == (None, b"before, and more")
                begins["first"] = b"before, and more".ljust(LOOKED, b"\0")
                await driver.ensure_imported(ID, self.file(tmp_path, b"after"))
                await driver.ensure_extended(ID, 2)
                for mark in ("first", "second", "third"):
                    await driver.ensure_marked(ID, mark)
                assert tuple(await driver.marks(ID)) == ("first", "second", "third")
                for since in (None, "unknown", "third", "second"):
                    assert await changes("second", since) == (None, b"after")
                found, held = await changes("second", "first")
                assert found and held == b"after"
                begins["second"] = b"after".ljust(LOOKED, b"\0")
                assert await changes("third", "second") == ((), b"after")

        async def test_marks_are_no_snapshots_and_go_with_their_volume(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeChanges, IVolumeSnapshots)
                await refused(UnknownVolume, driver.marks, ID)
                await refused(UnknownVolume, driver.ensure_marked, ID, "one")
                await driver.ensure_unmarked(ID, "one")
                await driver.ensure_created(self.volume(ID))
                moves = [
                    Move("ensure_marked", (ID, "one"), ("one",)),
                    Move("ensure_marked", (ID, "another"), ("another", "one")),
                    Move("ensure_unmarked", (ID, "one"), ("another",)),
                    Move("ensure_unmarked", (ID, "another"), ()),
                ]

                async def see() -> Any:
                    return await driver.marks(ID)

                await twice(driver, moves, see)
                await at_once(driver, moves, see)
                await driver.ensure_marked(ID, "one")
                assert tuple(await driver.snapshots()) == () and await self.see(driver) == VolumeState(ID, 1)
                await driver.ensure_absent(ID)
                assert await self.see(driver) is None
                await driver.ensure_created(self.volume(ID))
                assert tuple(await driver.marks(ID)) == ()

        async def test_content_as_large_as_the_volume_goes_in(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeData)
                await driver.ensure_created(self.volume(ID))
                image = self.file(tmp_path, b"all of it")
                truncate(str(image.path), 1 << 30)
                for _ in range(2):
                    await driver.ensure_imported(ID, image)
                assert await self.content(driver, tmp_path, ID) == b"all of it"
                assert await self.see(driver) == VolumeState(ID, 1)

        def adoptions(self) -> list[Move]:
            return [
                Move("ensure_created", (self.volume(ID),), (VolumeState(ID, 1), [])),
                Move("ensure_released", (ID, "disk"), (None, ["disk"])),
                Move("ensure_adopted", (ID, "disk"), (VolumeState(ID, 1), [])),
            ]

        async def test_a_volume_is_released_and_adopted(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeAdoption)

                async def see() -> Any:
                    return await self.see(driver), [each.name for each in await driver.unmanaged()]

                await refused(UnknownVolume, driver.ensure_adopted, ID, "disk")
                await driver.ensure_released(ID, "disk")
                await twice(driver, self.adoptions(), see)
                await driver.connect(ID, HOST)
                await refused(InUse, driver.ensure_released, ID, "disk")
                await driver.disconnect(ID, HOST)
                await driver.ensure_created(self.volume(OTHER))
                await driver.ensure_released(OTHER, "disk")
                await refused(Unfit, driver.ensure_released, ID, "disk")
                assert await see() == (VolumeState(ID, 1), ["disk"])

        async def test_an_adoption_can_be_repeated_after_a_lost_answer(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeAdoption)

                async def see() -> Any:
                    return await self.see(driver), [each.name for each in await driver.unmanaged()]

                await after_failure(driver, self.adoptions(), see, True)

        async def test_what_is_released_keeps_its_content_and_its_snapshots(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeAdoption, IVolumeData, IVolumeSnapshots)
                await driver.ensure_created(evolve(self.volume(ID), image=self.file(tmp_path, b"before")))
                await driver.ensure_snapshot(SnapshotSpec(SNAPSHOT, ID))
                await refused(InUse, driver.ensure_released, ID, "disk")
                await driver.ensure_imported(ID, self.file(tmp_path, b"after"))
                for _ in range(2):
                    await driver.ensure_snapshot_released(SNAPSHOT)
                (loose,) = await driver.unmanaged_snapshots()
                assert (loose.volume_id, loose.size_gib, tuple(await driver.snapshots())) == (ID, 1, ())
                await refused(UnknownSnapshot, driver.ensure_snapshot_adopted, SNAPSHOT, ID, "none")
                for _ in range(2):
                    await driver.ensure_snapshot_adopted(OTHER, ID, loose.name)
                assert tuple(await driver.snapshots()) == (SnapshotState(OTHER, ID, 1),)
                assert tuple(await driver.unmanaged_snapshots()) == ()
                assert await self.content(driver, tmp_path, ID, OTHER) == b"before"
                await driver.ensure_snapshot_absent(OTHER)
                await driver.ensure_released(ID, "disk")
                await driver.ensure_adopted(OTHER, "disk")
                assert await self.content(driver, tmp_path, OTHER) == b"after"
                assert tuple(await driver.unmanaged_snapshots()) == ()

        async def test_content_comes_out_in_all_formats_that_are_told(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeFormats)
                target = tmp_path / "exported"
                await refused(UnknownVolume, driver.ensure_exported_as, ID, str(target), driver.formats[0])
                await driver.ensure_created(evolve(self.volume(ID), image=self.file(tmp_path, b"from an image")))
                await refused(Unfit, driver.ensure_exported_as, ID, str(target), "a format that nobody has")
                # The second finds what the first left.
                for disk_format in (driver.formats[0], *driver.formats):
                    await driver.ensure_exported_as(ID, str(target), disk_format)
                    with target.open("rb") as file:
                        found = inspect(file, target.stat().st_size)
                    assert (found.format, found.virtual_size, found.unsafe) == (disk_format, 1 << 30, "")

        async def test_a_snapshot_keeps_what_the_volume_loses(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVolumeSnapshots, IVolumeData)
                await driver.ensure_created(evolve(self.volume(ID), image=self.file(tmp_path, b"before")))
                await driver.ensure_snapshot(SnapshotSpec(SNAPSHOT, ID))
                await driver.ensure_imported(ID, self.file(tmp_path, b"after"))
                await driver.ensure_created(evolve(self.volume(OTHER), snapshot_id=SNAPSHOT))
                assert await self.content(driver, tmp_path, ID, SNAPSHOT) == b"before"
                assert await self.content(driver, tmp_path, OTHER) == b"before"
                await driver.ensure_reverted(ID, SNAPSHOT)
                assert await self.content(driver, tmp_path, ID) == b"before"

    return VolumeSuite
