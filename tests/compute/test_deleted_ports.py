"""Servers whose ports their owner deletes or gives away in the networking API: what brings them elsewhere goes on."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking
from tests.there import there

BODIES: dict[str, Any] = {
    "live": {"os-migrateLive": {"host": None, "block_migration": "auto"}},
    "evacuate": {"evacuate": {}},
    "unshelve": {"unshelve": None},
    "rebuild": {"rebuild": {}},
    "reboot": {"reboot": {"type": "HARD"}},
    "start": {"os-start": None},
}
MOVES = {**BODIES, "migrate": {"migrate": None}}
FIRST: dict[str, Any] = {"unshelve": {"shelve": None}, "start": {"os-stop": None}}
STAYS = ("rebuild", "reboot", "start")


@frozen
class Plugged:
    """A server with two ports, of which its owner may delete one."""

    demo: Asking
    admin: Asking
    id: str
    port_id: str

    def begin(self, what: str) -> None:
        body = MOVES[what]
        if what == "rebuild":
            body = {"rebuild": {"imageRef": self.demo.image}}
        if what in FIRST:
            assert self.demo.act(self.id, FIRST[what]).status == 202
            self.demo.cloud.settle()
        if what == "evacuate":
            self.force_down()
        assert self.admin.act(self.id, body, "2.94").status in (200, 202)  # a later one leaves evacuated servers off

    def begin_slowly(self, what: str, halves: int, hypervisor: FakeHypervisor, backend: Any, method: str) -> None:
        """Begin it and let so many half seconds pass; guests, and this method of a backend, take longer than one."""
        backend.behaviour.delay(method, 0.7)
        for each in ("ensure_defined", "ensure_migrated", "ensure_running"):
            hypervisor.behaviour.delay(each, 0.7)
        self.begin(what)
        for _ in range(halves):
            self.demo.cloud.advance(0.5)

    def force_down(self) -> None:
        host = self.admin.server(self.id)["OS-EXT-SRV-ATTR:host"]
        (found,) = self.admin.get(f"/os-services?host={host}&binary=nova-compute", LATEST).json()["services"]
        assert self.admin.put(f"/os-services/{found['id']}", {"forced_down": True}, LATEST).status == 200

    def lose_the_port(self) -> None:
        assert self.demo.client.delete(f"/networking/v2.0/ports/{self.port_id}").status == 204


@pytest.fixture
def server(cloud: MemoryCloud, demo: Asking, admin: Asking) -> Plugged:
    made = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": demo.network}})
    port_id = made.json()["port"]["id"]
    server_id = demo.boot(networks=[{"uuid": demo.network}, {"port": port_id}])
    return Plugged(demo, admin, server_id, port_id)


@pytest.mark.parametrize("what", BODIES)
def test_a_server_goes_on_without_a_port_that_is_gone(server: Plugged, hypervisor: FakeHypervisor, what: str) -> None:
    server.lose_the_port()
    server.demo.cloud.settle()
    server.begin(what)
    server.demo.cloud.settle()
    shown = server.admin.server(server.id)
    guest = there(hypervisor.guests.get(server.id))
    assert (shown["status"], guest.spec.host) == ("ACTIVE", shown["OS-EXT-SRV-ATTR:host"])
    assert server.port_id not in guest.state.port_ids


@pytest.mark.parametrize("halves", range(1, 11))
@pytest.mark.parametrize("what", BODIES)
def test_a_port_that_is_deleted_on_the_way_stops_no_server(
    server: Plugged, hypervisor: FakeHypervisor, network: FakeNetworkBackend, what: str, halves: int
) -> None:
    server.begin_slowly(what, halves, hypervisor, network, "ensure_port")
    server.lose_the_port()
    server.demo.cloud.settle()
    assert server.demo.status(server.id) == "ACTIVE"
    assert [port.spec.id for port in network.ports.values()] == list(server.demo.ports)


@pytest.mark.parametrize("what", MOVES)
def test_whatever_a_ports_owner_calls_its_device_the_server_keeps_it(
    server: Plugged, hypervisor: FakeHypervisor, what: str
) -> None:
    path = f"/networking/v2.0/ports/{server.port_id}"
    assert server.demo.client.put(path, {"port": {"device_id": "somebody"}}).status == 200
    server.begin(what)
    server.demo.cloud.settle()
    shown = server.admin.server(server.id)
    assert shown["status"] == ("VERIFY_RESIZE" if what == "migrate" else "ACTIVE")
    guest = there(hypervisor.guests.get(server.id))
    assert server.port_id in guest.state.port_ids
    port = server.admin.client.get(path).json()["port"]
    assert port["binding:host_id"] == guest.spec.host == shown["OS-EXT-SRV-ATTR:host"]
    assert port["device_id"] == ("somebody" if what in STAYS else server.id)


@pytest.mark.parametrize("what", ["live", "migrate", "reboot", "start"])
def test_a_port_that_its_owner_gave_to_a_router_stays_there_and_no_move_sticks(server: Plugged, what: str) -> None:
    path, client = f"/networking/v2.0/ports/{server.port_id}", server.demo.client
    assert client.put(path, {"port": {"device_id": "", "device_owner": ""}}).status == 200
    router = client.post("/networking/v2.0/routers", {"router": {}}).json()["router"]["id"]
    join = {"port_id": server.port_id}
    assert client.put(f"/networking/v2.0/routers/{router}/add_router_interface", join).status == 200
    server.begin(what)
    server.demo.cloud.settle()
    shown = server.admin.server(server.id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert client.get(path).json()["port"]["device_id"] == router
