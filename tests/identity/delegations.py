"""Every way to act for a user without being the user, as clients go it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote

from attrs import frozen

from cloudctl.db.columns import utc
from cloudctl.rest.formats import zulu
from cloudctl.testing.http import Response

V3 = "/identity/v3"
OAUTH = f"{V3}/OS-OAUTH1"
HOST = "localhost"

KINDS = ("restricted", "ruled", "unrestricted", "trust", "impersonating", "oauth", "ec2", "ec2 of a credential")
# Of those, what deals with other credentials.
MANAGING = ("ruled", "unrestricted")
RULES = (
    {"service": "identity", "method": "GET", "path": "/v3/**"},
    {"service": "identity", "method": "POST", "path": "/v3/users/*/application_credentials"},
)

EPOCH = utc(0)

# (method, path, body, token, headers) → the answer.
Ask = Callable[[str, str, Any, str, Mapping[str, str]], Response]


@frozen
class Lent:
    """A delegated token, and the id of what it was made from."""

    token: str
    source: str


@frozen
class User:
    """`token`: of a login by password, scoped to the project."""

    id: str
    name: str
    password: str
    token: str
    project_id: str


class Delegations:
    """`admin`: a token with the role; `trustee`: to whom trusts are made. `now`: naive UTC."""

    def __init__(self, ask: Ask, admin: str, trustee: User, now: Callable[[], Any]) -> None:
        self.ask, self.admin, self.trustee, self.now = ask, admin, trustee, now
        self.count = 0

    def make(self, kind: str, user: User, *roles: str) -> Lent:
        """Of these roles of the user in the project."""
        return {
            "restricted": self.restricted,
            "ruled": self.ruled,
            "unrestricted": self.unrestricted,
            "trust": self.trust,
            "impersonating": self.impersonating,
            "oauth": self.oauth,
            "ec2": self.ec2,
            "ec2 of a credential": self.ec2_of_a_credential,
        }[kind](user, *roles)

    def restricted(self, user: User, *roles: str, **fields: Any) -> Lent:
        self.count += 1
        body = {"name": f"credential {self.count}", "roles": [{"name": role} for role in roles], **fields}
        path = f"{V3}/users/{user.id}/application_credentials"
        made = good(self.ask("POST", path, {"application_credential": body}, user.token, {}))
        return self.by_secret(made.json()["application_credential"])

    def by_secret(self, credential: Mapping[str, Any]) -> Lent:
        shown = {"id": credential["id"], "secret": credential["secret"]}
        return Lent(self.login("application_credential", shown), credential["id"])

    def ruled(self, user: User, *roles: str) -> Lent:
        return self.restricted(user, *roles, unrestricted=True, access_rules=RULES)

    def unrestricted(self, user: User, *roles: str) -> Lent:
        return self.restricted(user, *roles, unrestricted=True)

    def trust(self, user: User, *roles: str, impersonation: bool = False, **fields: Any) -> Lent:
        body = {
            "trustor_user_id": user.id,
            "trustee_user_id": self.trustee.id,
            "project_id": user.project_id,
            "impersonation": impersonation,
            "roles": [{"name": role} for role in roles],
            **fields,
        }
        trust_id = good(self.ask("POST", f"{V3}/OS-TRUST/trusts", {"trust": body}, user.token, {})).json()["trust"][
            "id"
        ]
        return Lent(self.by_trust(trust_id), trust_id)

    def by_trust(self, trust_id: str) -> str:
        shown = {"user": {"id": self.trustee.id, "password": self.trustee.password}}
        return self.login("password", shown, {"OS-TRUST:trust": {"id": trust_id}})

    def impersonating(self, user: User, *roles: str) -> Lent:
        return self.trust(user, *roles, impersonation=True)

    def oauth(self, user: User, *roles: str) -> Lent:
        consumer = good(self.ask("POST", f"{OAUTH}/consumers", {"consumer": {}}, self.admin, {})).json()["consumer"]
        asked = self.signed(consumer, f"{OAUTH}/request_token", {"Requested-Project-Id": user.project_id})
        wanted = {"roles": [{"name": role} for role in roles]}
        given = good(self.ask("PUT", f"{OAUTH}/authorize/{asked['oauth_token']}", wanted, user.token, {}))
        verifier = given.json()["token"]["oauth_verifier"]
        access = self.signed(consumer, f"{OAUTH}/access_token", {}, asked, oauth_verifier=verifier)
        path = f"{V3}/auth/tokens"
        header = self.authorization(consumer, path, access)
        body = {"auth": {"identity": {"methods": ["oauth1"], "oauth1": {}}}}
        answer = good(self.ask("POST", path, body, "", {"Authorization": header, "Host": HOST}))
        return Lent(str(answer.headers["X-Subject-Token"]), access["oauth_token"])

    def ec2(self, user: User, *roles: str) -> Lent:
        """All roles that the user has: a key pair of one's own is not bound to any."""
        path = f"{V3}/users/{user.id}/credentials/OS-EC2"
        pair = good(self.ask("POST", path, {"tenant_id": user.project_id}, user.token, {})).json()["credential"]
        return Lent(self.by_signature(pair), pair["access"])

    def ec2_of_a_credential(self, user: User, *roles: str) -> Lent:
        """A key pair that the token of an unrestricted credential has made; that takes a member."""
        middle = self.unrestricted(user, *roles, "member")
        made = self.ec2(User(user.id, user.name, user.password, middle.token, user.project_id))
        return Lent(made.token, middle.source)

    # -- logins

    def login(self, method: str, shown: Any, scope: Any = None) -> str:
        auth = {"identity": {"methods": [method], method: shown}, **({"scope": scope} if scope else {})}
        return str(good(self.ask("POST", f"{V3}/auth/tokens", {"auth": auth}, "", {})).headers["X-Subject-Token"])

    def by_signature(self, pair: Mapping[str, str]) -> str:
        """A token for a request that was signed with a key pair, AWS Signature Version 2."""
        params = {"SignatureVersion": "2", "SignatureMethod": "HmacSHA256", "Timestamp": zulu(self.now())}
        query = "&".join(f"{name}={quote(value or '', safe='-_~')}" for name, value in sorted(params.items()))
        text = "\n".join(("GET", HOST, "/", query))
        digest = hmac.new(pair["secret"].encode(), text.encode(), hashlib.sha256).digest()
        request = {
            "access": pair["access"],
            "signature": base64.b64encode(digest).decode(),
            "host": HOST,
            "verb": "GET",
            "path": "/",
            "params": params,
        }
        answer = good(self.ask("POST", f"{V3}/ec2tokens", {"credentials": request}, self.admin, {}))
        return str(answer.headers["X-Subject-Token"])

    def signed(
        self, consumer: Any, path: str, headers: Mapping[str, str], token: Mapping[str, str] | None = None, **more: str
    ) -> dict[str, str]:
        header = self.authorization(consumer, path, token or {}, **(more or {"oauth_callback": "oob"}))
        answer = good(self.ask("POST", path, None, "", {"Authorization": header, "Host": HOST, **headers}))
        return {name: values[0] for name, values in parse_qs(answer.body.decode()).items()}

    def authorization(self, consumer: Any, path: str, token: Mapping[str, str], **more: str) -> str:
        """RFC 5849, HMAC-SHA1."""
        self.count += 1
        fields = {
            "oauth_consumer_key": consumer["id"],
            "oauth_nonce": f"nonce{self.count}",
            "oauth_signature_method": "HMAC-SHA1",
            "oauth_timestamp": str(int((self.now() - EPOCH).total_seconds())),
            "oauth_version": "1.0",
            **({"oauth_token": token["oauth_token"]} if token else {}),
            **more,
        }
        pairs = "&".join(sorted(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in fields.items()))
        text = "&".join(quote(part, safe="~") for part in ("POST", f"http://{HOST}{path}", pairs))
        key = f"{consumer['secret']}&{token.get('oauth_token_secret', '')}".encode()
        signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha1).digest()).decode()
        said = {**fields, "oauth_signature": signature}
        return "OAuth " + ", ".join(f'{name}="{quote(value, safe="~")}"' for name, value in said.items())


class Refused(Exception):
    """The cloud has answered no."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer)
        self.answer = answer


def good(answer: Response) -> Response:
    """Raises Refused."""
    if answer.status >= 300:
        raise Refused(answer)
    return answer
