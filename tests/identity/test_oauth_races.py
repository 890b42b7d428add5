"""Consumers, users and their OAuth tokens in two transactions at once on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.identity import oauth, records, users
from cloudctl.identity.effective import RoleName
from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.oauth_signatures import PLAIN, SignedRequest
from cloudctl.identity.tables import OAuthConsumer, User
from tests.meanwhile import beside

from .conftest import START
from .test_identity_races import NOW, at_once, count
from .test_identity_races import keystone as keystone

KEYS = KeysInMemory()


class Consumer:
    def __init__(self, keystone: Any) -> None:
        self.keystone = keystone
        made, self.secret = keystone.db.transact(False, oauth.create_consumer, {}, KEYS, NOW)
        self.id = made.id
        self.count = 0

    def signed(self, token_secret: str = "", **more: str) -> SignedRequest:
        self.count += 1
        said = {
            "oauth_consumer_key": self.id,
            "oauth_nonce": str(self.count),
            "oauth_timestamp": str(int(START)),
            "oauth_signature_method": PLAIN,
            **more,
        }
        return SignedRequest("POST", "http://x", tuple(said.items()), said, f"{self.secret}&{token_secret}")

    def ask(self, conn: Any) -> Any:
        project_id = self.keystone.made.demo_project_id
        return oauth.request_token(conn, self.signed(), project_id, KEYS, NOW, 0)

    def authorize(self, conn: Any, token_id: str) -> str:
        roles = [RoleName(name="member")]
        return oauth.authorize(conn, token_id, self.keystone.made.demo_user_id, roles, NOW)

    def authorized(self) -> SignedRequest:
        """What exchanges a request token that demo has authorized."""
        asked = self.keystone.db.transact(False, self.ask)
        verifier = self.keystone.db.transact(False, self.authorize, asked.id)
        return self.signed(asked.secret, oauth_token=asked.id, oauth_verifier=verifier)


@pytest.fixture
def consumer(keystone: Any) -> Consumer:
    return Consumer(keystone)


@pytest.mark.parametrize("delete_first", [False, True])
def test_a_request_token_of_a_consumer_that_is_being_deleted_is_not_left_behind(
    keystone: Any, consumer: Consumer, delete_first: bool
) -> None:
    both = [consumer.ask, lambda conn: oauth.remove_consumer(conn, consumer.id)]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    for table in ("consumers", "request_tokens", "nonces"):
        assert count(keystone, f"SELECT count(*) FROM identity_oauth_{table}") == 0


@pytest.mark.parametrize("delete_first", [False, True])
def test_no_request_token_is_authorized_by_a_user_who_is_being_deleted(
    keystone: Any, consumer: Consumer, delete_first: bool
) -> None:
    asked = keystone.db.transact(False, consumer.ask)
    both = [
        lambda conn: consumer.authorize(conn, asked.id),
        lambda conn: users.remove(conn, keystone.made.demo_user_id),
    ]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert count(keystone, "SELECT count(*) FROM identity_oauth_request_tokens WHERE user_id IS NOT NULL") == 0


@pytest.mark.parametrize("whose", ["consumer", "user"])
def test_who_deletes_and_who_exchanges_a_request_token_do_not_wait_in_a_circle(
    keystone: Any, consumer: Consumer, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: dict[str, tuple[Any, str, Callable[[Any, str], None]]] = {
        "consumer": (OAuthConsumer, consumer.id, oauth.remove_consumer),
        "user": (User, keystone.made.demo_user_id, users.remove),
    }
    record, id, remove = ways[whose]
    request = consumer.authorized()

    def removal(conn: Any) -> None:
        records.get(conn, record, id, whose, lock=True)
        others.begin(oauth.access_token, request, KEYS, NOW, 0)
        remove(conn, id)

    monkeypatch.setattr("cloudctl.db.database.ATTEMPTS", 1)
    with beside(keystone.db) as others:
        keystone.db.transact(False, removal)
        assert [type(error).__name__ for error in others.errors] == ["Unauthorized"]
    assert count(keystone, "SELECT count(*) FROM identity_oauth_access_tokens") == 0
