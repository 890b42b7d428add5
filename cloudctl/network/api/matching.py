"""`If-Match`: a change of one revision and no other. Reference: network.md, section 1.5."""

from __future__ import annotations

import re

from cloudctl.errors import Invalid, PreconditionFailed
from cloudctl.network.tables import Standard
from cloudctl.rest.call import Call


def check_match(call: Call, row: Standard) -> None:
    """Raises PreconditionFailed if the request names another revision in `If-Match`, Invalid if it names none."""
    header = call.header("If-Match")
    if header is None:
        return
    match = re.fullmatch(r"\s*revision_number=(-?\d{1,9})\s*", header, re.ASCII)
    if match is None:
        raise Invalid("Invalid input for If-Match. Reason: 'revision_number=N' is expected.")
    if int(match[1]) != row.revision:
        raise PreconditionFailed(f"Constrained to {match[1]}, but current revision is {row.revision}")
