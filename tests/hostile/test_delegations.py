"""Every Operation x every kind of delegated token: never more than a login of the same user's, and no secret of his."""

from __future__ import annotations

from collections import Counter

import pytest

from cloudctl.db.columns import utc
from cloudctl.testing.cloud import PASSWORDS, Client
from tests.generated.test_calls_by_each_user import ask
from tests.generated.world import LATEST, TOTP_SEED, USER_DATA, World
from tests.identity.delegations import KINDS, Delegations, User

# What only a login of the user's own, or an unrestricted credential, may do to anything at all.
KEPT = {
    "restricted": ("identity:create_application_credential", "identity:delete_application_credential"),
    "trust": ("identity:list_application_credentials", "identity:list_access_rules"),
    "oauth": ("identity:list_application_credentials", "identity:list_access_tokens"),
    "ec2": ("identity:list_application_credentials", "identity:list_access_tokens"),
}


@pytest.fixture(scope="module")
def world() -> World:
    """Personas are added: one for each kind of delegation, of the member's roles."""
    made = World()
    cloud = made.cloud

    def send(method: str, path: str, body: object, token: str, headers: object) -> object:
        return Client(cloud, token or None, LATEST).request(method, path, body, headers=headers)  # type: ignore[arg-type]  # as Ask has it

    member, admin = made.clients["member"], made.clients["admin"]
    demo = User(made.ids["identity", "user_id"], "demo", PASSWORDS["demo"], str(member.token), made.project)
    found = admin.get("/identity/v3/users?name=admin").json()["users"][0]["id"]
    trustee = User(found, "admin", PASSWORDS["admin"], str(admin.token), made.project)
    lend = Delegations(send, str(admin.token), trustee, lambda: utc(cloud.clock.seconds()))  # type: ignore[arg-type]  # as above
    for kind in KINDS:
        made.clients[kind] = Client(cloud, lend.make(kind, demo, "member").token, LATEST)
    made.save()
    return made


def test_no_operation_gives_a_delegated_token_more_than_a_login_of_the_same_user(world: World) -> None:
    wrong: list[str] = []
    good: Counter[str] = Counter()
    for api, path, operation in world.operations():
        own = ask(world, "member", api, path, operation)
        for kind in KINDS:
            answer = ask(world, kind, api, path, operation)
            where = f"{kind}: {api} {operation.key} -> {answer.status}, {own.status} {answer.body[:120]!r}"
            good[kind] += answer.status < 300
            if answer.status >= 500 and answer.status != 501:
                wrong.append(f"failed: {where}")
            if answer.status < 300 <= own.status:
                wrong.append(f"more than its user: {where}")
            if operation.policy in KEPT.get(kind, ()) and answer.status < 400:
                wrong.append(f"kept for the user: {where}")
            secrets = (USER_DATA, TOTP_SEED, world.ec2_secret)
            if api == "identity" and any(secret.encode() in answer.body for secret in secrets):
                wrong.append(f"told a secret: {where}")
    assert wrong == []
    # They do get about.
    assert all(good[kind] > 50 for kind in KINDS if kind != "ruled"), good
    assert good["ruled"] > 5
