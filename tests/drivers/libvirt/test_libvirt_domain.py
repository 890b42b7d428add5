"""A guest as a tree, and what a tree says. No libvirt is needed."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.libvirt import domain, secrets
from cloudctl.drivers.libvirt.domain import Notes
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.specs import GuestSpec, ImageSource, PortSpec, VolumeConnection

ID = "6f1c0f5e-0000-4000-8000-00000000000a"
CONFIG = Config(hosts={"east": "qemu:///system"}, accelerator="tcg", directory="/srv/guests")
IMAGE = ImageSource("image", "/image", "raw")
SPEC = GuestSpec(ID, "name", "east", vcpus=2, memory_mib=128, disk_gib=1, image=IMAGE)
TAP = {"vif_type": "tap", "vif_details": {"tap": "tap1"}}
PORT = PortSpec("port", "network", "fa:16:3e:00:00:01", mtu=1450, binding=TAP)
NBD = {"type": "inet", "host": "10.0.0.1", "port": "10811"}
OVS = {"bridge": "br-int", "interface_id": "port", "tap": "tapport", "mtu": 1442}
VOLUME = VolumeConnection("volume", {"driver_volume_type": "nbd", "data": {"server": NBD, "export": "v"}})


def made(spec: GuestSpec, config: Config = CONFIG) -> Element:
    return fromstring(domain.text(domain.guest(config, spec, Notes())))


def test_what_is_written_is_read() -> None:
    spec = evolve(SPEC, volumes=(VOLUME,), ports=(PORT,), ephemeral_gib=1, swap_mib=1, config_drive=True)
    seen = domain.seen(
        domain.text(domain.guest(CONFIG, spec, Notes("token", True))).replace('unit="MiB">128', ">131072")
    )
    assert (seen.vcpus, seen.memory_mib, seen.notes) == (2, 128, Notes("token", True))
    assert (seen.volume_ids, seen.port_ids) == (("volume",), ("port",))
    assert seen.targets == {"vda", "vdb", "vdc", "vdd", "vde"}
    assert next(domain.target_names(seen.targets)) == "vdf"


@pytest.mark.parametrize("id", ["9d2f4c11-0000-4000-8000-00000000000c", "a.b/c:d", "x-1"])
def test_ids_of_any_form_are_found_again(id: str) -> None:
    tree = made(evolve(SPEC, volumes=(evolve(VOLUME, volume_id=id),), ports=(evolve(PORT, id=id),)))
    seen = domain.seen(domain.text(tree))
    assert (seen.volume_ids, seen.port_ids) == ((id,), (id,))
    found = domain.device(domain.text(tree), domain.port_alias(id))
    assert found is not None and found.tag == "interface"
    assert domain.device(domain.text(tree), "ua-volume-other") is None


@pytest.mark.parametrize("offloads", [True, False])
def test_a_port_is_put_into_open_vswitch(offloads: bool) -> None:
    binding = {"vif_type": "ovs", "vif_details": {**OVS, "offloads": offloads}}
    nic = domain.interface(evolve(PORT, binding=binding))
    assert [each.attrib for each in nic.iterfind("source")] == [{"bridge": "br-int"}]
    assert [each.attrib for each in nic.iterfind("target")] == [{"dev": "tapport"}]
    assert [each.attrib for each in nic.iterfind("virtualport/parameters")] == [{"interfaceid": "port"}]
    assert [each.attrib for each in nic.iterfind("mtu")] == [{"size": "1442"}]
    assert (nic.find("driver") is None) is offloads


def test_a_port_of_another_kind_is_refused() -> None:
    with pytest.raises(Unfit, match="'fake'"):
        domain.interface(evolve(PORT, binding={"vif_type": "fake", "vif_details": {}}))


def test_no_name_breaks_out_of_the_tree() -> None:
    name = "</title><devices/>\x00\n\"'&\ud800"
    tree = made(evolve(SPEC, name=name))
    assert tree.findtext("title") == "</title><devices/>  \"'& "
    assert len(tree.findall("devices")) == 1


def test_a_kernel_is_booted_directly_and_a_disk_otherwise() -> None:
    assert made(SPEC).find("devices/disk/boot") is not None
    kernel = evolve(IMAGE, kernel_path="/k", ramdisk_path="/r", properties={"os_command_line": "quiet"})
    tree = made(evolve(SPEC, image=kernel))
    assert tree.findtext("os/kernel") == f"/srv/guests/{ID}.kernel"
    assert tree.findtext("os/cmdline") == "quiet"
    assert tree.find("devices/disk/boot") is None
    with pytest.raises(Unfit, match="os_command_line"):
        made(evolve(SPEC, image=evolve(kernel, properties={"os_command_line": "a\x00b"})))


def test_a_guest_without_an_image_boots_from_its_volumes() -> None:
    order = (evolve(VOLUME, volume_id="b", boot_index=1), evolve(VOLUME, volume_id="a", boot_index=0))
    tree = made(evolve(SPEC, image=None, volumes=order))
    assert [each.get("order") for each in tree.iterfind("devices/disk/boot")] == ["2", "1"]
    assert made(evolve(SPEC, volumes=order)).findall("devices/disk/boot")[0].get("order") == "1"


def test_a_volume_in_ceph_names_the_key_and_does_not_have_it() -> None:
    keyring, monitors = "/etc/ceph/keyring", (("192.0.2.11", "3300"), ("2001:db8::1", "3300"))
    disk = RbdDisk("volumes", "", "volume-v", "cloudctl", keyring, monitors)
    volume = VolumeConnection("v", disk.info)
    (source,) = made(evolve(SPEC, image=None, volumes=(volume,))).iterfind("devices/disk/source")
    assert (source.get("protocol"), source.get("name")) == ("rbd", "volumes/volume-v")
    assert [each.get("name") for each in source.iterfind("host")] == ["192.0.2.11", "2001:db8::1"]
    secret = source.find("auth/secret")
    assert secret is not None
    assert str(secret.get("uuid")) in secrets.definition(disk)
    assert keyring not in domain.text(source)
    with pytest.raises(Unfit, match="no namespace"):
        domain.volume_disk(VolumeConnection("v", evolve(disk, namespace="second").info), "vda")


def test_a_root_disk_in_ceph_is_the_first_and_is_not_copied_along() -> None:
    root = RbdDisk("guests", "", f"root-{ID}", "cloudctl", "/etc/ceph/key", (("192.0.2.11", "3300"),))
    xml = domain.text(domain.guest(CONFIG, evolve(SPEC, ephemeral_gib=1), Notes(), root))
    first, second = fromstring(xml).iterfind("devices/disk")
    assert [each.get("type") for each in (first, second)] == ["network", "file"]
    assert first.find("source").get("name") == f"guests/root-{ID}"  # type: ignore[union-attr]  # it has one
    assert first.find("boot").get("order") == "1"  # type: ignore[union-attr]  # it has one
    assert domain.targets_of(xml, ("root", "ephemeral")) == ["vdb"]
    assert domain.has_remote_root(xml) and not domain.has_remote_root(domain.text(made(SPEC)))


def test_what_cannot_be_plugged_is_refused() -> None:
    fake = VolumeConnection("v", {"driver_volume_type": "fake", "data": {}})
    with pytest.raises(Unfit, match="connection type 'fake'"):
        made(evolve(SPEC, volumes=(fake,)))
    with pytest.raises(Unfit, match="plugged as None"):
        made(evolve(SPEC, ports=(evolve(PORT, binding=None),)))


def test_the_processor_is_what_the_accelerator_can() -> None:
    assert made(SPEC).findtext("cpu/model") == "qemu64"
    kvm = evolve(CONFIG, accelerator="kvm")
    assert (made(SPEC, kvm).get("type"), made(SPEC, kvm).find("cpu").get("mode")) == ("kvm", "host-model")  # type: ignore[union-attr]  # it has one
    assert made(SPEC, evolve(kvm, cpu="Nehalem")).findtext("cpu/model") == "Nehalem"


@pytest.mark.parametrize("hosts", [{"a b": "qemu:///system"}, {"a": "xen:///"}, {"": "qemu:///system"}])
def test_hosts_that_cannot_be_are_refused(hosts: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must"):
        Config(hosts=hosts)


def test_two_hosts_that_are_one_libvirtd_are_refused() -> None:
    """A guest that moved from one to the other was removed where it had just been defined."""
    one = "qemu+tls://one/system"
    with pytest.raises(ValueError, match="east and west are the same libvirtd"):
        Config(hosts={"east": one, "north": "qemu:///system", "west": one})
    assert Config(hosts={"east": "test:///default", "west": "test:///default"}).hosts
