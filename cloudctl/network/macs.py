"""MAC addresses of ports. Reference: network-rules.md, section 1, «MAC»."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, Unavailable
from cloudctl.network.tables import Port

PREFIX = "fa:16:3e"
TRIES = 16
# Neutron accepts all others, multicast ones too: stock tools set 11:22:33:44:55:66 on ports that are not in use.
NOBODYS = ("0" * 12, "f" * 12)
DIGITS = re.compile(r"[0-9a-f]{12}")

# Built once: building a statement costs more than running it.
_taken = select(Port.id).where(Port.network_id == bindparam("network"), Port.mac_address == bindparam("mac"))
# Both databases know this form of INSERT.
_insert = insert(Port.table).on_conflict_do_nothing(index_elements=[Port.table.c.network_id, Port.table.c.mac_address])


def parse(text: str) -> str:
    """Any notation as `fa:16:3e:00:00:01`. Raises Invalid."""
    digits = re.sub(r"[:.\-]", "", text.strip().lower())
    if len(text) > 32 or DIGITS.fullmatch(digits) is None:
        raise Invalid(f"Invalid input for mac_address. Reason: {text[:64]!r} is not a valid MAC address.")
    if digits in NOBODYS:
        raise Invalid(f"Invalid input for mac_address. Reason: {text[:64]!r} is not a valid MAC address.")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def choose(conn: Connection, network_id: str) -> str:
    """One that no port of the network has. Raises Unavailable."""
    for _ in range(TRIES):
        mac = _drawn()
        if not is_taken(conn, network_id, mac):
            return mac
    raise _exhausted(network_id)


def insert_port(conn: Connection, network_id: str, wanted: str | None, with_mac: Callable[[str], Port]) -> Port:
    """Write a new port of the network, as `with_mac(mac)` describes it: with the wanted address, or with any.

    Raises Conflict if another port has the wanted one, Unavailable.
    """
    for _ in range(1 if wanted else TRIES):
        port = with_mac(wanted or _drawn())
        if conn.execute(_insert, port._asdict()).rowcount:
            return port
    raise in_use(network_id, wanted) if wanted else _exhausted(network_id)


def _drawn() -> str:
    return ":".join((PREFIX, *(f"{random.randrange(256):02x}" for _ in range(3))))


def is_taken(conn: Connection, network_id: str, mac: str) -> bool:
    return conn.execute(_taken, {"network": network_id, "mac": mac}).first() is not None


def give(conn: Connection, network_id: str, mac: str, write: Callable[[], object]) -> None:
    """`write()` gives a port of the network this address. Raises Conflict if another port has it meanwhile."""
    try:
        with conn.begin_nested():
            write()
    except IntegrityError:
        if not is_taken(conn, network_id, mac):
            raise
        raise in_use(network_id, mac) from None


def _exhausted(network_id: str) -> Unavailable:
    message = f"Unable to generate unique mac on network {network_id}."
    return Unavailable(message, type="NetworkMacAddressGenerationFailure")


def in_use(network_id: str, mac: str) -> Conflict:
    message = f"Unable to complete operation for network {network_id}. The mac address {mac} is in use."
    return Conflict(message, type="MacAddressInUse")
