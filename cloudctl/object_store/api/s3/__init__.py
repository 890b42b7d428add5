"""S3's API over the same data: a bucket is a container of the project that a request's key is for.

Reference: object-store.md, part B.
"""

from __future__ import annotations

from typing import Any

from cloudctl.identity.signers import Signers
from cloudctl.object_store.api.copying import Copying
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.api.manifests import Manifests
from cloudctl.object_store.api.reading import Reader
from cloudctl.object_store.api.s3 import subresources
from cloudctl.object_store.api.s3.ageing import Ageing
from cloudctl.object_store.api.s3.attributes import Attributes
from cloudctl.object_store.api.s3.buckets import Buckets
from cloudctl.object_store.api.s3.cross_origin import CrossOrigin
from cloudctl.object_store.api.s3.deletes import Deletes
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door, Signed
from cloudctl.object_store.api.s3.exposure import Exposure
from cloudctl.object_store.api.s3.faults import FAULTS
from cloudctl.object_store.api.s3.forms import Forms
from cloudctl.object_store.api.s3.objects import Objects
from cloudctl.object_store.api.s3.policies import Policies
from cloudctl.object_store.api.s3.uploads import Uploads
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.options import ObjectStoreOptions
from cloudctl.object_store.rates import Rates
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http, Pipeline


def build(
    http: Http, intake: Intake, options: ObjectStoreOptions, rates: Rates, signers: Signers, region: str
) -> ApiApp:
    db, swift = intake.db, Door(intake.db, rates)
    signed = Signed(signers, region)
    door, documents = S3Door(db, swift, signed), Documents(signed, intake)
    reader = Reader(db, intake.store, swift, intake.run)
    copying = Copying(reader, intake, Manifests(reader, intake), options.max_object_size)
    objects = Objects(door, documents, reader, intake, copying)
    resources: tuple[Any, ...] = (
        Buckets(door, documents, intake, region),
        Deletes(door, documents, intake),
        objects,
        Attributes(objects),
        Uploads(objects),
        CrossOrigin(door, documents, intake, signers),
        Ageing(door, documents, intake),
        Policies(door, documents, intake),
        Exposure(door, documents, intake),
        Forms(door, intake),
    )
    pipeline = Pipeline(
        http,
        "s3",
        FAULTS,
        verbatim=True,
        transaction_id="x-amz-request-id",
        lower_case=True,
        signatures=signed,
        subresources=subresources.of(each.routes for each in resources),
    )
    return ApiApp(pipeline, [("", each) for each in resources])
