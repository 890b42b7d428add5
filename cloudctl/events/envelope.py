"""How an event looks to whoever gets it: the envelope of OpenStack's notifications; compute.md, section 19."""

from __future__ import annotations

from typing import Any

from cloudctl.events.tables import Event


def envelope(event: Event) -> dict[str, Any]:
    """JSON. `message_id` is by which a receiver knows one that comes again; one of a resource comes before the next."""
    return {
        "message_id": event.id,
        "event_type": event.type,
        "priority": event.priority,
        "publisher_id": event.publisher,
        "timestamp": event.at.isoformat(" ", "microseconds"),
        "payload": event.payload,
    }
