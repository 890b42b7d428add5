"""The metadata service, asked as a guest asks it: only its address says who it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.server import Site

from cloudctl.compute.api import guest_metadata
from cloudctl.compute.api.guest_metadata import MetadataService
from cloudctl.image.store import ImageStore
from cloudctl.testing.http import Response, encode, parse
from tests.compute.asking import Asking

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ9mYp1XpLWzVSGlcsmqpUAcUO8CJ3qXoYAuOq2Ci0V x"
Ask = Callable[..., Response]


@pytest.fixture
def ask(demo: Asking) -> Ask:
    """`ask(path, address, network_id, method, body)`: a request over a connection from this address."""
    site_of = guest_metadata.build(demo.cloud.db, demo.cloud.cloud.made(ImageStore).path)

    def asked(path: str, address: str, network_id: str, method: str = "GET", body: bytes = b"") -> Response:
        channel: Any = Site(site_of(network_id), reactor=demo.cloud.clock).buildProtocol(None)
        transport = StringTransport(peerAddress=IPv4Address("TCP", address, 40000))
        channel.makeConnection(transport)
        # A guest may say what it likes of itself.
        lies = {"X-Forwarded-For": "10.0.0.2", "X-Instance-ID": "other"}
        channel.dataReceived(encode(method, path, lies, body))
        channel.connectionLost(Failure(ConnectionDone()))
        return parse(transport.value(), method)

    return asked


@pytest.fixture
def guest(demo: Asking) -> tuple[str, str]:
    """(id, address) of a server with everything."""
    demo.post("/os-keypairs", {"keypair": {"name": "mine", "public_key": KEY}})
    server_id = demo.boot(
        "2.52", name="web", key_name="mine", metadata={"a": "b"}, user_data=base64.b64encode(b"\xffhi").decode(),
        networks=[{"uuid": demo.network, "tag": "front"}],
    )  # fmt: skip
    return server_id, address_of(demo, server_id)


def address_of(demo: Asking, server_id: str) -> str:
    (port,) = demo.client.get(f"/networking/v2.0/ports?device_id={server_id}").json()["ports"]
    return str(port["fixed_ips"][0]["ip_address"])


def test_a_guest_reads_its_own_metadata(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    server_id, address = guest
    answer = ask("/openstack/latest/meta_data.json", address, demo.network)
    found = json.loads(answer.body)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert (found["uuid"], found["name"], found["meta"]) == (server_id, "web", {"a": "b"})
    assert found["public_keys"] == {"mine": KEY} and found["project_id"] == demo.server(server_id)["tenant_id"]
    assert found["availability_zone"] == "nova" and found["devices"][0]["tags"] == ["front"]
    assert "admin_pass" not in found


def test_network_data_tell_of_the_port(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    found = json.loads(ask("/openstack/latest/network_data.json", guest[1], demo.network).body)
    port = demo.get(f"/servers/{guest[0]}/os-interface").json()["interfaceAttachments"][0]
    assert found["links"][0]["vif_id"] == port["port_id"]
    assert found["links"][0]["ethernet_mac_address"] == port["mac_addr"]
    assert found["networks"][0]["network_id"] == demo.network


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/", b"1.0\n2007-01-19"),
        ("/latest", b"meta-data/\nuser-data"),
        ("/2009-04-04/meta-data/public-keys/", b"0=mine"),
        ("/latest/meta-data/public-keys/0", b"openssh-key"),
        ("/latest/meta-data/public-keys/0/openssh-key", KEY.encode()),
        ("/latest/meta-data/placement/availability-zone", b"nova"),
        ("/latest/meta-data/hostname", b"web"),
        ("/latest/meta-data/instance-type", b"m1.tiny"),
        ("/latest/meta-data/security-groups", b"default"),
        ("/latest/user-data", b"\xffhi"),
        ("/openstack/latest/user_data", b"\xffhi"),
        ("/openstack/", b"2012-08-10\n2013-04-04"),
        ("/openstack/latest/", b"meta_data.json\nnetwork_data.json\npassword\nuser_data\nvendor_data.json\n"),
        ("/openstack/latest/vendor_data.json", b"{}"),
    ],
)
def test_both_trees_can_be_walked(demo: Asking, guest: tuple[str, str], ask: Ask, path: str, said: bytes) -> None:
    answer = ask(path, guest[1], demo.network)
    assert answer.status == 200 and answer.body.startswith(said), answer


def test_a_directory_lists_its_entries(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    lines = ask("/latest/meta-data/", guest[1], demo.network).body.decode().split("\n")
    assert {"ami-id", "instance-id", "local-ipv4", "placement/", "0=mine"} - {*lines} == {"0=mine"}
    assert "public-keys/" in lines and not [line for line in lines if line.startswith("_")]
    assert ask("/latest/meta-data/local-ipv4", guest[1], demo.network).body.decode() == guest[1]


@pytest.mark.parametrize(
    "path",
    [
        "/1999-01-01/", "/openstack/1999-01-01/", "/latest/nothing", "/latest/meta-data/nothing",
        "/latest/meta-data/hostname/web", "/latest/meta-data/public-keys/0/_name", "/openstack/latest/user_data/x",
        "/latest/user-data/x", "/%ff%00", "/latest/meta-data/public-keys/1/openssh-key",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_found(demo: Asking, guest: tuple[str, str], ask: Ask, path: str) -> None:
    assert ask(path, guest[1], demo.network).status == 404


@pytest.mark.parametrize("path", ["/", "/openstack/latest/meta_data.json", "/latest/user-data", "/nothing"])
@pytest.mark.parametrize("address", ["10.0.0.250", "127.0.0.1", "no address", "fe80::1%eth0"])
def test_an_address_of_no_server_is_told_nothing(demo: Asking, ask: Ask, path: str, address: str) -> None:
    answer = ask(path, address, demo.network)
    assert (answer.status, answer.body) == (404, b"No server has this address.")


def test_the_same_address_on_another_network_is_another_guest(
    demo: Asking, stranger: Asking, guest: tuple[str, str], ask: Ask
) -> None:
    made = stranger.client.post("/networking/v2.0/networks", {"network": {"name": "n"}}).json()["network"]["id"]
    cidr = guest[1].rpartition(".")[0] + ".0/24"
    subnet = {"network_id": made, "ip_version": 4, "cidr": cidr}
    assert stranger.client.post("/networking/v2.0/subnets", {"subnet": subnet}).status == 201
    assert ask("/openstack/latest/meta_data.json", guest[1], made).status == 404
    wish = {"name": "vm", "flavorRef": "1", "imageRef": demo.image, "networks": [{"uuid": made, "fixed_ip": guest[1]}]}
    server_id = stranger.post("/servers", {"server": wish}).json()["server"]["id"]
    stranger.cloud.settle()
    found = json.loads(ask("/openstack/latest/meta_data.json", guest[1], made).body)
    assert found["uuid"] == server_id != guest[0]
    assert json.loads(ask("/openstack/latest/meta_data.json", guest[1], demo.network).body)["uuid"] == guest[0]


def test_a_port_that_only_claims_to_be_a_servers_is_told_nothing(
    demo: Asking, stranger: Asking, guest: tuple[str, str], ask: Ask
) -> None:
    """The owner of a port writes what he likes into its device_id."""
    made = stranger.client.post("/networking/v2.0/networks", {"network": {"name": "n"}}).json()["network"]["id"]
    subnet = {"network_id": made, "ip_version": 4, "cidr": "10.77.0.0/24"}
    stranger.client.post("/networking/v2.0/subnets", {"subnet": subnet})
    port = {"network_id": made, "device_id": guest[0]}
    found = stranger.client.post("/networking/v2.0/ports", {"port": port})
    assert found.status == 201, found
    address = found.json()["port"]["fixed_ips"][0]["ip_address"]
    assert ask("/openstack/latest/meta_data.json", address, made).status == 404


def test_a_deleted_server_has_no_metadata(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    demo.delete(f"/servers/{guest[0]}")
    demo.cloud.settle()
    assert ask("/openstack/latest/meta_data.json", guest[1], demo.network).status == 404


def test_metadata_outlive_the_image(demo: Asking, admin: Asking, guest: tuple[str, str], ask: Ask) -> None:
    assert admin.client.delete(f"/image/v2/images/{demo.image}").status == 204
    assert ask("/latest/meta-data/hostname", guest[1], demo.network).body == b"web"


def test_a_change_of_metadata_is_seen_at_once(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    demo.post(f"/servers/{guest[0]}/metadata", {"metadata": {"new": "value"}})
    found = json.loads(ask("/openstack/latest/meta_data.json", guest[1], demo.network).body)
    assert found["meta"] == {"a": "b", "new": "value"}


def test_the_password_is_not_told_while_it_boots(demo: Asking, ask: Ask) -> None:
    server_id = demo.create(adminPass="very-secret").json()["server"]["id"]
    answer = ask("/openstack/latest/meta_data.json", address_of(demo, server_id), demo.network)
    assert answer.status == 200 and b"very-secret" not in answer.body


# -- the guest's own password


def test_a_guest_tells_its_password_once(demo: Asking, reader: Asking, guest: tuple[str, str], ask: Ask) -> None:
    server_id, address = guest
    path, api = "/openstack/latest/password", f"/servers/{server_id}/os-server-password"
    assert ask(path, address, demo.network).body == b""
    assert demo.get(api).json() == {"password": ""}
    assert ask(path, address, demo.network, "POST", b"x" * 1021).status == 400
    assert ask(path, address, demo.network, "POST", b"\xff").status == 400
    assert ask(path, address, demo.network, "POST", b"a\0b").status == 400
    assert ask(path, address, demo.network, "POST", b"ZW5jcnlwdGVk").status == 200
    assert ask(path, address, demo.network, "POST", b"again").status == 409
    assert ask(path, address, demo.network).body == b"ZW5jcnlwdGVk"
    assert reader.get(api).json() == {"password": "ZW5jcnlwdGVk"}
    assert reader.delete(api).status == 403
    assert demo.delete(api).status == 204
    assert demo.get(api).json() == {"password": ""}


@pytest.mark.parametrize(("method", "path"), [("POST", "/latest/meta-data"), ("PUT", "/openstack/latest/password")])
def test_nothing_else_can_be_written(demo: Asking, guest: tuple[str, str], ask: Ask, method: str, path: str) -> None:
    assert ask(path, guest[1], demo.network, method, b"x").status == 405


def test_head_has_no_body(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    answer = ask("/latest/user-data", guest[1], demo.network, "HEAD")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "3")


def test_a_driver_that_can_serve_them_gets_the_resources(demo: Asking) -> None:
    given: list[Any] = []

    class Network:
        def serve_guest_metadata(self, site_of: Any) -> Any:
            given.append(site_of)
            return succeed(None)

    site_of = guest_metadata.build(demo.cloud.db, demo.cloud.cloud.made(ImageStore).path)
    MetadataService(Network(), site_of).startService()  # type: ignore[arg-type]  # only the one method is called
    assert given == [site_of]


def test_metadata_outlive_a_port_of_the_server(demo: Asking, guest: tuple[str, str], ask: Ask) -> None:
    server_id, address = guest
    port = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}}).json()["port"]["id"]
    demo.post(f"/servers/{server_id}/os-interface", {"interfaceAttachment": {"port_id": port}})
    demo.cloud.settle()
    found = json.loads(ask("/openstack/latest/network_data.json", address, demo.network).body)
    assert len(found["links"]) == 2
    assert demo.client.delete(f"/networking/v2.0/ports/{port}").status == 204
    demo.cloud.settle()
    found = json.loads(ask("/openstack/latest/network_data.json", address, demo.network).body)
    assert len(found["links"]) == 1
