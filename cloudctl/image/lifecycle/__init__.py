"""The workflows of images. `workflows(…)` makes them, for they need the store, its threads and a way to the web."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cloudctl.db import Database
from cloudctl.db.threads import Threads
from cloudctl.image.data import ImageData
from cloudctl.image.lifecycle.activate import activation
from cloudctl.image.lifecycle.caching import caching
from cloudctl.image.lifecycle.copying import copying
from cloudctl.image.lifecycle.delete import deletion, deletion_of_copy
from cloudctl.image.lifecycle.importing import importing
from cloudctl.image.options import ImageOptions
from cloudctl.image.stores import Stores
from cloudctl.image.web import Web
from cloudctl.rest.outgoing import permits
from cloudctl.tasks import Workflow

Fetch = Callable[[str, Path], Awaitable[None]]


def workflows(
    db: Database, stores: Stores, threads: Threads, reactor: Any, options: ImageOptions, fetch: Fetch | None = None
) -> tuple[Workflow, ...]:
    """`fetch(uri, path)` writes what an address gives to a file; by default over `reactor`'s network."""
    data = ImageData(stores, threads, reactor, options.require_format_match)
    fetch = fetch or Web(reactor, options, permits(options.import_networks)).fetch
    return (
        deletion(data),
        deletion_of_copy(data),
        activation(db, data),
        importing(db, data, options, fetch),
        copying(data, options),
        caching(data, options),
    )
