"""Tags of objects and buckets, as in S3: pairs of texts, stored in the form of a query."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from cloudctl.object_store.metadata import PRIVATE

KEPT = f"{PRIVATE}Tagging"


def tags(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The tags of an object or a bucket with these headers."""
    return parse_qsl(headers.get(KEPT, ""), keep_blank_values=True)
