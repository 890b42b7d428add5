"""Files that no object has: left by a killed process, or by a transaction that was not committed."""

from __future__ import annotations

import math

from twisted.logger import Logger

from cloudctl.db import Database
from cloudctl.object_store import objects
from cloudctl.object_store.store import ObjectStore

log = Logger()

BATCH = 500
# Seconds that a file may wait for its row.
YOUNG = 3600.0


def sweep(db: Database, store: ObjectStore, before: float = math.inf) -> int:
    """Remove the files that no row names. Returns how many there were. Blocks. Raises DriverError.

    `before`: only files stored before this time (seconds since the epoch); other processes may be about to name the
    rest.
    """
    removed = 0
    for page in store.pages():
        old = [each.id for each in page if each.since < before]
        for start in range(0, len(old), BATCH):
            batch = old[start : start + BATCH]
            known = db.transact(True, objects.used, batch)
            left = [file_id for file_id in batch if file_id not in known]
            store.remove(left)
            removed += len(left)
    if removed:
        log.info("removed {count} files that belong to no object", count=removed)
    return removed
