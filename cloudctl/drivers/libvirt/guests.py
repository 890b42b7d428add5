"""Guests of one host: seen, defined, started, plugged. Plain functions on libvirt's connection, which block.

Each checks the state before it acts. For one call per guest at a time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, fromstring

import libvirt
from attrs import evolve

from cloudctl.drivers.errors import Busy, InvalidPower, Unfit, UnknownGuest, UnknownVolume
from cloudctl.drivers.libvirt import domain, rescuing, secrets
from cloudctl.drivers.libvirt.domain import Notes, Paths, Seen
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import GIB, Storage
from cloudctl.drivers.libvirt.waiting import rest
from cloudctl.drivers.rbd.disk import RbdDisk, rbd_disks
from cloudctl.drivers.specs import (
    DiskUse,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    PortSpec,
    Power,
    Traffic,
    VolumeConnection,
)

PRESS_SECONDS = 2.0  # after which the power button is pressed again: a guest that is still booting ignores it
OFF = (Power.STOPPED, Power.CRASHED)

POWER: Mapping[int, Power] = {
    libvirt.VIR_DOMAIN_RUNNING: Power.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: Power.RUNNING,
    libvirt.VIR_DOMAIN_SHUTDOWN: Power.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: Power.PAUSED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: Power.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: Power.STOPPED,
    libvirt.VIR_DOMAIN_CRASHED: Power.CRASHED,
}
# Why a guest is paused that is to run elsewhere. If QEMU reports it late, after libvirt has given up, libvirt does not
# know the reason.
LEFT = (libvirt.VIR_DOMAIN_PAUSED_MIGRATION, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY, libvirt.VIR_DOMAIN_PAUSED_UNKNOWN)
UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


# -- state


class Claim(IntEnum):
    """Of two copies of a guest that were defined at the same time, the one with the greater claim is the guest."""

    OFF = 0
    LEFT = 1  # it stands still, like a guest that was moved away
    ARRIVED = 2  # it has run since it came here
    HERE = 3  # if another copy has arrived, libvirt was not told of that and let this one go on


class Made(NamedTuple):
    """Compared by the time of definition first: a copy that was defined later is the guest."""

    at: float
    claim: Claim


def find(connection: Any, id: str) -> Any:
    """libvirt's domain, or None."""
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        return connection.lookupByName(id)
    return None


def get(connection: Any, id: str) -> Any:
    """Raises UnknownGuest."""
    found = find(connection, id)
    if found is None:
        raise UnknownGuest(id)
    return found


def names(connection: Any) -> frozenset[str]:
    return frozenset(each.name() for each in _at_home(connection))


def names_off(connection: Any) -> frozenset[str]:
    flags = libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT | libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE
    return frozenset(each.name() for each in connection.listAllDomains(flags))


def made(connection: Any, id: str) -> Made | None:
    """None if it is not defined here; a guest that is still on its way here is not."""
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        guest = find(connection, id)
        if guest is not None and guest.isPersistent():
            return Made(domain.seen(guest.XMLDesc(0)).notes.made, claim(guest))
    return None


def is_superseded(made: Made, by: Made) -> bool:
    """Whether the host of `made` drops its copy. A moving guest is on both sides for a moment, where it leaves and
    where it arrives; it runs on both only if the source was not told that it had arrived and let it go on.
    """
    return made.at < by.at or (made.at == by.at and (made.claim, by.claim) == (Claim.ARRIVED, Claim.HERE))


def claim(guest: Any) -> Claim:
    state, reason = guest.state()
    if state == libvirt.VIR_DOMAIN_PAUSED and reason in LEFT:
        return Claim.LEFT
    if state == libvirt.VIR_DOMAIN_RUNNING and reason == libvirt.VIR_DOMAIN_RUNNING_MIGRATED:
        return Claim.ARRIVED
    return Claim.HERE if guest.isActive() else Claim.OFF


def states(connection: Any, host: str) -> list[tuple[GuestState, Made]]:
    found = []
    for each in _at_home(connection):
        with Unless(libvirt.VIR_ERR_NO_DOMAIN):  # it went meanwhile
            found.append(_state(each, host))
    return found


def _at_home(connection: Any) -> list[Any]:
    return list(connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT))


def state(connection: Any, id: str, host: str) -> GuestState:
    """Raises UnknownGuest."""
    with Unless(libvirt.VIR_ERR_NO_DOMAIN):
        return _state(get(connection, id), host)[0]
    raise UnknownGuest(id)


