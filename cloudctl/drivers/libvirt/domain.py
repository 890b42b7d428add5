"""A guest in libvirt's terms: a tree made from its spec, and what a tree tells about a guest. Pure.

Devices are identified by their aliases, `ua-volume-…` and `ua-port-…`, which libvirt keeps. Source: libvirt's «Domain
XML format».
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from itertools import chain, product
from typing import Any
from uuid import UUID
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.rbd import disk as rbd
from cloudctl.drivers.specs import GuestSpec, ImageSource, PortSpec, VolumeConnection

# What we note about a guest is an element of this namespace.
NOTES, NOTES_KEY = "urn:cloudctl:guest", "cloudctl"
FIXED_SLOTS = 5  # root ports for the devices that are there from the start
SERIAL_LENGTH = 20  # of a virtio disk, at most
VOLUME, PORT = "volume", "port"
# What cloud-init looks for to detect the metadata service.
PRODUCT = "OpenStack Compute"
KERNEL_ARGUMENTS_MOST = 2047  # characters that Linux takes on x86
# Characters that XML cannot hold, or that would break a title's line.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
CPU = {"tcg": "qemu64", "kvm": ""}


@frozen
class Notes:
    """What we note about a guest besides its definition: the reboot requested last, whether its power was cut, …"""

    token: str = ""
    done: bool = False
    # When it was defined, in seconds since the epoch. Of two with one id, on two hosts, the later one is the guest.
    made: float = 0.0
    # The host that it was last to be moved to: if the move was interrupted, that host has to be queried.
    towards: str = ""
    # Whether there may be a disk that it is, was, or was to be rescued from; and how it starts once it is no longer
    # rescued, which `rescuing` reads (empty: it is not rescued).
    rescuing: bool = False
    own: str = ""
    interrupt: str = ""  # the token of the last one

    @property
    def rescued(self) -> bool:
        return bool(self.own)


@frozen
class Paths:
    """The paths of a guest's files on its host."""

    directory: str
    id: str

    def __call__(self, name: str) -> str:
        return f"{self.directory}/{self.volume(name)}"

    def volume(self, name: str) -> str:
        """The name of the storage volume that is this file."""
        return f"{self.id}.{name}"


@frozen
class Seen:
    """What the tree of a guest contains."""

    vcpus: int
    memory_mib: int
    volume_ids: tuple[str, ...]
    port_ids: tuple[str, ...]
    notes: Notes
    targets: frozenset[str]  # vda, …


def text(element: Element) -> str:
    return tostring(element, encoding="unicode")


def guest(config: Config, spec: GuestSpec, notes: Notes, root: rbd.RbdDisk | None = None) -> Element:
    """The whole domain. `root`: its root disk, if not a file. Raises Unfit for what cannot be plugged or booted."""
    paths = Paths(config.directory, spec.id)
    domain = Element("domain", type="kvm" if config.accelerator == "kvm" else "qemu")
    _leaf(domain, "name", spec.id)
    try:
        _leaf(domain, "uuid", str(UUID(spec.id)))
    except ValueError:
        pass  # libvirt generates one
    _leaf(domain, "title", UNPRINTABLE.sub(" ", spec.name) or spec.id)
    SubElement(domain, "metadata").append(noted(notes))
    _leaf(domain, "memory", str(spec.memory_mib), unit="MiB")
    _leaf(domain, "vcpu", str(spec.vcpus))
    system = SubElement(SubElement(domain, "sysinfo", type="smbios"), "system")
    for name, value in (("manufacturer", "cloudctl"), ("product", PRODUCT), ("serial", spec.id)):
        _leaf(system, "entry", value, name=name)
    _boot(domain, config, spec, paths)
    for feature in ("acpi", "apic"):
        SubElement(_child(domain, "features"), feature)
    domain.append(_cpu(config, spec.vcpus))
    SubElement(domain, "clock", offset="utc")
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _leaf(domain, f"on_{event}", action)
    devices = SubElement(domain, "devices")
    SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
    for number in range(1, FIXED_SLOTS + config.slots + 1):
        SubElement(devices, "controller", type="pci", index=str(number), model="pcie-root-port")
    names = target_names(frozenset())
    for disk in own_disks(spec, paths, names, root):
        devices.append(disk)
    for volume in spec.volumes:
        devices.append(volume_disk(volume, next(names), boots=spec.image is None))
    for port in spec.ports:
        devices.append(interface(port))
    _console(devices, paths)
    SubElement(devices, "memballoon", model="none")
    SubElement(SubElement(devices, "rng", model="virtio"), "backend", model="random").text = "/dev/urandom"
    return domain


