"""The image API as one Klein tree."""

from __future__ import annotations

from typing import Any

from cloudctl.db import Database
from cloudctl.image.api.cache import Cache
from cloudctl.image.api.data import Data
from cloudctl.image.api.faults import FAULTS
from cloudctl.image.api.images import Images
from cloudctl.image.api.imports import Imports, Tasks
from cloudctl.image.api.info import Info
from cloudctl.image.api.locations import Asking, Locations
from cloudctl.image.api.members import Members
from cloudctl.image.api.namespaces import HELD, Namespaces
from cloudctl.image.api.schemas import Schemas
from cloudctl.image.api.seen import SEEN
from cloudctl.image.api.stores import StoresInfo
from cloudctl.image.api.tag_definitions import TagDefinitions
from cloudctl.image.api.tags import Tags
from cloudctl.image.api.versions import Versions
from cloudctl.image.looking import Looking
from cloudctl.image.options import ImageOptions
from cloudctl.image.uploads import Intake
from cloudctl.rest.app import ApiApp
from cloudctl.rest.declared import Resource
from cloudctl.rest.outgoing import permits
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.sight import Sight
from cloudctl.rest.uploads import Uploads


def build(http: Http, db: Database, looking: Looking, options: ImageOptions, uploads: Uploads) -> ApiApp:
    data, stores = looking.data, looking.data.stores
    permitted = permits(options.import_networks)
    asking = Asking(stores, options, permitted)
    resources: tuple[Any, ...] = (
        Images(db, asking),
        Data(db, looking, Intake(db, data, options.max_size, uploads)),
        Members(db, options),
        Tags(db, options),
        Imports(db, options, permitted, stores),
        Tasks(db, options),
        Info(db, stores),
        StoresInfo(db, stores),
        Locations(db, asking),
        Cache(db, data),
        Schemas(),
        Namespaces(db),
        *(Resource(db, kind) for kind in HELD.values()),
        TagDefinitions(db),
    )
    mounts = [("", Versions()), *(("/v2", each) for each in resources)]
    return ApiApp(Pipeline(http, "image", FAULTS, sight=Sight(db, SEEN)), mounts, exact=True, heads=False)
