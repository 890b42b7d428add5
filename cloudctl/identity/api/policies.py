"""/policies: text that clients store here; it has no effect. Reference: identity.md, section 9."""

from __future__ import annotations

from typing import Annotated

from sqlalchemy import delete

from cloudctl.db import Connection
from cloudctl.identity import endpoint_policies, records
from cloudctl.identity.api.resource import Declared, linked
from cloudctl.identity.tables import PolicyAssociation, PolicyBlob
from cloudctl.rest.body import Length, Name
from cloudctl.rest.call import Call
from cloudctl.rest.resource import REQUIRED, Attribute, Json


def create(conn: Connection, call: Call, values: Json) -> PolicyBlob:
    return records.create(conn, PolicyBlob, values, call.now)


def change(conn: Connection, call: Call, policy_id: str, changes: Json) -> PolicyBlob:
    before = records.get(conn, PolicyBlob, policy_id, POLICIES.kind, lock=True)
    return records.change(conn, PolicyBlob, before, changes)


def remove(conn: Connection, call: Call, policy_id: str) -> None:
    records.get(conn, PolicyBlob, policy_id, POLICIES.kind, lock=True)
    endpoint_policies.drop(conn, PolicyAssociation.policy_id == policy_id)
    conn.execute(delete(PolicyBlob).where(PolicyBlob.id == policy_id))


POLICIES = Declared(
    name="policy",
    plural="policies",
    record=PolicyBlob,
    attributes=(
        Attribute("id", PolicyBlob.id, sort=True),
        Attribute("type", PolicyBlob.type, Name, post=REQUIRED, put=True),
        Attribute("blob", PolicyBlob.blob, Annotated[str, Length(0, 65_535)], post=REQUIRED, put=True),
        Attribute("created_at", PolicyBlob.created_at, sort=True, view=None),
        linked("policies"),
    ),
    filters=records.text_filters("type", PolicyBlob.type),
    create=create,
    change=change,
    remove=remove,
    says={
        "list": "List stored policies",
        "create": "Store a policy; it has no effect",
        "show": "Show a stored policy",
        "update": "Change a stored policy",
        "delete": "Delete a stored policy",
    },
)
