"""The API of events: one call, of our own. docs/events.md."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from cloudctl.db import Database
from cloudctl.events.api.streams import News, Streams
from cloudctl.events.options import EventOptions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.faults import NAMES, Faults, named, plain_problems
from cloudctl.rest.pipeline import Http, Pipeline


def build(http: Http, db: Database, clock: IReactorTime, options: EventOptions) -> ApiApp:
    pipeline = Pipeline(http, "events", Faults(named(NAMES, "eventsFault"), plain_problems))
    return ApiApp(pipeline, [("/v1", Streams(db, clock, options, News(db, clock)))])
