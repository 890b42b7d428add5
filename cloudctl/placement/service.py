"""Placement as a part of a cloud. What hosts have is written down by compute, which asks their drivers."""

from __future__ import annotations

from cloudctl.composition import CatalogEntry, Part, Service, Surroundings
from cloudctl.placement import api


def compose(cloud: Surroundings) -> Part:
    return Part(lambda http: api.build(http, cloud.db))


SERVICE = Service(
    "cloudctl.placement",
    "Placement",
    compose,
    mount="placement",
    catalog=(CatalogEntry("placement", "placement", "{base_url}/placement"),),
)
