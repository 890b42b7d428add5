"""Error bodies of the image API: HTML, JSON or plain text, as the client asks. Reference: image.md, section 3.

Stock clients depend on it: python-glanceclient does not ask for JSON, and fails on an error body that is JSON.
"""

from __future__ import annotations

from cloudctl.rest.faults import HTML, JSON, PLAIN, Faults, JsonObject, plain_problems, reason


def _envelope(status: int, message: str, type: str) -> JsonObject:
    return {"message": message, "code": f"{status} {reason(status)}", "title": reason(status)}


FAULTS = Faults(_envelope, plain_problems, forms=(HTML, JSON), otherwise=PLAIN)
