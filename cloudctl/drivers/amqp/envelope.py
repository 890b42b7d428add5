"""What oslo.messaging puts around a message on the wire: its version 2.0 envelope, JSON in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

VERSION = "2.0"
_VERSION, _MESSAGE = "oslo.version", "oslo.message"


def pack(body: Mapping[str, Any]) -> bytes:
    return orjson.dumps({_VERSION: VERSION, _MESSAGE: orjson.dumps(body).decode()})


def unpack(data: bytes) -> Mapping[str, Any]:
    """The message, with or without the envelope, which older senders omit. Raises ValueError if it is not one."""
    outer = _object(data)
    if _MESSAGE not in outer:
        return outer
    version = str(outer.get(_VERSION))
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise ValueError(f"its envelope is of version {version[:16]}")
    inner = outer[_MESSAGE]
    if not isinstance(inner, str):
        raise ValueError("its envelope holds no message")
    return _object(inner)


def _object(data: bytes | str) -> dict[str, Any]:
    found = orjson.loads(data)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found
