"""Two requests that meet: one begins before the other has committed. Each is served or refused, none tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import select
from twisted.web.http_headers import Headers

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.errors import CloudError
from cloudctl.network import (
    dhcp_ports,
    floating_ips,
    local_ips,
    networks,
    port_forwardings,
    ports,
    quotas,
    rbac_policies,
    router_interfaces,
    routers,
    security_groups,
    shares,
    subnets,
    tags,
    trunks,
)
from cloudctl.network.api import security_group_rules
from cloudctl.network.api.floating_ips import change as change_floating_ip
from cloudctl.network.api.floating_ips import check as check_floating_ip
from cloudctl.network.api.floating_ips import create as new_floating_ip
from cloudctl.network.api.local_ips import LOCAL_IPS
from cloudctl.network.api.logs import create as new_log
from cloudctl.network.api.ports import PORTS
from cloudctl.network.api.ports import change as change_port
from cloudctl.network.api.ports import check as check_port
from cloudctl.network.api.resource import Wanted
from cloudctl.network.api.router_interfaces import InterfaceWish, RouterInterfaces
from cloudctl.network.api.routers import GatewayInfo, _gateway
from cloudctl.network.api.subnets import SUBNETS
from cloudctl.network.api.tags import ResourceTags
from cloudctl.network.api.trunks import TRUNKS
from cloudctl.network.associations import Target
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.local_ips import NewLocalIp
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.port_forwardings import NewForwarding
from cloudctl.network.ports import NewPort
from cloudctl.network.rbac_policies import NewRbacPolicy
from cloudctl.network.routers import NewRouter
from cloudctl.network.rules import NewRule
from cloudctl.network.security_groups import NewGroup
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import FloatingIp, IpAllocation, PortForwarding, SecurityGroup
from cloudctl.network.trunks import NewSubPort, NewTrunk
from cloudctl.rest import policy, quota
from cloudctl.rest.call import Call, Query
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.tasks import Unasked
from tests.meanwhile import Meanwhile, beside, crossing, opened

NOW = utc(1_800_000_000)
BY = Unasked("p")
POLICY = policy.load(["network"], None)
# A floating IP's body that names no port.
NO_TARGET = dict.fromkeys(("floating_ip_address", "subnet_id", "port_id", "fixed_ip_address"), None)


def member(project: str) -> Caller:
    return Caller(Identity(user_id="u", project_id=project, roles=frozenset({"member", "reader"})), POLICY, NOW, "r")


ME = member("p")


def call(rule: str, caller: Caller = ME) -> Call:
    """A request for an Operation with this rule."""
    return Call(caller, (2, 0), Query.parse(b""), "", "", "", Headers(), BytesIO(), f"network:{rule}")


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    with opened(postgresql_with_tables) as made:
        yield made


def network(conn: Connection, external: bool = False) -> str:
    made = networks.create(conn, "p", NewNetwork(external=external), NOW, NetworkOptions(), BY)
    subnets.create(conn, made, "p", NewSubnet("10.0.0.0/24", 4), NOW, BY)
    return str(made.id)


def new_port(network_id: str, project: str = "p", **fields: Any) -> Callable[[Connection], str]:
    def make(conn: Connection) -> str:
        return str(ports.create(conn, project, NewPort(networks.pinned(conn, network_id), **fields), NOW, BY).id)

    return make


def meanwhile(db: Database, first: Callable[[Connection], Any], second: Callable[[Connection], Any]) -> Any:
    """What `second` returned, or the type of its refusal, begun before `first` committed."""
    with beside(db) as others:
        before = Meanwhile(db, first)
        others.begin(second)
        before.commit()
        try:
            return others.results[0]
        except CloudError as error:
            return error.type


def test_a_mac_that_another_port_gets_at_once_is_in_use(db: Database) -> None:
    id, mac = db.transact(False, network), "fa:16:3e:00:00:01"
    port = db.transact(False, new_port(id))

    def change(conn: Connection) -> str:
        return ports.change(conn, ports.get(conn, port, lock=True), {"mac_address": mac}, NOW, BY).mac_address

    assert meanwhile(db, new_port(id, mac_address=mac), change) == "MacAddressInUse"


def test_a_rule_names_a_group_of_another_project_or_the_group_goes(db: Database) -> None:
    def group(conn: Connection, project: str) -> SecurityGroup:
        return security_groups.create(conn, project, NewGroup("g"), NOW)

    mine, theirs = (db.transact(False, group, project) for project in ("p", "other"))
    db.transact(False, lambda conn: shares.share(conn, shares.SECURITY_GROUP, theirs, "p", NOW))
    wanted = {"security_group_id": mine.id, "remote_group_id": theirs.id, "remote_address_group_id": None}
    said = {**wanted, "direction": "ingress", "ethertype": None, "description": None}

    def goes(conn: Connection) -> None:
        security_groups.remove(conn, security_groups.in_turn(conn, member("other"), theirs.id), NOW, BY)

    def add(conn: Connection) -> Any:
        return security_group_rules.create_all(conn, call("security_group_rules:create"), [Wanted(None, said)])

    assert meanwhile(db, goes, add) == "SecurityGroupNotFound"


@pytest.mark.parametrize("others", [(), ("x",)])
def test_tags_set_at_once_are_all_there(db: Database, others: tuple[str, ...]) -> None:
    id = db.transact(False, network)
    db.transact(False, tags.replace, id, others)
    resource = ResourceTags(db)

    def put(tag: str) -> Callable[[Connection], Any]:
        return lambda conn: resource._change(conn, call("tags:change"), "networks", id, tags.add, [tag])

    assert meanwhile(db, put("a"), put("b")) == sorted(("a", "b", *others))


def test_a_record_that_goes_leaves_no_tag(db: Database) -> None:
    id, resource = db.transact(False, network), ResourceTags(db)

    def goes(conn: Connection) -> None:
        networks.remove(conn, networks.get(conn, id, lock=True), NOW, BY)

    def put(conn: Connection) -> Any:
        return resource._change(conn, call("tags:change"), "networks", id, tags.add, ["a"])

    assert meanwhile(db, goes, put) == "TagResourceNotFound"
    assert db.transact(True, tags.of, [id]) == {}


def test_a_port_goes_while_its_network_gets_automatic_addresses(db: Database) -> None:
    id = db.transact(False, network)
    port, stays = (db.transact(False, new_port(id, project="other")) for _ in range(2))
    modes: Any = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}

    def add(conn: Connection) -> list[str]:
        made = subnets.create(
            conn, networks.get(conn, id, lock=True), "p", NewSubnet("2001:db8::/64", 6, **modes), NOW, BY
        )
        return list(conn.scalars(select(IpAllocation.port_id).where(IpAllocation.subnet_id == made.id)))

    assert meanwhile(db, lambda conn: ports.discard(conn, port, NOW, BY), add) == [stays]


@pytest.mark.parametrize("use", ["port", "floating IP", "gateway"])
def test_a_network_that_is_shared_no_more_is_not_used(db: Database, use: str) -> None:
    action = shares.SHARED if use == "port" else shares.EXTERNAL
    id, other = db.transact(False, network, use != "port"), member("other")

    def share(conn: Connection) -> None:
        shares.share(conn, shares.NETWORK, networks.get(conn, id), "other", NOW, action=action)

    def withdraw(conn: Connection) -> None:
        networks.get(conn, id, lock=True)
        shares.withdraw(conn, id, action)

    def act(conn: Connection) -> Any:
        if use == "port":
            return networks.attachable(conn, other, id)
        if use == "gateway":
            return _gateway(conn, call("routers:create", other), GatewayInfo(id), False)
        return new_floating_ip(
            conn, call("floatingips:create", other), None, {**NO_TARGET, "description": "", "floating_network_id": id}
        )

    db.transact(False, share)
    assert meanwhile(db, withdraw, act) == "NetworkNotFound"


def test_a_network_is_renamed_while_its_port_is_changed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    id = db.transact(False, network)
    port = db.transact(False, new_port(id))

    def rename(conn: Connection) -> None:
        networks.change(conn, networks.get(conn, id), {"name": "new"}, NOW, NetworkOptions(), BY)

    def change(conn: Connection) -> None:
        row = ports.visible(conn, ME, port, lock=True)
        asked = call("ports:update")
        change_port(conn, asked, row, check_port(conn, asked, row, {"name": "new"}))

    # Nobody waits for another in a circle, so nothing is tried again.
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: networks.get(conn, id, lock=True), change, rename)


def test_one_subnet_is_changed_while_another_is_made(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    id = db.transact(False, network)
    (subnet,) = db.transact(True, networks.subnets_of, [id])[id]

    def make(conn: Connection) -> None:
        subnets.create(conn, networks.get(conn, id), "p", NewSubnet("10.1.0.0/24", 4), NOW, BY)
        dhcp_ports.follow(conn, id, NOW)

    def change(conn: Connection) -> None:
        SUBNETS.alter(conn, call("subnets:update"), subnet, {"name": "new"})

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: networks.get(conn, id, lock=True), change, make)


def test_a_group_is_shared_while_it_gets_a_rule(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    group = db.transact(False, lambda conn: security_groups.create(conn, "p", NewGroup("g"), NOW).id)

    def share(conn: Connection) -> None:
        wanted = NewRbacPolicy(shares.SECURITY_GROUP, group, shares.SHARED, "other")
        rbac_policies.create(conn, ME, "p", wanted)

    def add(conn: Connection) -> None:
        security_groups.add_rules(conn, security_groups.in_turn(conn, ME, group), [NewRule("ingress")], NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: quota.turn(conn, quotas.QUOTAS, "p"), share, add)


def test_a_forwarding_goes_while_its_port_does(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    port = db.transact(False, new_port(db.transact(False, network)))
    wanted = NewFloatingIp(db.transact(False, network, True))
    id = db.transact(False, floating_ips.create, "p", wanted, None, NOW, BY).id

    def locked(conn: Connection) -> FloatingIp:
        return floating_ips.get(conn, id, lock=True)

    def forward(conn: Connection) -> PortForwarding:
        to, new = Target(port, "10.0.0.2", "router"), NewForwarding("tcp", 22, 2222)
        return port_forwardings.create(conn, locked(conn), to, new, NOW, BY)

    row = db.transact(False, forward)

    def remove(conn: Connection) -> None:
        port_forwardings.remove(conn, locked(conn), row, NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, locked, lambda conn: ports.discard(conn, port, NOW, BY), remove)


def test_a_network_gets_a_subnet_while_its_dhcp_port_goes(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    id = db.transact(False, network)
    db.transact(False, dhcp_ports.follow, id, NOW)

    def make(conn: Connection) -> None:
        subnets.create(conn, networks.get(conn, id), "p", NewSubnet("10.1.0.0/24", 4), NOW, BY)

    def remove(conn: Connection) -> None:
        port = dhcp_ports.find(conn, id)
        assert port is not None
        ports.remove(conn, ports.get(conn, port.id, lock=True), NOW, BY)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, lambda conn: quota.turn(conn, quotas.QUOTAS, "p"), remove, make)


def test_a_floating_ip_leaves_the_port_that_goes(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    port = db.transact(False, new_port(db.transact(False, network)))
    wanted, to = NewFloatingIp(db.transact(False, network, True)), Target(port, "10.0.0.2", "router")
    id = db.transact(False, floating_ips.create, "p", wanted, to, NOW, BY).id
    leads: dict[str, Any] = {}

    def locked(conn: Connection) -> FloatingIp:
        return floating_ips.get(conn, id, lock=True)

    def check(conn: Connection) -> None:
        found = floating_ips.get(conn, id)
        leads.update(check_floating_ip(conn, call("floatingips:update"), found, {"port_id": None}))
        locked(conn)

    def lead(conn: Connection) -> None:
        change_floating_ip(conn, call("floatingips:update"), locked(conn), leads)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    crossing(db, check, lambda conn: ports.discard(conn, port, NOW, BY), lead)


@pytest.mark.parametrize(("of", "type"), [("resource_id", "ResourceNotFound"), ("target_id", "TargetResourceNotFound")])
def test_a_log_is_of_what_stays(db: Database, of: str, type: str) -> None:
    port = db.transact(False, new_port(db.transact(False, network)))
    group = db.transact(False, lambda conn: security_groups.create(conn, "p", NewGroup("g"), NOW).id)
    said = {"name": "", "description": "", "resource_type": "security_group", "event": "ALL", "enabled": True}
    body = {**said, "resource_id": None, "target_id": None, of: group if of == "resource_id" else port}

    def goes(conn: Connection) -> None:
        if of == "target_id":
            ports.discard(conn, port, NOW, BY)
        else:
            security_groups.remove(conn, security_groups.in_turn(conn, ME, group), NOW, BY)

    assert meanwhile(db, goes, lambda conn: new_log(conn, call("logs:create"), None, body)) == type


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
            ports.plugged(conn, some[0], "h1", {"vif_type": "tap"})

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
                ports.plugged(conn, some[0], "h1", {"vif_type": "tap"})

            db.transact(False, plug)
        (refusal,) = others.errors
        assert isinstance(refusal, CloudError) and refusal.type == "PortBound"

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
