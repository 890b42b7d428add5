"""Requests at once, on a database where transactions really run at once: each is served or refused, never confused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from sqlalchemy import select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.errors import CloudError
from cloudctl.network import (
    address_scopes,
    associations,
    floating_ips,
    networks,
    ports,
    quotas,
    router_gateways,
    router_interfaces,
    routers,
    rule_templates,
    security_groups,
    subnet_pools,
    subnets,
    tables,
)
from cloudctl.network.address_scopes import NewAddressScope
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.ports import NewPort
from cloudctl.network.router_gateways import Gateway
from cloudctl.network.routers import NewRouter
from cloudctl.network.rules import NewRule
from cloudctl.network.security_groups import NewGroup
from cloudctl.network.subnet_pools import NewSubnetPool
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import IpAllocation, Network, Port, SecurityGroup
from cloudctl.rest import policy, quota
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.tasks import Unasked

NOW = utc(1_800_000_000)
BY = Unasked("p")
ME = Caller(
    Identity(user_id="u", project_id="p", roles=frozenset({"member", "reader"})),
    policy.load(["network"], None),
    NOW,
    "r",
)
AT_ONCE = 8


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    inline: Any = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, Clock())
    yield db
    db.close()


def at_once(db: Database, *acts: Callable[[Connection], Any]) -> list[Any]:
    """What each returned, or the type of its refusal. Any other exception fails the test."""

    def act(fn: Callable[[Connection], Any]) -> Any:
        try:
            return db.transact(False, fn)
        except CloudError as error:
            return error.type

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(act, acts))


def network(conn: Connection, cidr: str | None = "10.0.0.0/24") -> str:
    made = networks.create(conn, "p", NewNetwork(), NOW, NetworkOptions(), BY)
    if cidr:
        subnets.create(conn, made, "p", NewSubnet(cidr, 4), NOW, BY)
    return str(made.id)


def external(conn: Connection) -> str:
    made = networks.create(conn, "p", NewNetwork(external=True), NOW, NetworkOptions(), BY)
    subnets.create(conn, made, "p", NewSubnet("203.0.113.0/24", 4), NOW, BY)
    return str(made.id)


def new_port(network_id: str, **fields: Any) -> Callable[[Connection], str]:
    return lambda conn: str(ports.create(conn, "p", NewPort(networks.pinned(conn, network_id), **fields), NOW, BY).id)


def held(conn: Connection, network_id: str) -> Any:
    row = conn.execute(select(Network).where(Network.id == network_id).with_for_update()).first()
    if row is None:
        raise networks.not_found(network_id)
    return row


def test_a_project_gets_one_default_group(db: Database) -> None:
    db.transact(False, rule_templates.write_shipped, NOW)
    found = at_once(db, *[lambda conn: security_groups.ensure_default(conn, "p", NOW)] * 20)
    assert len(set(found)) == 1
    assert len(db.transact(True, security_groups.rules_of, [found[0]])[found[0]]) == 4


def test_ports_get_different_addresses_until_none_is_left(db: Database) -> None:
    id = db.transact(False, network, "10.0.0.0/28")
    found = Counter(at_once(db, *[new_port(id)] * 16))
    assert found["IpAddressGenerationFailure"] == 3 and len(found) == 14
    taken = db.transact(True, lambda conn: list(conn.scalars(select(IpAllocation.ip_address))))
    assert len(set(taken)) == 13


def test_one_address_and_one_mac_are_one_ports(db: Database) -> None:
    id = db.transact(False, network)
    same = new_port(id, mac_address="fa:16:3e:00:00:01")
    found = Counter(at_once(db, *[same] * 12))
    assert found["MacAddressInUse"] == 11
    exact = new_port(id, fixed_ips=(FixedIpRequest(ip_address="10.0.0.77"),))
    assert Counter(at_once(db, *[exact] * 12))["IpAddressAlreadyAllocated"] == 11


def test_a_limit_holds(db: Database) -> None:
    id = db.transact(False, network)
    db.transact(False, quota.set_limits, quotas.QUOTAS, "p", {"port": 5})
    found = Counter(at_once(db, *[new_port(id)] * 16))
    assert found["OverQuota"] == 11


def test_a_first_limit_is_set_by_several(db: Database) -> None:
    for project in ("p1", "p2", "p3", "p4", "p5"):

        def limit(conn: Connection, project: str = project) -> None:
            quota.set_limits(conn, quotas.QUOTAS, project, {"port": 7})

        assert at_once(db, *[limit] * 8) == [None] * 8
        assert db.transact(True, quota.limits, quotas.QUOTAS, project)["port"] == 7


def test_subnets_made_at_once_do_not_overlap(db: Database) -> None:
    id = db.transact(False, network, None)

    def make(conn: Connection) -> str:
        return str(subnets.create(conn, held(conn, id), "p", NewSubnet("10.0.0.0/24", 4), NOW, BY).id)

    assert Counter(at_once(db, *[make] * 8))["InvalidInput"] == 7


@pytest.mark.parametrize("round", range(5))
def test_a_network_goes_or_gets_a_port(db: Database, round: int) -> None:
    id = db.transact(False, network)

    def remove(conn: Connection) -> str:
        networks.remove(conn, held(conn, id), NOW, BY)
        return "removed"

    found = at_once(db, *[new_port(id), remove] * 3)
    left = db.transact(True, lambda conn: list(conn.scalars(select(Port.id))))
    if db.transact(True, networks.find, id) is None:
        assert set(found) == {"removed", "NetworkNotFound"} and not left
    else:
        assert "removed" not in found and len(left) == 3


@pytest.mark.parametrize("round", range(5))
def test_a_group_goes_or_gets_a_port(db: Database, round: int) -> None:
    id = db.transact(False, network)
    group = db.transact(False, lambda conn: security_groups.create(conn, "p", NewGroup("g"), NOW).id)

    def remove(conn: Connection) -> str:
        row = conn.execute(select(SecurityGroup).where(SecurityGroup.id == group).with_for_update()).first()
        if row is None:
            raise security_groups.not_found(group)
        security_groups.remove(conn, row, NOW, BY)
        return "removed"

    found = at_once(db, *[new_port(id, security_groups=(group,)), remove] * 3)
    left = db.transact(True, lambda conn: list(conn.scalars(select(Port.id))))
    if "removed" in found:
        assert set(found) == {"removed", "SecurityGroupNotFound"} and not left
    else:
        assert len(left) == 3


def test_one_rule_is_there_once(db: Database) -> None:
    group = db.transact(False, lambda conn: security_groups.create(conn, "p", NewGroup("g"), NOW).id)

    def add(conn: Connection) -> str:
        row = conn.execute(select(SecurityGroup).where(SecurityGroup.id == group).with_for_update()).one()
        return str(security_groups.add_rules(conn, row, [NewRule("ingress")], NOW, BY)[0].id)

    assert Counter(at_once(db, *[add] * 8))["SecurityGroupRuleExists"] == 7


class TestRouters:
    @pytest.fixture
    def outside(self, db: Database) -> str:
        return db.transact(False, external)

    @staticmethod
    def router(conn: Connection) -> str:
        return str(routers.create(conn, "p", NewRouter(), NOW, NetworkOptions(), BY).id)

    @staticmethod
    def locked(conn: Connection, router_id: str) -> Any:
        query = select(tables.Router).where(tables.Router.id == router_id)
        row = conn.execute(query.with_for_update()).first()
        if row is None:
            raise routers.not_found(router_id)
        return row

    def join(self, router_id: str, network_id: str) -> Callable[[Connection], str]:
        def act(conn: Connection) -> str:
            (subnet_id,) = networks.subnets_of(conn, [network_id])[network_id]
            row = self.locked(conn, router_id)
            subnet = conn.execute(select(tables.Subnet).where(tables.Subnet.id == subnet_id)).one()
            return router_interfaces.add_subnet(conn, row, subnet, NOW, BY).port_id

        return act

    def lead(self, port_id: str, outside: str) -> Callable[[Connection], str]:
        """A new floating IP that leads to the port, in the order in which the API locks."""

        def act(conn: Connection) -> str:
            port = ports.find(conn, port_id)
            if port is None:
                raise ports.not_found(port_id)
            to = associations.target(conn, port, "p", outside, None)
            query = select(Port).where(Port.id == port_id).with_for_update()
            if conn.execute(query).first() is None:
                raise ports.not_found(port_id)
            return str(floating_ips.create(conn, "p", NewFloatingIp(outside), to, NOW, BY).id)

        return act

    @pytest.fixture
    def inside(self, db: Database) -> str:
        return str(db.transact(False, network))

    @pytest.fixture
    def way(self, db: Database, outside: str, inside: str) -> str:
        """A router between the two."""
        id = db.transact(False, self.router)
        db.transact(False, lambda conn: router_gateways.set(conn, self.locked(conn, id), Gateway(outside), NOW, BY))
        db.transact(False, self.join(id, inside))
        return str(id)

    def test_the_gateway_of_a_subnet_is_one_routers(self, db: Database, inside: str) -> None:
        made = [db.transact(False, self.router) for _ in range(8)]
        found = Counter(at_once(db, *(self.join(id, inside) for id in made)))
        assert found["IpAddressAlreadyAllocated"] == 7

    def test_a_router_joins_one_of_two_that_overlap(self, db: Database) -> None:
        id = db.transact(False, self.router)
        both = [db.transact(False, network, cidr) for cidr in ("10.0.0.0/24", "10.0.0.0/16")]
        found = Counter(at_once(db, *(self.join(id, each) for each in both)))
        assert found["BadRequest"] == 1

    def test_a_port_and_a_floating_ip_that_leads_to_it_go_at_once(
        self, db: Database, outside: str, inside: str, way: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        some = [db.transact(False, new_port(inside)) for _ in range(AT_ONCE)]
        ips = [db.transact(False, self.lead(port, outside)) for port in some]
        monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)

        def away(id: str) -> Callable[[Connection], None]:
            return lambda conn: floating_ips.remove(conn, floating_ips.to_remove(conn, ME, id), NOW, BY)

        deletions = [lambda conn, id=id: ports.discard(conn, id, NOW, BY) for id in some]
        at_once(db, *(act for pair in zip(deletions, map(away, ips), strict=True) for act in pair))
        assert db.transact(True, lambda conn: list(conn.scalars(select(Port.id).where(Port.id.in_(some))))) == []

    def test_one_fixed_address_gets_one_floating_ip(self, db: Database, outside: str, inside: str, way: str) -> None:
        port = db.transact(False, new_port(inside))
        found = Counter(at_once(db, *[self.lead(port, outside)] * 8))
        assert found["FloatingIPPortAlreadyAssociated"] == 7

    @pytest.mark.parametrize("round", range(3))
    def test_a_floating_ip_never_leads_to_a_port_or_a_router_that_is_gone(
        self, db: Database, outside: str, inside: str, way: str, round: int
    ) -> None:
        some = [db.transact(False, new_port(inside)) for _ in range(4)]

        def part(conn: Connection) -> str:
            (subnet_id,) = networks.subnets_of(conn, [inside])[inside]
            return router_interfaces.remove(conn, self.locked(conn, way), None, subnet_id, NOW, BY).port_id

        deletions = [lambda conn, id=id: ports.discard(conn, id, NOW, BY) for id in some[:2]]
        at_once(db, *(self.lead(id, outside) for id in some), *deletions, part)

        def check(conn: Connection) -> None:
            joined = conn.execute(select(tables.RouterPort.port_id).where(tables.RouterPort.network_id == inside))
            joins = joined.first() is not None
            for row in conn.execute(select(tables.FloatingIp)):
                assert row.port_id is None or (joins and ports.find(conn, row.port_id) is not None)

        db.transact(True, check)

    def test_a_network_stays_external_or_gets_no_gateway(self, db: Database, outside: str) -> None:
        made = [db.transact(False, self.router) for _ in range(4)]

        def close(conn: Connection) -> str:
            networks.change(conn, held(conn, outside), {"external": False}, NOW, NetworkOptions(), BY)
            return "closed"

        def lead_out(id: str) -> Callable[[Connection], None]:
            return lambda conn: router_gateways.set(conn, self.locked(conn, id), Gateway(outside), NOW, BY)

        found = at_once(db, *(lead_out(id) for id in made), close)
        if "closed" in found:
            assert found.count("BadRequest") == 4
        else:
            assert "ExternalNetworkInUse" in found

    def test_one_network_is_the_default_one(self, db: Database) -> None:
        def make(conn: Connection) -> str:
            wanted = NewNetwork(external=True, is_default=True)
            return str(networks.create(conn, "p", wanted, NOW, NetworkOptions(), BY).id)

        assert Counter(at_once(db, *[make] * 6))["DefaultExternalNetworkExists"] == 5


def test_who_makes_and_who_takes_away_do_not_wait_in_a_circle(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both come to the subnet's row and to the sums of the project: in one order, so that nothing is tried again."""
    id = db.transact(False, network)
    outside = db.transact(False, external)

    def port_comes_and_goes(conn: Connection, gone: list[str]) -> None:
        for each in gone:
            ports.discard(conn, each, NOW, BY)
        gone[:] = [new_port(id)(conn)]

    def address_comes_and_goes(conn: Connection, gone: list[str]) -> None:
        for each in gone:
            floating_ips.remove(conn, floating_ips.to_remove(conn, ME, each), NOW, BY)
        gone[:] = [floating_ips.create(conn, "p", NewFloatingIp(outside), None, NOW, BY).id]

    def turns(act: Callable[[Connection, list[str]], None]) -> None:
        gone: list[str] = []
        for _ in range(10):
            db.transact(False, act, gone)

    # The turn is a row, and the first of two who write it at once may have to give way.
    db.transact(False, new_port(id))
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(turns, [port_comes_and_goes, address_comes_and_goes] * (AT_ONCE // 2)))


def come_and_go(db: Database, *kinds: tuple[Callable[[Connection], str], Callable[[Connection, str], None]]) -> None:
    """Records of several kinds are made and deleted again, in several threads each."""

    def turns(kind: tuple[Callable[[Connection], str], Callable[[Connection, str], None]]) -> None:
        comes, goes = kind
        for _ in range(10):
            db.transact(False, goes, db.transact(False, comes))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(turns, kinds * (AT_ONCE // len(kinds))))


def port_goes(conn: Connection, made: str) -> None:
    ports.discard(conn, made, NOW, BY)


def test_ports_and_subnets_of_a_network_come_and_go_at_once(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    id, numbers = db.transact(False, network), count(1)

    def new_subnet(conn: Connection) -> str:
        # The ports get no address of it.
        wanted = NewSubnet(f"10.{next(numbers)}.0.0/24", 4, service_types=("compute:elsewhere",))
        return str(subnets.create(conn, held(conn, id), "p", wanted, NOW, BY).id)

    def subnet_goes(conn: Connection, made: str) -> None:
        subnets.remove(conn, subnets.to_remove(conn, ME, made), NOW, BY)

    db.transact(False, new_port(id))
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    come_and_go(db, (new_port(id), port_goes), (new_subnet, subnet_goes))


def test_security_groups_their_rules_and_ports_come_and_go_at_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, numbers = db.transact(False, network), count(1)
    for resource in ("security_group", "security_group_rule"):
        db.transact(False, quota.set_limits, quotas.QUOTAS, "p", {resource: -1})
    db.transact(False, rule_templates.write_shipped, NOW)
    shared = db.transact(False, lambda conn: security_groups.create(conn, "p", NewGroup("shared"), NOW).id)

    def new_group(conn: Connection) -> str:
        return str(security_groups.create(conn, "p", NewGroup("g"), NOW).id)

    def group_goes(conn: Connection, made: str) -> None:
        security_groups.remove(conn, security_groups.to_remove(conn, ME, made), NOW, BY)

    def new_rule(conn: Connection) -> str:
        wanted = NewRule("ingress", protocol="tcp", port_range_min=next(numbers), port_range_max=60000)
        (made,) = security_groups.add_rules(conn, security_groups.in_turn(conn, ME, shared), [wanted], NOW, BY)
        return str(made.id)

    def rule_goes(conn: Connection, made: str) -> None:
        security_groups.remove_rule(conn, security_groups.rule_in_turn(conn, ME, made), NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    come_and_go(
        db, (new_group, group_goes), (new_rule, rule_goes), (new_port(id, security_groups=(shared,)), port_goes)
    )


def test_a_pool_leaves_a_scope_while_a_network_gets_a_subnet_of_another_pool_there(db: Database) -> None:
    scope_id = db.transact(False, lambda conn: address_scopes.create(conn, "p", NewAddressScope("s", 4), NOW).id)

    def new_pool(conn: Connection, prefix: str) -> Any:
        return subnet_pools.create(conn, ME, "p", NewSubnetPool("p", [prefix], address_scope_id=scope_id))

    def new_subnet(pool: Any, network_id: str, cidr: str) -> Callable[[Connection], Any]:
        def act(conn: Connection) -> Any:
            wanted = NewSubnet(cidr, 4, subnetpool_id=pool.id)
            return subnets.create(conn, held(conn, network_id), "p", wanted, NOW, BY)

        return act

    def leave(pool: Any) -> Callable[[Connection], Any]:
        return lambda conn: subnet_pools.change(
            conn, ME, subnet_pools.get(conn, pool.id, lock=True), {"address_scope_id": None}
        )

    for n in range(0, 60, 2):
        one, two = (db.transact(False, new_pool, f"10.{n + more}.0.0/16") for more in (0, 1))
        id = db.transact(False, network, None)
        db.transact(False, new_subnet(one, id, f"10.{n}.0.0/24"))
        done = at_once(db, new_subnet(two, id, f"10.{n + 1}.0.0/24"), leave(one))
        (refused,) = [each for each in done if isinstance(each, str)]
        assert refused in ("NetworkAddressScopeAffinityError", "NetworkSubnetPoolAffinityError")
