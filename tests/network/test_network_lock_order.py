"""Two requests that meet lock what they need in one order: see `network.quotas`. None waits for another in a circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from operator import itemgetter
from typing import Any

import pytest
from attrs import evolve, make_class
from sqlalchemy import select, text

from cloudctl.db import Connection, Database
from cloudctl.errors import CloudError
from cloudctl.network import (
    floating_ips,
    local_ips,
    networks,
    plugging,
    ports,
    qos_policies,
    qos_rules,
    rbac_policies,
    router_gateways,
    router_interfaces,
    routers,
    security_groups,
    shares,
    shown,
    subnets,
    trunks,
)
from cloudctl.network.api.local_ips import LOCAL_IPS
from cloudctl.network.api.ports import PORTS
from cloudctl.network.api.qos_rules import RULES
from cloudctl.network.api.resource import Wanted
from cloudctl.network.api.router_interfaces import InterfaceWish, RouterInterfaces
from cloudctl.network.api.security_group_rules import create_all
from cloudctl.network.api.security_groups import SECURITY_GROUPS
from cloudctl.network.api.subnets import SUBNETS
from cloudctl.network.api.trunks import TRUNKS
from cloudctl.network.associations import Target
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.local_ips import NewLocalIp
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.qos_policies import NewPolicy
from cloudctl.network.rbac_policies import NewRbacPolicy
from cloudctl.network.router_gateways import Gateway
from cloudctl.network.routers import NewRouter
from cloudctl.network.security_groups import NewGroup
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import Port
from cloudctl.network.trunks import NewSubPort, NewTrunk
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Unasked
from tests.meanwhile import beside, crossing, opened
from tests.network.meetings import BY, ME, NOW, call, meanwhile, member, network, new_port

SECOND = timedelta(seconds=1)


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    with opened(postgresql_with_tables) as made:
        yield made


def test_an_interface_leaves_its_router_while_its_port_is_changed(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = db.transact(False, network)
    router = db.transact(False, routers.create, "p", NewRouter(), NOW, NetworkOptions(), BY)

    def join(conn: Connection) -> str:
        (subnet,) = networks.subnets_of(conn, [id])[id]
        locked = routers.get(conn, router.id, lock=True)
        return router_interfaces.add_subnet(conn, locked, subnets.get(conn, subnet), NOW, BY).port_id

    port = db.transact(False, join)

    def rename(conn: Connection) -> None:
        PORTS.alter(conn, call("ports:update"), port, {"name": "new"})

    def leave(conn: Connection) -> None:
        router_interfaces.remove(conn, routers.get(conn, router.id), port, None, NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    with pytest.raises(CloudError, match="could not be found"):
        crossing(db, lambda conn: routers.get(conn, router.id, lock=True), rename, leave)


def test_a_router_goes_while_a_driver_tells_that_it_holds_it(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = db.transact(False, network)
    router = db.transact(False, routers.create, "p", NewRouter(), NOW, NetworkOptions(), BY)

    def connect(conn: Connection) -> str:
        outside = networks.create(conn, "p", NewNetwork(external=True), NOW, NetworkOptions(), BY)
        subnets.create(conn, outside, "p", NewSubnet("203.0.113.0/24", 4), NOW, BY)
        locked = routers.get(conn, router.id, lock=True)
        router_gateways.set(conn, locked, Gateway(outside.id), NOW, BY)
        (subnet,) = networks.subnets_of(conn, [inside])[inside]
        # Younger than the gateway, and so written after it.
        return router_interfaces.add_subnet(conn, locked, subnets.get(conn, subnet), NOW + SECOND, BY).port_id

    port = db.transact(False, connect)
    wanted = db.transact(True, routers.wiring, router.id)
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    with beside(db) as others:

        def remove(conn: Connection) -> None:
            router_interfaces.remove(conn, routers.get(conn, router.id, lock=True), port, None, NOW, BY)
            others.begin(routers.realised, wanted, "", NOW)
            routers.remove(conn, routers.get(conn, router.id), NOW, BY)

        db.transact(False, remove)
        assert others.errors == []


def test_a_port_becomes_a_routers_while_it_is_changed(db: Database) -> None:
    port = db.transact(False, new_port(db.transact(False, network)))
    router = db.transact(False, routers.create, "p", NewRouter(), NOW, NetworkOptions(), BY)

    def join(conn: Connection) -> None:
        locked = routers.get(conn, router.id, lock=True)
        router_interfaces.add_port(conn, locked, ports.get(conn, port, lock=True), NOW, BY)

    def rename(conn: Connection) -> None:
        PORTS.alter(conn, call("ports:update"), port, {"name": "new"})

    # It would lock the router after the port.
    assert meanwhile(db, join, rename) == "Conflict"


def test_a_router_gets_the_address_that_is_the_gateways_by_now(db: Database) -> None:
    id = db.transact(False, network)
    (subnet,) = db.transact(True, networks.subnets_of, [id])[id]
    router = db.transact(False, routers.create, "p", NewRouter(), NOW, NetworkOptions(), BY)

    def change(conn: Connection) -> None:
        SUBNETS.alter(conn, call("subnets:update"), subnet, {"gateway_ip": "10.0.0.254", "allocation_pools": ()})

    def join(conn: Connection) -> Any:
        return RouterInterfaces(db)._add(conn, call("routers:update"), router.id, InterfaceWish(subnet))["port_id"]

    port = meanwhile(db, change, join)
    assert [each["ip_address"] for each in db.transact(True, ports.fixed_ips_of, [port])[port]] == ["10.0.0.254"]


def test_a_local_ip_goes_while_its_port_does(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    port = db.transact(False, new_port(db.transact(False, network)))
    id = db.transact(False, lambda conn: local_ips.create(conn, "p", NewLocalIp(), ports.get(conn, port), NOW).id)

    def remove(conn: Connection) -> None:
        local_ips.remove(conn, local_ips.RECORDS.get(conn, id), NOW, BY)

    def held(conn: Connection) -> None:
        LOCAL_IPS.visible(conn, ME, id, lock=True)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, held, lambda conn: ports.discard(conn, port, NOW, BY), remove)


def test_a_port_goes_while_its_network_loses_automatic_addresses(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    id = db.transact(False, network)
    modes: Any = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}

    def make(conn: Connection) -> str:
        new = NewSubnet("2001:db8::/64", 6, **modes)
        return subnets.create(conn, networks.get(conn, id, lock=True), "p", new, NOW, BY).id

    made = db.transact(False, make)
    port = db.transact(False, new_port(id))

    def remove(conn: Connection) -> None:
        subnets.remove(conn, subnets.to_remove(conn, ME, made), NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: ports.get(conn, port, lock=True), remove, lambda conn: ports.discard(conn, port, NOW, BY))


def test_floating_ips_of_two_projects_come_and_go(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    id = db.transact(False, network, True)
    (subnet,) = db.transact(True, networks.subnets_of, [id])[id]
    made = db.transact(False, floating_ips.create, "p", NewFloatingIp(id), None, NOW, BY).id

    def remove(conn: Connection) -> None:
        floating_ips.remove(conn, floating_ips.to_remove(conn, ME, made), NOW, BY)

    def create(conn: Connection) -> None:
        floating_ips.create(conn, "other", NewFloatingIp(id), None, NOW, Unasked("other"))

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: subnets.get(conn, subnet, lock=True), create, remove)


def test_a_network_is_renamed_while_a_floating_ip_of_its_port_moves(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = db.transact(False, network)
    port = db.transact(False, new_port(id))
    wanted = NewFloatingIp(db.transact(False, network, True))
    made = db.transact(False, floating_ips.create, "p", wanted, Target(port, "10.0.0.2", "one"), NOW, BY)

    def rename(conn: Connection) -> None:
        networks.change(conn, networks.get(conn, id, lock=True), {"name": "new"}, NOW, NetworkOptions(), BY)

    def move(conn: Connection) -> None:
        floating_ips.lead(conn, made, Target(port, "10.0.0.2", "two"), NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: ports.get(conn, port, lock=True), rename, move)


def test_a_group_is_renamed_while_a_port_is_put_into_it(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    group = db.transact(False, lambda conn: security_groups.create(conn, "p", NewGroup("g"), NOW).id)
    port = db.transact(False, new_port(db.transact(False, network), security_groups=(group,)))

    def rename(conn: Connection) -> None:
        SECURITY_GROUPS.alter(conn, call("security_groups:update"), group, {"name": "new"})

    def put(conn: Connection) -> None:
        ports.change(conn, ports.get(conn, port), {"security_groups": [group]}, NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: ports.get(conn, port, lock=True), rename, put)


class TestWhatManyPortsShow:
    """It changes in one transaction while another one has the first of the ports and wants the next."""

    @pytest.fixture
    def id(self, db: Database) -> str:
        policy = db.transact(False, qos_policies.create, "p", NewPolicy("gold"), NOW)
        return db.transact(False, lambda conn: network(conn, pvlan=True, qos_policy_id=policy.id))

    @pytest.fixture
    def two(self, db: Database, id: str) -> list[str]:
        """Ports by their ids; on its pages, the database has them the other way round."""
        first, second = sorted(db.transact(False, new_port(id)) for _ in range(2))
        lie = select(Port.id).order_by(text("ctid"))
        while db.transact(True, lambda conn: list(conn.scalars(lie))) != [second, first]:
            db.transact(False, shown.port_changed, first)
        return [first, second]

    def meet(
        self, db: Database, two: list[str], change: Callable[[Connection], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        first, second = (partial(ports.get, id=each, lock=True) for each in two)

        def in_the_order_of_pages(conn: Connection) -> None:
            # As the database may do with many rows.
            for way in ("indexscan", "bitmapscan"):
                conn.execute(text(f"SET LOCAL enable_{way} = off"))
            change(conn)

        crossing(db, first, in_the_order_of_pages, second)

    @pytest.mark.parametrize("changes", [{"name": "new"}, {"pvlan": False}])
    def test_a_network_changes(
        self, db: Database, id: str, two: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
    ) -> None:
        def change(conn: Connection) -> None:
            networks.change(conn, networks.get(conn, id, lock=True), changes, NOW, NetworkOptions(), BY)

        self.meet(db, two, change, monkeypatch)

    def test_a_policy_gets_a_rule_by_which_servers_are_placed(
        self, db: Database, id: str, two: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wanted, path = make_class("Wish", ["value", "direction"])(1, "egress"), {}
        path["policy_id"] = str(db.transact(True, networks.get, id).qos_policy_id)

        admin = evolve(ME, identity=evolve(ME.identity, roles=frozenset({"admin"})))

        def add(conn: Connection) -> None:
            RULES[qos_rules.GUARANTEED.name].created(conn, call("qos_rules:change", admin), path, wanted)

        self.meet(db, two, add, monkeypatch)


def group(project: str) -> Callable[[Connection], str]:
    """A group that is shared with everybody."""

    def make(conn: Connection) -> str:
        made = security_groups.create(conn, project, NewGroup("g"), NOW)
        shares.share(conn, shares.SECURITY_GROUP, made, shares.EVERYBODY, NOW)
        return str(made.id)

    return make


def names(caller: Caller, id: str, remote: str) -> Callable[[Connection], str]:
    """The group gets a rule that names the other one."""
    wanted = {"security_group_id": id, "remote_group_id": remote, "remote_address_group_id": None}
    said = Wanted(None, {**wanted, "direction": "ingress", "ethertype": None, "description": None})
    return lambda conn: str(create_all(conn, call("security_group_rules:create", caller), [said])[0].id)


class TestGroupsOfTwoProjects:
    """Each has a rule that names the other."""

    @pytest.fixture
    def two(self, db: Database) -> list[tuple[Caller, str]]:
        made = [(member(each), db.transact(False, group(each))) for each in ("p", "other")]
        return sorted(made, key=itemgetter(1))

    @staticmethod
    def goes(caller: Caller, id: str) -> Callable[[Connection], None]:
        return lambda conn: SECURITY_GROUPS.deleted(conn, call("security_groups:delete", caller), {"group_id": id})

    def test_both_go(self, db: Database, two: list[tuple[Caller, str]], monkeypatch: pytest.MonkeyPatch) -> None:
        (me, mine), (they, theirs) = two
        for caller, id, remote in ((me, mine, theirs), (they, theirs, mine)):
            db.transact(False, names(caller, id, remote))
        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        held = partial(security_groups.RECORDS.get, id=mine, lock=True)
        crossing(db, held, self.goes(they, theirs), self.goes(me, mine))

    def test_they_begin_to_name_each_other(
        self, db: Database, two: list[tuple[Caller, str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (me, mine), (they, theirs) = two
        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        held = partial(security_groups.RECORDS.get, id=mine, lock=True)
        crossing(db, held, names(they, theirs, mine), names(me, mine, theirs))

    def test_a_rule_goes_with_the_group_that_it_names_or_alone(
        self, db: Database, two: list[tuple[Caller, str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (me, mine), (they, theirs) = two
        rule = db.transact(False, names(me, mine, theirs))

        def held(conn: Connection) -> None:
            security_groups.rule_in_turn(conn, me, rule)

        def remove(conn: Connection) -> None:
            security_groups.remove_rule(conn, security_groups.RULES.get(conn, rule), NOW, BY)

        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        crossing(db, held, self.goes(they, theirs), remove)


class TestTrunks:
    @pytest.fixture
    def some(self, db: Database) -> list[str]:
        id = db.transact(False, network)
        return [db.transact(False, new_port(id)) for _ in range(3)]

    @staticmethod
    def new(*some: str, **fields: Any) -> Callable[[Connection], str]:
        """A trunk of the first of the ports, which carries the others."""
        carried = [NewSubPort(each, "vlan", vlan) for vlan, each in enumerate(some[1:], 1)]
        return lambda conn: str(trunks.create(conn, ME, "p", NewTrunk(some[0], sub_ports=carried, **fields)).id)

    def test_one_is_enabled_while_its_parent_is_plugged(self, db: Database, some: list[str]) -> None:
        id = db.transact(False, self.new(*some, admin_state_up=False))

        def plug(conn: Connection) -> None:
            ports.bind(conn, some[0], "server", "h1", "compute:nova", NOW)
            plugging.plugged(conn, some[0], "h1", {"vif_type": "tap"}, NOW)

        def enable(conn: Connection) -> None:
            TRUNKS.alter(conn, call("trunks:update"), id, {"admin_state_up": True})

        assert meanwhile(db, plug, enable) is None
        assert db.transact(True, trunks.get, id).status == "ACTIVE"

    def test_one_is_changed_while_its_parent_goes(self, db: Database, some: list[str]) -> None:
        id = db.transact(False, self.new(*some))

        def rename(conn: Connection) -> None:
            TRUNKS.alter(conn, call("trunks:update"), id, {"name": "new"})

        assert meanwhile(db, lambda conn: ports.discard(conn, some[0], NOW, BY), rename) == "TrunkNotFound"

    def test_its_parent_goes_while_it_does(
        self, db: Database, some: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = db.transact(False, self.new(*some))

        def remove(conn: Connection) -> None:
            trunks.remove(conn, ME, trunks.get(conn, id))

        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        crossing(
            db,
            lambda conn: trunks.to_change(conn, ME, id),
            lambda conn: ports.discard(conn, some[0], NOW, BY),
            remove,
        )

    def test_a_subport_gets_a_mac_while_its_parent_is_plugged(
        self, db: Database, some: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        db.transact(False, self.new(*some))

        def change(conn: Connection) -> None:
            PORTS.alter(conn, call("ports:update"), some[1], {"mac_address": "fa:16:3e:00:00:01"})

        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        with beside(db) as others:

            def plug(conn: Connection) -> None:
                ports.bind(conn, some[0], "server", "h1", "compute:nova", NOW)
                others.begin(change)
                plugging.plugged(conn, some[0], "h1", {"vif_type": "tap"}, NOW)

            db.transact(False, plug)
        (refusal,) = others.errors
        assert isinstance(refusal, CloudError) and refusal.type == "PortBound"

    def test_a_network_is_shared_while_a_server_gets_a_trunk_on_it(
        self, db: Database, some: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        db.transact(False, ports.bind, some[0], "server", "h1", "compute:nova", NOW)
        id = db.transact(True, ports.get, some[0]).network_id

        def share(conn: Connection) -> None:
            rbac_policies.create(conn, ME, "p", NewRbacPolicy(shares.NETWORK, id, shares.SHARED, "other"))

        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        crossing(db, lambda conn: networks.get(conn, id, lock=True), self.new(*some), share)

    def test_a_port_goes_while_a_trunk_is_to_carry_it(
        self, db: Database, some: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
        with beside(db) as others:

            def remove(conn: Connection) -> None:
                ports.get(conn, some[1], lock=True)
                others.begin(self.new(*some[:2]))
                ports.discard(conn, some[1], NOW, BY)

            db.transact(False, remove)
        (refusal,) = others.errors
        assert isinstance(refusal, CloudError) and refusal.type == "PortNotFound"
