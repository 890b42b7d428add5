"""The placement API, 1.0 with its microversions. Reference: compute-scheduling.md, section 15."""

from __future__ import annotations

from cloudctl import context
from cloudctl.db import Database
from cloudctl.placement.api.allocations import Allocations
from cloudctl.placement.api.candidates import Candidates
from cloudctl.placement.api.inventories import Inventories
from cloudctl.placement.api.names import Names
from cloudctl.placement.api.providers import Providers
from cloudctl.placement.api.versions import Versions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.body import Problem
from cloudctl.rest.faults import Faults, JsonObject, plain_problems, reason
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.versions import UNSUPPORTED, Microversions, text

MICROVERSIONS = Microversions("placement", (1, 0), (1, 39))


def envelope(status: int, message: str, type: str) -> JsonObject:
    """A list of one. `code` says more than the status if the error's type begins with `placement.`.

    Who asks for a version that is not supported is told which are.
    """
    code = type if type.startswith("placement.") else "placement.undefined_code"
    error: JsonObject = {
        "status": status,
        "title": reason(status),
        "detail": message,
        "code": code,
        "request_id": context.request_id.get(),
    }
    if type == UNSUPPORTED:
        error |= {"min_version": text(MICROVERSIONS.minimum), "max_version": text(MICROVERSIONS.maximum)}
    return {"errors": [error]}


def problems(found: list[Problem]) -> tuple[int, str]:
    status, message = plain_problems(found)
    return status, f"JSON does not validate: {message}"


def build(http: Http, db: Database) -> ApiApp:
    faults = Faults(envelope, problems, quota_status=409)
    pipeline = Pipeline(http, "placement", faults, MICROVERSIONS)
    resources = (
        Versions(MICROVERSIONS),
        Providers(db),
        Inventories(db),
        Allocations(db),
        Candidates(db),
        Names(db),
    )
    return ApiApp(pipeline, [("", resource) for resource in resources])
