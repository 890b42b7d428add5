"""Whatever revokes a right, every API honours it at once, however the holder authenticates.

A user calls each API, so that everything that may be cached is; then a right is revoked; then the user calls again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from attrs import evolve, frozen

from cloudctl.db.columns import utc
from cloudctl.testing.cloud import PASSWORDS, Client, MemoryCloud
from cloudctl.testing.http import Response
from tests.identity.delegations import V3, Delegations, Lent, User, good
from tests.object_store.signing import S3, Key

APIS = {
    "identity": f"{V3}/users/USER",
    "compute": "/compute/v2.1/servers",
    "image": "/image/v2/images",
    "networking": "/networking/v2.0/networks",
    "volume": "/volume/v3/volumes",
    "placement": "/placement/resource_providers",
    "object-store": "/object-store/v1/AUTH_PROJECT",
    "instance-ha": "/instance-ha/v1/segments",
}
ROLE = "admin"  # it is let in everywhere


@frozen
class Person:
    """A user with a role in a project of his own, both in a domain of their own."""

    cloud: MemoryCloud
    admin: Client
    user: User
    domain_id: str
    role_id: str

    def send(self, method: str, path: str, body: object, token: str, headers: Mapping[str, str]) -> Response:
        # Times separate what is issued before a revocation from what is issued after: they must differ by a second.
        self.cloud.advance(1)
        return Client(self.cloud, token or None).request(method, path, body, headers=headers)


def person(cloud: MemoryCloud, admin: Client, name: str) -> Person:
    def make(kind: str, **fields: object) -> str:
        answer = admin.post(f"{V3}/{kind}s", {kind: {"name": name, **fields}})
        assert answer.status == 201, answer
        return str(answer.json()[kind]["id"])

    domain_id = make("domain")
    project_id = make("project", domain_id=domain_id)
    user_id = make("user", domain_id=domain_id, password=name)
    role_id = admin.get(f"{V3}/roles?name={ROLE}").json()["roles"][0]["id"]
    assert admin.put(f"{V3}/projects/{project_id}/users/{user_id}/roles/{role_id}").status == 204
    made = Person(cloud, admin, User(user_id, name, name, "", project_id), domain_id, role_id)
    shown = {"user": {"id": user_id, "password": name}}
    body = {"identity": {"methods": ["password"], "password": shown}, "scope": {"project": {"id": project_id}}}
    answer = made.send("POST", f"{V3}/auth/tokens", {"auth": body}, "", {})
    return evolve(made, user=evolve(made.user, token=str(answer.headers["X-Subject-Token"])))


# Means of authentication → what revokes that one alone: method, path.
OWN = {
    "password": ("DELETE", "auth/tokens", None),
    "unrestricted": ("DELETE", "users/USER/application_credentials/SOURCE", None),
    "restricted": ("DELETE", "users/USER/application_credentials/SOURCE", None),
    "impersonating": ("DELETE", "OS-TRUST/trusts/SOURCE", None),
    "oauth": ("DELETE", "users/USER/OS-OAUTH1/access_tokens/SOURCE", None),
    "ec2": None,  # a token outlives the pair that it was signed with
    "s3": ("DELETE", "users/USER/credentials/OS-EC2/SOURCE", None),
    "s3 of a credential": ("DELETE", "users/USER/application_credentials/SOURCE", None),
}
USER, PROJECT, DOMAIN = "users/USER", "projects/PROJECT", "domains/DOMAIN"
OFF = {"enabled": False}
# What ends all of them: method, path, body.
ENDS = {
    "the user is disabled": ("PATCH", USER, {"user": OFF}),
    "the user is deleted": ("DELETE", USER, None),
    "the role is taken away": ("DELETE", f"{PROJECT}/users/USER/roles/ROLE", None),
    "the project is disabled": ("PATCH", PROJECT, {"project": OFF}),
    "the project is deleted": ("DELETE", PROJECT, None),
    "the domain is disabled": ("PATCH", DOMAIN, {"domain": OFF}),
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


def held(somebody: Person, kind: str) -> tuple[dict[str, Callable[[], Response]], str]:
    """Requests to each API with this proof, and the id of what it was made from."""
    cloud, user = somebody.cloud, somebody.user
    told = somebody.admin.get(f"{V3}/users?name=admin").json()["users"][0]["id"]
    trustee = User(told, "admin", PASSWORDS["admin"], str(somebody.admin.token), user.project_id)
    lend = Delegations(somebody.send, str(somebody.admin.token), trustee, lambda: utc(cloud.clock.seconds()))
    if kind.startswith("s3"):
        lent = Lent(user.token, "") if kind == "s3" else lend.unrestricted(user, ROLE)
        path = f"{V3}/users/{user.id}/credentials/OS-EC2"
        pair = good(somebody.send("POST", path, {"tenant_id": user.project_id}, lent.token, {})).json()["credential"]
        s3 = S3(cloud, Client(cloud, lent.token), Key(pair["access"], pair["secret"], 0))

        def signed() -> Response:
            s3.key = Key(pair["access"], pair["secret"], cloud.clock.seconds())
            return s3.get()

        return {"s3": signed}, lent.source or pair["access"]
    lent = Lent(user.token, "") if kind == "password" else lend.make(kind, user, ROLE)
    client = Client(cloud, lent.token)

    def ask(path: str) -> Callable[[], Response]:
        return lambda: client.get(path.replace("USER", user.id).replace("PROJECT", user.project_id))

    return {api: ask(path) for api, path in APIS.items()}, lent.source


@pytest.mark.parametrize("kind", OWN)
def test_what_is_taken_away_is_gone_from_every_api(cloud: MemoryCloud, kind: str) -> None:
    admin = cloud.client("admin")
    wrong = []
    for way, change in {"itself": OWN[kind], **ENDS}.items():
        if change is None:
            continue
        somebody = person(cloud, admin, f"{kind}, {way}")
        asks, source = held(somebody, kind)
        for ask in asks.values():
            good(ask())
        method, path, body = change
        names = {"USER": somebody.user.id, "PROJECT": somebody.user.project_id, "DOMAIN": somebody.domain_id}
        for name, value in {**names, "ROLE": somebody.role_id, "SOURCE": source}.items():
            path = path.replace(name, value)
        # The lender himself takes it back.
        token = somebody.user.token if way == "itself" else str(admin.token)
        good(somebody.send(method, f"{V3}/{path}", body, token, {"X-Subject-Token": somebody.user.token}))
        for api, ask in asks.items():
            answer = ask()
            if answer.status != (403 if api == "s3" else 401):
                wrong.append(f"{way}: {api} {answer.status} {answer.body[:200]!r}")
    assert not wrong, "\n".join(wrong)
