"""Identity as a part of a cloud: it also validates the tokens of all other APIs, and answers at the root."""

from __future__ import annotations

from attrs import evolve
from twisted.application.service import IService

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection
from cloudctl.identity.api.root import root
from cloudctl.identity.bearers import Bearers
from cloudctl.identity.bootstrap import Seed, bootstrap
from cloudctl.identity.ended import ENDED
from cloudctl.identity.keys import CREDENTIAL_KEYS, FERNET_KEYS, KeyRing, KeysInMemory, KeyWatch
from cloudctl.identity.options import Argon2, IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.payload import Keys
from cloudctl.identity.signers import Signers
from cloudctl.identity.tokens import Tokens
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http


def compose(cloud: Surroundings) -> Part:
    options = cloud.config.section(IdentityOptions)
    rings: tuple[KeyRing, ...] = ()
    token_keys: Keys
    credential_keys: Keys
    if cloud.in_memory:
        # A test must not wait for a hash that is slow on purpose.
        options = evolve(options, argon2=Argon2(time_cost=1, memory_cost=8, parallelism=1))
        hasher = Hasher.inline(options.argon2)
        token_keys, credential_keys = KeysInMemory(), KeysInMemory()
    else:
        hasher = Hasher.open(options.argon2, cloud.reactor, options.hash_threads, options.hash_queue)
        rings = tuple(KeyRing(cloud.db, cloud.seal, name) for name in (FERNET_KEYS, CREDENTIAL_KEYS))
        token_keys, credential_keys = rings
    tokens = Tokens(cloud.db, token_keys, options)
    watching: tuple[IService, ...] = (KeyWatch(cloud.clock, cloud.db, rings, tokens.forget),) if rings else ()

    def prepare() -> None:
        for ring in rings:
            ring.prepare(cloud.config.state_dir / ring.purpose)

    def first_rows(conn: Connection, first: FirstStart) -> None:
        admin, demo = (hasher.hashing.hash(first.passwords[user]) for user in ("admin", "demo"))
        bootstrap(conn, Seed(admin, demo, options.region, catalog=first.catalog), first.now)

    def build(http: Http) -> ApiApp:
        from cloudctl.identity.api import tree

        ha_url = cloud.config.server.ha_url
        return tree.build(http, cloud.db, tokens, hasher, credential_keys, options, ha_url)

    return Part(
        build,
        prepare=prepare,
        bootstrap=first_rows,
        supports=(hasher, *watching),
        shown=(
            tokens,
            Signers(cloud.db, credential_keys, options, tokens.memory),
            Bearers(cloud.db, tokens, hasher, options, credential_keys),
        ),
        authenticator=tokens,
        root=root,
    )


SERVICE = Service(
    "cloudctl.identity",
    "Identity",
    compose,
    mount="identity",
    options=IdentityOptions,
    catalog=(CatalogEntry("identity", "keystone", "{base_url}/identity"),),
    ended=ENDED,
)
