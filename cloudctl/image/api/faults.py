"""Error bodies of the image API. Reference: discovery.md, section 6."""

from __future__ import annotations

from cloudctl.rest.faults import Faults, JsonObject, plain_problems, reason


def _envelope(status: int, message: str, type: str) -> JsonObject:
    return {"message": message, "code": f"{status} {reason(status)}", "title": reason(status)}


FAULTS = Faults(_envelope, plain_problems)
