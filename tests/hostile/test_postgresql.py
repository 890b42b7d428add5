"""What depends on the database, on PostgreSQL: its transactions run concurrently, and it accepts less than SQLite."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
import pytest_twisted
from attrs import frozen
from cryptography.fernet import Fernet
from twisted.internet.address import IPv4Address
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.error import ConnectionDone
from twisted.internet.task import deferLater
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.app import SECTIONS, Cloud
from cloudctl.config import build
from cloudctl.testing.cloud import PASSWORDS
from cloudctl.testing.http import HOST, Response, encode, parse
from tests.conftest import postgresql
from tests.generated.world import LATEST, UNKNOWN, VARIABLE
from tests.object_store.signing import Key, bare, hashed

AT_ONCE = 4
V3 = "/identity/v3"
NETWORKING, VOLUME, COMPUTE = "/networking/v2.0", "/volume/v3", "/compute/v2.1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ9mYp1XpLWzVSGlcsmqpUAcUO8CJ3qXoYAuOq2Ci0V x"


@frozen
class Asking:
    """Requests to a cloud on PostgreSQL, whose transactions run in threads."""

    cloud: Cloud
    reactor: Any
    token: str = ""

    async def ask(self, method: str, path: str, body: Any = None, **said: str) -> Response:
        """`said`: headers, with _ for -."""
        address = IPv4Address("TCP", "127.0.0.1", 54321)
        channel: Any = self.cloud.site.buildProtocol(address)
        transport = StringTransport(hostAddress=address, peerAddress=address)
        channel.makeConnection(transport)
        headers = {**LATEST, **({"X-Auth-Token": self.token} if self.token else {}), "Content-Type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in said.items()}
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        channel.dataReceived(encode(method, path, headers, sent))
        while not transport.disconnecting:
            await deferLater(self.reactor, 0.001)
        channel.connectionLost(Failure(ConnectionDone()))
        return parse(transport.value(), method)

    async def made(self, path: str, body: Any, method: str = "POST", **said: str) -> Any:
        answer = await self.ask(method, path, body, **said)
        assert answer.status < 300, answer
        return answer.json() if answer.body else None

    async def login(self, user: str, project: str) -> Asking:
        domain = {"id": "default"}
        proof = {"user": {"name": user, "domain": domain, "password": PASSWORDS[user]}}
        scope = {"project": {"name": project, "domain": domain}}
        auth = {"identity": {"methods": ["password"], "password": proof}, "scope": scope}
        answer = await self.ask("POST", f"{V3}/auth/tokens", {"auth": auth})
        return Asking(self.cloud, self.reactor, str(answer.headers["X-Subject-Token"]))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Separate, since an asynchronous fixture that skips is an error."""
    with postgresql() as made:
        yield made


@pytest_twisted.async_yield_fixture(scope="module")
async def asking(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asking]:
    from twisted.internet import reactor

    database = {"url": url, "sealing_keys": [Fernet.generate_key().decode()]}
    cheap = {"argon2": {"time_cost": 1, "memory_cost": 8, "parallelism": 1}}
    # Accepted work is not carried out: only the requests matter here.
    tables = {"server": {"roles": ["api"]}, "database": database, "identity": cheap}
    cloud = Cloud(build(tables, SECTIONS, tmp_path_factory.mktemp("cloud")), reactor, listen=False)
    cloud.prepare(PASSWORDS)
    cloud.startService()
    yield Asking(cloud, reactor)
    await cloud.stopService()


async def at_once(*asked: Coroutine[Any, Any, Response]) -> list[Response]:
    found = await gatherResults([ensureDeferred(each) for each in asked])
    return list(found)


def granted(answers: Sequence[Response]) -> int:
    assert all(answer.status < 500 for answer in answers), answers
    return sum(answer.status < 300 for answer in answers)


# -- limits, and concurrent requests for the last one