def _state(guest: Any, host: str) -> tuple[GuestState, Made]:
    seen = domain.seen(guest.XMLDesc(0))
    found = GuestState(
        guest.name(), host, power(guest), seen.vcpus, seen.memory_mib, seen.volume_ids, seen.port_ids,
        rescued=seen.notes.rescued,
    )  # fmt: skip
    return found, Made(seen.notes.made, claim(guest))


def power(guest: Any) -> Power:
    state, reason = guest.state()
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        if guest.hasManagedSaveImage(0):
            return Power.SUSPENDED
        if reason in (libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_FAILED):
            return Power.CRASHED
    return POWER.get(state, Power.STOPPED)


def inventory(connection: Any, name: str, config: Config) -> HostInventory:
    _model, memory, cpus, _mhz, *_topology = connection.getInfo()
    return HostInventory(
        name,
        "QEMU",
        cpus,
        memory,
        Storage(config, connection).size_gib(),
        connection.getVersion(),
        cpu_info=_cpu_info(fromstring(connection.getCapabilities())),
    )


def _cpu_info(capabilities: Element) -> dict[str, Any]:
    cpu = capabilities.find("host/cpu")
    if cpu is None:
        return {}
    topology = cpu.find("topology")
    return {
        "arch": cpu.findtext("arch", ""),
        "vendor": cpu.findtext("vendor", ""),
        "model": cpu.findtext("model", ""),
        "topology": {} if topology is None else {name: int(value) for name, value in topology.items()},
        "features": [each.get("name", "") for each in cpu.iterfind("feature")],
    }


# -- defined and gone


def root(connection: Any, config: Config, id: str) -> tuple[bool, bool]:
    """Whether a guest is off, so that its root disk may grow; and whether that disk is a file on this host."""
    guest = find(connection, id)
    file = Storage(config, connection).find(Paths(config.directory, id).volume("root"))
    return guest is None or power(guest) in OFF, file is not None


