"""No sequence of grants, revocations and token exchanges gives a right that the assignments do not.

The machine drives the API as clients do and compares each token with a model in a few lines: sets of assignments, of
group members and of implied roles. A token may have fewer rights than its user (a delegation), never more; and it is
valid exactly as long as the model says that its user, its scope and what it was made from are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from cloudctl.db.columns import utc
from cloudctl.identity.options import IdentityOptions
from cloudctl.testing.cloud import empty_database

from .conftest import CHEAP, START, make_keystone
from .delegations import RULES, Delegations, Refused, User

T = TypeVar("T")

USERS = ("ann", "bob")
ROLES = ("admin", "manager", "member", "reader", "auditor")
# «low» is below «top»; both are in the default domain.
PROJECTS = ("top", "low")
SCOPES = (*PROJECTS, "domain", "system")
IMPLIED = {"admin": "manager", "manager": "member", "member": "reader"}
ABOVE = {"low": ("top", "domain"), "top": ("domain",)}


OPTIONS = IdentityOptions(argon2=CHEAP, trust_redelegations=3)
# Credentials that make others come most often: that is the longest way.
KINDS = ("credential", "ruled", "credential", "ruled", "credential", "trust", "redelegated", "oauth", "ec2", "exchange")
PICK = st.integers(0, 999)


def pick(options: Sequence[T], number: int) -> T:
    return options[number % len(options)]


@frozen
class Grant:
    """`actor`: a user or «crew», the group; `inherited`: it holds below `target`, not there."""

    actor: str
    role: str
    target: str
    inherited: bool


@frozen
class Held:
    """A token that was issued, and what the model must remember of it. `lent` is None without a delegation."""

    text: str
    user: str
    scope: str | None
    lent: frozenset[str] | None = None
    source: str = ""


@frozen
class Link:
    """The last token of a chain of delegations that began with a login of `owner`, and what it had when it was made."""

    text: str
    owner: str
    scope: str
    roles: frozenset[str]
    rules: frozenset[str] | None


class Rights:
    """The cloud and the model. Each verb takes three numbers that choose what it is done to."""

    def __init__(self) -> None:
        clock = Clock()
        clock.rightNow = START
        self.cloud: Any = make_keystone(empty_database(clock), clock, OPTIONS)
        # It has its rights from elsewhere, and no rule touches it.
        self.admin = self.cloud.admin()
        make = self.cloud.make
        self.users = {name: self.cloud.make_user(name) for name in USERS}
        self.group = make(self.admin, "groups", "group", name="crew")["id"]
        top = make(self.admin, "projects", "project", name="top")["id"]
        low = make(self.admin, "projects", "project", name="low", parent_id=top)["id"]
        self.targets = {"top": top, "low": low, "domain": "default", "system": "system"}
        auditor = make(self.admin, "roles", "role", name="auditor")["id"]
        self.roles = {**self.cloud.made.role_ids, "auditor": auditor}
        self.grants: set[Grant] = set()
        self.members: set[str] = set()
        self.audits_reader = False
        self.disabled: set[str] = set()
        self.revoked: set[str] = set()
        self.gone: set[str] = set()
        self.held: list[Held] = []
        self.links: list[Link] = []
        self.count = 0
        self.assign("crew", "member", "top", False, True)
        self.assign("ann", "manager", "domain", True, True)
        self.join("bob", True)

    # -- the model

    def closure(self, roles: set[str]) -> frozenset[str]:
        implied = {name: {after} for name, after in IMPLIED.items()}
        if self.audits_reader:
            implied["auditor"] = {"reader"}
        found, new = set[str](), set(roles)
        while new:
            found |= new
            new = {after for role in new for after in implied.get(role, ())} - found
        return frozenset(found)

    def rights(self, user: str, scope: str) -> frozenset[str]:
        """What the assignments give a user in a scope."""
        actors = {user, "crew"} if user in self.members else {user}
        return self.closure(
            {
                grant.role
                for grant in self.grants
                if grant.actor in actors
                and (grant.target in ABOVE.get(scope, ()) if grant.inherited else grant.target == scope)
            }
        )

    def expected(self, token: Held) -> frozenset[str] | None:
        """The roles of a token; None if it is not valid any more."""
        if token.text in self.revoked or token.source in self.gone or {token.user, token.scope} & self.disabled:
            return None
        if token.scope is None:
            return frozenset()
        rights = self.rights(token.user, token.scope)
        if token.lent is not None:
            if not token.lent <= rights:
                return None
            rights = rights & self.closure(set(token.lent))
        return rights or None

    # -- what administrators do

    def assign(self, actor: str, role: str, where: str, inherited: bool, give: bool) -> None:
        inherited = inherited and where != "system"
        who = f"groups/{self.group}" if actor == "crew" else f"users/{self.users[actor]}"
        grant = Grant(actor, role, where, inherited)
        kind = "domains" if where == "domain" else "projects"
        on = "/system" if where == "system" else f"/{kind}/{self.targets[where]}"
        path = f"{on}/{who}/roles/{self.roles[role]}"
        if inherited:
            path = f"/OS-INHERIT{path}/inherited_to_projects"
        answer = self.cloud.ask("PUT" if give else "DELETE", path, token=self.admin)
        assert answer.status == (204 if give or grant in self.grants else 404), answer
        before = {token: self.expected(token) for token in self.held}
        self.grants = self.grants | {grant} if give else self.grants - {grant}
        if not give:
            self.end_delegations(before)

    def give(self, a: int, b: int, c: int) -> None:
        target = pick(SCOPES, c // 2)
        self.assign(pick([*USERS, "crew"], a), pick(ROLES, b), target, target != "system" and c % 2 == 0, c % 5 > 0)

    def withdraw(self, a: int, b: int, c: int) -> None:
        if self.grants:
            grant = pick(sorted(self.grants, key=str), a)
            self.assign(grant.actor, grant.role, grant.target, grant.inherited, False)

    def move(self, a: int, b: int, c: int) -> None:
        self.join(pick(USERS, a), bool(b % 2))

    def join(self, user: str, is_in: bool) -> None:
        path = f"/groups/{self.group}/users/{self.users[user]}"
        answer = self.cloud.ask("PUT" if is_in else "DELETE", path, token=self.admin)
        assert answer.status == (204 if is_in or user in self.members else 404), answer
        before = {token: self.expected(token) for token in self.held}
        self.members = self.members | {user} if is_in else self.members - {user}
        if not is_in:
            self.end_delegations(before)

    def end_delegations(self, before: dict[Held, frozenset[str] | None]) -> None:
        """A credential that has lost one of its roles is deleted, and a grant does not bring it back."""
        self.gone |= {
            token.source for token in before if token.lent is not None and not token.lent <= self.reach(token)
        }

    def reach(self, token: Held) -> frozenset[str]:
        return self.rights(token.user, token.scope or "")

    def imply(self, a: int, b: int, c: int) -> None:
        imply = bool(a % 2)
        path = f"/roles/{self.roles['auditor']}/implies/{self.roles['reader']}"
        answer = self.cloud.ask("PUT" if imply else "DELETE", path, token=self.admin)
        assert answer.status == (201 if imply else 204 if self.audits_reader else 404), answer
        self.audits_reader = imply

    def switch(self, a: int, b: int, c: int) -> None:
        what, enabled = pick([*USERS, *PROJECTS], a), b % 3 > 0
        kind, id = ("user", self.users[what]) if what in USERS else ("project", self.targets[what])
        answer = self.cloud.ask("PATCH", f"/{kind}s/{id}", {kind: {"enabled": enabled}}, self.admin)
        if answer.status == 403:
            # A project is not disabled while one below it is enabled, nor enabled below a disabled one.
            assert what in PROJECTS
            return
        assert answer.status == 200, answer
        if not enabled:
            # Its tokens stay invalid when it is enabled again.
            self.revoked |= {token.text for token in self.held if what in (token.user, token.scope)}
        self.disabled = self.disabled - {what} if enabled else self.disabled | {what}

    # -- what users do

    def scopes(self, user: str) -> list[str | None]:
        """All of them; those in which the user has a right three times, so that most attempts succeed."""
        return [None, *SCOPES, *3 * [scope for scope in SCOPES if self.rights(user, scope)]]

    def login(self, a: int, b: int, c: int) -> None:
        user = pick(USERS, a)
        scope = pick(self.scopes(user), b)
        password = {"user": {"id": self.users[user], "password": "secret"}}
        self.obtain({"methods": ["password"], "password": password}, Held("", user, scope), scope is not None)

    def exchange(self, a: int, b: int, c: int) -> None:
        if not self.held:
            return
        token = pick(self.held, a)
        scope = pick(self.scopes(token.user), b)
        identity = {"methods": ["token"], "token": {"id": token.text}}
        keeps = token.lent is not None and scope is None
        wanted = Held("", token.user, token.scope if keeps else scope, token.lent, token.source)
        forbidden = (
            self.expected(token) is None
            or (token.lent is not None and scope is not None)
            or (token.scope == "system" and scope not in (None, "system"))
        )
        self.obtain(identity, wanted, scope is not None, forbidden)

    def obtain(self, identity: Any, wanted: Held, scoped: bool, forbidden: bool = False) -> None:
        """Ask for a token. Whether it is issued is what the model says."""
        auth = {"identity": identity, **({"scope": self.scope(wanted.scope)} if scoped else {})}
        answer = self.cloud.ask("POST", "/auth/tokens", {"auth": auth})
        due = None if forbidden else self.expected(wanted)
        if due is None:
            assert answer.status in (401, 403), (wanted, answer)
            return
        assert answer.status == 201, (wanted, answer)
        assert {role["name"] for role in answer.json()["token"].get("roles", [])} == due
        self.held.append(evolve(wanted, text=answer.headers["X-Subject-Token"]))

    def scope(self, name: str | None) -> Any:
        if name in PROJECTS:
            return {"project": {"id": self.targets[str(name)]}}
        return {"system": {"all": True}} if name == "system" else {"domain": {"id": "default"}}

    def lend(self, a: int, b: int, c: int) -> None:
        """An application credential with one role, and a login with it."""
        if not self.lenders():
            return
        token = pick(self.lenders(), a)
        rights = self.expected(token)
        role = pick([*ROLES, *2 * sorted(rights or ())], b)
        self.count += 1
        body = {"name": f"credential{self.count}", "roles": [{"id": self.roles[role]}]}
        path = f"/users/{self.users[token.user]}/application_credentials"
        answer = self.cloud.ask("POST", path, {"application_credential": body}, token.text)
        if rights is None or role not in rights:
            assert answer.status in (400, 401), answer
            return
        assert answer.status == 201, answer
        made = answer.json()["application_credential"]
        secret = {"id": made["id"], "secret": made["secret"]}
        identity = {"methods": ["application_credential"], "application_credential": secret}
        lent = frozenset(one["name"] for one in made["roles"])
        assert role in lent <= self.closure({role})
        self.obtain(identity, Held("", token.user, token.scope, lent, made["id"]), scoped=False)

    def lenders(self) -> list[Held]:
        return [token for token in self.held if token.scope in PROJECTS and token.lent is None]

    def chain(self, a: int, b: int, c: int) -> None:
        """Whoever has a token in a project, delegated or not, makes another in any of the ways that there are.

        Whether it may is for the cloud to say; what comes out has no role, and no call, that the one before lacks.
        """
        begun = [Link(token.text, token.user, str(token.scope), frozenset(), None) for token in self.lenders()]
        alive = [link for link in (*begun, *4 * self.links) if self.shown(link.text) is not None]
        if not alive:
            return
        link: Link | None = pick(alive, a)
        for hop in range(3):
            link = link and self.longer(link, pick(KINDS, b // len(KINDS) ** hop), c // 9**hop)
        assert link is None or link in self.links

    def longer(self, link: Link, kind: str, number: int) -> Link | None:
        """The chain with one more delegation; None if there is none."""
        shown = self.shown(link.text)
        if shown is None:
            return None
        before = names(shown)
        # Mostly what there is, and what the first user has and this token may not have.
        role = pick([*2 * sorted(before), *2 * sorted(self.rights(link.owner, link.scope)), *ROLES], number)
        text = self.lent(kind, link, shown, role)
        if text is None:
            return None
        made = self.shown(text)
        assert made is not None
        if "project" not in made:
            # A login of one's own, exchanged for a token without a scope.
            assert not link.roles, (kind, link, made)
            return None
        assert names(made) <= before, (kind, link, made)
        assert made["project"]["id"] == self.targets[link.scope], (kind, link, made)
        if link.rules is not None:
            passed = paths(made)
            assert passed is not None and passed <= link.rules, (kind, link, made)
        self.links.append(Link(text, link.owner, link.scope, names(made), paths(made)))
        return self.links[-1]

    def lent(self, kind: str, link: Link, shown: Any, role: str) -> str | None:
        """The next token of a chain; None if the cloud refuses."""
        name = shown["user"]["name"]
        other = USERS[(USERS.index(name) + 1) % len(USERS)]
        trustee = User(self.users[other], other, "secret", "", "")
        self.count += 1
        lend = Delegations(self.with_headers, self.admin, trustee, lambda: utc(self.cloud.clock.seconds()))
        lend.count = 100 * self.count
        user = User(self.users[name], name, "secret", link.text, self.targets[link.scope])
        rules = {"access_rules": RULES} if kind == "ruled" else {}
        passed = {"allow_redelegation": True, "redelegation_count": 1 + self.count % 2} if kind == "redelegated" else {}
        try:
            if kind == "exchange":
                return lend.login("token", {"id": link.text})
            if kind in ("credential", "ruled"):
                return lend.restricted(user, role, unrestricted=True, **rules).token
            if kind in ("trust", "redelegated"):
                return lend.trust(user, role, impersonation=self.count % 3 > 0, **passed).token
            return lend.make(kind, user, role).token
        except Refused as error:
            assert error.answer.status in (400, 401, 403, 404), error
            return None

    def shown(self, text: str) -> Any:
        """What a token stands for; None if it is not valid."""
        asked = {"X_Subject_Token": text, "OpenStack_Identity_Access_Rules": "1.0"}
        answer = self.cloud.ask("GET", "/auth/tokens?nocatalog", token=self.admin, **asked)
        return answer.json()["token"] if answer.status == 200 else None

    def with_headers(self, method: str, path: str, body: Any, token: str, headers: Mapping[str, str]) -> Any:
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        return self.cloud.ask(method, path, body, token, **named)

    def revoke(self, a: int, b: int, c: int) -> None:
        if not self.held:
            return
        token = pick(self.held, a)
        answer = self.cloud.ask("DELETE", "/auth/tokens", token=self.admin, X_Subject_Token=token.text)
        assert answer.status == (404 if self.expected(token) is None else 204), answer
        if answer.status == 204:
            self.revoked.add(token.text)

    # -- what must hold

    def each_token_has_exactly_the_rights_that_the_assignments_give(self) -> None:
        for token in self.held:
            answer = self.cloud.ask("GET", "/auth/tokens", token=self.admin, X_Subject_Token=token.text)
            due = self.expected(token)
            if due is None:
                assert answer.status == 404, (token, answer)
            else:
                assert answer.status == 200, (token, answer)
                assert {role["name"] for role in answer.json()["token"].get("roles", [])} == due, token

    def no_chain_has_a_right_that_its_first_user_lacks(self) -> None:
        for link in self.links:
            shown = self.shown(link.text)
            if shown is not None:
                assert names(shown) <= self.rights(link.owner, link.scope), link
                assert paths(shown) == link.rules, link


def names(shown: Any) -> frozenset[str]:
    return frozenset(role["name"] for role in shown["roles"])


def paths(shown: Any) -> frozenset[str] | None:
    """Of the access rules; None: every call."""
    rules = shown.get("application_credential", {}).get("access_rules")
    return None if rules is None else frozenset(rule["path"] for rule in rules)


VERBS = {
    "give": 3, "withdraw": 2, "move": 1, "imply": 1, "switch": 1, "login": 4, "exchange": 3, "lend": 3, "chain": 6,
    "revoke": 1,
}  # fmt: skip
STEP = st.tuples(st.sampled_from([verb for verb, weight in VERBS.items() for _ in range(weight)]), PICK, PICK, PICK)


@given(st.lists(STEP, min_size=20, max_size=40))
@settings(max_examples=20, deadline=None)
def test_no_sequence_of_calls_gives_a_right_that_the_assignments_do_not(steps: list[tuple[str, int, int, int]]) -> None:
    rights = Rights()
    for verb, a, b, c in steps:
        getattr(rights, verb)(a, b, c)
        rights.each_token_has_exactly_the_rights_that_the_assignments_give()
    rights.no_chain_has_a_right_that_its_first_user_lacks()
