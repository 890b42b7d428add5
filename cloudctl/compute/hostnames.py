"""The name that a guest gives itself. Reference: compute.md, section 5.1."""

from __future__ import annotations

import re

LONGEST_LABEL = 63
ILLEGAL = re.compile(r"[^A-Za-z0-9.-]")


def hostname(name: str, server_id: str, *, dots: bool = False) -> str:
    """Made from a display name; `dots`: a full domain name may stay one (2.94). `Server-<id>` if nothing is left."""
    text = name.encode("ascii", "ignore").decode().replace(" ", "-").replace("_", "-")
    text = ILLEGAL.sub("", text).lower().strip(".-")
    if not dots:
        text = text.replace(".", "-")
    return text[:LONGEST_LABEL].rstrip(".-") or f"Server-{server_id}"
