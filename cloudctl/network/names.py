"""Names of ports in DNS: what they may be, and which name each address has. Reference: network.md, section 6."""

from __future__ import annotations

import re

LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
# What every port is in that names no other domain.
DOMAIN = "openstacklocal."


def check_label(text: str) -> str:
    """A name of one label or several, or none. Raises ValueError."""
    if text and not all(LABEL.fullmatch(label) for label in text.removesuffix(".").split(".")):
        raise ValueError(f"{text[:64]!r} is not a valid DNS name")
    return text


def check_domain(text: str) -> str:
    """A domain with its final dot, or none. Raises ValueError."""
    if text and not text.endswith("."):
        raise ValueError(f"{text[:64]!r} is not a fully qualified domain name: it does not end in a dot")
    return check_label(text)


def assignment(name: str, address: str) -> dict[str, str]:
    """An entry of `dns_assignment`."""
    hostname = name or "host-" + re.sub(r"[.:]+", "-", address).strip("-")
    fqdn = hostname if hostname.endswith(".") else f"{hostname}.{DOMAIN}"
    return {"hostname": hostname, "ip_address": address, "fqdn": fqdn}
