"""The root of the cloud, separate from the tree of the identity API: a process starts with this alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloudctl.identity.api.faults import FAULTS
from cloudctl.identity.api.versions import VersionList
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http, Pipeline


def root(http: Http, others: Sequence[tuple[str, Any]] = ()) -> ApiApp:
    """`GET {base_url}/`, which answers as `GET {base_url}/identity` does: a client finds the rest from there.

    `others`: what else is mounted beside the APIs.
    """
    return ApiApp(pipeline(http), [("", VersionList()), *others])


def pipeline(http: Http) -> Pipeline:
    return Pipeline(http, "identity", FAULTS, vary="X-Auth-Token", media_status=400)
