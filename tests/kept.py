"""Whatever the suite gets from cached JSON is rendered again as well: the two must be equal."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, cast

import orjson

from cloudctl.db import Connection
from cloudctl.rest.rendered import Render, Rendered
from tests import plans


def check_kept() -> None:
    """Check from now on. A difference is an AssertionError in the caller: for a client, a 500."""
    shown = Rendered.shown

    def checking(
        self: Rendered, conn: Connection, shape: Hashable, editions: Mapping[str, Hashable], render: Render
    ) -> list[orjson.Fragment]:
        made: set[str] = set()

        def noting(ids: Any) -> Any:
            made.update(ids)
            return render(ids)

        found = shown(self, conn, shape, editions, noting)
        kept = [id for id in editions if id not in made]
        if kept and not plans.is_unchecked():
            with plans.unchecked():
                anew = render(kept)
            texts = dict(zip(editions, found, strict=True))
            assert {id: orjson.dumps(texts[id]) for id in kept} == {id: orjson.dumps(anew[id]) for id in kept}
        return found

    cast(Any, Rendered).shown = checking
