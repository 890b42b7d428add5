"""Images as a part of a cloud: the files of their data, and the threads that read and write them."""

from __future__ import annotations

import math
from pathlib import Path

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection
from cloudctl.identity.bootstrap import first_project
from cloudctl.image import api, lifecycle
from cloudctl.image.bootstrap import bootstrap, define
from cloudctl.image.options import ImageOptions
from cloudctl.image.recovery import recover
from cloudctl.image.store import ImageStore
from cloudctl.rest.site import Uploads

# Seconds.
ABANDONED_UPLOAD = 3600.0


def compose(cloud: Surroundings) -> Part:
    db, options = cloud.db, cloud.config.section(ImageOptions)
    store = ImageStore(cloud.config.state_dir / "images")
    spool = Path(options.spool_directory) if options.spool_directory else store.directory
    threads, supports = cloud.threads("images", options.threads)
    uploads = Uploads(spool, options.max_size, options.upload_budget)

    def first_rows(conn: Connection, first: FirstStart) -> None:
        owner = first_project(conn, "admin")
        bootstrap(conn, store, owner, first.now)
        define(conn, owner, first.now)

    def clean() -> None:
        # An upload that nobody has written to for so long was closed by its process, or died with it.
        uploads.sweep(math.inf if db.is_sqlite else cloud.clock.seconds() - ABANDONED_UPLOAD)
        # Not before the first rows are there: the files that another process writes for them are no leftovers.
        recover(db, store)

    return Part(
        lambda http: api.build(http, db, store, threads, cloud.reactor, options),
        lifecycle.workflows(db, store, threads, cloud.reactor, options),
        prepare=store.prepare,
        bootstrap=first_rows,
        recover=clean,
        supports=supports,
        shown=(store,),
        image_path=store.path,
        uploads=uploads,
    )


SERVICE = Service(
    "cloudctl.image",
    "Image",
    compose,
    mount="image",
    options=ImageOptions,
    catalog=(CatalogEntry("image", "glance", "{base_url}/image"),),
)
