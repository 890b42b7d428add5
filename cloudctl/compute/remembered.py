"""What a server remembers of the image that its disk was made from: the image may change, or be gone.

Reference: compute-microversions.md, 2.98.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NAME = re.compile(r"[a-zA-Z0-9_:. ]{1,255}", re.ASCII)
LONGEST = 255
# What drivers take at greater length; they refuse one that is longer than 2047 characters.
LONGER = {"os_command_line": 2048}


def remembered(properties: Mapping[str, str]) -> dict[str, str]:
    """What the server is placed by, and what its guest and its snapshots are made by, once the image has changed."""
    return {name: value[: LONGER.get(name, LONGEST)] for name, value in properties.items()}


def told(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of them whose names clients accept, their values cut to the length that clients read."""
    return {name: value[:LONGEST] for name, value in properties.items() if NAME.fullmatch(name)}
