"""What an operator may choose about events: the section `[events]`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from cloudctl.options import positive

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")
PREFIX = "whsec_"
BUS = "bus"  # the name of the receiver on the bus


def of_webhook(name: str) -> str:
    """The name of a receiver that is a webhook."""
    return f"webhook {name}"


def networks(_instance: object, _attribute: Any, value: tuple[str, ...]) -> None:
    for text in value:
        ip_network(text)


def names(_instance: object, _attribute: Any, value: Mapping[str, Any]) -> None:
    for name in value:
        if NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not a webhook name: only letters, digits and _.- are allowed")


def is_url(_instance: object, _attribute: Any, value: str) -> None:
    found = urlsplit(value)
    is_plain = value.isascii() and value.isprintable() and " " not in value and found.port != 0
    if found.scheme not in ("http", "https") or not found.hostname or found.username or found.fragment or not is_plain:
        raise ValueError("must look like https://receiver.example.com/path")


def key(secret: str) -> bytes:
    """With the prefix `whsec_` it is base64, as such receivers issue it; any other secret is taken literally."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            """It only looks like one."""
    return secret.encode()


def is_secret(_instance: object, _attribute: Any, value: str) -> None:
    if len(key(value)) < 16:
        raise ValueError("must have 16 bytes or more")


@frozen
class WebhookOptions:
    """`[events.webhooks.NAME]`"""

    url: str = field(validator=is_url)
    # Proves to the receiver that the call is ours.
    secret: str = field(validator=is_secret, repr=False)
    # Which events it gets: types, as shell patterns.
    types: tuple[str, ...] = ("*",)


@frozen
class EventOptions:
    """[events]"""

    # Receivers called for each event. They may be at public addresses, and in these networks: ["10.0.0.0/8"].
    webhooks: dict[str, WebhookOptions] = field(factory=dict, validator=names)
    webhook_networks: tuple[str, ...] = field(default=(), validator=networks)
    # Seconds in which a receiver must answer.
    webhook_timeout: float = field(default=30.0, validator=positive)
    # Which events are published on the bus, if [drivers] names one.
    bus_types: tuple[str, ...] = ("*",)
    # Whether administrators may follow them at /events/v1/stream; how many may at once, in each process, and for how
    # many seconds.
    stream: bool = False
    streams: int = field(default=20, validator=positive)
    stream_limit: float = field(default=3600.0, validator=positive)
    # For how many seconds, and how many, events are kept: a receiver that has not taken them by then has lost them.
    keep: float = field(default=86400.0, validator=positive)
    most: int = field(default=100_000, validator=positive)

    @property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """Receiver outside → the types of the events that it gets."""
        return {**{of_webhook(name): each.types for name, each in self.webhooks.items()}, BUS: self.bus_types}
