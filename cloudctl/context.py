"""Values that follow one request through coroutines, database threads and the tasks it submits."""

from __future__ import annotations

from contextvars import ContextVar
from uuid import uuid4

# Empty outside of a request.
request_id: ContextVar[str] = ContextVar("cloudctl_request_id", default="")
# The address that the request came from; empty outside of one.
client: ContextVar[str] = ContextVar("cloudctl_client", default="")


def new_request_id() -> str:
    """`req-` and a dashed UUID, as the X-Openstack-Request-Id header has it."""
    return f"req-{uuid4()}"
