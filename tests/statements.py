"""What is sent to a database, on any driver: text and arguments of each statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from cloudctl.db.connection import Connection, Rows
from cloudctl.db.plans import Bound


@contextmanager
def asked() -> Iterator[list[tuple[str, Sequence[Any]]]]:
    """The planned statements that run in this context, on every database of this process."""
    seen: list[tuple[str, Sequence[Any]]] = []
    run = Connection._run

    def noting(self: Connection, bound: Bound, given: Any) -> Rows[Any]:
        seen.append(bound.arguments(given))
        return run(self, bound, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "_run", noting)
        yield seen
