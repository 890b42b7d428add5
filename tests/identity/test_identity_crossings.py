"""Two transactions that cross on PostgreSQL: nobody waits for another in a circle, so nothing is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import text

from cloudctl.identity import (
    application_credentials,
    assignments,
    credentials,
    federation,
    groups,
    limits,
    projects,
    records,
    trusts,
    users,
)
from cloudctl.identity.assignments import Actor, Target
from cloudctl.identity.effective import RoleName
from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.tables import ApplicationCredential, Trust
from tests.meanwhile import beside

from .test_identity_races import NOW, at_once, caller, count, granted, registered_limit, resource
from .test_identity_races import keystone as keystone


def crossing(
    keystone: Any, first: Callable[[Any], Any], other: Callable[[Any], Any], then: Callable[[Any], Any]
) -> list[BaseException]:
    """One transaction runs `first` and `then`; `other` runs in another one that begins in between. What it raised."""
    with beside(keystone.db) as others, pytest.MonkeyPatch.context() as patch:
        patch.setattr("cloudctl.db.database.ATTEMPTS", 1)

        def run(conn: Any) -> None:
            first(conn)
            others.begin(other)
            then(conn)

        keystone.db.transact(False, run)
        return others.errors


def new_trust(trustee_id: str, project_id: str, role: str) -> trusts.NewTrust:
    return trusts.NewTrust(trustee_id, project_id, False, [RoleName(name=role)], None, None, 0, {})


def made_in(keystone: Any, what: str) -> Callable[[Any], Any]:
    """Something of demo's in the project demo."""
    asks, most = caller(keystone), application_credentials.Limits(0, 0)
    new = application_credentials.NewCredential("x", "hash", None, None, False, None, None)
    pair = (asks.user_id, asks.project_id, KeysInMemory(), credentials.Delegated(), NOW, 0)
    trust = new_trust(keystone.made.admin_user_id, asks.project_id, "member")
    return {
        "application credential": lambda conn: application_credentials.create(conn, asks, new, most),
        "key pair": lambda conn: credentials.create_ec2(conn, *pair),
        "trust": lambda conn: trusts.create(conn, asks, trust, trusts.Limits(0, 0)),
        "role": lambda conn: assignments.grant(conn, *granted(keystone)),
    }[what]


@pytest.mark.parametrize("what", ["application credential", "key pair", "trust", "role"])
def test_a_project_is_deleted_while_who_has_it_as_default_gets_something_there(keystone: Any, what: str) -> None:
    user_id, project_id = keystone.made.demo_user_id, keystone.made.demo_project_id
    default = text(f"UPDATE identity_users SET default_project_id = '{project_id}' WHERE id = '{user_id}'")
    keystone.db.transact(False, lambda conn: conn.execute(default))

    def hold(conn: Any) -> None:
        users.get(conn, user_id, lock=what != "role", stays=True)

    assert crossing(keystone, hold, lambda conn: projects.remove(conn, project_id), made_in(keystone, what)) == []
    assert count(keystone, "SELECT count(*) FROM identity_users WHERE default_project_id IS NOT NULL") == 0


@pytest.mark.parametrize("kind", ["user", "project"])
def test_a_trust_is_deleted_while_its_user_or_project_is(keystone: Any, kind: str) -> None:
    """With an application credential, which is deleted before."""
    keystone.db.transact(False, made_in(keystone, "application credential"))
    trust_id = keystone.db.transact(False, made_in(keystone, "trust")).id
    remove = {
        "user": lambda conn: users.remove(conn, keystone.made.demo_user_id),
        "project": lambda conn: projects.remove(conn, keystone.made.demo_project_id),
    }[kind]
    found = crossing(
        keystone,
        lambda conn: records.get(conn, Trust, trust_id, "trust", lock=True),
        remove,
        lambda conn: trusts.remove(conn, trust_id),
    )
    assert found == []


