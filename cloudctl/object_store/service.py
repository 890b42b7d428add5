"""The object store as a part of a cloud: its files, and the threads that wait for the disk."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from twisted.application.service import IService

from cloudctl.composition import Beside, CatalogEntry, Part, Service, Surroundings
from cloudctl.identity.bearers import Bearers
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.signers import Signers
from cloudctl.object_store.bootstrap import bootstrap
from cloudctl.object_store.expiry import Ageing, Expiry
from cloudctl.object_store.hashing import Hashing
from cloudctl.object_store.intake import Intake, unwritable
from cloudctl.object_store.options import ObjectStoreOptions
from cloudctl.object_store.orphans import Orphans
from cloudctl.object_store.rates import Rates
from cloudctl.object_store.store import ObjectStore
from cloudctl.object_store.sweep import YOUNG, sweep
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http
from cloudctl.rest.spool import in_threads
from cloudctl.rest.uploads import Uploads
from cloudctl.tasks.audit import Finding

# Seconds.
ABANDONED_UPLOAD = 3600.0


def compose(cloud: Surroundings) -> Part:
    db, options = cloud.db, cloud.config.section(ObjectStoreOptions)
    hashing, hashers = cloud.threads("hashes", os.cpu_count() or 1)
    store = ObjectStore(cloud.config.data_dir / "objects" / "incoming", cloud.objects, Hashing(hashing))
    rates = Rates(options)
    signers, region = cloud.made(Signers), cloud.config.section(IdentityOptions).region
    threads, supports = cloud.threads("objects", options.threads)
    intake = Intake(db, store, threads, cloud.reactor)
    # Separate ones: a long sync must not keep other data from being received.
    arriving, spools = cloud.threads("uploads", options.threads)
    limits = options.max_object_size, options.upload_budget, options.upload_share
    uploads = Uploads(
        store.spool, *limits, unwritable=unwritable, through=store.hashed, run=in_threads(arriving, cloud.reactor)
    )

    def clean() -> None:
        # With PostgreSQL other processes may be writing now.
        now = cloud.clock.seconds()
        uploads.sweep(math.inf if db.is_sqlite else now - ABANDONED_UPLOAD)
        sweep(db, store, math.inf if db.is_sqlite else now - YOUNG)

    async def check() -> Sequence[Finding]:
        removed = await intake.run(sweep, db, store, cloud.clock.seconds() - YOUNG)
        told = f"{removed} files that no object has were removed"
        return [Finding("file-left-over", "object-store", "files", told, submitted=False)] if removed else []

    def build(http: Http) -> ApiApp:
        from cloudctl.object_store import api

        return api.build(http, intake, options, rates, cloud.made(Bearers))

    def build_s3(http: Http) -> ApiApp:
        from cloudctl.object_store.api import s3

        return s3.build(http, intake, options, rates, signers, region)

    watches: list[IService] = [Expiry(intake, options.expiry_period), Ageing(intake, options.ageing_period)]
    if options.orphans_kept:
        watches.append(Orphans(intake, options.ageing_period, options.orphans_kept))
    return Part(
        build,
        checks={"object files": check},
        prepare=store.prepare,
        bootstrap=bootstrap,
        recover=clean,
        # Those that others wait for stop last.
        supports=(*hashers, *supports, *spools),
        watches=watches,
        shown=(store, intake),
        uploads=uploads,
        beside={"s3": Beside(build_s3, options.s3_hosts)},
    )


SERVICE = Service(
    "cloudctl.object_store",
    "Object store",
    compose,
    mount="object-store",
    options=ObjectStoreOptions,
    catalog=(
        CatalogEntry("object-store", "swift", "{base_url}/object-store/v1/AUTH_$(project_id)s"),
        CatalogEntry("s3", "s3", "{base_url}/s3"),
    ),
)
