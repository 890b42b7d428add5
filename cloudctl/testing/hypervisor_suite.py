"""What every hypervisor driver must do.

    def make(directory): return create(Config(), DriverResources(clock=reactor, name="mine", state_dir=directory))

    class TestMine(hypervisor_suite(make)):
        def guest(self, id, host, directory): ...   # if your driver cannot boot the default

Tests of capabilities that the driver does not declare are skipped; a declared method that is missing fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from cloudctl.drivers.errors import InvalidPower, UnknownGuest, UnknownHost, UnknownVolume
from cloudctl.drivers.interfaces import (
    ICaptureAttached,
    ICrashDump,
    IDiagnostics,
    ILiveMigrate,
    IPassword,
    IPause,
    IRescue,
    IResizeAttached,
    ISerialConsole,
    ISnapshot,
    ISuspend,
    ISwapVolume,
    IVncConsole,
)
from cloudctl.drivers.specs import GuestSpec, GuestState, ImageSource, PortSpec, Power, VolumeConnection
from cloudctl.testing.driver_checks import Contract, Make, Move, driving, need, refused

ID = "6f1c0f5e-0000-4000-8000-00000000000a"
OTHER = "6f1c0f5e-0000-4000-8000-00000000000b"
IMAGE_OF_RESCUE = "6f1c0f5e-0000-4000-8000-0000000000fe"
VOLUME = "9d2f4c11-0000-4000-8000-00000000000c"
PORT = "3b7e8a90-0000-4000-8000-00000000000d"


def hypervisor_suite(make: Make) -> type[Any]:
    """A class of tests for the driver that `make(directory)` returns."""

    class HypervisorSuite(Contract):
        kind = "hypervisor"
        made = staticmethod(make)

        # -- what a driver's own test class may replace

        def guest(self, id: str, host: str, directory: Path) -> GuestSpec:
            """A small guest that the driver can run, with neither volumes nor ports."""
            image = directory / "image"
            image.write_bytes(b"root disk of the suite")
            source = ImageSource("6f1c0f5e-0000-4000-8000-0000000000ff", str(image), "raw")
            return GuestSpec(id, "suite", host, vcpus=1, memory_mib=128, disk_gib=1, image=source)

        def volume(self, id: str, host: str, directory: Path) -> VolumeConnection:
            """A volume that a guest on this host can have."""
            return VolumeConnection(id, {"driver_volume_type": "fake", "data": {"volume_id": id, "host": host}})

        def elsewhere(self, id: str, host: str, directory: Path) -> VolumeConnection:
            """The same volume, of the same size, at another place."""
            return VolumeConnection(id, {"driver_volume_type": "fake", "data": {"volume_id": id, "backend": "other"}})

        def port(self, id: str, host: str, directory: Path) -> PortSpec:
            """A port that a guest on this host can have."""
            return PortSpec(id, "network", "fa:16:3e:00:00:01", binding={"vif_type": "fake", "vif_details": {}})

        async def boots(self, driver: Any, id: str) -> int:
            """How often the guest has started; waits for a start under way."""
            return str(await driver.console_output(id)).count("Linux version")

        # -- the parts of the tests

        async def spec(self, driver: Any, directory: Path, id: str = ID) -> GuestSpec:
            return self.guest(id, (await driver.hosts())[0].name, directory)

        async def see(self, driver: Any, id: str = ID) -> GuestState | None:
            """The guest, on which `observe` and `inventory` must agree."""
            listed = {state.id: state for state in await driver.inventory()}
            try:
                state: GuestState | None = await driver.observe(id)
            except UnknownGuest:
                state = None
            assert listed.get(id) == state, "inventory and observe disagree"
            return state

        async def moves(self, driver: Any, directory: Path) -> list[Move]:
            spec = await self.spec(driver, directory)
            volume, port = self.volume(VOLUME, spec.host, directory), self.port(PORT, spec.host, directory)
            off = state(spec, Power.STOPPED)
            on = state(spec, Power.RUNNING)
            return [
                Move("ensure_defined", (spec,), off),
                Move("ensure_running", (ID,), on),
                Move("ensure_rebooted", (ID, "first", False), on),
                Move("ensure_rebooted", (ID, "second", True), on),
                Move("ensure_volume_attached", (ID, volume), evolve(on, volume_ids=(VOLUME,))),
                Move("ensure_port_attached", (ID, port), evolve(on, volume_ids=(VOLUME,), port_ids=(PORT,))),
                Move("ensure_volume_detached", (ID, VOLUME), evolve(on, port_ids=(PORT,))),
                Move("ensure_port_detached", (ID, PORT), on),
                Move("ensure_stopped", (ID, 0.0), off),
                Move("ensure_volume_attached", (ID, volume), evolve(off, volume_ids=(VOLUME,))),
                Move("ensure_rebooted", (ID, "third", True), evolve(on, volume_ids=(VOLUME,))),
                Move("ensure_absent", (ID,), None),
            ]

        async def running(self, driver: Any, directory: Path) -> GuestSpec:
            spec = await self.spec(driver, directory)
            await driver.ensure_defined(spec)
            await driver.ensure_running(spec.id)
            return spec

        # -- the contract

        async def test_hosts_are_sorted_and_have_room(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                hosts = await driver.hosts()
                names = [host.name for host in hosts]
                assert names and names == sorted(set(names))
                for host in hosts:
                    assert host.up and host.hypervisor_type
                    assert min(host.vcpus, host.memory_mib, host.disk_gib) > 0

        async def test_a_new_driver_holds_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                assert tuple(await driver.inventory()) == ()

        async def test_an_unknown_guest_is_refused(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.spec(driver, tmp_path)
                volume, port = self.volume(VOLUME, spec.host, tmp_path), self.port(PORT, spec.host, tmp_path)
                await refused(UnknownGuest, driver.observe, ID)
                await refused(UnknownGuest, driver.ensure_running, ID)
                await refused(UnknownGuest, driver.ensure_stopped, ID)
                await refused(UnknownGuest, driver.ensure_rebooted, ID, "token")
                await refused(UnknownGuest, driver.console_output, ID)
                await refused(UnknownGuest, driver.ensure_volume_attached, ID, volume)
                await refused(UnknownGuest, driver.ensure_port_attached, ID, port)
                assert await self.see(driver) is None

        async def test_the_absence_of_an_unknown_guest_is_no_error(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_absent(ID)
                await driver.ensure_volume_detached(ID, VOLUME)
                await driver.ensure_port_detached(ID, PORT)

        async def test_detaching_what_was_never_attached_is_no_error(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.running(driver, tmp_path)
                await driver.ensure_volume_detached(ID, VOLUME)
                await driver.ensure_port_detached(ID, PORT)
                assert await self.see(driver) == state(spec, Power.RUNNING)

        async def test_an_unknown_host_is_refused(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.spec(driver, tmp_path)
                await refused(UnknownHost, driver.ensure_defined, evolve(spec, host="no-such-host"))
                assert await self.see(driver) is None

        async def test_names_and_metadata_are_any_unicode(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.spec(driver, tmp_path)
                name = "Straße/žluťoučký 服务器 🦄 \"'<&>\\"
                await driver.ensure_defined(evolve(spec, name=name, metadata={"ключ": "värde\n"}))
                await driver.ensure_running(ID)
                assert await self.see(driver) == state(spec, Power.RUNNING)

        async def test_two_guests_do_not_meet(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                one = await self.running(driver, tmp_path)
                two = await self.spec(driver, tmp_path, OTHER)
                await driver.ensure_defined(two)
                assert [each.id for each in await driver.inventory()] == [ID, OTHER]
                await driver.ensure_absent(OTHER)
                assert await self.see(driver) == state(one, Power.RUNNING)

        async def test_a_token_reboots_once(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await self.running(driver, tmp_path)
                assert await self.boots(driver, ID) == 1
                for token, hard, count in [("a", False, 2), ("a", False, 2), ("b", True, 3), ("b", True, 3)]:
                    await driver.ensure_rebooted(ID, token, hard)
                    assert await self.boots(driver, ID) == count, f"reboot with token {token}"

        async def test_running_again_does_not_start_again(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await self.running(driver, tmp_path)
                await driver.ensure_running(ID)
                assert await self.boots(driver, ID) == 1

        async def test_the_console_shows_its_last_lines(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await self.running(driver, tmp_path)
                await self.boots(driver, ID)
                whole = await driver.console_output(ID)
                assert len(whole.splitlines()) > 2
                assert len((await driver.console_output(ID, 2)).splitlines()) == 2
                assert await driver.console_output(ID, 0) == ""

        async def test_a_volume_can_be_there_from_the_start(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.spec(driver, tmp_path)
                whole = evolve(
                    spec,
                    volumes=(self.volume(VOLUME, spec.host, tmp_path),),
                    ports=(self.port(PORT, spec.host, tmp_path),),
                )
                await driver.ensure_defined(whole)
                await driver.ensure_running(ID)
                assert await self.see(driver) == state(whole, Power.RUNNING)

        async def test_size_changes_only_while_off(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.running(driver, tmp_path)
                larger = evolve(spec, memory_mib=spec.memory_mib + 32)
                await refused(InvalidPower, driver.ensure_defined, larger)
                assert await self.see(driver) == state(spec, Power.RUNNING)
                await driver.ensure_stopped(ID, 0.0)
                await driver.ensure_defined(larger)
                assert await self.see(driver) == state(larger, Power.STOPPED)

        async def test_a_stopped_guest_can_change_its_host(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                spec = await self.spec(driver, tmp_path)
                for host in await driver.hosts():
                    moved = evolve(spec, host=host.name)
                    await driver.ensure_defined(moved)
                    assert await self.see(driver) == state(moved, Power.STOPPED)

        # -- capabilities

        async def test_a_paused_guest_goes_on(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IPause)
                await self._frozen(driver, tmp_path, driver.ensure_paused, Power.PAUSED)

        async def test_a_suspended_guest_goes_on(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ISuspend)
                await self._frozen(driver, tmp_path, driver.ensure_suspended, Power.SUSPENDED)

        async def _frozen(self, driver: Any, directory: Path, freeze: Any, power: Power) -> None:
            await refused(UnknownGuest, freeze, ID)
            spec = await self.running(driver, directory)
            for _ in range(2):
                await freeze(ID)
                assert await self.see(driver) == state(spec, power)
            await driver.ensure_running(ID)
            assert await self.see(driver) == state(spec, Power.RUNNING)
            assert await self.boots(driver, ID) == 1
            await driver.ensure_stopped(ID, 0.0)
            await refused(InvalidPower, freeze, ID)

        async def test_a_root_disk_can_be_captured(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ISnapshot)
                target = tmp_path / "captured"
                await refused(UnknownGuest, driver.ensure_captured, ID, str(target))
                assert not target.exists()
                await self.running(driver, tmp_path)
                formats = [await driver.ensure_captured(ID, str(target)) for _ in range(2)]
                assert formats[0] == formats[1] and formats[0] in ("raw", "qcow2")
                assert target.stat().st_size > 0

        async def test_a_rescued_guest_returns(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IRescue)
                await refused(UnknownGuest, driver.ensure_rescued, ID, None, "secret")
                spec = await self.running(driver, tmp_path)
                assert await self.boots(driver, ID) == 1
                assert spec.image is not None
                for _ in range(2):
                    await driver.ensure_rescued(ID, evolve(spec.image, id=IMAGE_OF_RESCUE), "secret")
                    assert await self.see(driver) == evolve(state(spec, Power.RUNNING), rescued=True)
                assert await self.boots(driver, ID) == 2
                for _ in range(2):
                    await driver.ensure_unrescued(ID)
                    assert await self.see(driver) == state(spec, Power.RUNNING)

        async def test_a_running_guest_can_move(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ILiveMigrate)
                spec = await self.spec(driver, tmp_path)
                await refused(UnknownGuest, driver.ensure_migrated, spec)
                await driver.ensure_defined(spec)
                await refused(InvalidPower, driver.ensure_migrated, spec)
                await driver.ensure_running(ID)
                await refused(UnknownHost, driver.ensure_migrated, evolve(spec, host="no-such-host"))
                for host in await driver.hosts():
                    moved = evolve(spec, host=host.name)
                    for _ in range(2):
                        await driver.ensure_migrated(moved)
                        assert await self.see(driver) == state(moved, Power.RUNNING)
                assert await self.boots(driver, ID) == 1

        async def test_what_is_on_no_way_can_be_neither_stopped_nor_hurried(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ILiveMigrate)
                spec = await self.running(driver, tmp_path)
                for id in (ID, OTHER):
                    await driver.ensure_migration_aborted(id)
                    await driver.ensure_migration_forced(id)
                    assert await driver.migration_progress(id) is None
                assert await self.see(driver) == state(spec, Power.RUNNING)

        async def test_what_a_guest_uses_can_be_told(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IDiagnostics)
                await refused(UnknownGuest, driver.diagnostics, ID)
                spec = await self.running(driver, tmp_path)
                found = await driver.diagnostics(ID)
                assert (found.power, found.memory_mib) == (Power.RUNNING, spec.memory_mib)
                assert len(found.cpu_times) == spec.vcpus and found.disks
                assert [each.mac for each in found.nics] == [each.mac for each in spec.ports]
                await driver.ensure_stopped(ID, 0.0)
                assert (await driver.diagnostics(ID)).power is Power.STOPPED

        async def test_a_guest_that_runs_can_be_interrupted(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ICrashDump)
                await refused(UnknownGuest, driver.ensure_interrupted, ID, "token")
                await self.running(driver, tmp_path)
                for _ in range(2):
                    await driver.ensure_interrupted(ID, "token")
                await driver.ensure_stopped(ID, 0.0)
                # An interrupt that it already had need not happen again.
                await driver.ensure_interrupted(ID, "token")
                await refused(InvalidPower, driver.ensure_interrupted, ID, "other token")

        async def test_the_serial_console_of_a_guest_that_is_on_can_be_opened(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ISerialConsole)
                await refused(UnknownGuest, driver.open_serial, ID, Reader())
                await self.running(driver, tmp_path)
                for _ in range(2):
                    reader = Reader()
                    await driver.open_serial(ID, reader)
                    reader.transport.write(b"\r")
                    reader.transport.loseConnection()
                    await reader.gone
                last = Reader()
                await driver.open_serial(ID, last)
                await driver.ensure_stopped(ID, 0.0)
                await last.gone
                await refused(InvalidPower, driver.open_serial, ID, Reader())

        async def test_the_screen_of_a_guest_that_is_on_can_be_seen_by_several(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IVncConsole)
                await refused(UnknownGuest, driver.open_vnc, ID, Reader())
                await self.running(driver, tmp_path)
                first, second = Reader(), Reader()
                for reader in (first, second):
                    await driver.open_vnc(ID, reader)
                    assert (await reader.told(12)).startswith(b"RFB 003.")
                first.transport.loseConnection()
                await first.gone
                await driver.ensure_stopped(ID, 0.0)
                await second.gone
                await refused(InvalidPower, driver.open_vnc, ID, Reader())

        async def test_a_running_guest_can_get_a_password(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IPassword)
                await refused(UnknownGuest, driver.ensure_password, ID, "secret")
                await self.running(driver, tmp_path)
                await driver.ensure_password(ID, "sécret")
                await driver.ensure_stopped(ID, 0.0)
                await refused(InvalidPower, driver.ensure_password, ID, "secret")

        async def test_an_attached_volume_can_grow(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, IResizeAttached)
                await refused(UnknownGuest, driver.ensure_volume_size, ID, VOLUME, 2)
                spec = await self.running(driver, tmp_path)
                await refused(UnknownVolume, driver.ensure_volume_size, ID, VOLUME, 2)
                await driver.ensure_volume_attached(ID, self.volume(VOLUME, spec.host, tmp_path))
                for _ in range(2):
                    await driver.ensure_volume_size(ID, VOLUME, 2)

        async def test_what_an_attached_volume_holds_can_be_copied(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ICaptureAttached)
                target = tmp_path / "copied"
                await refused(UnknownGuest, driver.ensure_volume_captured, ID, VOLUME, str(target))
                spec = await self.running(driver, tmp_path)
                await refused(UnknownVolume, driver.ensure_volume_captured, ID, VOLUME, str(target))
                await driver.ensure_volume_attached(ID, self.volume(VOLUME, spec.host, tmp_path))
                for _ in range(2):
                    assert await driver.ensure_volume_captured(ID, VOLUME, str(target)) == "raw"
                    target.unlink()
                await driver.ensure_stopped(ID, 0.0)
                await refused(InvalidPower, driver.ensure_volume_captured, ID, VOLUME, str(target))
                assert not target.exists()

        async def test_an_attached_volume_can_be_led_elsewhere(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                need(driver, ISwapVolume)
                spec = await self.running(driver, tmp_path)
                there = self.elsewhere(VOLUME, spec.host, tmp_path).info
                await refused(UnknownGuest, driver.ensure_volume_swapped, OTHER, VOLUME, there)
                await refused(UnknownVolume, driver.ensure_volume_swapped, ID, VOLUME, there)
                await driver.ensure_volume_attached(ID, self.volume(VOLUME, spec.host, tmp_path))
                for _ in range(2):
                    await driver.ensure_volume_swapped(ID, VOLUME, there)
                assert (await driver.observe(ID)).volume_ids == (VOLUME,)

    return HypervisorSuite


class Reader(Protocol):
    """Reads an open console; `gone` fires once it is closed."""

    transport: Any

    def __init__(self) -> None:
        self.gone: Deferred[None] = Deferred()
        self.heard = b""
        self._wanted: tuple[int, Deferred[bytes]] | None = None

    def told(self, count: int) -> Deferred[bytes]:
        """The first `count` bytes, once they have arrived."""
        self._wanted = count, Deferred()
        waiting = self._wanted[1]
        self.dataReceived(b"")
        return waiting

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        if self._wanted is not None and len(self.heard) >= self._wanted[0]:
            (count, waiting), self._wanted = self._wanted, None
            waiting.callback(self.heard[:count])

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.gone.callback(None)


def state(spec: GuestSpec, power: Power) -> GuestState:
    """What must be observed of a guest that is as `spec` says."""
    volume_ids = tuple(sorted(each.volume_id for each in spec.volumes))
    port_ids = tuple(sorted(each.id for each in spec.ports))
    return GuestState(spec.id, spec.host, power, spec.vcpus, spec.memory_mib, volume_ids, port_ids)