def noted(notes: Notes) -> Element:
    values = {"token": notes.token, "done": str(int(notes.done)), "made": str(notes.made), "towards": notes.towards}
    if notes.rescuing:
        values |= {"rescuing": "1", "own": notes.own}
    if notes.interrupt:
        values["interrupt"] = notes.interrupt
    return Element(f"{{{NOTES}}}guest", values)


def set_notes(tree: Element, notes: Notes) -> None:
    metadata = _child(tree, "metadata")
    if (found := metadata.find(f"{{{NOTES}}}guest")) is not None:
        metadata.remove(found)
    metadata.append(noted(notes))


def own_disks(spec: GuestSpec, paths: Paths, names: Iterator[str], root: rbd.RbdDisk | None) -> Iterator[Element]:
    """Root disk, ephemeral, swap, config drive: the order in which the guest's kernel finds them."""
    if spec.image is not None:
        disk = image_disk(paths, "root", next(names), root)
        if spec.image.kernel_path is None:
            SubElement(disk, "boot", order="1")
        yield disk
    if spec.ephemeral_gib:
        yield _file_disk(paths("ephemeral"), "qcow2", next(names), "ephemeral")
    if spec.swap_mib:
        yield _file_disk(paths("swap"), "raw", next(names), "swap")
    if spec.config_drive:
        drive = _file_disk(paths("config"), "raw", next(names), "config")
        SubElement(drive, "readonly")
        yield drive


def image_disk(paths: Paths, name: str, target: str, remote: rbd.RbdDisk | None) -> Element:
    """A disk made from an image: a file on the host, or `remote`."""
    if remote is None:
        return _file_disk(paths(name), "qcow2", target, name)
    disk = _disk("network", "raw", target, name, f"ua-{name}")
    _rbd(_child(disk, "source"), remote)
    return disk


def volume_disk(connection: VolumeConnection, target: str, *, boots: bool = False) -> Element:
    """Raises Unfit for a connection type that this driver does not support."""
    kind, data = connection.info["driver_volume_type"], connection.info["data"]
    if kind == "qcow2":
        disk = _disk("file", data["format"], target, connection.volume_id, volume_alias(connection.volume_id))
        _child(disk, "source").set("file", data["path"])
    elif kind == "nbd":
        disk = _disk("network", "raw", target, connection.volume_id, volume_alias(connection.volume_id))
        _nbd(_child(disk, "source"), data)
    elif kind == rbd.KIND:
        disk = _disk("network", "raw", target, connection.volume_id, volume_alias(connection.volume_id))
        _rbd(_child(disk, "source"), rbd.rbd_disk(data))
    else:
        raise Unfit(f"volume {connection.volume_id} has the connection type {kind!r}, which libvirt guests cannot use")
    if boots and connection.boot_index is not None and connection.boot_index >= 0:
        SubElement(disk, "boot", order=str(connection.boot_index + 1))
    if connection.read_only:
        SubElement(disk, "readonly")
    return disk


def _nbd(source: Element, data: Mapping[str, Any]) -> None:
    source.set("protocol", "nbd")
    source.set("name", data["export"])
    server = data["server"]
    if server["type"] == "unix":
        SubElement(source, "host", transport="unix", socket=server["path"])
    else:
        SubElement(source, "host", name=server["host"], port=str(server["port"]))
    SubElement(source, "reconnect", delay="60")


def _rbd(source: Element, disk: rbd.RbdDisk) -> None:
    if disk.namespace:
        # libvirt would take what precedes the last slash for a part of the image's name.
        raise Unfit(f"libvirt reaches no namespace of a pool of Ceph, as {disk.pool}/{disk.namespace} is one")
    source.set("protocol", "rbd")
    source.set("name", f"{disk.pool}/{disk.image}")
    for host, port in disk.monitors:
        SubElement(source, "host", name=host, port=port)
    # Within the source, so that a migrating guest takes it along.
    auth = SubElement(source, "auth", username=disk.user)
    SubElement(auth, "secret", type="ceph", uuid=str(disk.secret_id))


def interface(port: PortSpec) -> Element:
    """Raises Unfit for a port that is plugged neither by a tap nor into Open vSwitch."""
    binding = port.binding or {}
    details = binding.get("vif_details", {})
    if binding.get("vif_type") == "tap":
        nic = Element("interface", type="ethernet")
        SubElement(nic, "target", dev=details["tap"], managed="no")
    elif binding.get("vif_type") == "ovs":
        nic = _in_open_vswitch(details)
    else:
        raise Unfit(f"port {port.id} is plugged as {binding.get('vif_type')!r}, which libvirt guests cannot use")
    SubElement(nic, "mac", address=port.mac)
    SubElement(nic, "model", type="virtio")
    SubElement(nic, "mtu", size=str(details.get("mtu", port.mtu)))
    # No boot from the network: the ROM for it costs time at each start.
    SubElement(nic, "rom", enabled="no")
    SubElement(nic, "alias", name=port_alias(port.id))
    return nic


