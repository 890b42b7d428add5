"""What of a request's path is written to the log: all but the tokens in it.

Whoever reads the log could use them. A client sends one in a path that has never been here, such as identity's first
version had for the validation of a token, or to the wrong service; and a console's token is in a path that is a route.
"""

from __future__ import annotations

import re

# Tokens of identity begin like this, as do those of other clouds; the shortest has more than a hundred characters.
TOKEN = re.compile(r"gAAAAA[\w-]{60,}(?:=|%3D)*", re.IGNORECASE)
# What follows is a token, whatever it looks like.
NAMED = re.compile(r"(/(?:v2\.0/+tokens|auth/+tokens|os-console-auth-tokens)/+)(?!OS-PKI/)[^/]+")
HIDDEN = "***"


def path(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "tokens/" in text:
        text = NAMED.sub(rf"\1{HIDDEN}", text)
    return TOKEN.sub(HIDDEN, text) if len(text) > 60 else text
