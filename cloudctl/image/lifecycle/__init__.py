"""The workflows of images. `workflows(…)` makes them, for they need the store, its threads and a way to the web."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cloudctl.db import Database
from cloudctl.db.threads import Threads
from cloudctl.image.data import ImageData
from cloudctl.image.lifecycle.activate import activation
from cloudctl.image.lifecycle.delete import deletion
from cloudctl.image.lifecycle.importing import importing
from cloudctl.image.options import ImageOptions
from cloudctl.image.store import ImageStore
from cloudctl.image.web import Web, permits
from cloudctl.tasks import Workflow

Fetch = Callable[[str, Path], Awaitable[None]]


def workflows(
    db: Database, store: ImageStore, threads: Threads, reactor: Any, options: ImageOptions, fetch: Fetch | None = None
) -> tuple[Workflow, ...]:
    """`fetch(uri, path)` writes what an address gives to a file; by default over `reactor`'s network."""
    data = ImageData(store, threads, reactor, options.require_format_match)
    fetch = fetch or Web(reactor, options, permits(options)).fetch
    return (deletion(data), activation(db, data), importing(db, data, options, fetch))