def _in_open_vswitch(details: Mapping[str, Any]) -> Element:
    """libvirt creates the tap and puts it into the host's bridge."""
    nic = Element("interface", type="bridge")
    SubElement(nic, "source", bridge=details["bridge"])
    SubElement(nic, "target", dev=details["tap"])
    port = SubElement(nic, "virtualport", type="openvswitch")
    SubElement(port, "parameters", interfaceid=details["interface_id"])
    if not details["offloads"]:
        driver = SubElement(nic, "driver")
        SubElement(driver, "host", csum="off", gso="off", tso4="off", tso6="off", ecn="off", ufo="off")
        SubElement(driver, "guest", csum="off", tso4="off", tso6="off", ecn="off", ufo="off")
    return nic


# -- names


def volume_alias(id: str) -> str:
    return _alias(VOLUME, id)


def port_alias(id: str) -> str:
    return _alias(PORT, id)


def _alias(kind: str, id: str) -> str:
    """libvirt allows letters, digits, `-` and `_`."""
    return f"ua-{kind}-{id}" if re.fullmatch("[A-Za-z0-9_-]+", id) else f"ua-{kind}x-{id.encode().hex()}"


def _id_of(kind: str, alias: str) -> str | None:
    if alias.startswith(f"ua-{kind}-"):
        return alias.removeprefix(f"ua-{kind}-")
    if alias.startswith(f"ua-{kind}x-"):
        return bytes.fromhex(alias.removeprefix(f"ua-{kind}x-")).decode()
    return None


def target_names(taken: frozenset[str]) -> Iterator[str]:
    """Free names: vda, vdb, …"""
    letters = string.ascii_lowercase
    names = (f"vd{''.join(each)}" for each in chain(product(letters), product(letters, letters)))
    return (name for name in names if name not in taken)


# -- reading


def seen(xml: str) -> Seen:
    """What libvirt's own XML contains."""
    domain = fromstring(xml)
    devices = _child(domain, "devices")
    aliases = [each.get("name", "") for each in devices.iterfind("*/alias")]
    return Seen(
        vcpus=int(domain.findtext("vcpu", "1")),
        memory_mib=int(domain.findtext("memory", "0")) // 1024,
        volume_ids=tuple(sorted(id for alias in aliases if (id := _id_of(VOLUME, alias)) is not None)),
        port_ids=tuple(sorted(id for alias in aliases if (id := _id_of(PORT, alias)) is not None)),
        notes=notes_of(domain),
        targets=frozenset(each.get("dev", "") for each in devices.iterfind("disk/target")),
    )


def notes_of(domain: Element) -> Notes:
    notes = domain.find(f"metadata/{{{NOTES}}}guest")
    if notes is None:
        return Notes()
    made, towards = float(notes.get("made", "0")), notes.get("towards", "")
    rescuing, own = notes.get("rescuing") == "1", notes.get("own", "")
    interrupt = notes.get("interrupt", "")
    return Notes(notes.get("token", ""), notes.get("done") == "1", made, towards, rescuing, own, interrupt)


def targets_of(xml: str, names: Collection[str]) -> list[str]:
    """The targets (vda, …) of the guest's own disks with these names that are files."""
    wanted = {f"ua-{name}" for name in names}
    found = []
    for disk in _child(fromstring(xml), "devices").iterfind("disk[@type='file']"):
        alias, target = disk.find("alias"), disk.find("target")
        if alias is not None and target is not None and alias.get("name") in wanted:
            found.append(target.get("dev", ""))
    return found


def target_of(xml: str, alias: str) -> str | None:
    """The target of the disk with this alias, if the guest has it."""
    disk = device(xml, alias)
    return None if disk is None else target(disk)


def target(disk: Element) -> str:
    """Its name: vda, …"""
    found = disk.find("target")
    assert found is not None, "a disk has one"
    return found.get("dev", "")


Place = tuple[str, str, str, frozenset[tuple[str, str, str]]]


def place(disk: Element) -> Place:
    """Where a disk, or the mirror of one, is: what of its source does not change while a guest has it."""
    source = disk.find("source")
    assert source is not None, "a disk has one"
    hosts = ((each.get("name", ""), each.get("port", ""), each.get("socket", "")) for each in source.iterfind("host"))
    return source.get("file", ""), source.get("protocol", ""), source.get("name", ""), frozenset(hosts)


