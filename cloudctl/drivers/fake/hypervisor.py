"""Guests that only claim to run, on hosts that exist only by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

from attrs import define, evolve, field, frozen
from attrs.validators import ge, le
from twisted.internet.interfaces import IProtocol
from zope.interface import implementer

from cloudctl.drivers.errors import Aborted, HostDown, InvalidPower, Unfit, UnknownGuest, UnknownHost, UnknownVolume
from cloudctl.drivers.fake import console
from cloudctl.drivers.fake.behaviour import Behaviour, delays_of, sleep
from cloudctl.drivers.fake.console import Cable
from cloudctl.drivers.fake.screen import Screens
from cloudctl.drivers.fake.store import Store, check_writable, directory, head, open_store, spill
from cloudctl.drivers.interfaces import (
    ICrashDump,
    IDiagnostics,
    IElsewhere,
    IGuestEvents,
    IHypervisor,
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
from cloudctl.drivers.specs import (
    ConnectionInfo,
    DiskUse,
    DriverResources,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    ImageSource,
    MigrationProgress,
    PortSpec,
    Power,
    Traffic,
    VolumeConnection,
)

INTERFACES = (
    IHypervisor,
    IPause,
    ISuspend,
    ISnapshot,
    IRescue,
    ILiveMigrate,
    IPassword,
    IDiagnostics,
    ICrashDump,
    ISerialConsole,
    IVncConsole,
    IResizeAttached,
    ISwapVolume,
    IGuestEvents,
)
OFF = (Power.STOPPED, Power.CRASHED)
ON = (Power.RUNNING, Power.PAUSED)
SLICE = 0.5  # seconds between two checks of a migrating guest
KERNEL_MIB = 64  # what an idle guest uses


@frozen
class Config:
    """`[driver.hypervisor.fake]`"""

    hosts: int = field(default=3, validator=[ge(1), le(10_000)])  # fake-1, fake-2, …, or by the name of one of several
    vcpus: int = field(default=64, validator=ge(1))  # of each host
    memory_mib: int = field(default=262144, validator=ge(1))
    disk_gib: int = field(default=4096, validator=ge(1))
    delays: dict[str, float] = field(factory=dict, validator=delays_of(INTERFACES))  # method: seconds
    durable: bool = True  # keep guests in the state directory, if there is one: they outlive this process
    directory: str = ""  # keep them here instead: for processes that have state directories of their own


@frozen
class Guest:
    """What is stored of a guest."""

    spec: GuestSpec
    power: Power = Power.STOPPED
    head: str = ""  # of its root disk
    log: str = ""
    reboot_token: str | None = None
    interrupt_token: str | None = None
    rescued: bool = False
    # While it migrates: where to, with its disks or without, since when, and whether it is to arrive soon.
    moving_to: str | None = None
    takes_disks: bool = True
    moving_since: float = 0.0
    forced: bool = False

    @cached_property
    def state(self) -> GuestState:
        return GuestState(
            id=self.spec.id,
            host=self.spec.host,
            power=self.power,
            vcpus=self.spec.vcpus,
            memory_mib=self.spec.memory_mib,
            volume_ids=tuple(sorted(each.volume_id for each in self.spec.volumes)),
            port_ids=tuple(sorted(each.id for each in self.spec.ports)),
            rescued=self.rescued,
        )


def create(config: Config, resources: DriverResources) -> FakeHypervisor:
    root = directory(config.durable, resources, config.directory)
    names = [f"{resources.name}-{number}" for number in range(1, config.hosts + 1)]
    return FakeHypervisor(
        machines={
            name: HostInventory(
                name,
                "fake",
                config.vcpus,
                config.memory_mib,
                config.disk_gib,
                host_ip="127.0.0.1",
                up_since=resources.clock.seconds(),
            )
            for name in names
        },
        behaviour=Behaviour(resources.clock, INTERFACES, dict(config.delays)),
        root=root,
        guests=open_store(Guest, root, "guests"),
        elsewhere=config.durable and bool(config.directory),
    )


@implementer(*INTERFACES, IElsewhere)
@define(eq=False)
class FakeHypervisor:
    machines: dict[str, HostInventory]
    behaviour: Behaviour
    root: Path | None
    guests: Store[Guest]
    changed: Callable[[str], None] | None = None
    cables: dict[str, Cable] = field(factory=dict)  # of the open consoles, by the ids of their guests
    screens: Screens = field(factory=Screens)
    elsewhere: bool = False
    # The last inventory and what it was made from: all guests, the hosts that were up, the result.
    _inventory: tuple[list[Guest], set[str], tuple[GuestState, ...]] | None = None

    async def check(self) -> None:
        check_writable(self.root)

    async def close(self) -> None:
        for cable in list(self.cables.values()):
            cable.loseConnection()
        self.screens.close()

    # -- what tests do to it

    def fail_host(self, name: str) -> None:
        """The host goes down with all its guests. Not kept on disk: in another process it is up."""
        self._host(name)
        self.machines[name] = evolve(self.machines[name], up=False)

    def recover_host(self, name: str) -> None:
        """The host is back after a reboot: the guests that still belong to it are off."""
        self.machines[name] = evolve(self.machines[name], up=True, up_since=self.behaviour.clock.seconds())
        for guest in self.guests.values():
            if guest.spec.host == name and guest.power not in OFF:
                self._put(evolve(guest, power=Power.STOPPED, log=console.add(guest.log, console.POWER_LOST)))

    def crash(self, id: str) -> None:
        """The guest dies by itself."""
        guest = self._guest(id)
        self._put(evolve(guest, power=Power.CRASHED, log=console.add(guest.log, console.PANIC)))
        if self.changed is not None:
            self.changed(id)

    # -- core

    async def hosts(self) -> tuple[HostInventory, ...]:
        async with self.behaviour.around("hosts"):
            return tuple(self.machines[name] for name in sorted(self.machines))

    async def inventory(self) -> tuple[GuestState, ...]:
        async with self.behaviour.around("inventory"):
            up, guests = {name for name, machine in self.machines.items() if machine.up}, self.guests.values()
            # A store in memory returns the same list until something changes.
            if self._inventory is None or self._inventory[0] is not guests or self._inventory[1] != up:
                found = tuple(guest.state for guest in guests if guest.spec.host in up)
                self._inventory = guests, up, found
            return self._inventory[2]

    async def observe(self, id: str) -> GuestState:
        async with self.behaviour.around("observe", id):
            return self._guest(id).state

    async def ensure_defined(self, spec: GuestSpec) -> None:
        async with self.behaviour.around("ensure_defined", spec.id):
            self._host(spec.host)
            guest = self.guests.get(spec.id)
            if guest is None:
                self._put(Guest(spec, head=head(spec.image)))
                return
            lost = guest.spec.host != spec.host and not self._is_up(guest.spec.host)
            if lost:
                self._put(Guest(spec, head=head(spec.image)))
            elif guest.power in OFF or shape(guest.spec) == shape(spec):
                self._put(evolve(guest, spec=spec))
            else:
                raise InvalidPower(
                    f"guest {spec.id} is {guest.power.value}; its size and host can only change while it is off"
                )

    async def ensure_running(self, id: str) -> None:
        async with self.behaviour.around("ensure_running", id):
            guest = self._guest(id)
            if guest.power in OFF:
                self._put(started(guest))
            elif guest.power is not Power.RUNNING:
                self._put(evolve(guest, power=Power.RUNNING, log=console.add(guest.log, console.RESUMED)))

    async def ensure_stopped(self, id: str, timeout: float = 60.0) -> None:
        async with self.behaviour.around("ensure_stopped", id):
            guest = self._guest(id)
            if guest.power is not Power.STOPPED:
                message = console.POWER_DOWN if timeout > 0 and guest.power is Power.RUNNING else console.POWER_LOST
                self._put(evolve(guest, power=Power.STOPPED, log=console.add(guest.log, message)))

    async def ensure_rebooted(self, id: str, token: str, hard: bool = False) -> None:
        async with self.behaviour.around("ensure_rebooted", id):
            guest = self._guest(id)
            if guest.reboot_token != token:
                log = (
                    guest.log
                    if guest.power in OFF
                    else console.add(guest.log, console.RESET if hard else console.RESTART)
                )
                self._put(started(evolve(guest, reboot_token=token, log=log)))

    async def ensure_absent(self, id: str) -> None:
        async with self.behaviour.around("ensure_absent", id):
            if self._find(id) is not None:
                self.guests.delete(id)
                self._unplug(id)
                self.screens.darken(id)

    async def console_output(self, id: str, lines: int | None = None) -> str:
        async with self.behaviour.around("console_output", id):
            return console.tail(self._guest(id).log, lines)

    async def ensure_volume_attached(self, id: str, connection: VolumeConnection) -> None:
        async with self.behaviour.around("ensure_volume_attached", id):
            guest = self._guest(id)
            others = tuple(each for each in guest.spec.volumes if each.volume_id != connection.volume_id)
            self._put(evolve(guest, spec=evolve(guest.spec, volumes=(*others, connection))))

    async def ensure_volume_detached(self, id: str, volume_id: str) -> None:
        async with self.behaviour.around("ensure_volume_detached", id):
            guest = self._find(id)
            if guest is not None:
                kept = tuple(each for each in guest.spec.volumes if each.volume_id != volume_id)
                self._put(evolve(guest, spec=evolve(guest.spec, volumes=kept)))

    async def ensure_port_attached(self, id: str, port: PortSpec) -> None:
        async with self.behaviour.around("ensure_port_attached", id):
            guest = self._guest(id)
            others = tuple(each for each in guest.spec.ports if each.id != port.id)
            self._put(evolve(guest, spec=evolve(guest.spec, ports=(*others, port))))

    async def ensure_port_detached(self, id: str, port_id: str) -> None:
        async with self.behaviour.around("ensure_port_detached", id):
            guest = self._find(id)
            if guest is not None:
                kept = tuple(each for each in guest.spec.ports if each.id != port_id)
                self._put(evolve(guest, spec=evolve(guest.spec, ports=kept)))

    # -- capabilities

    async def ensure_paused(self, id: str) -> None:
        async with self.behaviour.around("ensure_paused", id):
            guest = self._guest(id)
            if guest.power is not Power.PAUSED:
                demand(guest, Power.RUNNING)
                self._put(evolve(guest, power=Power.PAUSED))

    async def ensure_suspended(self, id: str) -> None:
        async with self.behaviour.around("ensure_suspended", id):
            guest = self._guest(id)
            if guest.power is not Power.SUSPENDED:
                demand(guest, Power.RUNNING, Power.PAUSED)
                self._put(evolve(guest, power=Power.SUSPENDED, log=console.add(guest.log, console.SUSPENDED)))

    async def ensure_captured(self, id: str, path: str) -> str:
        async with self.behaviour.around("ensure_captured", id):
            guest = self._guest(id)
            if guest.spec.image is None:
                raise Unfit(f"guest {id} has no local root disk; it boots from a volume")
            spill(guest.head, path)
            return guest.spec.image.disk_format

    async def ensure_rescued(self, id: str, image: ImageSource | None, password: str) -> None:
        async with self.behaviour.around("ensure_rescued", id):
            guest = self._guest(id)
            if not guest.rescued:
                head(image)  # a rescue image that cannot be read is an error here, too
                spec = evolve(guest.spec, admin_password=password)
                self._put(started(evolve(guest, spec=spec, rescued=True)))

    async def ensure_unrescued(self, id: str) -> None:
        async with self.behaviour.around("ensure_unrescued", id):
            guest = self._guest(id)
            if guest.rescued:
                self._put(started(evolve(guest, rescued=False)))

    async def ensure_migrated(self, spec: GuestSpec, disks: bool | None = None) -> None:
        self._begin_moving(spec, disks is not False)
        slowly = self.behaviour.delays.get("ensure_migrated", 0.0)
        while (guest := self._find(spec.id)) is not None and self._is_on_its_way(guest, slowly):
            await sleep(self.behaviour.clock, min(slowly, SLICE))
        async with self.behaviour.at_once("ensure_migrated", spec.id):
            guest = self._guest(spec.id)
            if spec.host not in (guest.moving_to, guest.spec.host):
                raise Aborted(f"the migration of guest {spec.id} was aborted")
            self._host(spec.host)
            demand(guest, Power.RUNNING, Power.PAUSED)
            self._put(evolve(guest, spec=spec, moving_to=None, moving_since=0.0, forced=False))

    def _begin_moving(self, spec: GuestSpec, takes_disks: bool) -> None:
        guest = self._find(spec.id)
        # One that is on its way, or has arrived, was told so before.
        if guest is not None and spec.host not in (guest.moving_to, guest.spec.host):
            since = self.behaviour.clock.seconds()
            moving = evolve(guest, moving_to=spec.host, takes_disks=takes_disks, moving_since=since, forced=False)
            self._put(moving)

    def _is_on_its_way(self, guest: Guest, slowly: float) -> bool:
        """Whether a guest whose migration takes `slowly` seconds has not arrived yet."""
        left = guest.moving_since + slowly - self.behaviour.clock.seconds()
        return guest.moving_to is not None and not guest.forced and left > 0

    async def migration_progress(self, id: str) -> MigrationProgress | None:
        async with self.behaviour.around("migration_progress", id):
            guest = self._find(id)
            if guest is None or guest.moving_to is None:
                return None
            slowly = self.behaviour.delays.get("ensure_migrated", 0.0)
            passed = self.behaviour.clock.seconds() - guest.moving_since
            left = max(0.0, 1 - passed / slowly) if slowly else 0.0
            memory = guest.spec.memory_mib << 20
            disk = (guest.spec.disk_gib + guest.spec.ephemeral_gib) << 30 if guest.takes_disks else 0
            return MigrationProgress(memory, int(memory * left), disk, int(disk * left))

    async def ensure_migration_aborted(self, id: str) -> None:
        async with self.behaviour.around("ensure_migration_aborted", id):
            guest = self._find(id)
            if guest is not None and guest.moving_to is not None:
                self._put(evolve(guest, moving_to=None, moving_since=0.0, forced=False))

    async def ensure_migration_forced(self, id: str) -> None:
        async with self.behaviour.around("ensure_migration_forced", id):
            guest = self._find(id)
            if guest is not None and guest.moving_to is not None:
                self._put(evolve(guest, forced=True))

    async def diagnostics(self, id: str) -> GuestDiagnostics:
        async with self.behaviour.around("diagnostics", id):
            guest = self._guest(id)
            is_on = guest.power not in OFF
            # It idles: it has used no CPU time, and as much memory as a kernel needs.
            volumes = [each.device for each in guest.spec.volumes if each.device]
            names = [*(["vda"] if guest.spec.image else []), *(name.rpartition("/")[2] for name in volumes)]
            return GuestDiagnostics(
                power=guest.power,
                uptime=None,
                cpu_times=(0,) * guest.spec.vcpus,
                memory_mib=guest.spec.memory_mib,
                memory_used_mib=min(guest.spec.memory_mib, KERNEL_MIB) if is_on else 0,
                disks=tuple(DiskUse(name, 0, 0, 0, 0, 0) for name in names),
                nics=tuple(Traffic(each.mac, 0, 0, 0, 0, 0, 0, 0, 0) for each in guest.spec.ports),
            )

    async def ensure_interrupted(self, id: str, token: str) -> None:
        async with self.behaviour.around("ensure_interrupted", id):
            guest = self._guest(id)
            if guest.interrupt_token != token:
                demand(guest, Power.RUNNING, Power.PAUSED)
                self._put(evolve(guest, interrupt_token=token, log=console.add(guest.log, console.DUMPED)))

    async def ensure_password(self, id: str, password: str) -> None:
        async with self.behaviour.around("ensure_password", id):
            guest = self._guest(id)
            demand(guest, Power.RUNNING)
            self._put(evolve(guest, spec=evolve(guest.spec, admin_password=password)))

    async def ensure_volume_size(self, id: str, volume_id: str, size_gib: int) -> None:
        async with self.behaviour.around("ensure_volume_size", id):
            guest = self._guest(id)
            if volume_id not in guest.state.volume_ids:
                raise UnknownVolume(volume_id)
            told = console.grown(volume_id, size_gib)
            if told not in guest.log:
                self._put(evolve(guest, log=console.add(guest.log, told)))

    async def ensure_volume_swapped(self, id: str, volume_id: str, info: ConnectionInfo, exact: bool = False) -> None:
        async with self.behaviour.around("ensure_volume_swapped", id):
            guest = self._guest(id)
            if volume_id not in guest.state.volume_ids:
                raise UnknownVolume(volume_id)
            # These guests write nothing, so no copy of their volumes can differ.
            swapped = (evolve(each, info=info) if each.volume_id == volume_id else each for each in guest.spec.volumes)
            self._put(evolve(guest, spec=evolve(guest.spec, volumes=tuple(swapped))))

    async def open_serial(self, id: str, client: IProtocol) -> None:
        async with self.behaviour.around("open_serial", id):
            guest = self._guest(id)
            demand(guest, *ON)
            self._unplug(id)
            cable = self.cables[id] = Cable(client, partial(self._typed, id), lambda: self._pulled(id, cable))
            client.makeConnection(cable)
            cable.show(guest.log)

    async def open_vnc(self, id: str, client: IProtocol) -> None:
        async with self.behaviour.around("open_vnc", id):
            guest = self._guest(id)
            demand(guest, *ON)
            self.screens.open(id, guest.spec.name, client)

    def _typed(self, id: str, data: bytes) -> None:
        guest = self.guests.get(id)
        if guest is not None and guest.power is Power.RUNNING:
            self._put(evolve(guest, log=(guest.log + console.echo(data))[-console.KEPT :]))

    def _pulled(self, id: str, cable: Cable) -> None:
        if self.cables.get(id) is cable:
            del self.cables[id]

    def _unplug(self, id: str) -> None:
        if (cable := self.cables.get(id)) is not None:
            cable.loseConnection()

    async def watch_guests(self, changed: Callable[[str], None]) -> None:
        async with self.behaviour.around("watch_guests"):
            self.changed = changed

    # -- inside

    def _is_up(self, host: str) -> bool:
        return host in self.machines and self.machines[host].up

    def _host(self, name: str) -> None:
        if name not in self.machines:
            raise UnknownHost(name)
        if not self._is_up(name):
            raise HostDown(f"host {name} is down")

    def _find(self, id: str) -> Guest | None:
        guest = self.guests.get(id)
        if guest is not None:
            self._host(guest.spec.host)
        return guest

    def _guest(self, id: str) -> Guest:
        guest = self._find(id)
        if guest is None:
            raise UnknownGuest(id)
        return guest

    def _put(self, guest: Guest) -> None:
        cable = self.cables.get(guest.spec.id)
        before = self.guests.get(guest.spec.id) if cable is not None else None
        self.guests.put(guest.spec.id, guest)
        if guest.power in OFF:
            self.screens.darken(guest.spec.id)
        if cable is not None and before is not None:
            cable.show(console.news(before.log, guest.log))
            if guest.power in OFF:
                cable.loseConnection()


def shape(spec: GuestSpec) -> tuple[object, ...]:
    """What cannot change while a guest is on."""
    return spec.host, spec.vcpus, spec.memory_mib, spec.disk_gib, spec.ephemeral_gib, spec.swap_mib


def started(guest: Guest) -> Guest:
    return evolve(guest, power=Power.RUNNING, log=console.add(guest.log, console.boot(guest.spec)))


def demand(guest: Guest, *allowed: Power) -> None:
    if guest.power not in allowed:
        raise InvalidPower(f"guest {guest.spec.id} is {guest.power.value}, not {' or '.join(p.value for p in allowed)}")
