"""Values that follow one request through coroutines, database threads and the tasks it submits."""

from __future__ import annotations

import os
from contextvars import ContextVar

# Empty outside of a request.
request_id: ContextVar[str] = ContextVar("cloudctl_request_id", default="")
# The same request's id as S3 and Swift return it; empty elsewhere.
transaction_id: ContextVar[str] = ContextVar("cloudctl_transaction_id", default="")
# The address that the request came from; empty outside of one.
client: ContextVar[str] = ContextVar("cloudctl_client", default="")


def new_request_id() -> str:
    """`req-` and a dashed UUID, as in the X-Openstack-Request-Id header.

    Every request needs one, and `uuid4` would make an object and take five times as long for the same text.
    """
    digits = os.urandom(16).hex()
    return f"req-{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
