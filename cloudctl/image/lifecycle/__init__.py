"""The workflows of images. `workflows(…)` makes them: they need the stores, their threads and a way to the web."""

from __future__ import annotations

from cloudctl.db import Database
from cloudctl.image.lifecycle.activate import activation
from cloudctl.image.lifecycle.caching import caching
from cloudctl.image.lifecycle.copying import copying
from cloudctl.image.lifecycle.delete import deletion, deletion_of_copy
from cloudctl.image.lifecycle.importing import importing
from cloudctl.image.looking import Looking
from cloudctl.image.options import ImageOptions
from cloudctl.tasks import Workflow


def workflows(db: Database, options: ImageOptions, looking: Looking) -> tuple[Workflow, ...]:
    data = looking.data
    return (
        deletion(data),
        deletion_of_copy(data),
        activation(db, data),
        importing(looking, options),
        copying(looking, options),
        caching(looking, options),
    )
