"""Two requests that meet: one begins before the other has committed. Each is served or refused, none tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.network import (
    dhcp_ports,
    floating_ips,
    networks,
    port_forwardings,
    ports,
    quotas,
    rbac_policies,
    security_groups,
    shares,
    subnets,
    tags,
)
from cloudctl.network.api import security_group_rules
from cloudctl.network.api.floating_ips import change as change_floating_ip
from cloudctl.network.api.floating_ips import check as check_floating_ip
from cloudctl.network.api.floating_ips import create as new_floating_ip
from cloudctl.network.api.logs import create as new_log
from cloudctl.network.api.ports import change as change_port
from cloudctl.network.api.ports import check as check_port
from cloudctl.network.api.resource import Wanted
from cloudctl.network.api.routers import GatewayInfo, _gateway
from cloudctl.network.api.subnets import SUBNETS
from cloudctl.network.api.tags import ResourceTags
from cloudctl.network.associations import Target
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.options import NetworkOptions
from cloudctl.network.port_forwardings import NewForwarding
from cloudctl.network.rbac_policies import NewRbacPolicy
from cloudctl.network.rules import NewRule
from cloudctl.network.security_groups import NewGroup
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import FloatingIp, IpAllocation, PortForwarding, SecurityGroup
from cloudctl.rest import quota
from tests.meanwhile import crossing, opened
from tests.network.meetings import BY, ME, NO_TARGET, NOW, call, meanwhile, member, network, new_port


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    with opened(postgresql_with_tables) as made:
        yield made


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
        security_groups.remove(conn, security_groups.to_remove(conn, member("other"), theirs.id), NOW, BY)

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
            security_groups.remove(conn, security_groups.to_remove(conn, ME, group), NOW, BY)

    assert meanwhile(db, goes, lambda conn: new_log(conn, call("logs:create"), None, body)) == type
