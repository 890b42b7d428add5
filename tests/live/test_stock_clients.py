"""A first session with the stock clients, unmodified: the `openstack` command, and openstacksdk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest

from tests.live.process import LiveCloud, command

pytestmark = pytest.mark.slow

JSON = ("-f", "json")


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    path = tmp_path / "disk.raw"
    path.write_bytes(bytes(510) + b"\x55\xaa" + bytes(65536))
    return path


def test_the_openstack_command(live: LiveCloud, image_file: Path) -> None:
    run = live.openstack
    token = run("token", "issue", *JSON)
    assert token["project_id"] and len(token["id"]) > 100
    catalog = {service["Type"] for service in run("catalog", "list", *JSON)}
    assert {"identity", "compute", "block-storage", "network", "image", "instance-ha"} <= catalog
    assert run("versions", "show", *JSON)

    image = run("image", "create", "--file", str(image_file), "--disk-format", "raw", "disk", *JSON)
    assert image["status"] == "active"
    saved = image_file.with_name("saved")
    run("image", "save", "--file", str(saved), "disk")
    assert saved.read_bytes() == image_file.read_bytes()

    run("network", "create", "net", *JSON)
    subnet = run("subnet", "create", "--network", "net", "--subnet-range", "10.9.0.0/24", "sub", *JSON)
    assert subnet["gateway_ip"] == "10.9.0.1"
    private = run("keypair", "create", "key")
    assert "PRIVATE KEY" in private

    create = ("server", "create", "--image", "disk", "--flavor", "m1.tiny", "--network", "net", "--key-name", "key")
    server = run(*create, "--wait", "first", *JSON)
    assert server["status"] == "ACTIVE"
    assert server["addresses"]["net"][0].startswith("10.9.0.")
    assert run("console", "log", "show", "first")

    volume = run("volume", "create", "--size", "1", "disk", *JSON)
    wait(live, ("volume", "show", "disk"), "available")
    run("server", "add", "volume", "first", "disk")
    wait(live, ("volume", "show", "disk"), "in-use")
    run("server", "remove", "volume", "first", "disk")
    wait(live, ("volume", "show", "disk"), "available")

    run("server", "stop", "first")
    wait(live, ("server", "show", "first"), "SHUTOFF")
    run("server", "start", "first")
    wait(live, ("server", "show", "first"), "ACTIVE")
    run("server", "reboot", "--wait", "first")
    run("server", "reboot", "--hard", "--wait", "first")
    assert run("server", "show", "first", *JSON)["status"] == "ACTIVE"

    run("server", "delete", "--wait", "first")
    run("volume", "delete", volume["id"])
    wait_gone(live, ("volume", "list"))
    run("keypair", "delete", "key")
    run("network", "delete", "net")
    run("image", "delete", "disk")
    assert run("server", "list", *JSON) == []
    assert run("port", "list", "--device-owner", "compute:nova", *JSON) == []
    assert {each["Name"] for each in run("network", "list", *JSON)} == {"private", "public"}
    assert [each["Name"] for each in run("image", "list", *JSON)] == ["tiny"]


def test_what_an_administrator_sees_with_it(live: LiveCloud) -> None:
    def run(*arguments: str) -> Any:
        return live.openstack(*arguments, *JSON, cloud="cloudctl-admin")

    assert len(run("hypervisor", "list")) >= 2
    assert {each["Name"] for each in run("project", "list")} >= {"admin", "demo"}
    assert {each["Name"] for each in run("role", "list")} >= {"admin", "manager", "member", "reader"}
    assert run("availability", "zone", "list")
    assert len(run("flavor", "list")) >= 2
    assert run("quota", "show", "demo")


def test_its_errors_name_what_was_wrong(live: LiveCloud) -> None:
    told = live.openstack("server", "show", "nobody", check=False)
    assert "No Server found for nobody" in told or "No server with a name or ID" in told
    told = live.openstack(
        "server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--nic", "net-id=x", "s", check=False
    )
    assert "x" in told


@pytest.fixture
def connection(live: LiveCloud) -> Iterator[Any]:
    auth = {
        "auth_url": f"{live.url}/identity",
        "username": "demo",
        "password": "demo-secret",
        "project_name": "demo",
        "user_domain_id": "default",
        "project_domain_id": "default",
    }
    with openstack.connect(auth=auth, region_name="RegionOne") as made:
        yield made


def test_openstacksdk(connection: Any, image_file: Path) -> None:
    cloud = connection
    assert cloud.authorize()
    image = cloud.create_image("sdk", filename=str(image_file), disk_format="raw", container_format="bare", wait=True)
    network = cloud.create_network("sdk")
    cloud.create_subnet(network.id, cidr="10.8.0.0/24", ip_version=4, name="sdk")
    cloud.create_keypair("sdk")
    flavor = cloud.get_flavor("m1.tiny")
    server = cloud.create_server(
        "sdk", image=image.id, flavor=flavor.id, network=network.id, key_name="sdk", wait=True, auto_ip=False
    )
    assert server.status == "ACTIVE"
    assert cloud.get_server_private_ip(server).startswith("10.8.0.")
    volume = cloud.create_volume(size=1, name="sdk", wait=True)
    cloud.attach_volume(server, volume, wait=True)
    assert cloud.get_volume(volume.id).status == "in-use"
    cloud.detach_volume(server, cloud.get_volume(volume.id), wait=True)
    for act, status in (("stop_server", "SHUTOFF"), ("start_server", "ACTIVE")):
        getattr(cloud.compute, act)(server.id)
        cloud.compute.wait_for_server(cloud.compute.get_server(server.id), status=status, interval=0.2)
    cloud.compute.reboot_server(server.id, "SOFT")
    cloud.compute.wait_for_server(cloud.compute.get_server(server.id), status="ACTIVE", interval=0.2)
    assert cloud.compute.get_server_console_output(server.id)["output"]
    assert cloud.delete_server(server.id, wait=True)
    assert cloud.delete_volume(volume.id, wait=True)
    assert cloud.delete_keypair("sdk")
    assert cloud.delete_network(network.id)
    assert cloud.delete_image(image.id, wait=True)
    assert list(cloud.compute.servers()) == []
    # Made by the first start: the router's, and its network's own.
    assert {port.device_owner for port in cloud.network.ports()} == {"network:router_interface", "network:dhcp"}
    assert list(cloud.block_storage.volumes()) == []


def test_the_command_is_the_stock_one() -> None:
    told = subprocess.run([command("openstack"), "--version"], capture_output=True, text=True, check=True).stdout
    assert told.startswith("openstack 10.5.")


def wait(live: LiveCloud, what: tuple[str, ...], status: str) -> None:
    """Wait until the record has this status. Each look starts a whole client, so there is no need to sleep."""
    for _ in range(20):
        found = live.openstack(*what, *JSON)["status"]
        if found == status:
            return
    raise AssertionError(f"{what} stays {found}")


def wait_gone(live: LiveCloud, what: tuple[str, ...]) -> None:
    for _ in range(20):
        if live.openstack(*what, *JSON) == []:
            return
    raise AssertionError(f"{what} still lists something")
