"""Revoked tokens and revocation events. Reference: identity.md, «Revoked list»."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Database
from cloudctl.errors import Invalid
from cloudctl.identity import revocation
from cloudctl.identity.tables import Revocation
from cloudctl.rest import formats
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

TIMES = ("expires_at", "issued_before", "revoked_at")
IDS = ("user_id", "project_id", "domain_id", "domain_scope_id", "audit_id", "audit_chain_id")


@frozen
class Revocations:
    db: Database

    routes = Routes("Revoked tokens")

    @routes.get("/OS-PKI/revoked", policy="identity:revocation_list")
    @routes.get("/auth/tokens/OS-PKI/revoked", policy="identity:revocation_list")
    async def tokens(self, call: Call) -> dict[str, Any]:
        """List the tokens that were revoked individually and have not expired"""
        rows = await self.db.scan(revocation.revoked_tokens, call.now)
        return {
            "revoked": [
                {
                    "id": row.audit_id,
                    "audit_id": row.audit_id,
                    "expires": formats.zulu_micros(row.expires_at) if row.expires_at else None,
                    "revoked_at": formats.zulu_micros(row.revoked_at),
                }
                for row in rows
            ]
        }

    @routes.get("/OS-REVOKE/events", policy="identity:list_revocation_events", query=("since",))
    async def events(self, call: Call) -> dict[str, Any]:
        """List revocations of every kind"""
        text = call.query.get("since")
        try:
            since = formats.parse_time(text) if text else None
        except (ValueError, OverflowError):
            raise Invalid("'since' is not a time.") from None
        rows = await self.db.scan(revocation.events, since)
        return {
            "events": [view(row) for row in rows],
            "links": {"self": call.url, "next": None, "previous": None},
        }


def view(row: Revocation) -> dict[str, Any]:
    """Only the fields that are set."""
    shown = {name: getattr(row, name) for name in IDS if getattr(row, name) is not None}
    for name in TIMES:
        if getattr(row, name) is not None:
            shown[name] = formats.zulu_micros(getattr(row, name))
    return shown