@pytest.mark.parametrize("disable_first", [False, True])
def test_no_application_credential_is_made_in_a_project_that_is_being_disabled(
    keystone: Any, disable_first: bool
) -> None:
    make = made_in(keystone, "application credential")
    both = [make, lambda conn: projects.change(conn, keystone.made.demo_project_id, {"enabled": False}, NOW)]
    at_once(keystone.db, *(reversed(both) if disable_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_application_credentials") == 0


def test_an_application_credential_is_deleted_while_its_project_is_disabled(keystone: Any) -> None:
    made = keystone.db.transact(False, made_in(keystone, "application credential"))
    found = crossing(
        keystone,
        lambda conn: records.get(conn, ApplicationCredential, made.id, "application credential", lock=True),
        lambda conn: projects.change(conn, keystone.made.demo_project_id, {"enabled": False}, NOW),
        lambda conn: application_credentials.remove(conn, made.user_id, made.id),
    )
    assert found == []


def test_a_user_is_changed_while_a_group_loses_its_role(keystone: Any) -> None:
    """The other member, whose turn comes first, loses an application credential."""
    made = keystone.made
    group = Actor("group", keystone.db.transact(False, groups.create, {"name": "x", "domain_id": "default"}, NOW).id)
    target, role_id = Target("project", made.demo_project_id), made.role_ids["manager"]
    one, two = sorted([made.admin_user_id, made.demo_user_id])

    def prepare(conn: Any) -> None:
        for user_id in (one, two):
            groups.add(conn, group.id, user_id)
        assignments.grant(conn, group, target, role_id)
        asks = caller(keystone)
        asks = asks.as_(evolve(asks.identity, user_id=one, roles=frozenset(["manager"])))
        new = application_credentials.NewCredential("x", "hash", None, None, False, None, None)
        application_credentials.create(conn, asks, new, application_credentials.Limits(0, 0))

    keystone.db.transact(False, prepare)
    found = crossing(
        keystone,
        lambda conn: users.get(conn, two, lock=True),
        lambda conn: assignments.revoke(conn, group, target, role_id),
        lambda conn: users.change(conn, two, {"enabled": False}, PasswordOptions(), NOW),
    )
    assert found == []
    assert count(keystone, "SELECT count(*) FROM identity_application_credentials") == 0


def test_two_users_trust_each_other(keystone: Any) -> None:
    made, demo = keystone.made, caller(keystone)
    identity = evolve(
        demo.identity, user_id=made.admin_user_id, project_id=made.admin_project_id, roles=frozenset(["admin"])
    )
    both = {
        made.demo_user_id: (demo, new_trust(made.admin_user_id, made.demo_project_id, "member")),
        made.admin_user_id: (demo.as_(identity), new_trust(made.demo_user_id, made.admin_project_id, "admin")),
    }
    one, two = sorted(both)

    def make(id: str) -> Callable[[Any], Any]:
        return lambda conn: trusts.create(conn, *both[id], trusts.Limits(0, 0))

    assert crossing(keystone, lambda conn: users.get(conn, one, lock=True), make(two), make(one)) == []
    assert count(keystone, "SELECT count(*) FROM identity_trusts") == 2


def registering(key: dict[str, str], *names: str) -> Callable[[Any], Any]:
    """Registered limits of one service, made in one request."""
    wanted = [{**key, "resource_name": name, "default_limit": 1, "description": None} for name in names]
    return lambda conn: limits.create_all(conn, limits.create_registered, wanted, NOW)


def test_two_clients_register_the_same_limits_in_opposite_orders(keystone: Any) -> None:
    key = resource(keystone)
    found = crossing(keystone, registering(key, "a"), registering(key, "b", "a"), registering(key, "b"))
    assert [type(error).__name__ for error in found] == ["Conflict"]
    assert count(keystone, "SELECT count(*) FROM identity_registered_limits") == 2


def test_two_clients_set_the_same_limits_in_opposite_orders(keystone: Any) -> None:
    key = resource(keystone)
    registered_limit(keystone, key)
    one, two = sorted([keystone.made.admin_project_id, keystone.made.demo_project_id])

    def setting(*projects: str) -> Callable[[Any], Any]:
        own = {"domain_id": "", "resource_limit": 1, "description": None}
        wanted = [{**key, **own, "project_id": project_id} for project_id in projects]
        return lambda conn: limits.create_all(conn, limits.create, wanted, NOW)

    found = crossing(keystone, setting(one), setting(two, one), setting(two))
    assert [type(error).__name__ for error in found] == ["Conflict"]
    assert count(keystone, "SELECT count(*) FROM identity_limits") == 2


def test_two_identity_providers_are_given_the_same_remote_ids_in_opposite_orders(keystone: Any) -> None:
    def make(id: str, *remote: str) -> Callable[[Any], Any]:
        return lambda conn: federation.create_provider(conn, {"id": id, "domain_id": "default"}, remote, NOW)

    def give(id: str, *remote: str) -> Callable[[Any], Any]:
        return lambda conn: federation.change_provider(conn, id, {}, remote)

    keystone.db.transact(False, make("acme"))
    found = crossing(keystone, give("acme", "a"), make("other", "b", "a"), give("acme", "a", "b"))
    assert [type(error).__name__ for error in found] == ["Conflict"]
    assert count(keystone, "SELECT count(*) FROM identity_remote_ids WHERE provider_id = 'acme'") == 2
