"""Fields of answers that come and go with microversions.

A view is a function that shows a record; the fields that only some microversions show are in one table beside it:

    LATER = Fields[[Keypair]]("a key pair", {"type": (since(2, 2), lambda pair: pair.type)})

    def view(call: Call, pair: Keypair) -> Json:
        return {"name": pair.name, **LATER.of(call.version, pair)}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec

from cloudctl.rest.versions import Span, Version

P = ParamSpec("P")


class Fields(Generic[P]):
    """Key in JSON → the microversions that show it, and a function that makes its value from what the view is given.

    `what`: whose fields they are, in the words of docs/api.md.
    """

    def __init__(self, what: str, fields: Mapping[str, tuple[Span, Callable[P, Any]]]) -> None:
        self.what = what
        self.fields = fields
        self._chosen: dict[Version, tuple[tuple[str, Callable[P, Any]], ...]] = {}

    def of(self, version: Version, *record: P.args, **more: P.kwargs) -> dict[str, Any]:
        """What this version shows."""
        return {name: value(*record, **more) for name, value in self.at(version)}

    def at(self, version: Version) -> tuple[tuple[str, Callable[P, Any]], ...]:
        """The fields of this version; chosen once, since a page asks for each of its records."""
        chosen = self._chosen.get(version)
        if chosen is None:
            found = self.fields.items()
            chosen = self._chosen[version] = tuple((name, value) for name, (span, value) in found if version in span)
        return chosen
