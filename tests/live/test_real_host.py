"""Real guests, networks and volumes, through the public API alone, and the cloud killed in every phase.

It needs root and Debian packages, which `.ci/run` installs; elsewhere it is skipped with the reason. Two hosts and the
outside are network namespaces, so nothing of the machine's own is touched.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live import guest_image
from tests.live import host as hosts
from tests.live.host import Host, a_host, until
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

SECRET = "these bytes must come back"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    need(hosts.lacking(), HOST)
    with a_host(tmp_path_factory.mktemp("host"), killing=True) as made:
        yield made


def test_a_tenant_works_on_a_real_host_while_the_cloud_is_killed_in_every_phase(host: Host) -> None:
    """One story, since each step needs those before it.

    Work that goes on after an answer is cut off by `kill -9`; the next start finishes it.
    """
    before = host.traces()
    image, network, public = prepare(host)
    one, two = boot_two(host, image, network)
    addresses = {each: floating(host, each, public) for each in (one, two)}
    closed_until_a_rule_opens(host, addresses[one])
    names_and_keys(host, addresses)
    neighbours(host, addresses, one, two, image)
    volumes(host, addresses, one, two)
    power(host, addresses[one], one)
    consoles(host, one)
    copies(host, one, network)
    shelved_and_rescued(host, addresses[one], one)
    of_volumes(host, image, network)
    guests_outlived_the_cloud(host, addresses[two])
    everything_goes(host, addresses, network, public)
    end = time.monotonic() + 120.0
    while left(host, before) and time.monotonic() < end:
        time.sleep(0.1)
    assert left(host, before) == {}
    assert len(host.killed) > 20


def prepare(host: Host) -> tuple[str, str, str]:
    """The image, a flavor, the key; ids of image, private and public network."""
    kernel = uploaded(host, "vmlinuz", {"disk_format": "aki", "container_format": "aki"})
    ramdisk = uploaded(host, "initrd", {"disk_format": "ari", "container_format": "ari"})
    # Without the boot loader, which is half of a start. Volumes have theirs, as they know of no kernel.
    direct = {"kernel_id": kernel, "ramdisk_id": ramdisk, "os_command_line": guest_image.KERNEL_ARGUMENTS}
    image = uploaded(host, "guest.qcow2", {"disk_format": "qcow2", "container_format": "bare", **direct})
    flavor = {"id": "tiny", "name": "tiny", "ram": 96, "vcpus": 1, "disk": 1}
    host.ask("POST", "/compute/v2.1/flavors", {"flavor": flavor}, "admin")
    key = {"name": "key", "public_key": host.key.with_suffix(".pub").read_text()}
    host.ask("POST", "/compute/v2.1/os-keypairs", {"keypair": key})
    networks = {each["name"]: each["id"] for each in host.ask("GET", "/networking/v2.0/networks")["networks"]}
    return image, networks["private"], networks["public"]


def uploaded(host: Host, file: str, new: dict[str, str]) -> str:
    """The id of an image."""
    image = str(host.ask("POST", "/image/v2/images", {"name": file, **new})["id"])
    host.upload(image, host.images / file)
    host.has_status(f"/image/v2/images/{image}", "image", "active")
    return image


def boot_two(host: Host, image: str, network: str) -> tuple[str, str]:
    """Two servers of one project, on two hosts."""
    one, two = (host.boot(name, network, image, key_name="key") for name in ("one", "two"))
    where = {host.is_now(id, "ACTIVE")["OS-EXT-SRV-ATTR:host"] for id in (one, two)}
    assert where == set(hosts.HOSTS)
    return one, two


def private_address(host: Host, id: str) -> str:
    [entry] = host.server(id)["addresses"].values()
    return str(next(each["addr"] for each in entry if each["OS-EXT-IPS:type"] == "fixed"))


def floating(host: Host, id: str, public: str) -> str:
    """A floating address that leads to the server."""
    [port] = host.ask("GET", f"/networking/v2.0/ports?device_id={id}")["ports"]
    wanted = {"floating_network_id": public, "port_id": port["id"]}
    return str(
        host.begin("POST", "/networking/v2.0/floatingips", {"floatingip": wanted})["floatingip"]["floating_ip_address"]
    )


def closed_until_a_rule_opens(host: Host, address: str) -> None:
    assert not host.connects(address, 22)
    [group] = host.ask("GET", "/networking/v2.0/security-groups?name=default")["security_groups"]
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    rule |= {"port_range_min": 22, "port_range_max": 22}
    made = host.begin("POST", "/networking/v2.0/security-group-rules", {"security_group_rule": rule})
    until("ssh is let through", lambda: host.connects(address, 22))
    host.ask("DELETE", f"/networking/v2.0/security-group-rules/{made['security_group_rule']['id']}")
    until("ssh is dropped again", lambda: not host.connects(address, 22))
    host.ask("POST", "/networking/v2.0/security-group-rules", {"security_group_rule": rule})


def names_and_keys(host: Host, addresses: dict[str, str]) -> None:
    """The key is accepted, so it came with the metadata; so did the name."""
    for (id, address), name in zip(addresses.items(), ("one", "two"), strict=True):
        assert host.ssh(address, "hostname") == name
        assert private_address(host, id) in host.ssh(address, "ip -4 addr show eth0")
        told = host.ssh(address, "wget -q -O - http://169.254.169.254/openstack/latest/meta_data.json")
        assert id in told
        assert f"guest: eth0 has {private_address(host, id)}" in host.console(id)


def neighbours(host: Host, addresses: dict[str, str], one: str, two: str, image: str) -> None:
    """A guest reaches its network's guests, also on the other host; not another project's with the same addresses."""
    here, there = private_address(host, one), private_address(host, two)
    assert host.succeeds(addresses[one], f"ping -c 1 -W 5 {there}")
    # Another project: the same range, and an address that nobody has in ours.
    network = host.ask("POST", "/networking/v2.0/networks", {"network": {"name": "other"}}, "admin")["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.11.0.0/24"}
    subnet |= {"allocation_pools": [{"start": "10.11.0.77", "end": "10.11.0.78"}]}
    host.ask("POST", "/networking/v2.0/subnets", {"subnet": subnet}, "admin")
    stranger = host.boot("stranger", network, image, "admin")
    host.is_now(stranger, "ACTIVE")
    theirs = private_address(host, stranger)
    until("the stranger is up", lambda: f"guest: eth0 has {theirs}" in host.console(stranger, "admin"))
    assert not host.succeeds(addresses[one], f"ping -c 1 -W 2 {theirs}")
    # A source address that is not the guest's is dropped; the same works from its own.
    host.ssh(addresses[one], "ip addr add 10.11.0.99/32 dev eth0")
    assert not host.succeeds(addresses[one], f"ping -c 1 -W 2 -I 10.11.0.99 {there}")
    assert host.succeeds(addresses[one], f"ping -c 1 -W 5 -I {here} {there}")
    host.ask("DELETE", f"/compute/v2.1/servers/{stranger}", user="admin")
    host.is_gone(f"/compute/v2.1/servers/{stranger}", "admin")
    host.ask("DELETE", f"/networking/v2.0/networks/{network}", user="admin")


def attach(host: Host, server: str, volume: str) -> None:
    wanted = {"volumeAttachment": {"volumeId": volume}}
    host.begin("POST", f"/compute/v2.1/servers/{server}/os-volume_attachments", wanted)
    host.has_status(f"/volume/v3/volumes/{volume}", "volume", "in-use")


def detach(host: Host, server: str, volume: str) -> None:
    host.begin("DELETE", f"/compute/v2.1/servers/{server}/os-volume_attachments/{volume}")
    host.has_status(f"/volume/v3/volumes/{volume}", "volume", "available")


def volumes(host: Host, addresses: dict[str, str], one: str, two: str) -> None:
    """Bytes written in one guest are read in the other, from a volume restored from a backup."""
    first, second = addresses[one], addresses[two]
    volume = host.begin("POST", "/volume/v3/volumes", {"volume": {"size": 1}})["volume"]["id"]
    host.has_status(f"/volume/v3/volumes/{volume}", "volume", "available")
    attach(host, one, volume)
    until("the guest sees the disk", lambda: host.succeeds(first, "test -b /dev/vdb"))
    host.ssh(first, f"mke2fs -q /dev/vdb && mount /dev/vdb /mnt && echo {SECRET} >/mnt/note && sync && umount /mnt")
    # The guest sees its volume grow.
    assert host.ssh(first, "cat /sys/block/vdb/size") == str(2**30 // 512)
    extend = {"os-extend": {"new_size": 2}}
    newest = {"OpenStack-API-Version": "volume 3.42"}
    host.begin("POST", f"/volume/v3/volumes/{volume}/action", extend, **newest)
    until("the guest sees 2 GiB", lambda: host.ssh(first, "cat /sys/block/vdb/size") == str(2**31 // 512))
    host.has_status(f"/volume/v3/volumes/{volume}", "volume", "in-use")
    detach(host, one, volume)
    snapshot = host.begin("POST", "/volume/v3/snapshots", {"snapshot": {"volume_id": volume}})["snapshot"]["id"]
    host.has_status(f"/volume/v3/snapshots/{snapshot}", "snapshot", "available")
    wanted: dict[str, Any] = {"volume_id": volume, "snapshot_id": snapshot}
    backup = host.begin("POST", "/volume/v3/backups", {"backup": wanted})["backup"]["id"]
    host.has_status(f"/volume/v3/backups/{backup}", "backup", "available")
    restored = host.begin("POST", f"/volume/v3/backups/{backup}/restore", {"restore": {}})["restore"]["volume_id"]
    host.has_status(f"/volume/v3/volumes/{restored}", "volume", "available")
    attach(host, two, restored)
    until("the other guest sees the disk", lambda: host.succeeds(second, "test -b /dev/vdb"))
    assert host.ssh(second, "mount -o ro /dev/vdb /mnt && cat /mnt/note && umount /mnt") == SECRET
    detach(host, two, restored)
    for path in (f"backups/{backup}", f"snapshots/{snapshot}", f"volumes/{volume}", f"volumes/{restored}"):
        host.ask("DELETE", f"/volume/v3/{path}")
        host.is_gone(f"/volume/v3/{path}")


def boot_id(host: Host, address: str) -> str:
    """Different after each start of the guest."""
    return host.ssh(address, "cat /proc/sys/kernel/random/boot_id")


def power(host: Host, address: str, id: str) -> None:
    seen = [boot_id(host, address)]
    act = f"/compute/v2.1/servers/{id}/action"
    host.begin("POST", act, {"os-stop": None})
    host.is_now(id, "SHUTOFF")
    host.begin("POST", act, {"os-start": None})
    host.is_now(id, "ACTIVE")
    seen.append(boot_id(host, address))
    host.begin("POST", act, {"reboot": {"type": "SOFT"}})
    host.is_now(id, "ACTIVE")
    until("it has rebooted", lambda: boot_id(host, address) not in seen)
    seen.append(boot_id(host, address))
    host.ssh(address, "echo kept >/root/kept; sync")


def consoles(host: Host, id: str) -> None:
    """Its serial line accepts input, its screen can be seen; its usage is reported, and an interrupt reaches it."""
    with host.opened(id, "serial", "serial") as console:
        console.type(b"\r")
        console.until(b"login: ")
        console.type(b"nobody\r")
        console.until(b"Password: ")
    with host.opened(id, "vnc", "novnc") as screen:
        screen.until(b"RFB 003.008\n")
    newest = {"OpenStack-API-Version": "compute 2.96"}
    told = host.ask("GET", f"/compute/v2.1/servers/{id}/diagnostics", user="admin", **newest)
    assert (told["state"], told["num_cpus"], told["memory_details"]["maximum"]) == ("running", 1, 96)
    assert told["cpu_details"][0]["time"] > 0 and told["disk_details"][0]["read_bytes"] > 0
    host.begin("POST", f"/compute/v2.1/servers/{id}/action", {"trigger_crash_dump": None}, **newest)
    until("the guest has had the interrupt", lambda: "NMI received" in host.console(id))


def shelved_and_rescued(host: Host, address: str, id: str) -> None:
    """Its disk's content survives leaving the host, is visible from a rescue image, and is lost in a rebuild."""
    act = f"/compute/v2.1/servers/{id}/action"
    for action, status in (("shelve", "SHELVED_OFFLOADED"), ("unshelve", "ACTIVE")):
        host.begin("POST", act, {action: None})
        host.is_now(id, status)
    assert host.ssh(address, "cat /root/kept") == "kept"
    host.begin("POST", act, {"rescue": {}})
    host.is_now(id, "RESCUE")
    mount = "(mount -o ro /dev/vdb1 /mnt 2>/dev/null || mount -o ro /dev/vdb /mnt)"
    assert host.ssh(address, f"{mount} && cat /mnt/root/kept && umount /mnt") == "kept"
    host.begin("POST", act, {"unrescue": None})
    host.is_now(id, "ACTIVE")
    assert host.ssh(address, "cat /root/kept") == "kept"
    image = host.server(id)["image"]["id"]
    host.begin("POST", act, {"rebuild": {"imageRef": image}})
    host.is_now(id, "ACTIVE")
    assert not host.succeeds(address, "test -e /root/kept")


