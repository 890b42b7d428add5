"""The files of config drives. Reference: compute.md, section 18."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers import guest_data
from cloudctl.drivers.specs import (
    FixedIp,
    GuestSpec,
    ImageSource,
    NetworkSpec,
    PortSpec,
    Route,
    SubnetSpec,
    VolumeConnection,
)

KEY = "ssh-ed25519 AAAA user"
PORT = PortSpec("a1b2c3d4-0000-4000-8000-112233445566", "net", "fa:16:3e:00:00:01", (FixedIp("sub", "10.0.0.14"),))
SUBNET = SubnetSpec("sub", "10.0.0.0/24", gateway_ip="10.0.0.1")
SPEC = GuestSpec(
    id="11111111-0000-4000-8000-000000000000",
    name="a name",
    host="h",
    vcpus=1,
    memory_mib=512,
    disk_gib=1,
    image=ImageSource("feedbeef-0000-4000-8000-000000000000", None),
    ports=(PORT,),
    hostname="web-1",
    user_data=base64.b64encode(b"\x00#!/bin/sh\n").decode(),
    metadata={"rôle": "web"},
    keypair_name="mine",
    public_key=KEY,
    admin_password="secret",
    project_id="demo",
    number=42,
    launch_index=3,
    reservation_id="r-12345678",
    flavor_name="m1.tiny",
    availability_zone="nova",
    security_groups=("default", "web"),
    networks=(NetworkSpec("net", subnets=(SUBNET,)),),
)


def of(spec: GuestSpec, path: str) -> Any:
    return json.loads(guest_data.files(spec)[path])


def with_subnet(**changes: Any) -> GuestSpec:
    return evolve(SPEC, networks=(NetworkSpec("net", subnets=(evolve(SUBNET, **changes),)),))


def test_the_openstack_tree_says_who_the_guest_is() -> None:
    found = of(SPEC, "openstack/latest/meta_data.json")
    assert len(base64.b64decode(found.pop("random_seed"))) == 512
    assert found == {
        "uuid": SPEC.id,
        "name": "a name",
        "hostname": "web-1",
        "launch_index": 3,
        "availability_zone": "nova",
        "project_id": "demo",
        "devices": [],
        "dedicated_cpus": [],
        "meta": {"rôle": "web"},
        "public_keys": {"mine": KEY},
        "keys": [{"name": "mine", "type": "ssh", "data": KEY}],
        "admin_pass": "secret",
    }


def test_what_is_not_given_is_not_told() -> None:
    bare = evolve(SPEC, user_data=None, metadata={}, public_key=None, keypair_name=None, admin_password=None)
    found = of(bare, "openstack/latest/meta_data.json")
    assert not {"meta", "public_keys", "keys", "admin_pass"} & found.keys()
    assert not [path for path in guest_data.files(bare) if "user" in path]
    assert "public-keys" not in of(bare, "ec2/latest/meta-data.json")


def test_no_two_guests_get_the_same_seed() -> None:
    path = "openstack/latest/meta_data.json"
    assert of(SPEC, path)["random_seed"] != of(SPEC, path)["random_seed"]


def test_user_data_are_the_bytes_that_were_given() -> None:
    files = guest_data.files(SPEC)
    assert files["openstack/latest/user_data"] == files["ec2/latest/user-data"] == b"\x00#!/bin/sh\n"


def test_no_vendor_is_in_the_tree() -> None:
    files = guest_data.files(SPEC)
    assert files["openstack/latest/vendor_data.json"] == files["openstack/latest/vendor_data2.json"] == b"{}"


@pytest.mark.parametrize(
    ("version", "names", "missing"),
    [
        ("2012-08-10", {"meta_data.json", "user_data"}, {"random_seed", "project_id", "devices", "dedicated_cpus"}),
        ("2013-10-17", {"meta_data.json", "user_data", "vendor_data.json"}, {"project_id", "devices"}),
        ("2015-10-15", {"meta_data.json", "user_data", "vendor_data.json", "network_data.json"}, {"devices"}),
    ],
)
def test_an_old_version_holds_what_it_had(version: str, names: set[str], missing: set[str]) -> None:
    files = guest_data.files(SPEC)
    assert {path.rpartition("/")[2] for path in files if path.startswith(f"openstack/{version}/")} == names
    assert not missing & json.loads(files[f"openstack/{version}/meta_data.json"]).keys()


def test_every_dated_version_is_there() -> None:
    versions = {path.split("/")[1] for path in guest_data.files(SPEC) if path.startswith("openstack/")}
    assert versions == {*guest_data.OPENSTACK_VERSIONS, "latest"}


def test_devices_with_tags_can_be_found() -> None:
    volume = VolumeConnection("vol", {}, device="/dev/vdb", tag="data")
    spec = evolve(SPEC, ports=(evolve(PORT, tag="front"),), volumes=(volume, evolve(volume, volume_id="x", tag=None)))
    assert of(spec, "openstack/latest/meta_data.json")["devices"] == [
        {"type": "nic", "mac": PORT.mac, "tags": ["front"]},
        {"type": "disk", "serial": "vol", "path": "/dev/vdb", "tags": ["data"]},
    ]


# -- network_data.json


def test_an_address_by_dhcp_is_left_to_dhcp() -> None:
    assert of(SPEC, "openstack/latest/network_data.json") == {
        "links": [
            {
                "id": "tapa1b2c3d4-00",
                "vif_id": PORT.id,
                "type": "phy",
                "mtu": None,
                "ethernet_mac_address": PORT.mac,
            }
        ],
        "networks": [{"id": "network0", "link": "tapa1b2c3d4-00", "network_id": "net", "type": "ipv4_dhcp"}],
        "services": [],
    }


def test_an_address_without_dhcp_is_told_with_its_routes_and_servers() -> None:
    spec = with_subnet(
        enable_dhcp=False, dns_nameservers=("192.0.2.53",), host_routes=(Route("10.9.0.0/16", "10.0.0.9"),)
    )
    spec = evolve(spec, ports=(evolve(PORT, mtu=1450, binding={"vif_type": "tap", "vif_details": {}}),))
    found = of(spec, "openstack/latest/network_data.json")
    assert (found["links"][0]["mtu"], found["links"][0]["type"]) == (1450, "tap")
    dns = [{"type": "dns", "address": "192.0.2.53"}]
    assert found["networks"] == [
        {
            "id": "network0",
            "link": "tapa1b2c3d4-00",
            "network_id": "net",
            "type": "ipv4",
            "ip_address": "10.0.0.14",
            "netmask": "255.255.255.0",
            "routes": [
                {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1"},
                {"network": "10.9.0.0", "netmask": "255.255.0.0", "gateway": "10.0.0.9"},
            ],
            "services": dns,
        }
    ]
    assert found["services"] == dns


@pytest.mark.parametrize(
    ("mode", "dhcp", "said"),
    [
        ("slaac", True, "ipv6_slaac"),
        ("dhcpv6-stateless", True, "ipv6_dhcpv6-stateless"),
        ("dhcpv6-stateful", True, "ipv6_dhcpv6-stateful"),
        (None, False, "ipv6"),
    ],
)
def test_ipv6_says_how_the_address_is_got(mode: str | None, dhcp: bool, said: str) -> None:
    spec = with_subnet(cidr="fd00::/64", gateway_ip="fd00::1", enable_dhcp=dhcp, ipv6_address_mode=mode)
    spec = evolve(spec, ports=(evolve(PORT, fixed_ips=(FixedIp("sub", "fd00::5"),)),))
    (found,) = of(spec, "openstack/latest/network_data.json")["networks"]
    assert found["type"] == said
    if said == "ipv6":
        assert found["netmask"] == "ffff:ffff:ffff:ffff::"
        assert found["routes"] == [{"network": "::", "netmask": "::", "gateway": "fd00::1"}]


# -- EC2


def test_the_ec2_tree_says_who_the_guest_is() -> None:
    found = of(SPEC, "ec2/latest/meta-data.json")
    assert found == of(SPEC, "ec2/2009-04-04/meta-data.json")
    assert found["instance-id"] == "i-0000002a" and found["ami-id"] == "ami-feedbeef"
    assert (found["local-ipv4"], found["local-hostname"]) == ("10.0.0.14", "web-1")
    assert found["placement"] == {"availability-zone": "nova"}
    assert found["public-keys"]["0"] == {"_name": "0=mine", "openssh-key": KEY}
    assert found["security-groups"] == ["default", "web"] and found["ami-launch-index"] == "3"
    assert found["block-device-mapping"] == {"ami": "vda", "root": "/dev/vda"}


def test_local_ipv4_is_no_ipv6_address() -> None:
    both = evolve(PORT, fixed_ips=(FixedIp("six", "fd00::5"), FixedIp("sub", "10.0.0.7")))
    assert guest_data.local_ipv4(evolve(SPEC, ports=(both,))) == "10.0.0.7"
    assert guest_data.local_ipv4(evolve(SPEC, ports=())) == ""
