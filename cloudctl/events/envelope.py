"""How an event looks to a receiver: the envelope of OpenStack's notifications; compute.md, section 19."""

from __future__ import annotations

from typing import Any

from cloudctl.events.tables import Event


def envelope(event: Event) -> dict[str, Any]:
    """JSON. Receivers recognize a repeated event by `message_id`; the events of one resource come in order."""
    return {
        "message_id": event.id,
        "event_type": event.type,
        "priority": event.priority,
        "publisher_id": event.publisher,
        "timestamp": event.at.isoformat(" ", "microseconds"),
        "payload": event.payload,
    }
