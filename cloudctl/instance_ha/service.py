"""Instance high availability as a part of a cloud, with listeners of its own."""

from __future__ import annotations

from cloudctl.composition import CatalogEntry, Part, Service, Surroundings
from cloudctl.instance_ha import api


def compose(cloud: Surroundings) -> Part:
    return Part(lambda http: api.build(http, cloud.db))


SERVICE = Service(
    "cloudctl.instance_ha",
    "Instance high availability",
    compose,
    catalog=(CatalogEntry("instance-ha", "masakari", "{instance_ha_url}/v1"),),
)
