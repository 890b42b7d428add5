"""Two changes of one record at once on PostgreSQL: neither undoes the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.identity import credentials, groups, oauth, records, services
from cloudctl.identity.api import policies
from cloudctl.identity.credentials import Delegated
from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.tables import Credential, Endpoint, Group, OAuthConsumer, PolicyBlob, Service

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
