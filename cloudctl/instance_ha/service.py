"""Instance high availability as a part of a cloud: beside the other APIs, and on listeners of its own."""

from __future__ import annotations

from attrs import evolve

from cloudctl.composition import CatalogEntry, Part, Service, Surroundings
from cloudctl.drivers.interfaces import IBusListening
from cloudctl.identity.bearers import Bearers
from cloudctl.instance_ha import lifecycle
from cloudctl.instance_ha.ended import ENDED
from cloudctl.instance_ha.intake import BusIntake, own_events
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.watch import HaWatch
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http


def compose(cloud: Surroundings) -> Part:
    options = cloud.config.section(InstanceHaOptions)
    watch = HaWatch(cloud.clock, cloud.db, cloud.network, options)

    def build(http: Http) -> ApiApp:
        from cloudctl.instance_ha import api

        # Alerting tools send the same header forever.
        return api.build(evolve(http, authenticator=cloud.made(Bearers)), cloud.db, options)

    heard = (BusIntake(cloud.db, cloud.bus, options),) if IBusListening.providedBy(cloud.bus) else ()
    watches = (watch, own_events(cloud.clock, cloud.db, options), *heard)
    return Part(build, lifecycle.workflows(options), watches=watches, shown=(watch,))


SERVICE = Service(
    "cloudctl.instance_ha",
    "Instance high availability",
    compose,
    mount="instance-ha",
    apart=True,
    options=InstanceHaOptions,
    catalog=(CatalogEntry("instance-ha", "masakari", "{instance_ha_url}/v1"),),
    ended=ENDED,
)
