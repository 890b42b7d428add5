"""Instance high availability as a part of a cloud, with listeners of its own."""

from __future__ import annotations

from cloudctl.composition import CatalogEntry, Part, Service, Surroundings
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http


def compose(cloud: Surroundings) -> Part:
    def build(http: Http) -> ApiApp:
        from cloudctl.instance_ha import api

        return api.build(http, cloud.db)

    return Part(build)


SERVICE = Service(
    "cloudctl.instance_ha",
    "Instance high availability",
    compose,
    catalog=(CatalogEntry("instance-ha", "masakari", "{instance_ha_url}/v1"),),
)
