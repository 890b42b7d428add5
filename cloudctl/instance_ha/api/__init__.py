"""The instance-HA API, 1.0 with its microversions. Reference: instance-ha.md."""

from __future__ import annotations

from cloudctl.db import Database
from cloudctl.instance_ha.api.notifications import NOTIFICATIONS, VMOVES, Reports
from cloudctl.instance_ha.api.segments import HOSTS, SEGMENTS
from cloudctl.instance_ha.api.versions import MICROVERSIONS, Versions
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.declared import Resource
from cloudctl.rest.faults import NAMES, Faults, named, schema_problems
from cloudctl.rest.health import Health
from cloudctl.rest.pipeline import Http, Pipeline

FAULTS = Faults(named({**NAMES, 413: "overLimit"}, "masakariFault"), schema_problems)


def build(http: Http, db: Database, options: InstanceHaOptions) -> ApiApp:
    pipeline = Pipeline(http, "instance-ha", FAULTS, MICROVERSIONS, bearer=True, project_mismatch=False)
    resources = (
        Resource(db, SEGMENTS),
        Resource(db, HOSTS),
        Resource(db, NOTIFICATIONS),
        Reports(db, options),
        Resource(db, VMOVES),
    )
    mounts = [("", Versions()), ("", Health(db)), *(("/v1", each) for each in resources)]
    return ApiApp(pipeline, mounts, project_in_path=True)
