"""Placement as a part of a cloud. What hosts have is recorded by compute, which asks their drivers."""

from __future__ import annotations

from cloudctl.composition import CatalogEntry, Part, Service, Surroundings
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http


def compose(cloud: Surroundings) -> Part:
    def build(http: Http) -> ApiApp:
        from cloudctl.placement import api

        return api.build(http, cloud.db)

    return Part(build)


SERVICE = Service(
    "cloudctl.placement",
    "Placement",
    compose,
    mount="placement",
    catalog=(CatalogEntry("placement", "placement", "{base_url}/placement"),),
)
