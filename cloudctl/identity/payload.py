"""What a token string holds, and how it is packed: a Fernet token of at most 255 characters.

Everything else (names, roles, catalog) is read when the token is validated, so a change is seen at once. Reference:
identity.md, «Token formats».
"""

from __future__ import annotations

import base64
import os
import struct
from enum import IntEnum
from typing import Protocol

from attrs import frozen
from cryptography.fernet import InvalidToken, MultiFernet

LONGEST = 255
VERSION = 1
# In place of the version: the same content as a receipt, which is not a token.
RECEIPT = 2
# Version, methods, scope, delegation, issued, expires, epoch.
HEAD = struct.Struct("!BBBBIIQ")
AUDIT = 16  # random bytes
# A service reports what the user has signed: not a login of the user.
SIGNED = "ec2credential"
METHODS = ("password", "token", "application_credential", "totp", SIGNED, "oauth1")


class ScopeKind(IntEnum):
    UNSCOPED = 0
    PROJECT = 1
    DOMAIN = 2
    SYSTEM = 3


@frozen
class Scope:
    """`id` is that of the project or the domain, and empty otherwise."""

    kind: ScopeKind = ScopeKind.UNSCOPED
    id: str = ""


UNSCOPED = Scope()
SYSTEM = Scope(ScopeKind.SYSTEM)


class Delegation(IntEnum):
    NONE = 0
    APPLICATION_CREDENTIAL = 1
    TRUST = 2
    OAUTH = 3


@frozen
class Token:
    """Times are whole seconds since the epoch. `audit_ids`: its own, then that of the first token of its chain."""

    user_id: str
    methods: tuple[str, ...]
    scope: Scope
    issued_at: int
    expires_at: int
    epoch: int
    audit_ids: tuple[str, ...]
    delegation: Delegation = Delegation.NONE
    delegation_id: str = ""


class Keys(Protocol):
    def fernet(self) -> MultiFernet: ...


class Unreadable(ValueError):
    """It is not a token of this cloud."""


def new_audit_id() -> str:
    """22 characters for 16 random bytes."""
    return _audit_id(os.urandom(AUDIT))


def _audit_id(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def seal(token: Token, keys: Keys, version: int = VERSION) -> str:
    """Raises ValueError if it would be too long (ids are at most 64 characters)."""
    sealed = keys.fernet().encrypt_at_time(_packed(token, version), token.issued_at).decode().rstrip("=")
    if len(sealed) > LONGEST:
        raise ValueError(f"the token has {len(sealed)} characters")
    return sealed


def unseal(text: str, keys: Keys, version: int = VERSION) -> Token:
    """Raises Unreadable, also for another version. Does not check whether it has expired or was revoked."""
    if len(text) > LONGEST or not text.isascii():
        raise Unreadable
    try:
        return _unpacked(keys.fernet().decrypt(text + "=" * (-len(text) % 4)), version)
    except (InvalidToken, struct.error, IndexError, ValueError):
        raise Unreadable from None


def _packed(token: Token, version: int) -> bytes:
    methods = sum(1 << METHODS.index(method) for method in token.methods)
    head = HEAD.pack(
        version, methods, token.scope.kind, token.delegation, token.issued_at, token.expires_at, token.epoch
    )
    audits = b"".join(base64.urlsafe_b64decode(audit + "==") for audit in token.audit_ids)
    ids = b"".join(_packed_id(id) for id in (token.user_id, token.scope.id, token.delegation_id))
    return head + bytes([len(token.audit_ids)]) + audits + ids


def _packed_id(id: str) -> bytes:
    """A byte of length, 0 for the usual 32 hex digits, and the id."""
    if len(id) == 32:
        try:
            raw = bytes.fromhex(id)
        except ValueError:
            raw = b""
        if raw.hex() == id:
            return b"\0" + raw
    encoded = id.encode()
    return bytes([len(encoded) + 1]) + encoded


def _unpacked(raw: bytes, expected: int) -> Token:
    version, bits, kind, delegation, issued, expires, epoch = HEAD.unpack_from(raw)
    if version != expected:
        raise Unreadable
    position = HEAD.size
    count = raw[position]
    position += 1
    audits = []
    for _ in range(count):
        audits.append(_audit_id(raw[position : position + AUDIT]))
        position += AUDIT
    ids = []
    for _ in range(3):
        length = raw[position]
        position += 1
        size = 16 if length == 0 else length - 1
        piece = raw[position : position + size]
        ids.append(piece.hex() if length == 0 else piece.decode())
        position += size
    return Token(
        user_id=ids[0],
        methods=tuple(method for bit, method in enumerate(METHODS) if bits & 1 << bit),
        scope=Scope(ScopeKind(kind), ids[1]),
        issued_at=issued,
        expires_at=expires,
        epoch=epoch,
        audit_ids=tuple(audits),
        delegation=Delegation(delegation),
        delegation_id=ids[2],
    )
