"""Tags of objects and buckets, as S3 has them: pairs of texts, kept as a query has them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from cloudctl.object_store.metadata import PRIVATE

KEPT = f"{PRIVATE}Tagging"


def tags(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those of an object or a bucket that has these headers."""
    return parse_qsl(headers.get(KEPT, ""), keep_blank_values=True)
