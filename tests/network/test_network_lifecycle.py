"""What the driver holds is what the database has, whatever happens between the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from twisted.internet.task import Clock

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.errors import HostDown, Unfit, UnknownHost
from cloudctl.drivers.fake import network as fake
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import devices, networks, plugging, port_specs, ports, security_groups, subnets
from cloudctl.network.kinds import PORT_LOST
from cloudctl.network.lifecycle import WORKFLOWS
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.ports import NewPort
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import Port
from cloudctl.rest.formats import zulu
from cloudctl.tasks import Context, Kind, Step, Unasked, Workflow, submit
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.crash import World, crash_everywhere
from tests.network.conftest import Driving, Neutron


async def plug(ctx: Context) -> None:
    await plugging.plug(ctx, ctx.args["port"], ctx.args["host"])


async def unplug(ctx: Context) -> None:
    await plugging.unplug(ctx, ctx.args["port"], ctx.args["host"])


BY = Unasked("p")
PLUG = Workflow(Kind("test.server.plug", "server", 1800.0), (Step("plug", plug),))
UNPLUG = Workflow(Kind("test.server.unplug", "server", 1800.0), (Step("unplug", unplug),))


@pytest.fixture
def port(neutron: Neutron) -> Any:
    """A port of project demo, and two workflows that do what compute does with it."""
    neutron.engine.register((PLUG, UNPLUG))
    return neutron.create("port", network_id=neutron.network()["id"], device_id="")


def run(neutron: Neutron, kind: Kind, port: Any, host: str | None) -> str:
    """Run one of the two; the state in which its task ends."""

    def start(conn: Connection) -> int:
        args = {"port": port["id"], "host": host}
        return submit(conn, kind, "server-1", BY, args=args)

    id = neutron.transact(start)
    neutron.settle()
    return str(neutron.transact(lambda conn: conn.scalar(select(TaskRow.state).where(TaskRow.id == id))))


def bind(neutron: Neutron, port: Any, host: str) -> None:
    neutron.transact(ports.bind, port["id"], "server-1", host, "compute:nova", utc(neutron.clock.seconds()))


def seen(neutron: Neutron, port: Any) -> Any:
    return neutron.get(f"/ports/{port['id']}", "admin")["port"]


class TestServersPorts:
    def test_a_port_is_active_once_it_is_plugged(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h1")
        assert (seen(neutron, port)["status"], seen(neutron, port)["device_id"]) == ("DOWN", "server-1")
        for _ in range(2):
            assert run(neutron, PLUG.kind, port, "h1") == "done"
        found = seen(neutron, port)
        assert (found["status"], found["binding:vif_type"], found["binding:host_id"]) == ("ACTIVE", "fake", "h1")
        networks_held, ports_held, groups_held = neutron.held
        assert networks_held == [port["network_id"]]
        assert ports_held == {port["id"]: ("h1",)}
        assert groups_held == port["security_groups"]
        spec = neutron.transact(port_specs.driver_spec, port["id"])
        assert spec.binding == {"vif_type": "fake", "vif_details": found["binding:vif_details"]}
        assert [each.ip_address for each in spec.fixed_ips] == ["10.0.0.2"]

    def test_what_becomes_of_a_port_raises_its_revision_once(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h1")
        for kind, host in ((PLUG.kind, "h1"), (UNPLUG.kind, None)):
            before = seen(neutron, port)
            neutron.clock.advance(60)
            since = zulu(utc(neutron.clock.seconds()))
            assert run(neutron, kind, port, host) == "done"
            after = seen(neutron, port)
            assert after["status"] != before["status"]
            assert (after["revision_number"], after["updated_at"]) == (before["revision_number"] + 1, since)
            changed = neutron.get(f"/ports?changed_since={since}&fields=id")["ports"]
            assert {"id": port["id"]} in changed
            neutron.clock.advance(60)
            assert run(neutron, kind, port, host) == "done"
            assert seen(neutron, port) == after

    def test_a_port_is_on_two_hosts_while_its_server_moves(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h1")
        run(neutron, PLUG.kind, port, "h1")
        bind(neutron, port, "h2")
        run(neutron, PLUG.kind, port, "h2")
        assert neutron.held[1] == {port["id"]: ("h1", "h2")}
        run(neutron, UNPLUG.kind, port, "h1")
        assert neutron.held[1] == {port["id"]: ("h2",)} and seen(neutron, port)["status"] == "ACTIVE"

    def test_an_unplugged_port_is_down_and_an_unbound_one_is_nobodys(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h1")
        run(neutron, PLUG.kind, port, "h1")
        for _ in range(2):
            assert run(neutron, UNPLUG.kind, port, None) == "done"
        assert (seen(neutron, port)["status"], neutron.held[1]) == ("DOWN", {})
        run(neutron, PLUG.kind, port, "h1")
        for _ in range(2):
            neutron.transact(ports.unbind, port["id"], utc(neutron.clock.seconds()))
        neutron.settle()
        found = seen(neutron, port)
        assert neutron.held[1] == {}
        assert (found["device_id"], found["device_owner"], found["binding:host_id"]) == ("", "", "")
        assert (found["binding:vif_type"], found["status"]) == ("unbound", "DOWN")
        assert found["fixed_ips"] == port["fixed_ips"]

    def test_a_port_is_one_devices(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "")
        bind(neutron, port, "h1")
        with pytest.raises(Conflict) as caught:
            neutron.transact(ports.bind, port["id"], "server-2", "h1", "compute:nova", utc(0))
        assert caught.value.type == "PortInUse"
        with pytest.raises(NotFound):
            neutron.transact(ports.bind, "nothing", "server-2", "h1", "compute:nova", utc(0))

    def test_a_port_that_is_bound_elsewhere_meanwhile_is_not_left_behind(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h2")
        assert run(neutron, PLUG.kind, port, "h1") == "failed"
        assert neutron.held[1] == {}

    def test_a_port_deleted_while_it_is_plugged_leaves_nothing(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h1")
        neutron.driver.behaviour.delay("ensure_port", 5.0)

        def start(conn: Connection) -> None:
            args = {"port": port["id"], "host": "h1"}
            submit(conn, PLUG.kind, "server-1", BY, args=args)

        neutron.settle()
        neutron.transact(start)
        neutron.clock.advance(1)
        neutron.clock.advance(1)
        # The driver is at it; now everything that it needs goes.
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")
        neutron.expect(204, "DELETE", f"/networks/{port['network_id']}")
        neutron.expect(204, "DELETE", f"/security-groups/{port['security_groups'][0]}", user="admin")
        neutron.settle()
        assert neutron.held == ([], {}, [])

    def test_the_addresses_of_devices(self, neutron: Neutron, port: Any) -> None:
        second = neutron.create("port", network_id=neutron.network("10.1.0.0/24", name="back")["id"])
        bind(neutron, port, "h1")
        bind(neutron, second, "h1")
        found = neutron.transact(devices.addresses, [port["id"], second["id"], "another"])
        assert {
            id: [(each.network_name, each.ip, each.version, each.mac, each.port_id) for each in mine]
            for id, mine in found.items()
        } == {
            port["id"]: [("", "10.0.0.2", 4, port["mac_address"], port["id"])],
            second["id"]: [("back", "10.1.0.2", 4, second["mac_address"], second["id"])],
        }
        assert {row.id for row in neutron.transact(ports.of_device, "server-1")} == {port["id"], second["id"]}

    def test_deleting_twice_is_once(self, neutron: Neutron, port: Any) -> None:
        bind(neutron, port, "h1")
        run(neutron, PLUG.kind, port, "h1")
        for _ in range(2):
            neutron.transact(ports.discard, port["id"], utc(neutron.clock.seconds()), BY)
        neutron.settle()
        assert neutron.held[1] == {}
        with pytest.raises(NotFound):
            neutron.transact(port_specs.driver_spec, port["id"])


class TestBindingByAdministrators:
    @pytest.fixture
    def bound(self, neutron: Neutron) -> Any:
        network = neutron.network(user="admin")
        made = neutron.create("port", "admin", network_id=network["id"], binding__host_id="h1")
        neutron.settle()
        return made

    def put(self, neutron: Neutron, port: Any, **fields: Any) -> Any:
        neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": fields}, "admin")
        neutron.settle()
        return seen(neutron, port)

    def test_a_host_binds(self, neutron: Neutron, bound: Any) -> None:
        found = seen(neutron, bound)
        assert (bound["status"], found["status"], found["binding:vif_type"]) == ("DOWN", "ACTIVE", "fake")

    def test_another_host_moves(self, neutron: Neutron, bound: Any) -> None:
        found = self.put(neutron, bound, **{"binding:host_id": "h2"})
        assert (found["status"], found["binding:host_id"]) == ("ACTIVE", "h2")
        assert neutron.held[1] == {bound["id"]: ("h2",)}

    @pytest.mark.parametrize("nothing", [None, ""])
    def test_no_host_unbinds(self, neutron: Neutron, bound: Any, nothing: str | None) -> None:
        found = self.put(neutron, bound, **{"binding:host_id": nothing, "device_id": nothing})
        assert (found["status"], found["binding:vif_type"], neutron.held[1]) == ("DOWN", "unbound", {})

    def test_changes_reach_the_driver(self, neutron: Neutron, bound: Any) -> None:
        found = self.put(neutron, bound, admin_state_up=False, fixed_ips=[{"ip_address": "10.0.0.77"}])
        held = neutron.driver.ports.get(bound["id"])
        assert (found["status"], held.spec.admin_state_up) == ("DOWN", False)
        assert [each.ip_address for each in held.spec.fixed_ips] == ["10.0.0.77"]
        assert self.put(neutron, bound, admin_state_up=True)["status"] == "ACTIVE"

    @pytest.mark.parametrize("error", [HostDown("h1"), UnknownHost("h1")])
    def test_a_host_that_is_not_there_is_a_failed_binding(self, neutron: Neutron, error: Exception) -> None:
        neutron.driver.behaviour.fail("ensure_port", error=error)
        network = neutron.network(user="admin")
        made = neutron.create("port", "admin", network_id=network["id"], binding__host_id="h1")
        neutron.settle()
        found = seen(neutron, made)
        assert (found["status"], found["binding:vif_type"]) == ("DOWN", "binding_failed")


class TestAnUnwillingDriver:
    def test_a_network_that_it_cannot_hold_is_in_error_until_it_can(self, neutron: Neutron) -> None:
        neutron.driver.behaviour.fail("ensure_network", error=Unfit("no such wire"))
        made = neutron.network(None)
        assert made["status"] == "ACTIVE"
        neutron.settle()
        failed = neutron.get(f"/networks/{made['id']}")["network"]
        assert failed["status"] == "ERROR" and failed["revision_number"] == made["revision_number"] + 1
        neutron.expect(200, "PUT", f"/networks/{made['id']}", {"network": {"name": "x"}})
        neutron.settle()
        assert neutron.get(f"/networks/{made['id']}")["network"]["status"] == "ACTIVE"

    def test_it_is_asked_to_forget_until_it_has(self, neutron: Neutron) -> None:
        made = neutron.network(None)
        neutron.settle()
        neutron.driver.behaviour.fail("ensure_network_absent", times=50)
        neutron.expect(204, "DELETE", f"/networks/{made['id']}")
        neutron.settle(7200)
        assert neutron.held[0] == []


def world() -> World:
    """A network, a subnet, a group and a bound port are made, changed and deleted, without waiting in between."""
    clock = Clock()
    clock.rightNow = 1_800_000_000.0
    db = empty_database(clock)
    driver = fake.create(
        fake.Config(delays={"ensure_network": 0.4, "ensure_port": 0.4, "ensure_port_absent": 0.4}),
        DriverResources(clock, "fake"),
    )
    options = NetworkOptions()

    def make(conn: Connection) -> None:
        now = utc(clock.seconds())
        kept, gone = (networks.create(conn, "p", NewNetwork(name=name), now, options, BY) for name in ("kept", "gone"))
        made = []
        for network in (kept, gone):
            subnets.create(conn, network, "p", NewSubnet("10.0.0.0/24", 4), now, BY)
            made.append(ports.create(conn, "p", NewPort(network, host="h1"), now, BY))
        second = ports.create(conn, "p", NewPort(kept, host="h1"), now, BY)
        ports.unbind(conn, second.id, now)
        row = ports.change(conn, made[0], {"host": "h2"}, now, BY)
        ports.change(conn, row, {"name": "x"}, now, BY)
        ports.discard(conn, made[1].id, now, BY)
        networks.remove(conn, gone, now, BY)

    def state() -> Any:
        def rows(conn: Connection) -> Any:
            c = Port.table.c
            query = select(c.name, c.host, c.status, c.vif_type, c.realised).order_by(c.name, c.host)
            return [tuple(row) for row in conn.execute(query)]

        held = [(each.spec.network_id, each.hosts) for each in driver.ports.values()]
        return db.transact(True, rows), len(driver.networks.values()), [hosts for _, hosts in held]

    return World(
        clock=clock,
        db=db,
        engine=lambda: Engine(db, clock, Driving(driver), WORKFLOWS, exclusive=True),
        begin=lambda: db.transact(False, make),
        state=state,
    )


def stable_ids(monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    """Runs are compared by their tasks, so each has the same ids."""
    from cloudctl.network import standard

    def build() -> World:
        numbers = iter(range(10_000))
        monkeypatch.setattr(standard, "new_id", lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
        return world()

    return build


def test_a_crash_anywhere_changes_nothing_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    points = crash_everywhere(stable_ids(monkeypatch))
    assert len(points) > 40


def test_groups_that_no_driver_filters_by_are_left_alone(neutron: Neutron, port: Any) -> None:
    """A driver without the capability is never asked for it."""
    from zope.interface import directlyProvides

    from cloudctl.drivers.interfaces import INetworkBackend

    class Plain:
        def __getattr__(self, name: str) -> Any:
            assert "security_group" not in name
            return getattr(neutron.driver, name)

    plain = Plain()
    directlyProvides(plain, INetworkBackend)
    neutron.engine.drivers = Driving(plain)
    bind(neutron, port, "h1")
    assert run(neutron, PLUG.kind, port, "h1") == "done"
    neutron.create("security_group_rule", security_group_id=port["security_groups"][0], direction="ingress")
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    neutron.expect(204, "DELETE", f"/security-groups/{port['security_groups'][0]}", user="admin")
    neutron.settle()
    assert neutron.transact(security_groups.default_of, "demo") is None
    # No compute is here that would know whose port it was.
    ours = select(TaskRow.state).where(TaskRow.kind != PORT_LOST.name)
    assert neutron.transact(lambda conn: set(conn.scalars(ours))) <= {"done", "cancelled"}
