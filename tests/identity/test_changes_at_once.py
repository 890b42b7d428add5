"""Two changes of one record at once on PostgreSQL: neither undoes the other, nor do they wait in a circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.identity import credentials, endpoint_filters, groups, oauth, records, services
from cloudctl.identity.api import policies
from cloudctl.identity.credentials import Delegated
from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.tables import Credential, Endpoint, EndpointGroup, Group, OAuthConsumer, PolicyBlob, Service
from tests.meanwhile import beside

from .test_identity_races import NOW, an_endpoint, at_once
from .test_identity_races import keystone as keystone

KEYS = KeysInMemory()
ANY: Any = None  # a call that is not looked at
# The record, how one is found or made (for a user), and how it is changed.
Kind = tuple[Any, Callable[[Any, str], Any], Callable[[Any, str, Any], Any]]
KINDS: dict[str, Kind] = {
    "credential": (
        Credential,
        lambda conn, user_id: (
            credentials.create(conn, {"type": "x", "blob": "", "user_id": user_id}, KEYS, Delegated(), NOW, 0).id
        ),
        lambda conn, id, changes: credentials.change(conn, id, changes, KEYS),
    ),
    "consumer": (
        OAuthConsumer,
        lambda conn, user_id: oauth.create_consumer(conn, {}, KEYS, NOW)[0].id,
        oauth.change_consumer,
    ),
    "group": (
        Group,
        lambda conn, user_id: groups.create(conn, {"name": "x", "domain_id": "default"}, NOW).id,
        groups.change,
    ),
    "endpoint": (
        Endpoint,
        lambda conn, user_id: an_endpoint(conn)[0],
        lambda conn, id, changes: services.change_endpoint(conn, id, changes, NOW, make_region=False),
    ),
    "service": (Service, lambda conn, user_id: an_endpoint(conn)[1], services.change_service),
    "policy": (
        PolicyBlob,
        lambda conn, user_id: records.create(conn, PolicyBlob, {"type": "x", "blob": "x"}, NOW).id,
        lambda conn, id, changes: policies.change(conn, ANY, id, changes),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_of_its_own_that_two_clients_set_are_all_kept(keystone: Any, kind: str) -> None:
    record, find, change = KINDS[kind]
    id = keystone.db.transact(False, find, keystone.made.demo_user_id)
    both = [lambda conn, each=each: change(conn, id, {"extra": {each: "x"}}) for each in ("a", "b")]
    assert at_once(keystone.db, *both) == []
    assert keystone.db.transact(True, records.get, record, id, kind).extra == {"a": "x", "b": "x"}


def group_of_endpoints(conn: Any, user_id: str) -> str:
    return str(endpoint_filters.create(conn, {"name": "x", "filters": {}}, NOW).id)


REMOVED: dict[str, tuple[Any, Any, Any, Any]] = {
    "endpoint": (*KINDS["endpoint"], services.remove_endpoint),
    "service": (*KINDS["service"], services.remove_service),
    "endpoint group": (EndpointGroup, group_of_endpoints, endpoint_filters.change, endpoint_filters.remove),
}


@pytest.mark.parametrize("kind", REMOVED)
def test_a_change_waits_for_a_removal_before_it_counts(
    keystone: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, find, change, remove = REMOVED[kind]
    id = keystone.db.transact(False, find, keystone.made.demo_user_id)

    def removal(conn: Any) -> None:
        records.get(conn, record, id, kind, lock=True)
        others.begin(change, id, {"extra": {}} if kind == "endpoint" else {"description": "x"})
        remove(conn, id)

    # Nobody waits for another in a circle, so nothing is tried again.
    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    with beside(keystone.db) as others:
        keystone.db.transact(False, removal)
        assert [type(error).__name__ for error in others.errors] == ["NotFound"]