def define(
    connection: Any,
    config: Config,
    spec: GuestSpec,
    config_drive: Path | None,
    now: float,
    root: RbdDisk | None = None,
) -> None:
    """The guest is as `spec` says. `root`: its root disk, if it is not a file.

    Raises InvalidPower, Unfit, NoCapacity, Busy.
    """
    guest, has_file = find(connection, spec.id), False
    if guest is not None:
        found = power(guest)
        if found not in OFF:
            _change(connection, config, guest, spec, found)
            return
        has_file = not domain.has_remote_root(guest.XMLDesc(0))
        if root is None and not has_file:
            raise Unfit(f"the root disk of guest {spec.id} is in Ceph, and root_disks says that there is none")
    notes = Notes(made=now) if guest is None else domain.seen(guest.XMLDesc(0)).notes
    tree = domain.guest(config, spec, notes, root)
    if guest is not None and notes.rescued:
        rescuing.again(tree, fromstring(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
    # The definition comes last: a guest that exists has its disks.
    Storage(config, connection).ensure(spec, config_drive, root is None, has_root=has_file)
    secrets.ensure(connection, [*rbd_disks(spec.volumes), *([root] if root is not None else [])])
    connection.defineXML(domain.text(tree))


def _change(connection: Any, config: Config, guest: Any, spec: GuestSpec, found: Power) -> None:
    """For a guest that is on: attach what is missing, then detach what it should not have."""
    seen = domain.seen(guest.XMLDesc(0))
    root = Storage(config, connection).find(Paths(config.directory, spec.id).volume("root"))
    grows = root is not None and spec.disk_gib * GIB > root.info()[1]
    if (seen.vcpus, seen.memory_mib) != (spec.vcpus, spec.memory_mib) or grows:
        raise InvalidPower(f"guest {spec.id} is {found.value}; its size and host can only change while it is off")
    volumes, ports = {each.volume_id for each in spec.volumes}, {each.id for each in spec.ports}
    if found is Power.SUSPENDED and (set(seen.volume_ids), set(seen.port_ids)) != (volumes, ports):
        raise InvalidPower(f"guest {spec.id} is suspended; its devices can only change while it is running or off")
    for volume in spec.volumes:
        attach_volume(connection, spec.id, volume)
    for port in spec.ports:
        attach_port(connection, spec.id, port)
    for gone in set(seen.volume_ids) - volumes:
        detach(connection, spec.id, domain.volume_alias(gone), config.unplug_timeout)
    for gone in set(seen.port_ids) - ports:
        detach(connection, spec.id, domain.port_alias(gone), config.unplug_timeout)
    guest.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_TITLE,
        domain.UNPRINTABLE.sub(" ", spec.name) or spec.id,
        None,
        None,
        libvirt.VIR_DOMAIN_AFFECT_CONFIG,
    )


def remove(connection: Any, config: Config, id: str) -> Notes | None:
    """Returns what was noted about the guest; None: there was none."""
    guest, notes = find(connection, id), None
    if guest is not None:
        notes = domain.seen(guest.XMLDesc(0)).notes
        cut(guest)
        with Unless(libvirt.VIR_ERR_NO_DOMAIN):
            guest.undefineFlags(UNDEFINE)
    Storage(config, connection).remove_all(id)
    return notes


# -- power


def start(connection: Any, id: str) -> None:
    guest = get(connection, id)
    found = power(guest)
    if guest.state()[0] == libvirt.VIR_DOMAIN_PMSUSPENDED:
        # It went to sleep by itself.
        guest.pMWakeup(0)
    elif found is Power.PAUSED:
        guest.resume()
    elif found is not Power.RUNNING:
        guest.create()


def stop(connection: Any, id: str, timeout: float) -> None:
    guest = get(connection, id)
    if power(guest) is Power.SUSPENDED:
        guest.managedSaveRemove(0)
        return
    if timeout > 0 and power(guest) is Power.RUNNING:
        _ask(guest, timeout)
    cut(guest)


def reboot(connection: Any, id: str, token: str, timeout: float) -> None:
    """`timeout`: seconds that it has to shut itself down."""
    guest = get(connection, id)
    notes = domain.seen(guest.XMLDesc(0)).notes
    if notes.token != token:
        notes = evolve(notes, token=token, done=False)
        note(guest, notes)
    if not notes.done:
        stop(connection, id, timeout)
        note(guest, evolve(notes, done=True))
    start(connection, id)


def pause(connection: Any, id: str) -> None:
    guest = get(connection, id)
    found = power(guest)
    if found is Power.RUNNING:
        guest.suspend()
    elif found is not Power.PAUSED:
        raise InvalidPower(f"guest {id} is {found.value}, so it cannot be paused")


def suspend(connection: Any, id: str) -> None:
    guest = get(connection, id)
    found = power(guest)
    if found in (Power.RUNNING, Power.PAUSED):
        # When resumed it runs, even if it was paused.
        guest.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
    elif found is not Power.SUSPENDED:
        raise InvalidPower(f"guest {id} is {found.value}, so it cannot be suspended")


def interrupt(connection: Any, id: str, token: str) -> None:
    guest = get(connection, id)
    notes = domain.seen(guest.XMLDesc(0)).notes
    if notes.interrupt == token:
        return
    found = power(guest)
    if found not in (Power.RUNNING, Power.PAUSED):
        raise InvalidPower(f"guest {id} is {found.value}, not running or paused")
    guest.injectNMI(0)
    note(guest, evolve(notes, interrupt=token))


def _ask(guest: Any, timeout: float) -> None:
    """Press its power button until it is off or the time is up."""
    end, pressed = time.monotonic() + timeout, 0.0
    while guest.isActive() and time.monotonic() < end:
        if time.monotonic() - pressed >= PRESS_SECONDS:
            pressed = time.monotonic()
            with Unless(libvirt.VIR_ERR_OPERATION_INVALID):  # it is off
                guest.shutdown()
        rest()


def cut(guest: Any) -> None:
    if guest.isActive():
        with Unless(libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
            guest.destroy()


def note(guest: Any, notes: Notes) -> None:
    affected = libvirt.VIR_DOMAIN_AFFECT_CONFIG | (libvirt.VIR_DOMAIN_AFFECT_LIVE if guest.isActive() else 0)
    content = domain.text(domain.noted(notes))
    guest.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, content, domain.NOTES_KEY, domain.NOTES, affected)


# -- devices


def attach_volume(connection: Any, id: str, volume: VolumeConnection) -> None:
    guest = get(connection, id)
    seen = both(guest)
    name = next(domain.target_names(frozenset().union(*(each.targets for each in seen))))
    secrets.ensure(connection, rbd_disks([volume]))
    _attach(guest, domain.volume_disk(volume, name), domain.volume_alias(volume.volume_id))


def attach_port(connection: Any, id: str, port: PortSpec) -> None:
    _attach(get(connection, id), domain.interface(port), domain.port_alias(port.id))


def _attach(guest: Any, device: Element, alias: str) -> None:
    """Attach the device to the guest's definition and, if it is on, to the running guest."""
    if power(guest) is Power.SUSPENDED:
        raise InvalidPower(f"guest {guest.name()} is suspended; its devices can only change while it is running or off")
    found = domain.device(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), alias)
    try:
        if found is None:
            guest.attachDeviceFlags(domain.text(device), libvirt.VIR_DOMAIN_AFFECT_CONFIG)
        if guest.isActive() and domain.device(guest.XMLDesc(0), alias) is None:
            guest.attachDeviceFlags(domain.text(device), libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except libvirt.libvirtError as error:
        if "lock" in str(error):
            raise Busy(f"{alias} is in use elsewhere: {error}") from error
        # libvirt has no code for that.
        if "No more available PCI slots" in str(error):
            raise Unfit(f"guest {guest.name()} has as many volumes and ports as it can have while it runs") from error
        raise


def detach(connection: Any, id: str, alias: str, timeout: float) -> None:
    """Raises Busy while the guest has not released it."""
    guest = find(connection, id)
    if guest is None:
        return
    if domain.device(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), alias) is not None:
        guest.detachDeviceAlias(alias, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    end = time.monotonic() + timeout
    asked = False
    while guest.isActive() and domain.device(guest.XMLDesc(0), alias) is not None:
        if not asked:
            # On a second request QEMU reports that it is unplugging already.
            with Unless(libvirt.VIR_ERR_DEVICE_MISSING, libvirt.VIR_ERR_OPERATION_FAILED):
                guest.detachDeviceAlias(alias, libvirt.VIR_DOMAIN_AFFECT_LIVE)
            asked = True
        if time.monotonic() > end:
            raise Busy(f"the guest has not released {alias}")
        rest()


def grow(connection: Any, id: str, volume_id: str, size_gib: int) -> None:
    guest = get(connection, id)
    name = domain.target_of(guest.XMLDesc(0), domain.volume_alias(volume_id))
    if name is None:
        raise UnknownVolume(volume_id)
    if guest.isActive() and guest.blockInfo(name)[0] < size_gib * GIB:
        guest.blockResize(name, size_gib * GIB, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def both(guest: Any) -> tuple[Seen, Seen]:
    """What the guest has, and what it will have at its next start."""
    return domain.seen(guest.XMLDesc(0)), domain.seen(guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


# -- usage


def diagnostics(connection: Any, id: str) -> GuestDiagnostics:
    guest = get(connection, id)
    tree = fromstring(guest.XMLDesc(0))
    seen, found = domain.seen(guest.XMLDesc(0)), power(guest)
    active = bool(guest.isActive())
    disks = [each.get("dev", "") for each in tree.iterfind("devices/disk/target")]
    return GuestDiagnostics(
        found,
        None,
        tuple(cpu[2] for cpu in guest.vcpus()[0]) if active else (None,) * seen.vcpus,
        seen.memory_mib,
        None,
        tuple(_disk_use(guest, name) if active else DiskUse(name) for name in disks),
        tuple(_traffic(guest, each, active) for each in tree.iterfind("devices/interface")),
    )


def _disk_use(guest: Any, name: str) -> DiskUse:
    reads, read_bytes, writes, written_bytes, errors = guest.blockStats(name)
    return DiskUse(name, read_bytes, reads, written_bytes, writes, None if errors < 0 else errors)


def _traffic(guest: Any, interface: Element, active: bool) -> Traffic:
    mac, target = interface.find("mac"), interface.find("target")
    address = "" if mac is None else mac.get("address", "")
    if not active or target is None:
        return Traffic(address)
    rx, rx_packets, rx_errors, rx_drop, tx, tx_packets, tx_errors, tx_drop = guest.interfaceStats(target.get("dev"))
    return Traffic(address, rx, rx_packets, rx_errors, rx_drop, tx, tx_packets, tx_errors, tx_drop)


class Unless:
    """An error with one of these codes means that there is nothing to do."""

    def __init__(self, *harmless: int) -> None:
        self.harmless = harmless

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        return isinstance(error, libvirt.libvirtError) and error.get_error_code() in self.harmless
