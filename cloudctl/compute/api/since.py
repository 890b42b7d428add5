"""Fields that come and go with microversions.

A body class holds the fields of every microversion; a field says from which one to which one it is taken. What is sent
outside of that is as unknown as any other key.
"""

from __future__ import annotations

from typing import Any

import attrs

from cloudctl.rest.body import MISSING, BodyError, Problem, unexpected
from cloudctl.rest.versions import Version

Spans = tuple[tuple[Version, Version | None], ...]


def gated(*spans: tuple[Version, Version | None], name: str | None = None) -> Any:
    """A field that may be left out, taken in these spans of microversions (both ends included, None: no end)."""
    metadata: dict[str, Any] = {"spans": spans}
    if name is not None:
        metadata["wire"] = name
    return attrs.field(default=MISSING, metadata=metadata)


def check(version: Version, body: Any, path: str) -> None:
    """Refuse fields that this microversion does not have, at any depth. Raises BodyError."""
    problems = list(_early(version, body, path))
    if problems:
        raise BodyError(problems)


def _early(version: Version, body: Any, path: str) -> Any:
    if isinstance(body, list | tuple):
        for place, item in enumerate(body):
            yield from _early(version, item, f"{path}[{place}]")
    elif attrs.has(type(body)):
        for attribute in attrs.fields(type(body)):
            value = getattr(body, attribute.name)
            name = attribute.metadata.get("wire", attribute.name)
            if value is not MISSING and not _offered(version, attribute.metadata.get("spans")):
                yield Problem(path, unexpected([name]), "unknown")
            yield from _early(version, value, f"{path}.{name}")


def _offered(version: Version, spans: Spans | None) -> bool:
    return spans is None or any(first <= version and (last is None or version <= last) for first, last in spans)
