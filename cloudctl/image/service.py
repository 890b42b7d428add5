"""Images as a part of a cloud: the files of their data, and the threads that read and write them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers import loader
from cloudctl.drivers.closing import Closing
from cloudctl.identity.bootstrap import first_project
from cloudctl.image import lifecycle, web
from cloudctl.image.bootstrap import bootstrap, define, define_in_older
from cloudctl.image.data import ImageData
from cloudctl.image.ended import ENDED
from cloudctl.image.kept import KeptStore
from cloudctl.image.looking import Looking
from cloudctl.image.near import Near
from cloudctl.image.options import ImageOptions
from cloudctl.image.recovery import check, recover
from cloudctl.image.stores import configured, in_the_data_directory
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http
from cloudctl.rest.spool import in_threads
from cloudctl.rest.uploads import Uploads

# Seconds.
ABANDONED_UPLOAD = 3600.0


def compose(cloud: Surroundings) -> Part:
    db, options = cloud.db, cloud.config.section(ImageOptions)
    stores = configured(options, cloud.config.data_dir, lambda driver: cloud.contents(driver, "images"))
    store = stores.default
    spool = Path(options.spool_directory) if options.spool_directory else store.directory
    threads, supports = cloud.threads("images", options.threads)
    data = ImageData(stores, threads, cloud.reactor, options.require_format_match)
    looking = Looking(db, data, web.fetches(cloud.reactor, options))
    limits = options.max_size, options.upload_budget, options.upload_share
    uploads = Uploads(spool, *limits, run=in_threads(threads, cloud.reactor))

    def first_rows(conn: Connection, first: FirstStart) -> None:
        owner = first_project(conn, "admin")
        bootstrap(conn, store, owner, first.now)
        define(conn, owner, first.now)

    def clean() -> None:
        # An upload that nobody has written to for this long was closed by its process, or died with it.
        uploads.sweep(math.inf if db.is_sqlite else cloud.clock.seconds() - ABANDONED_UPLOAD)
        # Only once the first rows exist: the files that another process writes for them are not leftovers.
        recover(db, stores)
        db.transact(False, define_in_older, utc(cloud.clock.seconds()))

    def prepare() -> None:
        if isinstance(store, KeptStore):
            loader.check(store.contents, f"driver.objects.{options.stores[store.id].driver}")
        stores.prepare()

    def build(http: Http) -> ApiApp:
        from cloudctl.image import api

        return api.build(http, db, looking, options, uploads)

    def near(driver: Any) -> Any:
        here = Near(data, store)(driver) if isinstance(store, KeptStore) else driver
        return looking.before(here) if options.web_store else here

    return Part(
        build,
        lifecycle.workflows(db, options, looking),
        checks={"image": check(db, data)},
        prepare=prepare,
        bootstrap=first_rows,
        recover=clean,
        # The driver is closed when no thread uses it any more.
        supports=(*([Closing(store.contents)] if isinstance(store, KeptStore) else []), *supports),
        shown=(store, stores),
        image_path=stores.path,
        near=near,
        keeps=in_the_data_directory(options),
        uploads=uploads,
    )


SERVICE = Service(
    "cloudctl.image",
    "Image",
    compose,
    mount="image",
    options=ImageOptions,
    catalog=(CatalogEntry("image", "glance", "{base_url}/image"),),
    ended=ENDED,
)
