"""Interfaces of servers that are there. Reference: compute.md, section 8.5."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import Busy, DriverError, Unfit, Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from tests.compute.asking import LATEST, Asking, audited, refusal
from tests.there import there

ATTACHMENTS = "interfaceAttachments"
NOWHERE = "11111111-1111-4111-8111-111111111111"


def attach(demo: Asking, server_id: str, version: str | None = None, **wishes: Any) -> Any:
    return demo.post(f"/servers/{server_id}/os-interface", {"interfaceAttachment": wishes}, version)


def test_an_interface_is_made_shown_and_taken_away(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot()
    answer = attach(demo, server_id, net_id=demo.network, fixed_ips=[{"ip_address": "10.0.0.88"}])
    assert answer.status == 200
    made = answer.json()["interfaceAttachment"]
    assert (made["net_id"], made["fixed_ips"][0]["ip_address"]) == (demo.network, "10.0.0.88")
    demo.cloud.settle()
    assert made["port_id"] in there(hypervisor.guests.get(server_id)).state.port_ids
    path = f"/servers/{server_id}/os-interface"
    shown = demo.get(f"{path}/{made['port_id']}", LATEST).json()["interfaceAttachment"]
    assert (shown["port_state"], shown["tag"]) == ("ACTIVE", None)
    assert len(demo.get(path).json()["interfaceAttachments"]) == 2
    assert demo.delete(f"{path}/{made['port_id']}").status == 202
    demo.cloud.settle()
    assert made["port_id"] not in there(hypervisor.guests.get(server_id)).state.port_ids
    assert demo.client.get(f"/networking/v2.0/ports/{made['port_id']}").status == 404
    assert demo.delete(f"{path}/{made['port_id']}").status == 404


def test_ports_that_are_made_for_a_server_have_its_name_in_dns(demo: Asking) -> None:
    server_id = demo.boot(name="Web 1")
    attached = attach(demo, server_id, net_id=demo.network).json()["interfaceAttachment"]["port_id"]
    made = demo.client.get(f"/networking/v2.0/ports?device_id={server_id}&dns_name=web-1").json()["ports"]
    assert len(made) == 2 and attached in {port["id"] for port in made}
    assert {name["fqdn"] for port in made for name in port["dns_assignment"]} == {"web-1.openstacklocal."}


def names_of(demo: Asking, port_id: str) -> tuple[str, str]:
    port = demo.client.get(f"/networking/v2.0/ports/{port_id}").json()["port"]
    return port["dns_name"], port["dns_assignment"][0]["hostname"]


def test_a_given_port_has_the_servers_name_in_dns_while_it_is_its(demo: Asking) -> None:
    ports = [{"port": {"network_id": demo.network}} for _ in range(2)]
    first, second = (demo.client.post("/networking/v2.0/ports", body).json()["port"]["id"] for body in ports)
    server_id = demo.boot(name="Web 1", networks=[{"port": first}])
    attach(demo, server_id, port_id=second)
    demo.cloud.settle()
    assert names_of(demo, first) == names_of(demo, second) == ("web-1", "web-1")
    demo.delete(f"/servers/{server_id}/os-interface/{second}")
    demo.cloud.settle()
    name, host = names_of(demo, second)
    assert name == "" and host.startswith("host-")


def test_a_port_with_another_name_in_dns_is_given_to_nobody(demo: Asking) -> None:
    body = {"port": {"network_id": demo.network, "dns_name": "db"}}
    port_id = demo.client.post("/networking/v2.0/ports", body).json()["port"]["id"]
    assert refusal(attach(demo, demo.boot(name="web"), port_id=port_id))[:2] == (400, "badRequest")
    assert demo.create(name="web", networks=[{"port": port_id}]).status == 400
    assert names_of(demo, port_id) == ("db", "db")
    assert attach(demo, demo.boot(name="DB"), port_id=port_id).status == 200


@pytest.mark.parametrize("body", [None, {}, {"interfaceAttachment": {}}, {"interfaceAttachment": {"tag": "nic"}}])
def test_without_a_wish_it_is_the_only_network(demo: Asking, body: dict[str, Any] | None) -> None:
    server_id = demo.boot("2.37", networks="none")
    made = demo.post(f"/servers/{server_id}/os-interface", body, LATEST).json()["interfaceAttachment"]
    tag = (body or {}).get("interfaceAttachment", {}).get("tag")
    assert (made["net_id"], made["tag"]) == (demo.network, tag)


def test_a_given_port_is_kept(demo: Asking) -> None:
    server_id = demo.boot()
    port_id = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}}).json()["port"]["id"]
    assert attach(demo, server_id, port_id=port_id).status == 200
    demo.cloud.settle()
    assert refusal(attach(demo, server_id, port_id=port_id)) == (
        409,
        "conflictingRequest",
        f"Port {port_id} is still in use.",
    )
    demo.delete(f"/servers/{server_id}/os-interface/{port_id}")
    demo.cloud.settle()
    port = demo.client.get(f"/networking/v2.0/ports/{port_id}").json()["port"]
    assert (port["device_id"], port["status"]) == ("", "DOWN")


def test_a_port_of_a_server_is_in_use_whatever_its_owner_writes_into_it(demo: Asking) -> None:
    server_id, other_id = demo.boot(), demo.boot(name="other")
    port_id = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}}).json()["port"]["id"]
    assert attach(demo, server_id, port_id=port_id).status == 200
    demo.cloud.settle()
    assert demo.client.put(f"/networking/v2.0/ports/{port_id}", {"port": {"device_id": ""}}).status == 200
    assert refusal(attach(demo, other_id, port_id=port_id))[0] == 409
    demo.cloud.settle()
    assert demo.server(server_id)["status"] == demo.server(other_id)["status"] == "ACTIVE"


@pytest.mark.parametrize(
    ("wishes", "status"),
    [
        ({"port_id": NOWHERE}, 404),
        ({"net_id": NOWHERE}, 400),
        ({"net_id": NOWHERE, "port_id": NOWHERE}, 400),
        ({"fixed_ips": [{"ip_address": "10.0.0.5"}]}, 400),
        ({"net_id": NOWHERE, "fixed_ips": []}, 400),
        ({"net_id": NOWHERE, "tag": "x"}, 400),
    ],
)
def test_a_wrong_attach_is_refused(demo: Asking, wishes: dict[str, Any], status: int) -> None:
    assert attach(demo, demo.boot(), **wishes).status == status


def test_a_failed_attach_leaves_no_port(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot("2.37", networks="none")
    hypervisor.behaviour.fail("ensure_port_attached", error=Unfit("no slot"))
    attach(demo, server_id, net_id=demo.network)
    demo.cloud.settle()
    assert demo.get(f"/servers/{server_id}/os-interface").json() == {"interfaceAttachments": []}
    assert demo.ports == []


def test_a_port_deleted_by_its_owner_is_no_interface(demo: Asking) -> None:
    server_id = demo.boot()
    port_id = demo.get(f"/servers/{server_id}/os-interface").json()["interfaceAttachments"][0]["port_id"]
    demo.client.delete(f"/networking/v2.0/ports/{port_id}")
    demo.cloud.settle()
    assert demo.get(f"/servers/{server_id}/os-interface").json() == {"interfaceAttachments": []}
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.status(server_id) == "gone"


@pytest.fixture
def with_three_ports(demo: Asking) -> tuple[str, list[str]]:
    """A server and the ports that it has."""
    server_id = demo.boot(networks=[{"uuid": demo.network}] * 3)
    return server_id, [each["port_id"] for each in demo.get(f"/servers/{server_id}/os-interface").json()[ATTACHMENTS]]


def delete_ports(demo: Asking, *port_ids: str) -> None:
    for port_id in port_ids:
        assert demo.client.delete(f"/networking/v2.0/ports/{port_id}").status == 204
    demo.cloud.settle()


def test_a_guest_gives_up_ports_that_their_owner_deletes(
    demo: Asking, with_three_ports: tuple[str, list[str]], hypervisor: FakeHypervisor
) -> None:
    server_id, (first, *lost) = with_three_ports
    delete_ports(demo, *lost)
    assert there(hypervisor.guests.get(server_id)).state.port_ids == (first,)
    assert (demo.status(server_id), audited(demo.cloud)) == ("ACTIVE", [])


@pytest.mark.parametrize(("halt", "go_on"), [("suspend", "resume"), ("pause", "unpause")])
def test_a_guest_that_cannot_gives_them_up_later(
    demo: Asking, with_three_ports: tuple[str, list[str]], hypervisor: FakeHypervisor, halt: str, go_on: str
) -> None:
    server_id, (first, *lost) = with_three_ports
    assert demo.act(server_id, {halt: None}).status == 202
    demo.cloud.settle()
    delete_ports(demo, *lost)
    assert audited(demo.cloud) == []
    assert demo.act(server_id, {go_on: None}).status == 202
    demo.cloud.settle()
    assert len(there(hypervisor.guests.get(server_id)).state.port_ids) == 3
    assert audited(demo.cloud) == ["interface-portless"] * 2
    demo.cloud.settle()
    assert there(hypervisor.guests.get(server_id)).state.port_ids == (first,)
    assert audited(demo.cloud) == []


@pytest.mark.parametrize("error", [Busy("the guest has not released it"), Unreachable("the way is cut")])
def test_one_that_does_not_release_them_keeps_its_server_from_nothing(
    demo: Asking, with_three_ports: tuple[str, list[str]], hypervisor: FakeHypervisor, error: DriverError
) -> None:
    server_id, (_, *lost) = with_three_ports
    hypervisor.behaviour.fail("ensure_port_detached", times=None, error=error)
    began = demo.cloud.clock.seconds()
    delete_ports(demo, *lost)
    assert demo.act(server_id, {"os-stop": None}).status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "SHUTOFF" and demo.cloud.clock.seconds() < began + 10


def test_so_does_one_whose_host_was_silent(
    demo: Asking, admin: Asking, with_three_ports: tuple[str, list[str]], hypervisor: FakeHypervisor
) -> None:
    server_id, (first, *lost) = with_three_ports
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    hypervisor.fail_host(host)
    delete_ports(demo, *lost)
    demo.cloud.advance(200)
    assert "interface-portless" not in audited(demo.cloud) and demo.status(server_id) == "ACTIVE"
    hypervisor.recover_host(host)
    demo.cloud.advance(20)
    # All guests of a host that starts are off.
    assert audited(demo.cloud) == ["guest-off"]
    demo.cloud.settle()
    assert audited(demo.cloud) == ["interface-portless"] * 2
    demo.cloud.settle()
    assert there(hypervisor.guests.get(server_id)).state.port_ids == (first,)


def test_a_deleted_port_whose_owner_called_it_anothers_takes_nothing_from_that_one(
    demo: Asking, admin: Asking, with_three_ports: tuple[str, list[str]], hypervisor: FakeHypervisor
) -> None:
    server_id, (first, *lost) = with_three_ports
    other_id = demo.boot()
    before = there(hypervisor.guests.get(other_id)).state
    for port_id, said in zip(lost, (other_id, "x" * 255), strict=True):
        put = demo.client.put(f"/networking/v2.0/ports/{port_id}", {"port": {"device_id": said}})
        assert put.status == 200
    delete_ports(demo, *lost)
    assert there(hypervisor.guests.get(other_id)).state == before
    assert there(hypervisor.guests.get(server_id)).state.port_ids == (first,)
