"""A networking API in memory with its engine and the fake driver, asked through the real Site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from sqlalchemy import func, select
from twisted.internet.task import Clock
from twisted.web.resource import Resource

from cloudctl.db import Database
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake import network as fake
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import CloudError, Unauthorized
from cloudctl.network import api, rule_templates
from cloudctl.network.lifecycle import WORKFLOWS
from cloudctl.network.options import NetworkOptions
from cloudctl.rest import policy
from cloudctl.rest.app import ApiApp
from cloudctl.rest.identity import Identity
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http
from cloudctl.rest.site import CloudSite
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import OPEN, TaskRow
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.http import Response, request

START = 1_800_000_000.0
V2 = "/networking/v2.0"

ROLES = {
    "admin": frozenset({"admin", "manager", "member", "reader"}),
    "demo": frozenset({"member", "reader"}),
    "other": frozenset({"member", "reader"}),
    "reader": frozenset({"reader"}),
    "service": frozenset({"service"}),
}
PROJECTS = {"reader": "demo"}


@frozen
class KnownTokens:
    """A token is the name of its user; the project has the same name, but for `PROJECTS`."""

    async def authenticate(self, token: str) -> Identity:
        if token not in ROLES:
            raise Unauthorized("no such token")
        project = PROJECTS.get(token, token)
        return Identity(user_id=token, user_name=token, project_id=project, project_name=project, roles=ROLES[token])

    authenticate_again = authenticate


@frozen
class Driving:
    """The drivers of the engine: only one is asked for here."""

    network: Any


@define
class Neutron:
    """The API and what is behind it."""

    clock: Clock
    db: Database
    driver: Any
    engine: Engine
    site: CloudSite
    api: ApiApp
    options: NetworkOptions = field(factory=NetworkOptions)

    def ask(self, method: str, path: str, body: Any = None, user: str = "demo", **headers: str) -> Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            sent["X-Auth-Token"] = user
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        return request(
            self.site, method, path if path.startswith("/networking") else V2 + path, headers=sent, body=data
        )

    def get(self, path: str, user: str = "demo") -> Any:
        return self.expect(200, "GET", path, user=user)

    def expect(self, status: int, method: str, path: str, body: Any = None, user: str = "demo", **headers: str) -> Any:
        """The answer's JSON; fails if its status is another one."""
        response = self.ask(method, path, body, user, **headers)
        assert response.status == status, response
        return response.json() if response.body else None

    def refused(self, status: int, type: str, method: str, path: str, body: Any = None, user: str = "demo") -> str:
        """The message of a refusal; fails if its status or its type is another one."""
        error = self.expect(status, method, path, body, user)["NeutronError"]
        assert (error["type"], error["detail"]) == (type, ""), error
        return str(error["message"])

    def create(self, kind: str, user: str = "demo", **fields: Any) -> Any:
        """POST a record: `create("network", name="n")`. Colons in names are written as two underscores."""
        collection = kind.replace("_", "-") + "s"
        sent = {name.replace("__", ":"): value for name, value in fields.items()}
        return self.expect(201, "POST", f"/{collection}", {kind: sent}, user)[kind]

    def network(self, cidr: str | None = "10.0.0.0/24", user: str = "demo", **fields: Any) -> Any:
        """A network, with a subnet unless `cidr` is None."""
        made = self.create("network", user, **fields)
        if cidr is not None:
            version = 6 if ":" in cidr else 4
            self.create("subnet", user, network_id=made["id"], ip_version=version, cidr=cidr)
            made = self.get(f"/networks/{made['id']}", user)["network"]
        return made

    def ports(self, query: str = "", user: str = "demo") -> list[Any]:
        """The ports that a list shows, but for those from which networks' addresses are given out."""
        return [each for each in self.get(f"/ports{query}", user)["ports"] if each["device_owner"] != "network:dhcp"]

    def external(self, cidr: str | None = "203.0.113.0/24", **fields: Any) -> Any:
        """An external network of the administrator's."""
        return self.network(cidr, "admin", router__external=True, **fields)

    def router(self, *networks: Any, user: str = "demo", external: Any = None, **fields: Any) -> Any:
        """A router with an interface on the first subnet of each network, and a gateway on `external`."""
        if external is not None:
            fields["external_gateway_info"] = {"network_id": external["id"]}
        made = self.create("router", user, **fields)
        for network in networks:
            self.join(made, subnet_id=network["subnets"][0], user=user)
        return self.get(f"/routers/{made['id']}", user)["router"]

    def join(self, router: Any, user: str = "demo", **what: Any) -> Any:
        return self.expect(200, "PUT", f"/routers/{router['id']}/add_router_interface", what, user)

    def part(self, router: Any, user: str = "demo", **what: Any) -> Any:
        return self.expect(200, "PUT", f"/routers/{router['id']}/remove_router_interface", what, user)

    def transact(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return self.db.transact(False, fn, *args, **kwargs)

    def settle(self, most: float = 600.0) -> None:
        """Advance the clock until no task is open."""
        end = self.clock.seconds() + most
        while self.transact(_open):
            assert self.clock.seconds() < end, "tasks are still open"
            self.clock.advance(0.5)

    @property
    def held(self) -> Any:
        """What the driver holds."""
        driver = self.driver
        return (
            [each.id for each in driver.networks.values()],
            {each.spec.id: each.hosts for each in driver.ports.values()},
            [each.id for each in driver.groups.values()],
        )


def _open(conn: Any) -> int:
    return int(conn.execute(select(func.count()).select_from(TaskRow).where(TaskRow.state.in_(OPEN))).scalar_one())


def make_http(clock: Clock, rules: Path | None = None) -> Http:
    """`rules`: a file of changed ones."""
    return Http(KnownTokens(), policy.load(["network"], rules), clock, Metrics())


def make_neutron(db: Database, clock: Clock, options: NetworkOptions, rules: Path | None = None) -> Neutron:
    """`db` has all tables and no rows. `rules`: a file of changed ones."""
    driver = fake.create(fake.Config(), DriverResources(clock, "fake"))
    expected = (CloudError, DriverError)
    engine = Engine(db, clock, Driving(driver), WORKFLOWS, chance=lambda: 0.5, expected=expected)
    tree = Resource()
    app = api.build(make_http(clock, rules), db, driver, "fake", options)
    tree.putChild(b"networking", app.resource())
    engine.startService()
    db.transact(False, rule_templates.write_shipped, datetime.fromtimestamp(START, UTC).replace(tzinfo=None))
    return Neutron(clock, db, driver, engine, CloudSite(tree, clock, None), app, options)


@pytest.fixture
def options() -> NetworkOptions:
    return NetworkOptions()


@pytest.fixture
def neutron(options: NetworkOptions) -> Iterator[Neutron]:
    clock = Clock()
    clock.rightNow = START
    db = empty_database(clock)
    made = make_neutron(db, clock, options)
    yield made
    made.engine.stopService()
    db.close()
