"""What the tests of requests that meet have in common: who asks, a network, a port, and how two of them meet."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from twisted.web.http_headers import Headers

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.errors import CloudError
from cloudctl.network import (
    networks,
    ports,
    subnets,
)
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.ports import NewPort
from cloudctl.network.subnets import NewSubnet
from cloudctl.rest import policy
from cloudctl.rest.call import Call, Query
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.tasks import Unasked
from tests.meanwhile import Meanwhile, beside

NOW = utc(1_800_000_000)
BY = Unasked("p")
POLICY = policy.load(["network"], None)
# A floating IP's body that names no port.
NO_TARGET = dict.fromkeys(("floating_ip_address", "subnet_id", "port_id", "fixed_ip_address"), None)


def member(project: str) -> Caller:
    return Caller(Identity(user_id="u", project_id=project, roles=frozenset({"member", "reader"})), POLICY, NOW, "r")


ME = member("p")


def call(rule: str, caller: Caller = ME) -> Call:
    """A request for an Operation with this rule."""
    return Call(caller, (2, 0), Query.parse(b""), "", "", "", Headers(), BytesIO(), f"network:{rule}")


def network(conn: Connection, external: bool = False, **fields: Any) -> str:
    made = networks.create(conn, "p", NewNetwork(external=external, **fields), NOW, NetworkOptions(), BY)
    subnets.create(conn, made, "p", NewSubnet("10.0.0.0/24", 4), NOW, BY)
    return str(made.id)


def new_port(network_id: str, project: str = "p", **fields: Any) -> Callable[[Connection], str]:
    def make(conn: Connection) -> str:
        return str(ports.create(conn, project, NewPort(networks.pinned(conn, network_id), **fields), NOW, BY).id)

    return make


def meanwhile(db: Database, first: Callable[[Connection], Any], second: Callable[[Connection], Any]) -> Any:
    """What `second` returned, or the type of its refusal, begun before `first` committed."""
    with beside(db) as others:
        before = Meanwhile(db, first)
        others.begin(second)
        before.commit()
        try:
            return others.results[0]
        except CloudError as error:
            return error.type
