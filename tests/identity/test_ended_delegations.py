"""What a purge removes of delegations that have expired, and what it leaves because it may count again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.identity.tables import (
    ApplicationCredential,
    ApplicationCredentialRole,
    ApplicationCredentialRule,
    Credential,
    OAuthAccessRole,
    OAuthAccessToken,
)
from cloudctl.rest.formats import micros
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.ended import purge

DAY = 86_400.0
V3 = "/identity/v3"


def me(client: Client) -> str:
    shown = client.get(f"{V3}/auth/tokens", headers={"X-Subject-Token": client.token or ""})
    return str(shown.json()["token"]["user"]["id"])


def make(cloud: MemoryCloud, name: str, days: int | None) -> str:
    """An application credential of the user demo, with an access rule, that made an EC2 credential."""
    demo, body = cloud.client("demo"), {"name": name, "unrestricted": True, "secret": "secret"}
    if days is not None:
        body["expires_at"] = f"{micros(utc(cloud.clock.seconds()) + timedelta(days=days))}Z"
    path = f"{V3}/users/{me(demo)}/application_credentials"
    made = demo.post(path, {"application_credential": body})
    assert made.status == 201, made
    id = str(made.json()["application_credential"]["id"])

    def more(conn: Connection) -> None:
        conn.execute(insert(ApplicationCredentialRule).values(credential_id=id, rule_id="rule"))
        said = {"id": f"ec2-{id}", "user_id": me(demo), "type": "ec2", "blob": b"", "application_credential_id": id}
        conn.execute(insert(Credential).values(**said, created_at=utc(cloud.clock.seconds())))

    cloud.transact(more)
    return id


def all_of(cloud: MemoryCloud, *columns: Any) -> list[set[Any]]:
    return [cloud.transact(lambda conn, column=column: set(conn.scalars(select(column)))) for column in columns]


def test_application_credentials_go_once_no_token_of_theirs_can_be_validated() -> None:
    cloud = MemoryCloud()
    try:
        make(cloud, "old", 1)
        kept = {make(cloud, "young", 20), make(cloud, "endless", None)}
        cloud.advance(10 * DAY)
        assert purge(cloud.db, 1) == {}
        cloud.advance(20 * DAY)
        assert purge(cloud.db, 1)["expired application credentials"] == 1
        columns = (
            ApplicationCredential.id,
            ApplicationCredentialRole.credential_id,
            ApplicationCredentialRule.credential_id,
            Credential.application_credential_id,
        )
        assert all_of(cloud, *columns) == [kept] * 4
        # Its name is free.
        make(cloud, "old", 1)
    finally:
        cloud.close()


def test_access_tokens_of_oauth_go_with_their_roles() -> None:
    cloud = MemoryCloud()

    def three(conn: Connection) -> None:
        now = utc(cloud.clock.seconds())
        for id, days in (("old", -40), ("young", -20), ("endless", None)):
            row = {"id": id, "consumer_id": "c", "secret": b"", "project_id": "p", "user_id": "u", "created_at": now}
            ends = None if days is None else now + timedelta(days=days)
            conn.execute(insert(OAuthAccessToken).values(**row, expires_at=ends))
            conn.execute(insert(OAuthAccessRole).values(token_id=id, role_id="r"))

    try:
        cloud.transact(three)
        assert purge(cloud.db, 30) == {"expired OAuth access tokens": 1}
        assert all_of(cloud, OAuthAccessToken.id, OAuthAccessRole.token_id) == [{"young", "endless"}] * 2
    finally:
        cloud.close()
