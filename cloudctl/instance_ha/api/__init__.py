"""The instance-HA API."""

from __future__ import annotations

from cloudctl.db import Database
from cloudctl.instance_ha.api.versions import MICROVERSIONS, Versions
from cloudctl.rest import faults
from cloudctl.rest.app import ApiApp
from cloudctl.rest.health import Health
from cloudctl.rest.pipeline import Http, Pipeline


def build(http: Http, db: Database) -> ApiApp:
    pipeline = Pipeline(http, "instance-ha", faults.INSTANCE_HA, MICROVERSIONS, bearer=True, project_mismatch=False)
    return ApiApp(pipeline, [("", Versions()), ("", Health(db))], project_in_path=True)
