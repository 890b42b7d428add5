"""`POST /servers`: what is taken, what is refused, and with which words. Reference: compute.md, section 5."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from sqlalchemy import text

from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, V21, Asking, refusal
from tests.there import there

NOWHERE = "11111111-1111-4111-8111-111111111111"


def test_a_server_is_answered_with_what_the_specification_says(demo: Asking) -> None:
    made = demo.create()
    assert made.status == 202
    server = made.json()["server"]
    self_link = f"http://cloud.example.com{V21}/servers/{server['id']}"
    assert made.headers["location"] == self_link
    assert server.keys() == {"id", "name", "status", "links", "adminPass", "OS-DCF:diskConfig", "security_groups"}
    assert (server["name"], server["status"], server["OS-DCF:diskConfig"]) == ("vm", "BUILD", "MANUAL")
    assert server["links"][0] == {"rel": "self", "href": self_link}
    assert server["security_groups"] == [{"name": "default"}]
    assert len(server["adminPass"]) == 12


def test_a_server_is_in_build_until_its_guest_runs(demo: Asking) -> None:
    server_id = demo.create().json()["server"]["id"]
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("BUILD", "scheduling")
    assert (found["hostId"], found["addresses"]) == ("", {})
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], found["OS-EXT-STS:power_state"]) == ("ACTIVE", None, 1)
    assert found["hostId"] != ""
    assert found["OS-SRV-USG:launched_at"] is not None


def test_the_guest_gets_what_was_asked_for(demo: Asking, hypervisor: FakeHypervisor) -> None:
    demo.post("/os-keypairs", {"keypair": {"name": "mine", "public_key": KEY}})
    data = base64.b64encode(b"#!/bin/sh\n").decode()
    made = demo.create(
        name="Web Server", key_name="mine", user_data=data, config_drive=True, metadata={"role": "front"}, flavorRef="2"
    )
    server = made.json()["server"]
    demo.cloud.settle()
    spec = there(hypervisor.guests.get(server["id"])).spec
    assert (spec.vcpus, spec.memory_mib, spec.disk_gib) == (1, 2048, 20)
    assert (spec.keypair_name, spec.public_key, spec.user_data) == ("mine", KEY, data)
    assert (spec.config_drive, spec.metadata, spec.hostname) == (True, {"role": "front"}, "web-server")
    assert spec.admin_password == server["adminPass"]
    assert there(spec.image).id == demo.image
    (port,) = spec.ports
    assert port.network_id == demo.network
    assert port.binding is not None
    shown = demo.server(server["id"])
    assert shown["addresses"]["private"][0]["addr"] == port.fixed_ips[0].ip_address
    assert shown["addresses"]["private"][0]["OS-EXT-IPS-MAC:mac_addr"] == port.mac


def test_the_admin_password_is_forgotten_once_the_guest_has_it(demo: Asking, cloud: MemoryCloud) -> None:
    demo.boot(adminPass="a secret")
    stored = cloud.db.transact(True, lambda conn: conn.execute(text("SELECT * FROM servers")))
    assert all("a secret" not in map(str, row) for row in stored)
    logged = cloud.db.transact(True, lambda conn: conn.execute(text("SELECT * FROM tasks")))
    assert all("a secret" not in str(value) for row in logged for value in row)


def test_urls_are_taken_for_ids(demo: Asking) -> None:
    server_id = demo.boot(
        imageRef=f"http://cloud.example.com/compute/images/{demo.image}",
        flavorRef="http://cloud.example.com/compute/v2.1/flavors/2",
    )
    found = demo.server(server_id)
    assert (found["image"]["id"], found["flavor"]["original_name"]) == (demo.image, "m1.small")


def test_an_integer_is_a_flavor(demo: Asking) -> None:
    assert demo.server(demo.boot(flavorRef=3))["flavor"]["original_name"] == "m1.medium"


def test_many_servers_have_numbered_names_and_one_reservation(demo: Asking, admin: Asking) -> None:
    made = demo.create(min_count=2, max_count=3, return_reservation_id=True)
    assert made.status == 202
    reservation = made.json()["reservation_id"]
    demo.cloud.settle()
    servers = admin.get("/servers/detail?all_tenants=1&sort_key=display_name&sort_dir=asc", LATEST).json()["servers"]
    assert [server["name"] for server in servers] == ["vm-1", "vm-2", "vm-3"]
    assert [server["OS-EXT-SRV-ATTR:launch_index"] for server in servers] == [0, 1, 2]
    assert {server["OS-EXT-SRV-ATTR:reservation_id"] for server in servers} == {reservation}
    assert {server["status"] for server in servers} == {"ACTIVE"}


def test_numbered_names_are_no_longer_than_names_may_be(demo: Asking) -> None:
    assert demo.create(name=255 * "n", max_count=2).status == 202
    assert sorted(demo.names()) == [253 * "n" + "-1", 253 * "n" + "-2"]


def test_the_number_is_lowered_to_what_the_quota_allows_but_not_below_the_least(demo: Asking) -> None:
    assert demo.create(min_count=2, max_count=50).status == 202
    assert len(demo.names()) == 10
    assert refusal(demo.create()) == (
        413,
        "entityTooLarge",
        "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances",
    )


def test_a_number_that_no_request_creates_is_first_of_all_one_for_the_quota(demo: Asking, admin: Asking) -> None:
    """More than 1000 was a bad request, although the quota allows ten and would have lowered it to them."""
    assert refusal(demo.create(min_count=1001))[:2] == (413, "entityTooLarge")
    assert demo.create(max_count=5000).status == 202
    assert len(demo.names()) == 10
    project = demo.server(demo.get("/servers").json()["servers"][0]["id"])["tenant_id"]
    without = {"instances": -1, "cores": -1, "ram": -1}
    assert admin.put(f"/os-quota-sets/{project}", {"quota_set": without}).status == 200
    assert refusal(demo.create(min_count=1001))[:2] == (400, "badRequest")
    assert len(demo.names()) == 10


def test_a_quota_refusal_names_all_that_is_exceeded_and_writes_nothing(demo: Asking) -> None:
    status, key, message = refusal(demo.create(flavorRef="5", min_count=4))
    assert (status, key) == (413, "entityTooLarge")
    assert message == (
        "Quota exceeded for cores, ram: Requested 32, 65536, but already used 0, 0 of 20, 51200 cores, ram"
    )
    assert demo.names() == []
    assert demo.ports == []


def test_no_retry_after_is_sent_with_a_quota_refusal(demo: Asking) -> None:
    assert demo.create(min_count=11).headers["retry-after"] is None


@pytest.mark.parametrize("version", [None, "2.36", "2.37", LATEST])
def test_networks_are_required(demo: Asking, version: str | None) -> None:
    status, key, message = refusal(demo.create(version, networks=None))
    assert (status, key) == (400, "badRequest")
    assert "'networks' is a required property" in message


def test_networks_may_be_left_out_before_2_37_where_the_operator_says_so() -> None:
    cloud = MemoryCloud({"compute": {"require_networks": False}})
    demo = Asking(cloud.client("demo"))
    server_id = demo.boot(networks=None)
    assert list(demo.server(server_id)["addresses"]) == ["private"]
    assert demo.create("2.37", networks=None).status == 400
    cloud.close()


def test_auto_and_none_are_taken_from_2_37_on(demo: Asking) -> None:
    assert demo.create("2.36", networks="auto").status == 400
    assert list(demo.server(demo.boot("2.37", networks="auto"))["addresses"]) == ["private"]
    assert demo.server(demo.boot("2.37", networks="none"))["addresses"] == {}


def test_auto_makes_a_network_for_a_project_without_one(admin: Asking, stranger: Asking) -> None:
    def create(**more: Any) -> Any:
        body = {"name": "vm", "flavorRef": "1", "imageRef": stranger.image, "networks": "auto", **more}
        return stranger.post("/servers", {"server": body}, "2.37")

    neutron, networks, pools = admin.client, "/networking/v2.0/networks", "/networking/v2.0/subnetpools"
    (pool,) = neutron.get(f"{pools}?is_default=true").json()["subnetpools"]
    assert neutron.put(f"{pools}/{pool['id']}", {"subnetpool": {"is_default": False}}).status == 200
    status, _, message = refusal(create())
    assert (status, "No default subnetpools defined." in message) == (400, True)
    assert neutron.put(f"{pools}/{pool['id']}", {"subnetpool": {"is_default": True}}).status == 200
    outside = neutron.get(f"{networks}?name=public").json()["networks"][0]["id"]
    neutron.put(f"{networks}/{outside}", {"network": {"is_default": True}})
    # Servers that cannot be make no network.
    assert create(min_count=2, max_count=1).status == 400
    assert stranger.client.get(f"{networks}?name=auto_allocated_network").json()["networks"] == []
    for wishes in ({"min_count": 2}, {}):
        assert create(**wishes).status == 202
    stranger.cloud.settle()
    assert len(stranger.client.get(f"{networks}?name=auto_allocated_network").json()["networks"]) == 1
    found = stranger.get("/servers/detail").json()["servers"]
    assert [list(each["addresses"]) for each in found] == [["auto_allocated_network"]] * 3


def test_auto_is_ambiguous_with_two_networks(demo: Asking) -> None:
    second = demo.client.post("/networking/v2.0/networks", {"network": {"name": "second"}}).json()["network"]["id"]
    subnet = {"network_id": second, "cidr": "10.9.0.0/24", "ip_version": 4}
    demo.client.post("/networking/v2.0/subnets", {"subnet": subnet})
    status, key, message = refusal(demo.create("2.37", networks="auto"))
    assert (status, key) == (409, "conflictingRequest")
    assert "More than one possible network found" in message


def test_a_port_that_was_made_before_is_used_and_kept(demo: Asking) -> None:
    port = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}}).json()["port"]
    server_id = demo.boot(networks=[{"port": port["id"]}])
    shown = demo.client.get(f"/networking/v2.0/ports/{port['id']}").json()["port"]
    assert (shown["device_id"], shown["device_owner"]) == (server_id, "compute:nova")
    assert refusal(demo.create(networks=[{"port": port["id"]}])) == (
        409,
        "conflictingRequest",
        f"Port {port['id']} is still in use.",
    )
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    shown = demo.client.get(f"/networking/v2.0/ports/{port['id']}").json()["port"]
    assert (shown["device_id"], shown["device_owner"], shown["status"]) == ("", "", "DOWN")


def test_a_fixed_address_is_given_or_refused(demo: Asking) -> None:
    wanted = [{"uuid": demo.network, "fixed_ip": "10.0.0.77"}]
    server_id = demo.boot(networks=wanted)
    assert demo.server(server_id)["addresses"]["private"][0]["addr"] == "10.0.0.77"
    status, _, message = refusal(demo.create(networks=wanted))
    assert (status, message) == (400, "Fixed IP address 10.0.0.77 is already in use.")


def test_made_ports_are_deleted_with_the_server(demo: Asking) -> None:
    server_id = demo.boot(networks=[{"uuid": demo.network}, {"uuid": demo.network}])
    assert len(demo.server(server_id)["addresses"]["private"]) == 2
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.ports == []


def test_security_groups_are_those_of_the_ports(demo: Asking) -> None:
    group = demo.client.post("/networking/v2.0/security-groups", {"security_group": {"name": "web"}}).json()
    server_id = demo.boot(security_groups=[{"name": "web"}])
    assert demo.server(server_id)["security_groups"] == [{"name": "web"}]
    (port,) = demo.client.get(f"/networking/v2.0/ports?device_id={server_id}").json()["ports"]
    assert port["security_groups"] == [group["security_group"]["id"]]


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"flavorRef": "no-such"}, 400, "Flavor no-such could not be found."),
    ({"imageRef": NOWHERE}, 400, "Can not find requested image"),
    ({"imageRef": None}, 400, "Missing imageRef attribute"),
    ({"imageRef": ""}, 400, "Missing imageRef attribute"),
    ({"key_name": "nobody's"}, 400, "Invalid key_name provided."),
    ({"networks": [{"uuid": NOWHERE}]}, 400, f"Network {NOWHERE} could not be found."),
    ({"networks": [{"port": NOWHERE}]}, 400, f"Port {NOWHERE} could not be found."),
    ({"networks": [{"port": NOWHERE}, {"port": NOWHERE}]}, 400, "Duplicate ports are not allowed."),
    ({"networks": [{}]}, 400, "Bad networks format"),
    ({"security_groups": [{"name": "no-such"}]}, 400, "no-such"),
    ({"availability_zone": "mars"}, 400, "The requested availability zone is not available"),
    ({"min_count": 3, "max_count": 2}, 400, "min_count must be <= max_count"),
    ({"min_count": 0}, 400, "less than the minimum of 1"),
    ({"user_data": "not base64!"}, 400, "not base64"),
    ({"user_data": "A" * 65536}, 400, "too long"),
    ({"name": ""}, 400, "too short"),
    ({"name": " vm"}, 400, "whitespace"),
    ({"name": "x" * 256}, 400, "too long"),
    ({"name": "a\tb"}, 400, "non-printable"),
    ({"name": "a\u2028b"}, 400, "non-printable"),
    ({"metadata": {"k": "v" * 256}}, 400, "too long"),
    ({"metadata": {"": "v"}}, 400, "letters"),
    ({"metadata": {"k": 1}}, 400, "not of type 'string'"),
    ({"accessIPv4": "fe80::1"}, 400, "ipv4"),
    ({"OS-DCF:diskConfig": "auto"}, 400, "AUTO"),
    ({"unknown": 1}, 400, "Additional properties are not allowed ('unknown' was unexpected)"),
    ({"personalities": []}, 400, "Additional properties are not allowed ('personalities' was unexpected)"),
    ({"availability_zone": "nova:fake-1"}, 403, "forced_host"),
]


@pytest.mark.parametrize(
    ("wishes", "status", "said"), REFUSED, ids=[str(sorted(case[0])) + case[2] for case in REFUSED]
)
def test_a_wrong_wish_is_refused_and_nothing_is_written(
    demo: Asking, wishes: dict[str, Any], status: int, said: str
) -> None:
    found, key, message = refusal(demo.create(**wishes))
    assert (found, key) == (status, "badRequest" if status == 400 else "forbidden")
    assert said in message
    assert demo.names() == []
    assert demo.ports == []


@pytest.mark.parametrize("space", ["\u3000", "\u00a0", "\u2009"])
def test_a_name_has_any_space_between_its_words(demo: Asking, space: str) -> None:
    name = f"\u30b5\u30fc\u30d0\u30fc{space}\uff11"
    assert demo.server(demo.boot(name=name))["name"] == name


def test_too_many_metadata_items_are_over_quota(demo: Asking) -> None:
    items = {f"key{number}": "" for number in range(129)}
    assert refusal(demo.create(metadata=items)) == (
        413,
        "entityTooLarge",
        "Maximum number of metadata items exceeds 128",
    )


GATED: list[tuple[str, Any, str, str]] = [
    ("description", "x", "2.18", "2.19"),
    ("tags", ["one"], "2.51", "2.52"),
    ("trusted_image_certificates", ["a"], "2.62", "2.63"),
    ("hostname", "host-1", "2.89", "2.90"),
]


@pytest.mark.parametrize(("field", "value", "before", "since"), GATED)
def test_a_field_is_unknown_before_its_microversion(
    demo: Asking, field: str, value: Any, before: str, since: str
) -> None:
    status, _, message = refusal(demo.create(before, **{field: value}))
    assert (status, f"'{field}' was unexpected" in message) == (400, True)
    assert demo.create(since, **{field: value}).status == 202


@pytest.mark.parametrize(
    ("version", "status"), [("2.31", 400), ("2.32", 202), ("2.36", 202), ("2.37", 400), ("2.41", 400), ("2.42", 202)]
)
def test_the_tag_of_a_network_comes_goes_and_comes_back(demo: Asking, version: str, status: int) -> None:
    assert demo.create(version, networks=[{"uuid": demo.network, "tag": "nic"}]).status == status


def test_the_description_is_the_name_before_2_19(demo: Asking) -> None:
    assert demo.server(demo.boot("2.18"))["description"] == "vm"
    assert demo.server(demo.boot("2.19"))["description"] is None
    assert demo.server(demo.boot("2.19", description="mine"))["description"] == "mine"


def test_host_names_are_labels_until_they_may_be_domain_names(demo: Asking) -> None:
    assert demo.create("2.90", hostname="a.example.com").status == 400
    server_id = demo.boot("2.94", hostname="a.example.com")
    assert demo.server(server_id)["OS-EXT-SRV-ATTR:hostname"] == "a.example.com"
    assert demo.create("2.94", hostname="-bad").status == 400


def test_an_administrator_can_name_the_host(admin: Asking) -> None:
    forced = admin.boot(
        availability_zone="nova:fake-2", networks=[{"uuid": Asking(admin.cloud.client("demo")).network}]
    )
    assert admin.server(forced)["OS-EXT-SRV-ATTR:host"] == "fake-2"
    asked = admin.boot("2.74", host="fake-3", networks=[{"uuid": Asking(admin.cloud.client("demo")).network}])
    assert admin.server(asked)["OS-EXT-SRV-ATTR:host"] == "fake-3"


def test_an_unknown_host_is_refused(admin: Asking) -> None:
    status, _, message = refusal(admin.create("2.74", host="fake-9", networks="none"))
    assert (status, message) == (400, "Compute host fake-9 could not be found.")


def test_a_reader_creates_nothing(reader: Asking) -> None:
    assert refusal(reader.create()) == (
        403,
        "forbidden",
        "Policy doesn't allow compute:servers:create to be performed.",
    )


def test_a_disk_too_small_for_the_image_is_refused(demo: Asking) -> None:
    client = demo.client
    image = {"name": "large", "disk_format": "raw", "container_format": "bare", "min_disk": 15, "min_ram": 1024}
    image_id = client.post("/image/v2/images", image).json()["id"]
    status, _, message = refusal(demo.create(imageRef=image_id))
    assert (status, message) == (400, f"Image {image_id} is not active.")
    headers = {"Content-Type": "application/octet-stream"}
    assert client.put(f"/image/v2/images/{image_id}/file", body=bytes(1024), headers=headers).status == 204
    demo.cloud.settle()
    assert refusal(demo.create(imageRef=image_id))[2] == "Flavor's memory is too small for requested image."
    flavor = {"name": "wide", "ram": 2048, "vcpus": 1, "disk": 10, "id": "wide"}
    assert Asking(demo.cloud.client("admin")).post("/flavors", {"flavor": flavor}).status == 200
    status, _, message = refusal(demo.create(imageRef=image_id, flavorRef="wide"))
    assert (status, message) == (400, "Flavor's disk is too small for requested image.")


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMWMt1Xa2WgXBQEQqbqWPV0A2pW0k2XW3mXQkPLo4Gq9 me@home"
