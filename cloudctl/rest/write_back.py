"""The system is told to begin with the disk: sync_file_range(2), which Python has not.

Unlike POSIX_FADV_DONTNEED it leaves in memory what was written, for whoever reads it next.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

WRITE = 2  # SYNC_FILE_RANGE_WRITE


@cache
def _call() -> Any:
    """None where the system has none."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


def begin(descriptor: int) -> None:
    """With what of this file is in memory only. It blocks while the disk has too much to do.

    It promises nothing: what fails here fails at the sync, too.
    """
    if (call := _call()) is not None:
        call(descriptor, 0, 0, WRITE)
