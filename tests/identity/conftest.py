"""An identity API in memory, asked through the real Site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define
from twisted.internet.task import Clock
from twisted.web.resource import Resource

from cloudctl.app import SERVICES
from cloudctl.db import Database
from cloudctl.db.columns import utc
from cloudctl.identity.api.root import root
from cloudctl.identity.api.tree import build
from cloudctl.identity.bootstrap import Bootstrapped, Seed, bootstrap
from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.options import Argon2, IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.tokens import Tokens
from cloudctl.rest import policy
from cloudctl.rest.app import ApiApp
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http
from cloudctl.rest.site import CloudSite
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.http import Response, request

CHEAP = Argon2(time_cost=1, memory_cost=8, parallelism=1)
START = 1_800_000_000.0


@define
class Keystone:
    """The API and what is behind it."""

    clock: Clock
    db: Database
    tokens: Tokens
    hasher: Hasher
    site: CloudSite
    made: Bootstrapped
    app: ApiApp

    def ask(self, method: str, path: str, body: Any = None, token: str = "", **headers: str) -> Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["X-Auth-Token"] = token
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        path = path if path.startswith("/identity") or path == "/" else f"/identity/v3{path}"
        return request(self.site, method, path, headers=sent, body=data)

    def login(self, name: str, password: str = "secret", scope: Any = None) -> str:
        """A token by password; `scope` is that of the request, a project's name, or None."""
        response = self.ask("POST", "/auth/tokens", password_request(name, password, scope))
        assert response.status == 201, response
        return response.headers["X-Subject-Token"]

    def admin(self) -> str:
        return self.login("admin", scope="admin")

    def make(self, token: str, collection: str, kind: str, **fields: Any) -> dict[str, Any]:
        """POST a record and give back what was made."""
        # Lists are in the order of creation.
        self.clock.advance(0.001)
        response = self.ask("POST", f"/{collection}", {kind: fields}, token)
        assert response.status == 201, response
        made: dict[str, Any] = response.json()[kind]
        return made

    def make_user(self, name: str, role: str = "", scope: str = "projects", on: str = "", **fields: Any) -> str:
        """A user with the password «secret» and perhaps a role on a project or a domain. The id."""
        token = self.admin()
        user_id: str = self.make(token, "users", "user", name=name, password="secret", **fields)["id"]
        if role:
            self.grant(token, f"/{scope}/{on}/users/{user_id}", role)
        return user_id

    def grant(self, token: str, where: str, role: str) -> None:
        response = self.ask("PUT", f"{where}/roles/{self.made.role_ids[role]}", token=token)
        assert response.status == 204, response

    def is_valid(self, token: str) -> bool:
        return self.ask("GET", "/auth/projects", token=token).status == 200


def password_request(name: str, password: str = "secret", scope: Any = None) -> dict[str, Any]:
    user = {"name": name, "domain": {"name": "Default"}, "password": password}
    auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": user}}}
    if isinstance(scope, str):
        scope = {"project": {"name": scope, "domain": {"name": "Default"}}}
    if scope is not None:
        auth["scope"] = scope
    return {"auth": auth}


def make_keystone(db: Database, clock: Clock, options: IdentityOptions) -> Keystone:
    """`db` has all tables and no rows."""
    hasher = Hasher.inline(options.argon2)
    tokens = Tokens(db, KeysInMemory(), options)
    http = Http(tokens, policy.load(["identity"], None), clock, Metrics())
    catalog = tuple(entry for service in SERVICES for entry in service.catalog)
    seed = Seed(hasher.hashing.hash("secret"), hasher.hashing.hash("secret"), catalog=catalog)
    made = db.transact(False, bootstrap, seed, utc(clock.seconds()))
    app = build(http, db, tokens, hasher, KeysInMemory(), options)
    tree = Resource()
    tree.putChild(b"identity", app.resource())
    tree.putChild(b"", root(http).resource())
    return Keystone(clock, db, tokens, hasher, CloudSite(tree, clock, None), made, app)


@pytest.fixture
def options() -> IdentityOptions:
    return IdentityOptions(argon2=CHEAP)


@pytest.fixture
def keystone(options: IdentityOptions) -> Iterator[Keystone]:
    clock = Clock()
    clock.advance(START)
    db = empty_database(clock)
    yield make_keystone(db, clock, options)
    db.close()
