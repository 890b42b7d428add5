"""Diagnostics, crash dumps, and the addresses of servers by the compute API's own actions."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from tests.compute.asking import LATEST, Asking, refusal

FLOATING = "/networking/v2.0/floatingips"


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


# -- diagnostics


def test_diagnostics_are_one_form_from_2_48_on(demo: Asking, admin: Asking, server_id: str) -> None:
    shown = admin.get(f"/servers/{server_id}/diagnostics", "2.48").json()
    assert (shown["state"], shown["num_cpus"], shown["num_nics"], shown["num_disks"]) == ("running", 1, 1, 1)
    assert shown["memory_details"] == {"maximum": 512, "used": 64}
    (nic,) = shown["nic_details"]
    assert nic.keys() == {
        "mac_address", "rx_octets", "rx_packets", "rx_errors", "rx_drop", "rx_rate",
        "tx_octets", "tx_packets", "tx_errors", "tx_drop", "tx_rate",
    }  # fmt: skip
    demo.act(server_id, {"pause": None})
    demo.cloud.settle()
    assert admin.get(f"/servers/{server_id}/diagnostics", LATEST).json()["state"] == "paused"


def test_diagnostics_were_a_list_of_numbers(admin: Asking, server_id: str) -> None:
    shown = admin.get(f"/servers/{server_id}/diagnostics").json()
    assert shown["memory"] == 512 << 10 and {"cpu0_time", "vda_read", "eth0_rx"} <= shown.keys()


def test_diagnostics_are_for_administrators(demo: Asking, admin: Asking, server_id: str) -> None:
    assert demo.get(f"/servers/{server_id}/diagnostics").status == 403
    building = demo.create().json()["server"]["id"]
    assert refusal(admin.get(f"/servers/{building}/diagnostics"))[0] == 409


def test_a_host_that_does_not_answer_tells_nothing(admin: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("diagnostics", error=DriverError("it is broken"))
    assert admin.get(f"/servers/{server_id}/diagnostics").status == 409
    hypervisor.fail_host(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])
    assert admin.get(f"/servers/{server_id}/diagnostics").status == 503


# -- crash dumps


def test_a_guest_is_made_to_save_its_memory(demo: Asking, server_id: str) -> None:
    assert demo.act(server_id, {"trigger_crash_dump": None}, "2.16").status == 404
    assert demo.act(server_id, {"trigger_crash_dump": None}, "2.17").status == 202
    demo.cloud.settle()
    assert "saving vmcore" in demo.act(server_id, {"os-getConsoleOutput": {}}).json()["output"]
    actions = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert (actions[0]["action"], demo.status(server_id)) == ("trigger_crash_dump", "ACTIVE")


def test_what_is_off_saves_nothing(demo: Asking, server_id: str) -> None:
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    said = f"Cannot 'trigger_crash_dump' instance {server_id} while it is in vm_state stopped"
    assert refusal(demo.act(server_id, {"trigger_crash_dump": None}, LATEST)) == (409, "conflictingRequest", said)


# -- fixed addresses


def fixed(demo: Asking, server_id: str) -> list[str]:
    shown = demo.server(server_id)["addresses"]
    return [each["addr"] for network in shown.values() for each in network if each["OS-EXT-IPS:type"] == "fixed"]


def test_an_address_comes_and_goes(demo: Asking, server_id: str) -> None:
    before = fixed(demo, server_id)
    assert demo.act(server_id, {"addFixedIp": {"networkId": demo.network}}).status == 202
    after = fixed(demo, server_id)
    assert len(after) == len(before) + 1 and set(before) < set(after)
    (new,) = set(after) - set(before)
    assert demo.act(server_id, {"removeFixedIp": {"address": new}}).status == 202
    assert fixed(demo, server_id) == before


def test_wrong_addresses_are_refused(demo: Asking, server_id: str) -> None:
    unknown = "6f1d2c3b-0000-4000-8000-000000000000"
    assert demo.act(server_id, {"addFixedIp": {"networkId": unknown}}).status == 404
    assert refusal(demo.act(server_id, {"removeFixedIp": {"address": "203.0.113.99"}}))[0] == 400
    assert refusal(demo.act(server_id, {"removeFixedIp": {"address": "x"}}))[0] == 400
    for action in ({"addFixedIp": {"networkId": demo.network}}, {"addFloatingIp": {"address": "203.0.113.99"}}):
        assert demo.act(server_id, action, "2.44").status == 404


# -- floating addresses


@pytest.fixture
def floating(demo: Asking) -> dict[str, Any]:
    external = demo.client.get("/networking/v2.0/networks?router:external=true").json()["networks"][0]["id"]
    made = demo.client.post(FLOATING, {"floatingip": {"floating_network_id": external}})
    found: dict[str, Any] = made.json()["floatingip"]
    return found


def leads_to(demo: Asking, floating: dict[str, Any]) -> str | None:
    found: str | None = demo.client.get(f"{FLOATING}/{floating['id']}").json()["floatingip"]["fixed_ip_address"]
    return found


def test_a_floating_address_leads_to_a_server(demo: Asking, server_id: str, floating: dict[str, Any]) -> None:
    address = floating["floating_ip_address"]
    assert demo.act(server_id, {"addFloatingIp": {"address": address}}).status == 202
    assert leads_to(demo, floating) == fixed(demo, server_id)[0]
    shown = demo.server(server_id)["addresses"]
    assert address in {each["addr"] for network in shown.values() for each in network}
    other = demo.boot(name="other")
    body = {"address": address, "fixed_address": fixed(demo, other)[0]}
    assert demo.act(other, {"addFloatingIp": body}).status == 202
    said = f"Floating IP {address} is not associated with instance {server_id}."
    assert refusal(demo.act(server_id, {"removeFloatingIp": {"address": address}})) == (
        409,
        "conflictingRequest",
        said,
    )
    assert demo.act(other, {"removeFloatingIp": {"address": address}}).status == 202
    assert leads_to(demo, floating) is None


def test_wrong_floating_addresses_are_refused(
    demo: Asking, stranger: Asking, server_id: str, floating: dict[str, Any]
) -> None:
    address = floating["floating_ip_address"]
    for action in ("addFloatingIp", "removeFloatingIp"):
        assert refusal(demo.act(server_id, {action: {"address": "203.0.113.250"}}))[0] == 404
    body = {"address": address, "fixed_address": "10.9.9.9"}
    assert refusal(demo.act(server_id, {"addFloatingIp": body}))[0] == 400
    lonely = demo.boot(LATEST, networks="none")
    said = "No fixed IPs associated to instance"
    assert refusal(demo.act(lonely, {"addFloatingIp": {"address": address}})) == (400, "badRequest", said)
    assert stranger.act(server_id, {"addFloatingIp": {"address": address}}).status == 404


# -- what needs nothing to be done


def test_network_information_needs_no_injection(demo: Asking, admin: Asking, server_id: str) -> None:
    assert admin.act(server_id, {"injectNetworkInfo": None}).status == 202
    assert demo.act(server_id, {"injectNetworkInfo": None}).status == 403
    assert admin.act(server_id, {"resetNetwork": None}).status == 410
