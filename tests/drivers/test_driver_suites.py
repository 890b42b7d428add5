"""The public suites catch broken drivers. Each driver below is a fake with one fault."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.task import Clock, deferLater
from zope.interface import directlyProvides, providedBy

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import UnknownGuest, UnknownPort
from cloudctl.drivers.fake import hypervisor, network, volume
from cloudctl.drivers.fake.hypervisor import FakeHypervisor, Guest
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import DriverResources, Power, VolumeState
from cloudctl.testing.hypervisor_suite import hypervisor_suite
from cloudctl.testing.network_suite import network_suite
from cloudctl.testing.volume_suite import volume_suite

RESOURCES = DriverResources(clock=Clock(), name="fake")
SUITES = {hypervisor: hypervisor_suite, volume: volume_suite, network: network_suite}


async def failures(suite: Any, directory: Path) -> Any:
    """Names of the tests of this suite that fail."""
    failed = set()
    for number, name in enumerate(name for name in dir(suite) if name.startswith("test_")):
        own = directory / str(number)
        own.mkdir()
        try:
            await getattr(suite(), name)(own)
        except (Exception, pytest.fail.Exception):
            failed.add(name)
        except pytest.skip.Exception:
            continue
    return failed


def same(driver: Any, cls: type[Any]) -> Any:
    """A driver of this class with the state of `driver`."""
    return cls(**{each.name: getattr(driver, each.name) for each in type(driver).__attrs_attrs__})


class Without:
    """A driver without one of its methods."""

    def __init__(self, driver: Any, name: Any) -> None:
        self._driver, self._name = driver, name
        directlyProvides(self, providedBy(driver))

    def __getattr__(self, name: Any) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._driver, name)


@pytest.mark.parametrize("module", SUITES, ids=lambda module: module.__name__.rpartition(".")[2])
async def test_the_driver_that_is_broken_below_passes_while_it_is_whole(module: Any, tmp_path: Path) -> None:
    assert await failures(SUITES[module](lambda _: module.create(module.Config(), RESOURCES)), tmp_path) == set()


@pytest.mark.parametrize(
    ("module", "method"),
    [(module, method) for module in SUITES for method in sorted(methods(*module.INTERFACES))],
    ids=lambda value: value if isinstance(value, str) else value.__name__.rpartition(".")[2],
)
async def test_any_missing_method_fails(module: Any, method: Any, tmp_path: Path) -> None:
    suite = SUITES[module](lambda _: Without(module.create(module.Config(), RESOURCES), method))
    failed = await failures(suite, tmp_path)
    assert "test_provides_all_that_it_declares" in failed


# -- hypervisors


class AbsentRaises(FakeHypervisor):
    async def ensure_absent(self, id: str) -> None:
        if self.guests.get(id) is None:
            raise UnknownGuest(id)
        await super().ensure_absent(id)


class TokenIgnored(FakeHypervisor):
    async def ensure_rebooted(self, id: str, token: Any, hard: Any = False) -> None:
        await super().ensure_rebooted(id, token + str(len(self._guest(id).log)), hard)


class RunningStartsAgain(FakeHypervisor):
    async def ensure_running(self, id: str) -> None:
        self._put(hypervisor.started(self._guest(id)))


class AttachesTwice(FakeHypervisor):
    async def ensure_volume_attached(self, id: str, connection: Any) -> None:
        guest = self._guest(id)
        self._put(evolve(guest, spec=evolve(guest.spec, volumes=(*guest.spec.volumes, connection))))


class HidesStoppedGuests(FakeHypervisor):
    async def inventory(self) -> Any:
        return tuple(each for each in await super().inventory() if each.power is not Power.STOPPED)


class DefiningStops(FakeHypervisor):
    async def ensure_defined(self, spec: Any) -> None:
        self._host(spec.host)
        self._put(Guest(spec))


class DefiningLooksTooEarly(FakeHypervisor):
    """Right when called alone; two calls at once both find nothing and collide."""

    async def ensure_defined(self, spec: Any) -> None:
        from twisted.internet import reactor

        missing = self.guests.get(spec.id) is None
        await deferLater(reactor, 0.001)
        if missing and self.guests.get(spec.id) is not None:
            raise FileExistsError(spec.id)
        await super().ensure_defined(spec)


class ForgetsAfterFailure(FakeHypervisor):
    """A step that failed is not tried again."""

    async def ensure_running(self, id: str) -> None:
        if self.behaviour.calls["ensure_running"] == 0:
            await super().ensure_running(id)


class AsciiNames(FakeHypervisor):
    async def ensure_defined(self, spec: Any) -> None:
        spec.name.encode("ascii")
        await super().ensure_defined(spec)


class UnknownIsFine(FakeHypervisor):
    async def ensure_stopped(self, id: str, timeout: Any = 60.0) -> None:
        if self.guests.get(id) is not None:
            await super().ensure_stopped(id, timeout)


class AnyHost(FakeHypervisor):
    def _host(self, name: Any) -> None:
        pass


class MovesRunningGuestsByStoppingThem(FakeHypervisor):
    async def ensure_migrated(self, spec: Any, disks: bool | None = None) -> None:
        await super().ensure_migrated(spec, disks)
        self._put(hypervisor.started(self._guest(spec.id)))


HYPERVISORS = [
    (AbsentRaises, "test_the_absence_of_an_unknown_guest_is_no_error"),
    (TokenIgnored, "test_a_token_reboots_once"),
    (RunningStartsAgain, "test_running_again_does_not_start_again"),
    (AttachesTwice, "test_each_ensure_repeated_changes_nothing"),
    (HidesStoppedGuests, "test_what_it_makes_lives_and_goes"),
    (DefiningStops, "test_size_changes_only_while_off"),
    (DefiningLooksTooEarly, "test_each_ensure_three_times_at_once_is_like_once"),
    (ForgetsAfterFailure, "test_each_ensure_can_be_repeated_after_a_failure"),
    (AsciiNames, "test_names_and_metadata_are_any_unicode"),
    (UnknownIsFine, "test_an_unknown_guest_is_refused"),
    (AnyHost, "test_an_unknown_host_is_refused"),
    (MovesRunningGuestsByStoppingThem, "test_a_running_guest_can_move"),
]


# -- volumes


class CreatesAnew(FakeVolumeBackend):
    async def ensure_created(self, spec: Any) -> None:
        self.volumes.delete(spec.id)
        await super().ensure_created(spec)


class NewAnswerEachTime(FakeVolumeBackend):
    numbers = count()

    async def connect(self, id: str, host: Any) -> Any:
        info = await super().connect(id, host)
        return {**info, "data": {"lun": next(self.numbers)}}


class Shrinks(FakeVolumeBackend):
    async def ensure_extended(self, id: str, size_gib: int) -> None:
        self.volumes.put(id, evolve(self._volume(id), size_gib=size_gib))


class DeletesWhatIsConnected(FakeVolumeBackend):
    async def ensure_absent(self, id: str) -> None:
        self.volumes.delete(id)


class ObservesAnotherSize(FakeVolumeBackend):
    async def observe(self, id: str) -> Any:
        found = await super().observe(id)
        return VolumeState(found.id, found.size_gib + 1, found.hosts)


class ClonesShareContent(FakeVolumeBackend):
    async def ensure_imported(self, id: str, image: Any) -> None:
        for each in self.volumes.values():
            await super().ensure_imported(each.id, image)
        await super().ensure_imported(id, image)


VOLUMES = [
    (CreatesAnew, "test_a_volume_that_is_there_stays_as_it_is"),
    (NewAnswerEachTime, "test_each_ensure_repeated_changes_nothing"),
    (Shrinks, "test_a_volume_cannot_shrink"),
    (DeletesWhatIsConnected, "test_a_connected_volume_is_not_deleted"),
    (ObservesAnotherSize, "test_what_it_makes_lives_and_goes"),
    (ClonesShareContent, "test_content_goes_in_and_comes_out"),
]


# -- networks


class UnplugsUnknownRaises(FakeNetworkBackend):
    async def ensure_port_absent(self, id: str, host: Any = None) -> None:
        if self.ports.get(id) is None:
            raise UnknownPort(id)
        await super().ensure_port_absent(id, host)


class MovesInsteadOfAdding(FakeNetworkBackend):
    async def ensure_port(self, port: Any, host: Any) -> Any:
        self.ports.delete(port.id)
        return await super().ensure_port(port, host)


class DeletesNetworksInUse(FakeNetworkBackend):
    async def ensure_network_absent(self, id: str) -> None:
        self.networks.delete(id)


class AlwaysUp(FakeNetworkBackend):
    async def ensure_port(self, port: Any, host: Any) -> Any:
        return await super().ensure_port(evolve(port, admin_state_up=True), host)


NETWORKS = [
    (UnplugsUnknownRaises, "test_the_absence_of_unknown_ids_is_no_error"),
    (MovesInsteadOfAdding, "test_what_it_makes_lives_and_goes"),
    (DeletesNetworksInUse, "test_a_network_with_ports_is_not_deleted"),
    (AlwaysUp, "test_a_port_that_is_down_passes_nothing"),
]


@pytest.mark.parametrize(
    ("module", "cls", "test"),
    [(hypervisor, *row) for row in HYPERVISORS]
    + [(volume, *row) for row in VOLUMES]
    + [(network, *row) for row in NETWORKS],
    ids=lambda value: value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else "",
)
async def test_a_broken_driver_fails(module: Any, cls: type[Any], test: Any, tmp_path: Path) -> None:
    suite = SUITES[module](lambda _: same(module.create(module.Config(), RESOURCES), cls))
    assert test in await failures(suite, tmp_path)