def script(text: str) -> str:
    return base64.b64encode(f"#!/bin/sh\n{text}\n".encode()).decode()


def of_volumes(host: Host, image: str, network: str) -> None:
    """An image of a server whose root disk is a volume is a snapshot of that; servers boot from it."""
    root = {"source_type": "image", "uuid": image, "destination_type": "volume", "boot_index": 0, "volume_size": 1}
    root["delete_on_termination"] = True
    first = host.boot(
        "first",
        network,
        "",
        block_device_mapping_v2=[root],
        user_data=script("echo kept >/root/note; sync; echo wrote"),
    )
    until("it has written", lambda: "wrote" in host.console(first) if host.is_now(first, "ACTIVE") else None)
    newest = {"OpenStack-API-Version": "compute 2.45"}
    wanted = {"createImage": {"name": "of a volume"}}
    made = host.begin("POST", f"/compute/v2.1/servers/{first}/action", wanted, **newest)["image_id"]
    host.has_status(f"/image/v2/images/{made}", "image", "active")
    host.is_now(first, "ACTIVE")
    second = host.boot("second", network, made, user_data=script('echo "found: $(cat /root/note)"'))
    host.is_now(second, "ACTIVE")
    until("it has what was on the volume", lambda: "found: kept" in host.console(second))
    for id in (second, first):
        host.begin("DELETE", f"/compute/v2.1/servers/{id}")
        host.is_gone(f"/compute/v2.1/servers/{id}")
    host.ask("DELETE", f"/image/v2/images/{made}")
    # What an image was made of stays until somebody deletes it: a snapshot, and the volume that it belongs to.
    for kind in ("snapshots", "volumes"):
        for each in host.ask("GET", f"/volume/v3/{kind}")[kind]:
            host.ask("DELETE", f"/volume/v3/{kind}/{each['id']}")
            host.is_gone(f"/volume/v3/{kind}/{each['id']}")


