"""How times and documents are written. Reference: discovery.md, «Formats». All times are naive UTC datetimes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson


def zulu(when: datetime | None) -> str | None:
    """Compute, image, networking: `2026-01-02T03:04:05Z`."""
    return None if when is None else f"{when.isoformat(timespec='seconds')}Z"


def zulu_micros(when: datetime) -> str:
    """Identity tokens: `2026-01-02T03:04:05.000000Z`."""
    return f"{when.isoformat(timespec='microseconds')}Z"


def micros(when: datetime | None) -> str | None:
    """Block storage, instance HA, identity's records: `2026-01-02T03:04:05.000000`."""
    return None if when is None else when.isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """An ISO 8601 time with or without a zone → naive UTC. Raises ValueError."""
    when = datetime.fromisoformat(text)
    return when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)


def document(body: Any) -> bytes:
    """A body of JSON."""
    try:
        return orjson.dumps(body)
    except TypeError:
        # An integer beyond 64 bits: JSONB gives back 1e30 as one.
        return json.dumps(body).encode()
