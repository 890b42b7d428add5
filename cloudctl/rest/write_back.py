"""Tell the system to start writing a file to the disk: sync_file_range(2), which Python does not offer.

Unlike POSIX_FADV_DONTNEED it leaves what was written in memory, for the next reader.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

WRITE = 2  # SYNC_FILE_RANGE_WRITE


@cache
def _call() -> Any:
    """None if the system does not have it."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


def begin(descriptor: int) -> None:
    """Start writing what of this file is only in memory. Blocks while the disk has too much to do.

    It promises nothing: what fails here fails at the sync, too.
    """
    if (call := _call()) is not None:
        call(descriptor, 0, 0, WRITE)
