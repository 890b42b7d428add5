"""Names of ports in DNS: which are valid, and which name each address has. Reference: network.md, section 6."""

from __future__ import annotations

import re

LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
# The domain of every port that names no other one.
DOMAIN = "openstacklocal."


def check_label(text: str) -> str:
    """A name of one label or several, or none; in lower case, since DNS knows no other. Raises ValueError."""
    labels = text.removesuffix(".").split(".")
    if text and not all(map(LABEL.fullmatch, labels)):
        raise ValueError(f"{text[:64]!r} is not a valid DNS name")
    if len(labels) > 1 and labels[-1].isdigit():
        raise ValueError(f"{text[:64]!r} is not a valid DNS name: the last label must not be all numeric")
    return text.lower()


def check_relative(text: str) -> str:
    """As `check_label`, for a name to which a domain is always added. Raises ValueError."""
    if text.endswith("."):
        raise ValueError(f"{text[:64]!r} is a fully qualified domain name: a relative one is expected")
    return check_label(text)


def check_domain(text: str) -> str:
    """A domain with its final dot, or none; in lower case. Raises ValueError."""
    if text and not text.endswith("."):
        raise ValueError(f"{text[:64]!r} is not a fully qualified domain name: it does not end in a dot")
    return check_label(text)


def assignment(name: str, address: str, domain: str = "") -> dict[str, str]:
    """An entry of `dns_assignment`. `domain`: of the port, or of its network; "": neither has one."""
    hostname = name or "host-" + re.sub(r"[.:]+", "-", address).strip("-")
    fqdn = hostname if hostname.endswith(".") else f"{hostname}.{domain or DOMAIN}"
    return {"hostname": hostname, "ip_address": address, "fqdn": fqdn}
