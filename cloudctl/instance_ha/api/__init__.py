"""The instance-HA API."""

from __future__ import annotations

from cloudctl.db import Database
from cloudctl.instance_ha.api.versions import MICROVERSIONS, Versions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.faults import NAMES, Faults, named, schema_problems
from cloudctl.rest.health import Health
from cloudctl.rest.pipeline import Http, Pipeline

FAULTS = Faults(named(NAMES, "masakariFault"), schema_problems)


def build(http: Http, db: Database) -> ApiApp:
    pipeline = Pipeline(http, "instance-ha", FAULTS, MICROVERSIONS, bearer=True, project_mismatch=False)
    return ApiApp(pipeline, [("", Versions()), ("", Health(db))], project_in_path=True)
