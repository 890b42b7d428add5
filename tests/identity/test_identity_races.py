"""Two transactions at once on PostgreSQL: nothing is left behind that belongs to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import text
from twisted.internet.task import Clock

from cloudctl.db import Database
from cloudctl.db.columns import utc
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.identity import (
    application_credentials,
    assignments,
    credentials,
    domains,
    endpoint_filters,
    federation,
    groups,
    limits,
    projects,
    roles,
    services,
    trusts,
    users,
)
from cloudctl.identity.assignments import Actor, Target
from cloudctl.identity.effective import RoleName
from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.options import IdentityOptions, PasswordOptions
from cloudctl.identity.tables import ProjectEndpoint, ProjectEndpointGroup
from cloudctl.rest import policy
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from tests.meanwhile import beside

from .conftest import CHEAP, START, make_keystone

NOW = utc(START)


@pytest.fixture
def keystone(postgresql_with_tables: str) -> Iterator[Any]:
    clock = Clock()
    clock.advance(START)
    inline: Any = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, clock)
    yield make_keystone(db, clock, IdentityOptions(argon2=CHEAP))
    db.close()


def at_once(db: Database, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> list[BaseException]:
    """`second` begins when `first` has done its work and not committed yet. What was raised."""
    raised: list[BaseException] = []
    with beside(db) as others:

        def both(conn: Any) -> None:
            first(conn)
            others.begin(second)

        try:
            db.transact(False, both)
        except Exception as error:  # whatever it is, the test compares it
            raised.append(error)
        return [*raised, *others.errors]


def count(keystone: Any, query: str) -> int:
    return int(keystone.db.transact(True, lambda conn: conn.execute(text(query)).scalar()))


def domain(keystone: Any) -> str:
    def make(conn: Any) -> str:
        return str(domains.create(conn, {"name": "other", "enabled": False}, NOW).id)

    made: str = keystone.db.transact(False, make)
    return made


MAKERS: dict[str, Callable[[Any, str], Any]] = {
    "user": lambda conn, id: users.create(conn, {"name": "x", "domain_id": id}, PasswordOptions(), NOW),
    "group": lambda conn, id: groups.create(conn, {"name": "x", "domain_id": id}, NOW),
    "role": lambda conn, id: roles.create(conn, {"name": "x", "domain_id": id}, NOW),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("delete_first", [False, True])
def test_a_record_of_a_domain_that_is_being_deleted_is_not_left_behind(
    keystone: Any, kind: str, delete_first: bool
) -> None:
    domain_id = domain(keystone)
    make = MAKERS[kind]
    both = [lambda conn: make(conn, domain_id), lambda conn: domains.remove(conn, domain_id)]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_projects WHERE name = 'other'") == 0
    assert count(keystone, f"SELECT count(*) FROM identity_{kind}s WHERE domain_id = '{domain_id}'") == 0


@pytest.mark.parametrize("delete_first", [False, True])
def test_a_grant_on_a_project_that_is_being_deleted_is_not_left_behind(keystone: Any, delete_first: bool) -> None:
    made = keystone.made
    actor, target = Actor("user", made.admin_user_id), Target("project", made.demo_project_id)
    both = [
        lambda conn: assignments.grant(conn, actor, target, made.role_ids["reader"]),
        lambda conn: projects.remove(conn, made.demo_project_id),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    query = f"SELECT count(*) FROM identity_assignments WHERE target_id = '{made.demo_project_id}'"
    assert count(keystone, query) == 0


def resource(keystone: Any) -> dict[str, str]:
    """What a limit can be registered for."""

    def service(conn: Any) -> str:
        return str(services.create_service(conn, {"type": "x", "name": "x", "enabled": True}, NOW).id)

    return {"service_id": keystone.db.transact(False, service), "region_id": "", "resource_name": "x"}


def registered_limit(keystone: Any, key: dict[str, str]) -> str:
    def make(conn: Any) -> str:
        return str(limits.create_registered(conn, {**key, "default_limit": 1, "description": None}, NOW).id)

    made: str = keystone.db.transact(False, make)
    return made


ENDS: dict[str, Callable[[Any, str], Any]] = {
    "removed": limits.remove_registered,
    "for something else": lambda conn, id: limits.change_registered(conn, id, {"resource_name": "y"}),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("end_first", [False, True])
def test_a_limit_is_one_of_what_is_registered(keystone: Any, end: str, end_first: bool) -> None:
    key = resource(keystone)
    registered = registered_limit(keystone, key)
    own = {"project_id": keystone.made.demo_project_id, "domain_id": "", "resource_limit": 1, "description": None}
    both = [lambda conn: limits.create(conn, {**key, **own}, NOW), lambda conn: ENDS[end](conn, registered)]
    raised = at_once(keystone.db, *(reversed(both) if end_first else both))
    assert [type(error).__name__ for error in raised] == ["Forbidden"]
    of_it = f"SELECT count(*) FROM identity_registered_limits WHERE id = '{registered}' AND resource_name = 'x'"
    assert count(keystone, "SELECT count(*) FROM identity_limits") == count(keystone, of_it)


@pytest.mark.parametrize("delete_first", [False, True])
def test_a_limit_of_a_project_that_is_being_deleted_is_not_left_behind(keystone: Any, delete_first: bool) -> None:
    key = resource(keystone)
    registered_limit(keystone, key)
    project_id = keystone.made.demo_project_id
    own = {"project_id": project_id, "domain_id": "", "resource_limit": 1, "description": None}
    both = [
        lambda conn: limits.create(conn, {**key, **own}, NOW),
        lambda conn: projects.remove(conn, project_id),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_limits") == 0


def regions(keystone: Any, *ids: str) -> None:
    def make(conn: Any) -> None:
        for id in ids:
            services.create_region(conn, {"id": id}, NOW)

    keystone.db.transact(False, make)


def test_two_regions_do_not_become_each_others_parent(keystone: Any) -> None:
    regions(keystone, "a", "b")
    both = [
        lambda conn: services.change_region(conn, "a", {"parent_region_id": "b"}),
        lambda conn: services.change_region(conn, "b", {"parent_region_id": "a"}),
    ]
    assert [type(error).__name__ for error in at_once(keystone.db, *both)] == ["Invalid"]


IN_REGION: dict[str, Callable[[Any], Any]] = {
    "new child": lambda conn: services.create_region(conn, {"id": "child", "parent_region_id": "a"}, NOW),
    "moved child": lambda conn: services.change_region(conn, "b", {"parent_region_id": "a"}),
}


@pytest.mark.parametrize("delete_first", [False, True])
def test_an_endpoint_in_a_region_that_is_being_deleted_is_not_left_behind(keystone: Any, delete_first: bool) -> None:
    regions(keystone, "a")
    service_id = resource(keystone)["service_id"]
    new = {"interface": "public", "service_id": service_id, "url": "http://x", "region_id": "a", "enabled": True}
    both = [
        lambda conn: services.create_endpoint(conn, new, NOW, make_region=False),
        lambda conn: services.remove_region(conn, "a"),
    ]
    assert len(at_once(keystone.db, *(reversed(both) if delete_first else both))) == 1
    there = count(keystone, "SELECT count(*) FROM identity_regions WHERE id = 'a'")
    assert count(keystone, "SELECT count(*) FROM identity_endpoints WHERE region_id = 'a'") == there


@pytest.mark.parametrize("what", IN_REGION)
@pytest.mark.parametrize("delete_first", [False, True])
def test_what_is_put_into_a_region_that_is_being_deleted_is_not_left_behind(
    keystone: Any, what: str, delete_first: bool
) -> None:
    regions(keystone, "a", "b")
    both = [IN_REGION[what], lambda conn: services.remove_region(conn, "a")]
    assert len(at_once(keystone.db, *(reversed(both) if delete_first else both))) == 1
    there = count(keystone, "SELECT count(*) FROM identity_regions WHERE id = 'a'")
    assert count(keystone, "SELECT count(*) FROM identity_regions WHERE parent_region_id = 'a'") == there


def test_the_same_grant_twice_at_once_is_no_error(keystone: Any) -> None:
    made = keystone.made
    actor, target = Actor("user", made.demo_user_id), Target("project", made.demo_project_id)

    def grant(conn: Any) -> None:
        assignments.grant(conn, actor, target, made.role_ids["manager"])

    assert at_once(keystone.db, grant, grant) == []


def test_the_same_name_twice_at_once_is_a_conflict_for_one(keystone: Any) -> None:
    def make(conn: Any) -> None:
        users.create(conn, {"name": "x", "domain_id": "default"}, PasswordOptions(), NOW)

    assert [type(error).__name__ for error in at_once(keystone.db, make, make)] == ["Conflict"]


def test_the_epoch_counts_every_change_of_two_at_once(keystone: Any) -> None:
    before = count(keystone, "SELECT value FROM identity_epoch")
    made = keystone.made
    roles_ = [made.role_ids[name] for name in ("manager", "service")]
    actor, target = Actor("user", made.demo_user_id), Target("project", made.demo_project_id)
    grants = [lambda conn, role=role: assignments.grant(conn, actor, target, role) for role in roles_]
    assert at_once(keystone.db, *grants) == []
    assert count(keystone, "SELECT value FROM identity_epoch") == before + 2


def user(conn: Any, user_id: str, column: str) -> Any:
    return conn.execute(text(f"SELECT {column} FROM identity_users WHERE id = :id"), {"id": user_id}).scalar()


def test_who_knows_an_old_password_does_not_undo_its_reset(keystone: Any) -> None:
    db, user_id = keystone.db, keystone.made.demo_user_id
    old = db.transact(True, user, user_id, "password_hash")
    changed: list[bool] = []

    def change(conn: Any) -> None:
        changed.append(users.change_own_password(conn, user_id, old, "chosen", PasswordOptions(), NOW))

    def reset(conn: Any) -> None:
        users.change(conn, user_id, {"password_hash": "reset"}, PasswordOptions(), NOW)

    assert at_once(db, reset, change) == []
    assert changed == [False]
    assert db.transact(True, user, user_id, "password_hash") == "reset"


def test_options_of_a_user_that_two_set_at_once_are_all_kept(keystone: Any) -> None:
    user_id = keystone.made.demo_user_id

    def set_option(name: str) -> Callable[[Any], Any]:
        return lambda conn: users.change(conn, user_id, {"options": {name: True}}, PasswordOptions(), NOW)

    assert at_once(keystone.db, *map(set_option, ("multi_factor_auth_enabled", "lock_password"))) == []
    found = keystone.db.transact(True, users.get, user_id).options
    assert found == {"multi_factor_auth_enabled": True, "lock_password": True}


def test_a_user_who_is_disabled_while_being_enabled_loses_the_tokens_of_before(keystone: Any) -> None:
    user_id = keystone.made.demo_user_id

    def switch(enabled: bool) -> Callable[[Any], Any]:
        return lambda conn: users.change(conn, user_id, {"enabled": enabled}, PasswordOptions(), NOW)

    keystone.db.transact(False, switch(False))
    before = count(keystone, "SELECT count(*) FROM identity_revocations")
    assert at_once(keystone.db, switch(True), switch(False)) == []
    assert not keystone.db.transact(True, users.get, user_id).enabled
    assert count(keystone, "SELECT count(*) FROM identity_revocations") == before + 1


def below(keystone: Any, **values: Any) -> Callable[[Any], Any]:
    """A new project below `demo`."""
    new = {"name": "child", "domain_id": "default", "parent_id": keystone.made.demo_project_id, **values}
    return lambda conn: projects.create(conn, new, NOW, most_depth=5).id


def switched(change: Callable[..., Any], id: str, enabled: bool) -> Callable[[Any], Any]:
    return lambda conn: change(conn, id, {"enabled": enabled}, NOW)


@pytest.mark.parametrize("disable_first", [False, True])
@pytest.mark.parametrize("child", ["new", "enabled again"])
def test_no_project_is_enabled_below_one_that_is_being_disabled(keystone: Any, child: str, disable_first: bool) -> None:
    act = below(keystone)
    if child == "enabled again":
        act = switched(projects.change, keystone.db.transact(False, below(keystone, enabled=False)), True)
    both = [act, switched(projects.change, keystone.made.demo_project_id, False)]
    raised = at_once(keystone.db, *(reversed(both) if disable_first else both))
    assert [type(error).__name__ for error in raised] == ["Forbidden"]


@pytest.mark.parametrize("kind", ["project", "domain"])
def test_what_is_disabled_while_being_enabled_loses_the_tokens_of_before(keystone: Any, kind: str) -> None:
    change: Any = projects.change
    id = keystone.made.demo_project_id
    if kind == "domain":
        change, id = domains.change, domain(keystone)
    else:
        keystone.db.transact(False, switched(change, id, False))
    before = count(keystone, "SELECT count(*) FROM identity_revocations")
    assert at_once(keystone.db, switched(change, id, True), switched(change, id, False)) == []
    assert count(keystone, f"SELECT count(*) FROM identity_projects WHERE id = '{id}' AND enabled") == 0
    assert count(keystone, "SELECT count(*) FROM identity_revocations") > before


def immutable(keystone: Any, kind: str) -> Any:
    """How to change a record, and its id."""
    if kind == "role":
        return roles.change, keystone.db.transact(False, MAKERS["role"], "").id
    change = {"project": projects.change, "domain": domains.change}[kind]
    id = keystone.made.demo_project_id if kind == "project" else domain(keystone)
    return (lambda conn, id, changes: change(conn, id, changes, NOW)), id


@pytest.mark.parametrize("kind", ["project", "domain", "role"])
def test_what_is_being_made_immutable_is_not_changed_meanwhile(keystone: Any, kind: str) -> None:
    change, id = immutable(keystone, kind)
    both = [{"options": {"immutable": True}}, {"name": "other name"}]
    raised = at_once(keystone.db, *(lambda conn, each=each: change(conn, id, each) for each in both))
    assert [type(error).__name__ for error in raised] == ["Forbidden"]


def granted(keystone: Any) -> tuple[Actor, Target, str]:
    """What makes `demo` a member of its project."""
    made = keystone.made
    return Actor("user", made.demo_user_id), Target("project", made.demo_project_id), made.role_ids["member"]


def caller(keystone: Any) -> Caller:
    """`demo`, with a token for its project."""
    made = keystone.made
    identity = Identity(
        user_id=made.demo_user_id, project_id=made.demo_project_id, roles=frozenset(["member", "reader"])
    )
    return Caller(identity, policy.load(["identity"], None), NOW, "")


@pytest.mark.parametrize("revoke_first", [False, True])
def test_no_application_credential_is_made_of_a_role_that_is_being_revoked(keystone: Any, revoke_first: bool) -> None:
    asks = caller(keystone)
    new = application_credentials.NewCredential("x", "hash", None, None, False, None, None)
    most = application_credentials.Limits(0, 0)
    both = [
        lambda conn: application_credentials.create(conn, asks, new, most),
        lambda conn: assignments.revoke(conn, *granted(keystone)),
    ]
    at_once(keystone.db, *(reversed(both) if revoke_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_application_credentials") == 0


@pytest.mark.parametrize("delete_first", [False, True])
def test_an_access_rule_that_is_being_deleted_is_no_credentials(keystone: Any, delete_first: bool) -> None:
    asks, most = caller(keystone), application_credentials.Limits(0, 0)

    def make(conn: Any, name: str) -> str:
        rules = [application_credentials.NewRule(path="/x", method="GET", service="compute")]
        new = application_credentials.NewCredential(name, "hash", None, None, False, None, rules)
        return str(application_credentials.create(conn, asks, new, most).id)

    def unused(conn: Any) -> str:
        application_credentials.remove(conn, asks.user_id, make(conn, "x"))
        return str(conn.execute(text("SELECT id FROM identity_access_rules")).scalar())

    rule_id = keystone.db.transact(False, unused)
    both = [
        lambda conn: make(conn, "y"),
        lambda conn: application_credentials.remove_rule(conn, asks.user_id, rule_id),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    there = count(keystone, "SELECT count(*) FROM identity_access_rules")
    assert count(keystone, "SELECT count(*) FROM identity_application_credential_rules") == there == 1


@pytest.mark.parametrize("delete_first", [False, True])
def test_a_key_pair_of_an_application_credential_that_is_being_deleted_is_not_left_behind(
    keystone: Any, delete_first: bool
) -> None:
    asks, keys = caller(keystone), KeysInMemory()
    new = application_credentials.NewCredential("x", "hash", None, None, True, None, None)
    most = application_credentials.Limits(0, 0)
    made = keystone.db.transact(False, application_credentials.create, asks, new, most).id
    pair = (asks.user_id, asks.project_id, keys, credentials.Delegated(made), NOW, 0)
    both = [
        lambda conn: credentials.create_ec2(conn, *pair),
        lambda conn: application_credentials.remove(conn, asks.user_id, made),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_credentials") == 0


@pytest.mark.parametrize("delete_first", [False, True])
def test_a_remote_id_of_a_provider_that_is_being_deleted_is_free_again(keystone: Any, delete_first: bool) -> None:
    provider = {"id": "acme", "domain_id": "default"}
    keystone.db.transact(False, federation.create_provider, provider, [], NOW)
    both = [
        lambda conn: federation.change_provider(conn, "acme", {}, ["https://acme"]),
        lambda conn: federation.remove_provider(conn, "acme"),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_remote_ids") == 0


@pytest.mark.parametrize("delete_first", [False, True])
def test_a_trust_made_from_one_that_is_being_deleted_is_not_left_behind(keystone: Any, delete_first: bool) -> None:
    made, asks = keystone.made, caller(keystone)

    def new(count: int) -> trusts.NewTrust:
        roles = [RoleName(name="member")]
        return trusts.NewTrust(made.admin_user_id, made.demo_project_id, True, roles, None, None, count, {})

    most = trusts.Limits(1, 0)
    first = keystone.db.transact(False, trusts.create, asks, new(1), most).id
    by_trust = asks.as_(evolve(asks.identity, trust_id=first))
    both = [
        lambda conn: trusts.create(conn, by_trust, new(0), most),
        lambda conn: trusts.remove(conn, first),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_trusts") == 0


def an_endpoint(conn: Any) -> Any:
    """Its id and that of its service."""
    return conn.execute(text("SELECT id, service_id FROM identity_endpoints")).first()


def group_of_endpoints(conn: Any) -> str:
    return str(endpoint_filters.create(conn, {"name": "x", "filters": {}}, NOW).id)


@pytest.mark.parametrize("delete_first", [False, True])
@pytest.mark.parametrize("deleted", ["project", "endpoint", "service", "group"])
def test_what_is_being_deleted_is_not_associated(keystone: Any, deleted: str, delete_first: bool) -> None:
    """Or catalogs would be cached for each project, for ever."""
    project_id = keystone.made.demo_project_id
    endpoint_id, service_id = keystone.db.transact(True, an_endpoint)
    group_id = keystone.db.transact(False, group_of_endpoints)
    key = {"group_id": group_id} if deleted == "group" else {"endpoint_id": endpoint_id}
    record = ProjectEndpointGroup if deleted == "group" else ProjectEndpoint
    delete = {
        "project": lambda conn: projects.remove(conn, project_id),
        "endpoint": lambda conn: services.remove_endpoint(conn, endpoint_id),
        "service": lambda conn: services.remove_service(conn, service_id),
        "group": lambda conn: endpoint_filters.remove(conn, group_id),
    }
    both = [lambda conn: endpoint_filters.associate(conn, record, project_id=project_id, **key), delete[deleted]]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert not keystone.db.transact(True, endpoint_filters.is_used)


def two_roles(keystone: Any) -> tuple[str, str]:
    def make(conn: Any) -> tuple[str, ...]:
        return tuple(roles.create(conn, {"name": name, "domain_id": ""}, NOW).id for name in ("one", "two"))

    one, two = keystone.db.transact(False, make)
    return one, two


def test_two_roles_do_not_imply_each_other(keystone: Any) -> None:
    one, two = two_roles(keystone)
    both = [lambda conn: roles.imply(conn, one, two), lambda conn: roles.imply(conn, two, one)]
    assert [type(error).__name__ for error in at_once(keystone.db, *both)] == ["Invalid"]


@pytest.mark.parametrize("delete_first", [False, True])
@pytest.mark.parametrize("deleted", [0, 1])
def test_an_implication_of_a_role_that_is_being_deleted_is_not_left_behind(
    keystone: Any, deleted: int, delete_first: bool
) -> None:
    ids = two_roles(keystone)
    both = [lambda conn: roles.imply(conn, *ids), lambda conn: roles.remove(conn, ids[deleted])]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    query = f"SELECT count(*) FROM identity_implied_roles WHERE prior_id = '{ids[0]}'"
    assert count(keystone, query) == 0