def copies(host: Host, one: str, network: str) -> None:
    """A server boots from another one's backup, with the content of that one's disk."""
    act = f"/compute/v2.1/servers/{one}/action"
    newest = {"OpenStack-API-Version": "compute 2.45"}
    wanted = {"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}}
    image = host.begin("POST", act, wanted, **newest)["image_id"]
    host.has_status(f"/image/v2/images/{image}", "image", "active")
    script = "IyEvYmluL3NoCmVjaG8gImZvdW5kOiAkKGNhdCAvcm9vdC9rZXB0KSIK"  # echo "found: $(cat /root/kept)"
    copy = host.boot("copy", network, image, user_data=script)
    host.is_now(copy, "ACTIVE")
    until("the copy has what was on the disk", lambda: "found: kept" in host.console(copy))
    host.begin("DELETE", f"/compute/v2.1/servers/{copy}")
    host.is_gone(f"/compute/v2.1/servers/{copy}")
    host.ask("DELETE", f"/image/v2/images/{image}")


def guests_outlived_the_cloud(host: Host, address: str) -> None:
    """The second guest was never stopped, however often the cloud was."""
    assert float(host.ssh(address, "cut -d' ' -f1 /proc/uptime")) > 30
    assert "dropbear" in host.ssh(address, "ps")


def everything_goes(host: Host, addresses: dict[str, str], network: str, public: str) -> None:
    for found in host.ask("GET", "/networking/v2.0/floatingips")["floatingips"]:
        host.ask("DELETE", f"/networking/v2.0/floatingips/{found['id']}")
    for id in addresses:
        host.begin("DELETE", f"/compute/v2.1/servers/{id}")
    for id in addresses:
        host.is_gone(f"/compute/v2.1/servers/{id}")
    for router in host.ask("GET", "/networking/v2.0/routers")["routers"]:
        for port in host.ask("GET", f"/networking/v2.0/ports?device_id={router['id']}")["ports"]:
            if port["device_owner"] == "network:router_interface":
                path = f"/networking/v2.0/routers/{router['id']}/remove_router_interface"
                host.begin("PUT", path, {"port_id": port["id"]})
        host.ask("DELETE", f"/networking/v2.0/routers/{router['id']}")
    host.begin("DELETE", f"/networking/v2.0/networks/{network}")
    host.ask("DELETE", f"/networking/v2.0/networks/{public}", user="admin")


def left(host: Host, before: dict[str, Any]) -> dict[str, Any]:
    """What the drivers have made and not removed. Security groups of surviving projects are mere records, and files
    that record whose turn it is belong to no volume.
    """
    found = host.traces()
    kept = ("/security-groups/", "/nbd/turn")
    found["files"] = [
        file for file in found["files"] if not any(each in file for each in kept) and file not in before["files"]
    ]
    return {where: what for where, what in found.items() if what and what != before.get(where)}
