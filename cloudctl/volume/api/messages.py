"""Messages on the wire. Reference: volume.md, section 12."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from sqlalchemy import literal

from cloudctl.db import Database
from cloudctl.rest.call import Call
from cloudctl.rest.listing import equals
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import messages
from cloudctl.volume.api import lists, views
from cloudctl.volume.api.lists import By, always
from cloudctl.volume.tables import Message

SINCE = (3, 3)
PAGED = since(3, 5)

FILTERS = {
    "resource_uuid": By(always(equals(Message.resource_id)), span=PAGED),
    "resource_type": By(always(lambda values: Message.resource_type == values[-1].upper()), span=PAGED),
    "event_id": By(always(equals(Message.event_id)), span=PAGED),
    "request_id": By(always(equals(Message.request_id)), span=PAGED),
    # All of them are errors.
    "message_level": By(always(lambda values: literal(values[-1].upper() == "ERROR")), span=PAGED),
}


LISTED = lists.Collection("messages", messages.LISTING, FILTERS, messages.not_found)


@frozen
class Messages:
    routes = Routes("Messages")

    db: Database

    @routes.get("/messages", policy="volume:messages:read", since=SINCE, query=lists.names(FILTERS))
    async def list(self, call: Call) -> Any:
        """List why accepted work failed."""
        return await LISTED.answer(self.db, call, views.message)

    @routes.get("/messages/<message_id>", policy="volume:messages:read", since=SINCE)
    async def show(self, call: Call, message_id: str) -> Any:
        """Show a message."""
        return {"message": views.message(call, await self.db.read(messages.visible, call.caller, message_id))}

    @routes.delete("/messages/<message_id>", policy="volume:messages:delete", since=SINCE)
    async def delete(self, call: Call, message_id: str) -> None:
        """Delete a message."""
        await self.db.run(messages.remove, call.caller, message_id)
