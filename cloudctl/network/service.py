"""Networking as a part of a cloud."""

from __future__ import annotations

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IMetering, IRouters
from cloudctl.identity.bootstrap import first_project
from cloudctl.network import audit
from cloudctl.network import list_indexes as list_indexes  # which are there once they are declared
from cloudctl.network.bootstrap import bootstrap
from cloudctl.network.ended import ENDED
from cloudctl.network.lifecycle import WORKFLOWS
from cloudctl.network.metered import Meters
from cloudctl.network.options import NetworkOptions, chosen
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http


def compose(cloud: Surroundings) -> Part:
    options = chosen(cloud.config, cloud.network)

    def first_rows(conn: Connection, first: FirstStart) -> None:
        admin, demo = first_project(conn, "admin"), first_project(conn, "demo")
        bootstrap(conn, admin, demo, first.now, options, IRouters.providedBy(cloud.network))

    def build(http: Http) -> ApiApp:
        from cloudctl.network import api

        return api.build(http, cloud.db, cloud.network, cloud.config.drivers.network, options)

    return Part(
        build,
        WORKFLOWS,
        bootstrap=first_rows,
        checks={"network": audit.check(cloud.db, cloud.network)},
        metrics=(Meters(cloud.db, cloud.network, cloud.clock).look,) if IMetering.providedBy(cloud.network) else (),
    )


SERVICE = Service(
    "cloudctl.network",
    "Networking",
    compose,
    mount="networking",
    options=NetworkOptions,
    catalog=(CatalogEntry("network", "neutron", "{base_url}/networking"),),
    ended=ENDED,
)
