"""Two transactions at once on PostgreSQL, about what identity providers call users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.identity import federation, users
from cloudctl.identity.federated_users import Called
from cloudctl.identity.federation_tables import FederationMapping
from cloudctl.identity.options import PasswordOptions

from .test_identity_crossings import crossing
from .test_identity_races import NOW, at_once, count
from .test_identity_races import keystone as keystone

ENDING: dict[str, Callable[[Any, str], Any]] = {
    "user": users.remove,
    "protocol": lambda conn, user_id: federation.remove_protocol(conn, "acme", "openid"),
    "provider": lambda conn, user_id: federation.remove_provider(conn, "acme"),
}


@pytest.fixture
def acme(keystone: Any) -> None:
    def make(conn: Any) -> None:
        federation.create(conn, FederationMapping, "mapping", {"id": "m", "rules": [], "schema_version": "1.0"}, NOW)
        federation.create_provider(conn, {"id": "acme", "domain_id": "default"}, [], NOW)
        federation.put_protocol(conn, "acme", "openid", {"mapping_id": "m"}, NOW)

    keystone.db.transact(False, make)


def calling(user_id: str, *names: str) -> Callable[[Any], Any]:
    changes = {"federated": [Called("acme", "openid", name) for name in names]}
    return lambda conn: users.change(conn, user_id, changes, PasswordOptions(), NOW)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("delete_first", [False, True])
@pytest.mark.parametrize("gone", ENDING)
def test_what_a_provider_calls_a_user_goes_with_each_of_them(keystone: Any, gone: str, delete_first: bool) -> None:
    user_id = keystone.make_user("jane")
    both = [calling(user_id, "x"), lambda conn: ENDING[gone](conn, user_id)]
    raised = at_once(keystone.db, *(reversed(both) if delete_first else both))
    refused = ["NotFound" if gone == "user" else "Invalid"] if delete_first else []
    assert [type(error).__name__ for error in raised] == refused
    assert count(keystone, "SELECT count(*) FROM identity_federated_users") == 0


@pytest.mark.usefixtures("acme")
def test_two_users_are_given_the_same_names_in_opposite_orders(keystone: Any) -> None:
    one, two = keystone.make_user("one"), keystone.make_user("two")
    found = crossing(keystone, calling(one, "a"), calling(two, "b", "a"), calling(one, "a", "b"))
    assert [type(error).__name__ for error in found] == ["Conflict"]
    count_of_one = f"SELECT count(*) FROM identity_federated_users WHERE user_id = '{one}'"
    assert count(keystone, count_of_one) == 2
