"""What a new cloud starts with: the role for doing anything in every account, named as Swift's clients expect."""

from __future__ import annotations

from cloudctl.composition import FirstStart
from cloudctl.db import Connection
from cloudctl.identity import roles

RESELLER = "ResellerAdmin"


def bootstrap(conn: Connection, first: FirstStart) -> None:
    values = {"name": RESELLER, "domain_id": "", "description": "May do anything in every account.", "options": {}}
    roles.create(conn, values, first.now)
