"""A limit is not lowered below what is used, even by what others take at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import insert

from cloudctl.compute import groups
from cloudctl.compute.api import quotas as of_compute
from cloudctl.compute.groups import NewGroup
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.identity.tables import Project
from cloudctl.network import networks
from cloudctl.network.api import quotas as of_network
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.rest import policy
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.tasks import Unasked
from cloudctl.volume import bootstrap, creation
from cloudctl.volume import quotas as of_volume
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.options import VolumeOptions
from tests.meanwhile import Others, at_once, others

NOW = utc(1_800_000_000)
ME = Caller(
    Identity(user_id="u", project_id="p", roles=frozenset({"member", "reader"})),
    policy.load(["compute", "network", "volume"], None),
    NOW,
    "r",
)


@pytest.fixture
def meanwhile(postgresql_with_tables: str) -> Iterator[Others]:
    project = {"id": "p", "name": "p", "name_key": "p", "domain_id": "d", "parent_id": "d", "created_at": NOW}
    with others(postgresql_with_tables) as made:
        made.db.transact(False, bootstrap.bootstrap, NOW)
        made.db.transact(False, lambda conn: conn.execute(insert(Project), project))
        yield made


def group(conn: Connection) -> None:
    groups.create(conn, ME, NewGroup("g", "affinity", {}))


def network(conn: Connection) -> None:
    networks.create(conn, "p", NewNetwork(), NOW, NetworkOptions(), Unasked("p"))


def volume(conn: Connection) -> None:
    creation.create(conn, ME, NewVolume(size=1))


def one_group(conn: Connection) -> None:
    of_compute._update(conn, "p", None, {"server_groups": 1}, False)


def one_network(conn: Connection) -> None:
    of_network._update(conn, "p", of_network.UpdateQuota(network=1, check_limit=True))


def one_volume(conn: Connection) -> None:
    of_volume.set_limits(conn, VolumeOptions(), "p", {"volumes": 1})


@pytest.mark.parametrize(("take", "lower"), [(group, one_group), (network, one_network), (volume, one_volume)])
def test_a_limit_is_not_lowered_below_what_is_taken_meanwhile(
    meanwhile: Others, take: Callable[[Connection], None], lower: Callable[[Connection], Any]
) -> None:
    def twice(conn: Connection) -> None:
        take(conn)
        take(conn)

    assert at_once(meanwhile, twice, lower) == "Invalid"
