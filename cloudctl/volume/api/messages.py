"""Messages on the wire. Reference: volume.md, section 12."""

from __future__ import annotations

from sqlalchemy import Column, literal

from cloudctl.db import Connection
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import equals
from cloudctl.rest.resource import Attribute, always, of_each
from cloudctl.rest.versions import since
from cloudctl.volume import messages
from cloudctl.volume.api import lists
from cloudctl.volume.api.lists import By
from cloudctl.volume.api.resource import Declared, created, linked
from cloudctl.volume.tables import Message

PAGED = since(3, 5)


def later(column: Column[str]) -> By:
    return By(lists.always(equals(column)), span=PAGED)


def of_type(column: Column[str]) -> By:
    return By(lists.always(lambda values: column == values[-1].upper()), span=PAGED)


# All of them are errors.
LEVEL = By(lists.always(lambda values: literal(values[-1].upper() == "ERROR")), span=PAGED)


def visible(conn: Connection, call: Call, message_id: str) -> Message:
    return messages.visible(conn, call.caller, message_id)


def remove(conn: Connection, call: Call, message: Message) -> None:
    messages.remove(conn, message)


MESSAGES = Declared(
    name="message",
    record=Message,
    attributes=(
        Attribute("id", Message.id, sort=True),
        Attribute("event_id", Message.event_id, filter=later, sort=True),
        Attribute("user_message", Message.user_message),
        Attribute("message_level", view=always("ERROR")),
        created(Message),
        Attribute(
            "guaranteed_until",
            Message.guaranteed_until,
            sort=True,
            view=of_each(lambda row: micros(row.guaranteed_until)),
        ),
        Attribute("request_id", Message.request_id, filter=later, sort=True),
        Attribute("resource_type", Message.resource_type, filter=of_type, sort=True),
        Attribute("resource_uuid", Message.resource_id, filter=later, sort=True),
        linked("/messages"),
    ),
    filters={"message_level": LEVEL},
    visible=visible,
    not_found=messages.not_found,
    remove=remove,
    span=since(3, 3),
    rules={"list": "read", "show": "read"},
    status={"delete": 204},
    says={"list": "List why accepted work failed."},
)
