"""Keeps the output of daemons out of a benchmark's table."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

TOLD = 4000  # bytes


@contextmanager
def hushed() -> Iterator[None]:
    """Hide the output of this process and of those that it starts; on failure, show the end of it."""
    sys.stdout.flush()
    sys.stderr.flush()
    own = [os.dup(each) for each in (1, 2)]
    with TemporaryFile() as said:
        for each in (1, 2):
            os.dup2(said.fileno(), each)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for each, kept in zip((1, 2), own, strict=True):
                os.dup2(kept, each)
                os.close(kept)
            if failed:
                said.seek(max(0, said.seek(0, os.SEEK_END) - TOLD))
                sys.stderr.write(said.read().decode(errors="replace"))
