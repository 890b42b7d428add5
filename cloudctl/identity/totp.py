"""Passcodes that change every half minute: a second factor of login.

The secret shared with the user's device is a credential of type `totp`, in base32. A passcode is accepted once.
Reference: RFC 6238 (six digits, SHA-1, steps of 30 seconds); identity.md, sections 2 and 8.
"""

from __future__ import annotations

import base64
import binascii
import secrets

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from sqlalchemy import or_, select, update

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.identity.payload import Keys
from cloudctl.identity.tables import Credential

TYPE = "totp"
DIGITS = 6
STEP = 30  # seconds
# The clock of a device may be late, and typing takes time.
EARLIER_STEPS = 1
SHORTEST = 10  # bytes


def shared_secret(blob: str) -> bytes:
    """The bytes of a credential's blob; spaces, lower case and missing padding are accepted. Raises Invalid."""
    text = "".join(blob.split()).rstrip("=")
    try:
        found = base64.b32decode(text + "=" * (-len(text) % 8), casefold=True)
    except (binascii.Error, ValueError):
        raise Invalid("The blob of a totp credential is a secret in base32.") from None
    if len(found) < SHORTEST:
        raise Invalid(f"The secret of a totp credential has at least {SHORTEST} bytes.")
    return found


def passcode(secret: bytes, step: int) -> str:
    """The passcode of one step: the number of half minutes since the epoch."""
    # RFC 6238 asks for the 20 bytes of SHA-1, but devices are given shorter secrets, too.
    return TOTP(secret, DIGITS, SHA1(), STEP, enforce_key_length=False).generate(step * STEP).decode()


def step_of(secret: bytes, said: str, seconds: float) -> int | None:
    """The step for which the passcode is good, of those accepted now."""
    now = int(seconds) // STEP
    matching = [
        step
        for step in range(max(0, now - EARLIER_STEPS), now + 1)
        if secrets.compare_digest(passcode(secret, step).encode(), said.encode())
    ]
    return max(matching, default=None)


def take(conn: Connection, user_id: str, said: str, keys: Keys, seconds: float) -> bool:
    """Whether it is a passcode of one of the user's devices that is good now and was not used before."""
    mine = (Credential.user_id == user_id, Credential.type == TYPE)
    query = select(Credential.id, Credential.blob).where(*mine).order_by(Credential.created_at)
    for id, blob in conn.execute(query.order_by(Credential.id)):
        step = step_of(shared_secret(keys.fernet().decrypt(blob).decode()), said, seconds)
        if step is not None:
            unused = or_(Credential.totp_step.is_(None), Credential.totp_step < step)
            taken = update(Credential).where(Credential.id == id, unused).values(totp_step=step)
            return conn.execute(taken).rowcount == 1
    return False