def led(disk: Element, connection: VolumeConnection) -> Element:
    """The same disk of a guest, with its volume at another place. Raises Unfit."""
    return led_to(disk, volume_disk(connection, ""))


def led_to(disk: Element, other: Element) -> Element:
    """The same disk of a guest, at the place of another one."""
    changed = deepcopy(disk)
    changed.set("type", other.get("type", ""))
    for part in ("driver", "source"):
        old, new = changed.find(part), other.find(part)
        assert old is not None and new is not None, "a disk has both"
        changed[list(changed).index(old)] = deepcopy(new)
    if (mirror := changed.find("mirror")) is not None:
        changed.remove(mirror)
    return changed


def has_remote_root(xml: str) -> bool:
    """Whether the guest has a root disk that is not a file."""
    disk = device(xml, "ua-root")
    return disk is not None and disk.get("type") != "file"


def elsewhere(xml: str, spec: GuestSpec) -> str:
    """libvirt's own XML of a guest, for the host where its volumes and ports are as `spec` says.

    All that the guest sees stays as it is. Raises Unfit.
    """
    tree = fromstring(xml)
    wished = {volume_alias(each.volume_id): volume_disk(each, "") for each in spec.volumes}
    wished |= {port_alias(each.id): interface(each) for each in spec.ports}
    for each in _child(tree, "devices"):
        alias = each.find("alias")
        wish = None if alias is None else wished.get(alias.get("name", ""))
        # What depends on the host is a disk's source, and an interface's target.
        part = "source" if each.tag == "disk" else "target"
        old, new = (None, None) if wish is None else (each.find(part), wish.find(part))
        if old is not None and new is not None:
            each[list(each).index(old)] = new
    return text(tree)


def device(xml: str, alias: str) -> Element | None:
    """The device with this alias, if the guest has it."""
    return find_device(fromstring(xml), alias)


def devices(tree: Element) -> Element:
    return _child(tree, "devices")


def find_device(tree: Element, alias: str) -> Element | None:
    for each in devices(tree):
        found = each.find("alias")
        if found is not None and found.get("name") == alias:
            return each
    return None


# -- parts


def _boot(domain: Element, config: Config, spec: GuestSpec, paths: Paths) -> None:
    system = SubElement(domain, "os")
    _leaf(system, "type", "hvm", arch="x86_64", machine=config.machine)
    if spec.image is not None and spec.image.kernel_path is not None:
        _leaf(system, "kernel", paths("kernel"))
        if spec.image.ramdisk_path is not None:
            _leaf(system, "initrd", paths("ramdisk"))
        _leaf(system, "cmdline", kernel_arguments(config, spec.image))
    SubElement(system, "smbios", mode="sysinfo")


def kernel_arguments(config: Config, image: ImageSource) -> str:
    """Raises Unfit for arguments that no program, or no tree, can be given."""
    given = image.properties.get("os_command_line") or config.kernel_arguments
    if UNPRINTABLE.search(given) or len(given) > KERNEL_ARGUMENTS_MOST:
        raise Unfit(
            f"os_command_line of image {image.id} has control characters, or more than {KERNEL_ARGUMENTS_MOST} ones"
        )
    return given


def _cpu(config: Config, vcpus: int) -> Element:
    model = config.cpu or CPU[config.accelerator]
    if model:
        cpu = Element("cpu", mode="custom", match="exact")
        _leaf(cpu, "model", model, fallback="forbid")
    else:
        cpu = Element("cpu", mode="host-model")
    SubElement(cpu, "topology", sockets=str(vcpus), cores="1", threads="1")
    return cpu


def _console(devices: Element, paths: Paths) -> None:
    serial = SubElement(devices, "serial", type="pty")
    SubElement(serial, "log", file=paths("console"), append="on")
    SubElement(serial, "target", port="0")


def _file_disk(path: str, format: str, target: str, name: str) -> Element:
    disk = _disk("file", format, target, name, f"ua-{name}")
    _child(disk, "source").set("file", path)
    return disk


def _disk(type: str, format: str, target: str, serial: str, alias: str) -> Element:
    disk = Element("disk", type=type, device="disk")
    SubElement(disk, "driver", name="qemu", type=format, discard="unmap")
    SubElement(disk, "source")
    SubElement(disk, "target", dev=target, bus="virtio")
    _leaf(disk, "serial", serial[:SERIAL_LENGTH])
    SubElement(disk, "alias", name=alias)
    return disk


def _leaf(parent: Element, tag: str, content: str, /, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = content


def _child(parent: Element, name: str) -> Element:
    found = parent.find(name)
    return SubElement(parent, name) if found is None else found
