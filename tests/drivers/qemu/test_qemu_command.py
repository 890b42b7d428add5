"""The command line of a guest, and where its devices are plugged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.accounts import Account, account
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.qemu import command, slots
from cloudctl.drivers.qemu.command import Kernel
from cloudctl.drivers.qemu.options import FIXED_SLOTS, Config
from cloudctl.drivers.qemu.records import Files, Record
from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.specs import GuestSpec, ImageSource, PortSpec, VolumeConnection

ID = "6f1c0f5e-0000-4000-8000-00000000000a"
USER = Account(65500, 65500)
FILES = Files(Path("/state/guests/g"), Path("/run/cloudctl/0123"))
VERSION = 7_002_022
CONFIG = Config(hosts={"here": ""}, slots=4)
IMAGE = ImageSource("image", "/image", "raw")
SPEC = GuestSpec(ID, "name", "here", vcpus=2, memory_mib=256, disk_gib=1, image=IMAGE)


def record(spec: GuestSpec, **changes: Any) -> Record:
    return Record(spec, slots=slots.assigned(spec, {}, CONFIG.slots), **changes)


def words(record: Record, config: Config = CONFIG, kernel: Kernel | None = None, incoming: bool = False) -> list[str]:
    return command.arguments(config, record, FILES, kernel, VERSION, USER, incoming)


def option(words: list[str], name: str) -> list[str]:
    return [words[index + 1] for index, word in enumerate(words) if word == name]


def objects(words: list[str], name: str, driver: str = "") -> list[dict[str, Any]]:
    found = [json.loads(each) for each in option(words, name) if each.startswith("{")]
    return [each for each in found if not driver or each["driver"] == driver]


def volume(id: str, **changes: Any) -> VolumeConnection:
    info = {"driver_volume_type": "qcow2", "data": {"path": f"/volumes/{id}", "format": "qcow2"}}
    return VolumeConnection(id, info, **changes)


def port(id: str, mac: str = "fa:16:3e:00:00:01") -> PortSpec:
    return PortSpec(id, "n", mac, mtu=1450, binding={"vif_type": "tap", "vif_details": {"tap": f"t{id}"}})


def test_a_guest_is_a_daemon_with_its_flavor_and_its_sockets() -> None:
    made = words(record(SPEC))
    assert (option(made, "-smp"), option(made, "-m")) == (["2,sockets=2,cores=1,threads=1"], ["256"])
    assert (option(made, "-machine"), option(made, "-cpu")) == (["q35"], ["max"])
    assert option(made, "-accel") == ["tcg,thread=multi,tb-size=64"]
    assert option(made, "-uuid") == [ID]
    assert option(made, "-pidfile") == ["/run/cloudctl/0123.pid"]
    assert option(made, "-qmp") == ["unix:/run/cloudctl/0123.qmp,server=on,wait=off"]
    assert "logfile=/state/guests/g/console.log,logappend=on" in option(made, "-chardev")[0]
    assert len(objects(made, "-device", "pcie-root-port")) == FIXED_SLOTS + 4
    assert "-incoming" not in made and words(record(SPEC), incoming=True)[-2:] == ["-incoming", "defer"]


@pytest.mark.parametrize(
    ("user", "version", "sandboxed", "becomes"),
    [
        ("root", VERSION, "deny", {}),
        ("65500", VERSION, "allow", {"-runas": "65500:65500"}),
        ("65500", 9_000_999, "allow", {"-runas": "65500:65500"}),
        ("65500", 9_001_000, "allow", {"-run-with": "user=65500:65500"}),
    ],
)
def test_a_guest_runs_no_program_and_becomes_the_user_that_it_shall_be(
    user: str, version: int, sandboxed: str, becomes: dict[str, str]
) -> None:
    made = command.arguments(CONFIG, record(SPEC), FILES, None, version, account(user))
    (denied,) = option(made, "-sandbox")
    wanted = {"on", "obsolete=deny", f"elevateprivileges={sandboxed}", "spawn=deny", "resourcecontrol=deny"}
    assert set(denied.split(",")) == wanted
    assert {name: option(made, name)[0] for name in ("-runas", "-run-with") if name in made} == becomes


@pytest.mark.parametrize("user", ["nobody at all", "65534000", "-1"])
def test_a_user_that_cannot_be_is_refused(user: str) -> None:
    with pytest.raises(ValueError, match="no user"):
        Config(user=user)


@pytest.mark.parametrize("uids", ["", "1", "0-5", "7-6", "a-b", "1-4294967296"])
def test_numbers_of_users_are_a_first_and_a_last(uids: str) -> None:
    with pytest.raises(ValueError, match="FIRST-LAST"):
        Config(uids=uids)


def test_kvm_uses_the_processor_of_the_host() -> None:
    made = words(record(SPEC), evolve(CONFIG, accelerator="kvm"))
    assert (option(made, "-accel"), option(made, "-cpu")) == (["kvm"], ["host"])


def test_an_id_that_is_no_uuid_is_only_a_name() -> None:
    made = words(record(evolve(SPEC, id="my,guest")))
    assert "-uuid" not in made
    assert option(made, "-smbios")[0].endswith("serial=my,,guest")


def test_commas_in_paths_are_doubled() -> None:
    made = command.arguments(CONFIG, record(SPEC), Files(Path("/a,b"), Path("/run/c,d")), None, VERSION, USER)
    assert option(made, "-qmp") == ["unix:/run/c,,d.qmp,server=on,wait=off"]
    assert "logfile=/a,,b/console.log" in option(made, "-chardev")[0]


def test_disks_are_found_in_the_order_root_ephemeral_swap_config_volumes() -> None:
    spec = evolve(SPEC, ephemeral_gib=1, swap_mib=1, config_drive=True, volumes=(volume("v1"), volume("v2")))
    found = objects(words(record(spec)), "-device", "virtio-blk-pci")
    assert [each["id"] for each in found] == ["root", "ephemeral", "swap", "config", "volume-v1", "volume-v2"]
    ports = [int(each["bus"].removeprefix("rp")) for each in found]
    assert ports == sorted(set(ports))
    assert [each.get("bootindex") for each in found] == [0, None, None, None, None, None]


def test_every_device_has_the_block_node_that_it_names() -> None:
    spec = evolve(SPEC, volumes=(volume("v1", read_only=True),))
    made = words(record(spec))
    nodes = {each["node-name"]: each for each in objects(made, "-blockdev")}
    assert all(len(name) < 32 for name in nodes)
    assert [each["drive"] for each in objects(made, "-device", "virtio-blk-pci")] == list(nodes)
    assert [each["read-only"] for each in nodes.values()] == [False, True]


def test_a_rescued_guest_starts_from_the_rescue_disk_with_its_own_beside_it() -> None:
    found = objects(words(record(SPEC, rescued=True)), "-device", "virtio-blk-pci")
    assert [(each["id"], each["bus"], each.get("bootindex")) for each in found] == [
        ("rescue", "rp0", 0),
        ("root", "rp1", None),
    ]


def test_a_root_disk_in_ceph_is_opened_with_a_key_that_is_told_once() -> None:
    root = RbdDisk("guests", "mine", "root-1", "cloud", "/etc/ceph/key", (("10.0.0.1", "3300"),))
    data = VolumeConnection("v1", evolve(root, pool="volumes", image="volume-v1").info)
    made = words(record(evolve(SPEC, volumes=(data,)), root=root))
    first, second = objects(made, "-blockdev")
    assert (first["driver"], first["pool"], first["namespace"], first["image"]) == ("rbd", "guests", "mine", "root-1")
    assert first["key-secret"] == second["key-secret"]
    (key,) = [each for each in option(made, "-object") if each.startswith("secret")]
    assert key == f"secret,id={first['key-secret']},format=base64,file={FILES.key(first['key-secret'])}"
    rescued = objects(words(record(SPEC, root=root, rescued=True)), "-device", "virtio-blk-pci")
    assert [(each["id"], each.get("bootindex")) for each in rescued] == [("rescue", 0), ("root", None)]


def test_a_guest_that_boots_from_a_volume_can_be_rescued() -> None:
    spec = evolve(SPEC, image=None, volumes=(volume("boot", boot_index=0),))
    found = objects(words(record(spec, rescued=True)), "-device", "virtio-blk-pci")
    assert [(each["id"], each["bus"], each.get("bootindex")) for each in found] == [
        ("rescue", "rp0", 0),
        ("volume-boot", "rp1", None),
    ]


def test_a_guest_without_an_image_starts_from_its_volume() -> None:
    spec = evolve(SPEC, image=None, volumes=(volume("data"), volume("boot", boot_index=0)))
    found = {each["id"]: each for each in objects(words(record(spec)), "-device", "virtio-blk-pci")}
    assert (found["volume-boot"]["bus"], found["volume-boot"]["bootindex"]) == ("rp0", 0)
    assert found["volume-data"]["bus"] == f"rp{FIXED_SLOTS}"


def test_a_kernel_is_booted_directly_and_no_disk_claims_to_be_first() -> None:
    made = words(record(SPEC), kernel=Kernel("/k", "/r", "root=/dev/vda"))
    assert [option(made, name) for name in ("-kernel", "-initrd", "-append")] == [["/k"], ["/r"], ["root=/dev/vda"]]
    assert all("bootindex" not in each for each in objects(made, "-device"))


def test_the_image_may_say_what_its_kernel_is_told() -> None:
    assert command.kernel_arguments(CONFIG, IMAGE) == CONFIG.kernel_arguments
    image = evolve(IMAGE, properties={"os_command_line": "single"})
    assert command.kernel_arguments(CONFIG, image) == "single"


def test_an_interface_is_a_tap_with_the_ports_mac_and_mtu() -> None:
    made = words(record(evolve(SPEC, ports=(port("p1"),))))
    backend, device = objects(made, "-netdev")[0], objects(made, "-device", "virtio-net-pci")[0]
    assert (backend["type"], backend["ifname"], backend["script"]) == ("tap", "tp1", "no")
    assert (device["netdev"], device["mac"], device["host_mtu"]) == (backend["id"], "fa:16:3e:00:00:01", 1450)


def test_nbd_servers_are_named_as_the_volume_driver_says() -> None:
    server = {"type": "inet", "host": "192.0.2.1", "port": "10809"}
    info = {"driver_volume_type": "nbd", "data": {"server": server, "export": "v/here"}}
    block = objects(words(record(evolve(SPEC, volumes=(VolumeConnection("v", info),)))), "-blockdev")[1]
    assert (block["driver"], block["server"], block["export"]) == ("nbd", server, "v/here")
    assert block["reconnect-delay"] > 0


@pytest.mark.parametrize("offloads", [True, False])
def test_an_interface_in_open_vswitch_is_as_its_binding_says(offloads: bool) -> None:
    details = {"tap": "tapp", "bridge": "br-int", "interface_id": "p", "mtu": 1442, "offloads": offloads}
    made = words(record(evolve(SPEC, ports=(evolve(port("p"), binding={"vif_type": "ovs", "vif_details": details}),))))
    [backend] = objects(made, "-netdev")
    [device] = objects(made, "-device", "virtio-net-pci")
    assert (backend["ifname"], device["host_mtu"]) == ("tapp", 1442)
    off = {name for name, value in device.items() if value is False}
    expected = {f"{end}_{what}" for end in ("host", "guest") for what in ("tso4", "tso6", "ecn", "ufo")}
    assert off == (set() if offloads else {*expected, "csum", "gso", "guest_csum"})


@pytest.mark.parametrize(
    "spec",
    [
        evolve(SPEC, volumes=(VolumeConnection("v", {"driver_volume_type": "iscsi", "data": {}}),)),
        evolve(SPEC, ports=(evolve(port("p"), binding={"vif_type": "vhostuser", "vif_details": {}}),)),
        evolve(SPEC, ports=(evolve(port("p"), binding=None),)),
    ],
)
def test_what_cannot_be_plugged_is_unfit(spec: GuestSpec) -> None:
    with pytest.raises(Unfit):
        words(record(spec))


# -- slots


def test_devices_keep_their_slots_and_new_ones_take_the_first_free() -> None:
    spec = evolve(SPEC, volumes=(volume("a"), volume("b")))
    first = slots.assigned(spec, {}, 4)
    assert sorted(first.values()) == [FIXED_SLOTS, FIXED_SLOTS + 1]
    second = slots.assigned(evolve(spec, volumes=(volume("c"), volume("b"))), first, 4)
    assert second == {"volume-b": FIXED_SLOTS + 1, "volume-c": FIXED_SLOTS}


def test_too_many_devices_are_unfit() -> None:
    with pytest.raises(Unfit, match="2 volumes and ports"):
        slots.assigned(evolve(SPEC, volumes=tuple(volume(str(number)) for number in range(3))), {}, 2)


def test_names_are_such_that_qemu_takes_them() -> None:
    odd = slots.volume("a/b:c%d")
    assert odd.replace("-", "").isalnum() and odd != slots.volume("a/b:c%e")
    assert len(slots.node(slots.volume(ID))) < 32


@pytest.mark.parametrize("given", ["a\0b", "x" * 2048])
def test_what_no_kernel_can_be_told_is_unfit(given: str) -> None:
    with pytest.raises(Unfit, match="os_command_line"):
        command.kernel_arguments(CONFIG, evolve(IMAGE, properties={"os_command_line": given}))
    assert (
        command.kernel_arguments(CONFIG, evolve(IMAGE, properties={"os_command_line": "-quiet, a=b"})) == "-quiet, a=b"
    )