SERVER = {"name": "x", "imageRef": "IMAGE", "flavorRef": "1", "networks": "none"}
PAIR = {"name": "NAME", "type": "ssh", "public_key": KEY}
SUBNET = {"network_id": "NETWORK", "ip_version": 4, "cidr": "10.NUMBER.0.0/24"}
GROUP = {"name": "x", "policy": "affinity"}
# Limit → the API that has it, and a request that uses one more of it.
TAKES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "network": ("networking", "networks", "network", {}),
    "subnet": (
        "networking",
        "subnets",
        "subnet",
        {"network_id": "NETWORK", "ip_version": 4, "cidr": "10.NUMBER.0.0/24"},
    ),
    "port": ("networking", "ports", "port", {"network_id": "NETWORK"}),
    "router": ("networking", "routers", "router", {}),
    "security_group": ("networking", "security-groups", "security_group", {"name": "x"}),
    "volumes": ("volume", "volumes", "volume", {"size": 1}),
    "gigabytes": ("volume", "volumes", "volume", {"size": 1}),
    "instances": ("compute", "servers", "server", SERVER),
    "cores": ("compute", "servers", "server", SERVER),
    "server_groups": ("compute", "os-server-groups", "server_group", GROUP),
    "key_pairs": ("compute", "os-keypairs", "keypair", PAIR),
}
ROOTS = {"networking": NETWORKING, "volume": VOLUME, "compute": COMPUTE}
SETS = {"networking": "quotas", "volume": "os-quota-sets", "compute": "os-quota-sets"}
# Where the usage is shown.
USED = {"networking": "/details.json", "volume": "?usage=True", "compute": "/detail"}


@frozen
class Limit:
    """A project's limit, for an administrator to set."""

    admin: Asking
    name: str
    project: str

    async def leave(self, more: int | None) -> None:
        """Leave room for `more`; None: no limit."""
        api = TAKES[self.name][0]
        at = f"{ROOTS[api]}/{SETS[api]}/{self.project}"
        ((key, shown),) = (await self.admin.made(at + USED[api], None, "GET")).items()
        there = shown[self.name].get("in_use", shown[self.name].get("used", 0))
        forced = {"force": True} if api == "compute" else {}
        await self.admin.made(at, {key: {self.name: -1 if more is None else there + more, **forced}}, "PUT")


@pytest_twisted.ensureDeferred
async def test_as_many_are_granted_as_the_limit_says_however_many_ask_at_once(asking: Asking) -> None:
    admin, demo = await asking.login("admin", "admin"), await asking.login("demo", "demo")
    project = (await demo.made(f"{V3}/auth/projects", None, "GET"))["projects"][0]["id"]
    network = (await demo.made(f"{NETWORKING}/networks", {"network": {}}))["network"]["id"]
    images = (await demo.made("/image/v2/images", None, "GET"))["images"]
    ids = {"NETWORK": network, "IMAGE": next(each["id"] for each in images if each["name"] == "tiny")}
    found = {}
    for name, (api, path, key, fields) in TAKES.items():
        limit = Limit(admin, name, project)
        await limit.leave(1)
        bodies = []
        for number in range(AT_ONCE):
            text = json.dumps({key: fields}).replace("NUMBER", str(number)).replace("NAME", f"n{number}")
            for what, id in ids.items():
                text = text.replace(what, id)
            bodies.append(json.loads(text))
        answers = await at_once(*(demo.ask("POST", f"{ROOTS[api]}/{path}", each) for each in bodies))
        found[name] = granted(answers)
        await limit.leave(None)
    assert found == dict.fromkeys(TAKES, 1)


@pytest_twisted.ensureDeferred
async def test_a_user_has_no_more_key_pairs_for_asking_in_several_projects(asking: Asking) -> None:
    admin = await asking.login("admin", "admin")
    told = (await admin.made(f"{V3}/auth/tokens", None, "GET", X_Subject_Token=admin.token))["token"]
    role = next(each["id"] for each in told["roles"] if each["name"] == "admin")
    tenants, projects = [admin], [told["project"]["id"]]
    for number in range(AT_ONCE):
        name = f"p{number}"
        made = await admin.made(f"{V3}/projects", {"project": {"name": name}})
        projects.append(made["project"]["id"])
        await admin.made(f"{V3}/projects/{projects[-1]}/users/{told['user']['id']}/roles/{role}", None, "PUT")
        tenants.append(await asking.login("admin", name))
    for each in projects:
        await admin.made(f"{COMPUTE}/os-quota-sets/{each}", {"quota_set": {"key_pairs": 1}}, "PUT")
    bodies = [{"keypair": {**PAIR, "name": f"p{number}"}} for number in range(len(tenants))]
    pairs = [each.ask("POST", f"{COMPUTE}/os-keypairs", body) for each, body in zip(tenants, bodies, strict=True)]
    assert granted(await at_once(*pairs)) == 1


