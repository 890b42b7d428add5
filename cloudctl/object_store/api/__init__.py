"""The object store's API, which is Swift's."""

from __future__ import annotations

from typing import Any

from cloudctl.identity.bearers import Bearers
from cloudctl.object_store.api.accounts import Accounts
from cloudctl.object_store.api.bulk import Bulk
from cloudctl.object_store.api.bulk_deletes import BulkDeletes
from cloudctl.object_store.api.containers import Containers
from cloudctl.object_store.api.copying import Copying
from cloudctl.object_store.api.cross_origin import CrossOrigin
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.api.faults import FAULTS
from cloudctl.object_store.api.forms import Forms
from cloudctl.object_store.api.info import Info
from cloudctl.object_store.api.login import Login
from cloudctl.object_store.api.manifests import Manifests
from cloudctl.object_store.api.objects import Objects
from cloudctl.object_store.api.reading import Reader
from cloudctl.object_store.api.websites import Websites
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.options import ObjectStoreOptions
from cloudctl.object_store.rates import Rates
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http, Pipeline


def build(http: Http, intake: Intake, options: ObjectStoreOptions, rates: Rates, bearers: Bearers) -> ApiApp:
    db, door = intake.db, Door(intake.db, rates)
    reader = Reader(db, intake.store, door, intake.run)
    bulk, forms = Bulk(intake, door, options.max_object_size), Forms(intake)
    manifests = Manifests(reader, intake)
    copying = Copying(reader, intake, manifests, options.max_object_size)
    objects = Objects(reader, intake, copying, manifests, bulk, forms)
    resources: tuple[Any, ...] = (
        Info(options, rates),
        Accounts(db, door, bulk),
        Containers(db, door, bulk, forms, intake, Websites(door, objects.read)),
        objects,
        BulkDeletes(door, bulk),
        CrossOrigin(db),
        *((Login(bearers),) if options.v1_login else ()),
    )
    pipeline = Pipeline(http, "object-store", FAULTS, verbatim=True, transaction_id="X-Trans-Id")
    return ApiApp(pipeline, [("", each) for each in resources])