@pytest_twisted.ensureDeferred
async def test_what_is_uploaded_at_once_stays_within_the_quota_of_its_container(asking: Asking) -> None:
    demo = await asking.login("demo", "demo")
    told = (await demo.made(f"{V3}/auth/tokens", None, "GET", X_Subject_Token=demo.token))["token"]
    account = f"/object-store/v1/AUTH_{told['project']['id']}"
    await demo.made(f"{account}/box", b"", "PUT", X_Container_Meta_Quota_Bytes="10")
    objects = (demo.ask("PUT", f"{account}/box/o{number}", b"six678") for number in range(AT_ONCE))
    assert granted(await at_once(*objects)) == 1
    # Parts of unfinished uploads count, too.
    await demo.made(f"{account}/parts", b"", "PUT", X_Container_Meta_Quota_Bytes="10")
    path = f"{V3}/users/{told['user']['id']}/credentials/OS-EC2"
    pair = (await demo.made(path, {"tenant_id": told["project"]["id"]}))["credential"]
    key = Key(pair["access"], pair["secret"], asking.reactor.seconds())

    def signed(method: str, name: str, query: str, body: bytes) -> Coroutine[Any, Any, Response]:
        target, said = f"/s3/parts/{name}", {"Host": HOST, "Content-Type": "text/plain"}
        said = key.signed(method, target, query, said, hashed(body))
        return asking.ask(method, f"{target}?{query}", body, **{each.replace("-", "_"): said[each] for each in said})

    begun = await at_once(*(signed("POST", f"o{number}", "uploads=", b"") for number in range(AT_ONCE)))
    uploads = [bare(answer).findtext("UploadId") for answer in begun]
    parts = (
        signed("PUT", f"o{number}", f"partNumber=1&uploadId={upload}", b"six678")
        for number, upload in enumerate(uploads)
    )
    assert granted(await at_once(*parts)) == 1


# -- what SQLite forgives


HOSTILE = ("%00", "%ED%A0%80", "9" * 40, "((((){255}){255}){255}){255}", "in:" + ",".join([UNKNOWN] * 200),
           "0001-01-01T00:00:00%2B23:00", "9999-12-31T23:59:59-23:00", "1e400", "{'a':'%5Cx00'}")  # fmt: skip
COMMON = ("marker", "name")


@pytest_twisted.ensureDeferred
async def test_no_value_of_a_list_is_an_error_of_the_database(asking: Asking) -> None:
    admin = await asking.login("admin", "admin")
    asked: set[tuple[str, str]] = set()
    wrong = []
    for api, app in asking.cloud.apis.items():
        for path, operation in app.operations:
            if operation.method != "GET" or VARIABLE.search(path) or operation.policy is None or api == "s3":
                continue
            queries: list[str] = []
            for name in (*COMMON, *operation.query):
                # Lists that share their parameters share the code that reads them: one is enough.
                if (where := (operation.tag, name)) not in asked:
                    asked.add(where)
                    queries += [f"/{api}{path}?{quote(name)}={value}" for value in HOSTILE]
            for some in (queries[at : at + AT_ONCE] for at in range(0, len(queries), AT_ONCE)):
                answers = await at_once(*(admin.ask("GET", query) for query in some))
                wrong += [
                    f"{query[:200]}: {answer.status} {answer.body[:200]!r}"
                    for query, answer in zip(some, answers, strict=True)
                    if answer.status >= 500 and answer.status != 501
                ]
    assert len(asked) > 100
    assert wrong == []


@pytest_twisted.ensureDeferred
async def test_nobody_signs_with_the_key_or_the_token_nul(asking: Asking) -> None:
    said = {
        "oauth_consumer_key": "x", "oauth_token": "x", "oauth_nonce": "x", "oauth_signature_method": "PLAINTEXT",
        "oauth_timestamp": str(int(asking.reactor.seconds())), "oauth_signature": "%26",
    }  # fmt: skip
    for name in ("oauth_consumer_key", "oauth_token"):
        signed = "OAuth " + ",".join(f'{each}="{value}"' for each, value in {**said, name: "%00"}.items())
        answer = await asking.ask("POST", f"{V3}/OS-OAUTH1/access_token", b"", Authorization=signed)
        assert answer.status == 401, answer
