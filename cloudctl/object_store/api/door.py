"""Who may do what where: by the rules, by the access list of a container, or by a signed URL."""

from __future__ import annotations

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid, Unauthorized
from cloudctl.object_store import account_acl, accounts, acl, containers, cors, exposure, numbered
from cloudctl.object_store.acl import AccessList
from cloudctl.object_store.api import temp_url
from cloudctl.object_store.large import MayRead
from cloudctl.object_store.names import Place
from cloudctl.object_store.rates import Rates
from cloudctl.object_store.tables import Container
from cloudctl.rest.call import Call

SHOW = "object_store:objects:show"
# The rules for writing to an account.
OF_ACCOUNTS = ("object_store:containers:create", "object_store:containers:delete")
# A signed URL determines where data goes, so headers may not refer to other data, whatever the method.
NOT_BY_SIGNATURE = ("X-Object-Manifest", "X-Symlink-Target", "X-Copy-From")


@frozen
class Entered:
    """`owner`: let in by the rules. `signed`: by a signed URL. `container`: None if there is none."""

    owner: bool
    container: Container | None = None
    signed: temp_url.Signed | None = None


def _signers(conn: Connection, place: Place) -> tuple[list[str], list[str]]:
    """The keys that sign URLs: of the account, and of the container."""
    container = containers.find(conn, place)
    return temp_url.keys(accounts.headers(conn, place.project_id)), temp_url.keys(
        container.headers if container else {}
    )


def _is_open(conn: Connection, call: Call, project_id: str, rule: str) -> bool:
    """Whether the access list of the account lets the caller in."""
    if not (call.user_id and project_id):
        return False
    text = accounts.headers(conn, project_id).get(account_acl.HEADER)
    if not text:
        return False
    sent = frozenset(name.decode("latin-1").lower() for name, _ in call.headers.getAllRawHeaders())
    return account_acl.parse(text).admits(call.caller, project_id, rule, sent)


@frozen
class Door:
    db: Database
    rates: Rates

    async def enter(
        self,
        call: Call,
        place: Place,
        *,
        acl_header: str = "",
        listing: bool = False,
        method: str = "",
        rule: str | None = None,
    ) -> Entered:
        """Decide a rule, by default the Operation's own, for this place.

        `acl_header`: the list that opens it to others. `method`: the one for which a URL may be signed.
        Raises Unauthorized, Forbidden, Invalid; TooMany for a caller who may, but comes too often.
        """
        rule = rule or call.rule
        assert rule is not None
        entered = await self._entered(call, place, acl_header, listing, method, rule)
        if rule in OF_ACCOUNTS and not acl_header:
            self.rates.hold_account(place, call.now)
        elif entered.container is not None:
            limits = self.rates.writes if acl_header == acl.WRITE else self.rates.listings
            if limits.is_on and (acl_header == acl.WRITE or (listing and call.method == "GET")):
                usage = await self.db.read(containers.usage, entered.container.id)
                self.rates.hold(limits.of(usage.objects), place, call.now, call.arriving)
        return entered

    async def _entered(
        self, call: Call, place: Place, acl_header: str, listing: bool, method: str, rule: str
    ) -> Entered:
        call.caller.decided.add(rule)
        container = await self.db.read(containers.find, place) if place.container else None
        if container is not None and (origin := call.header("origin")) is not None:
            rule_of_pages = cors.rule_for(container, origin, call.method)
            call.also |= {} if rule_of_pages is None else rule_of_pages.told(origin)
        if method and ("temp_url_sig" in call.query or "temp_url_expires" in call.query):
            signed = temp_url.check(call, place, method, await self.db.read(_signers, place))
            if any(call.header(name) is not None for name in NOT_BY_SIGNATURE):
                raise Invalid("This header may not be sent with a signed URL.")
            return Entered(False, container, signed)
        if call.may(rule, project_id=place.project_id):
            return Entered(True, container)
        if bool(call.user_id) and await self.db.read(_is_open, call, place.project_id, rule):
            return Entered(False, container)
        if container is not None and acl_header and self.admits(call, container, acl_header, listing=listing):
            return Entered(False, container)
        raise refusal(call)

    def admits(self, call: Call, container: Container, acl_header: str = acl.READ, *, listing: bool = False) -> bool:
        """Whether the container's list lets the caller in."""
        wanted = AccessList.parse(container.headers.get(acl_header, ""))
        if (block := exposure.of(container)) is not None and block.lists:
            wanted = wanted.without_public()
        return wanted.admits(call.caller, container.project_id, call.header("Referer") or "", listing=listing)

    def reading(self, call: Call, place: Place, signed: temp_url.Signed | None = None) -> MayRead:
        """Whether the caller may read parts of the object at `place` that are in a given container."""
        opened: dict[str, bool] = {}  # accounts, which many segments have in common

        def is_open(conn: Connection, project_id: str) -> bool:
            if project_id not in opened:
                opened[project_id] = _is_open(conn, call, project_id, SHOW)
            return opened[project_id]

        def may_read(conn: Connection, container: Container) -> bool:
            if call.may(SHOW, project_id=container.project_id) or self.admits(call, container):
                return True
            if is_open(conn, container.project_id):
                return True
            if signed is None or container.project_id != place.project_id:
                return False
            # The signature of a large object's URL covers its segments, too, as far as the key reaches.
            return signed.by_account or container.name == place.container

        return may_read


def refusal(call: Call) -> Unauthorized | Forbidden:
    if call.user_id:
        # The rule is the caller's own to know.
        return Forbidden(f"Access was denied to this resource ({call.rule}).")
    return Unauthorized("")


def version_of(call: Call, entered: Entered) -> str:
    """The requested version; empty: the current object, as for a signed URL, whose signature does not cover versions.

    Access lists cover current objects only: versions are for owners. Raises Unauthorized, Forbidden.
    """
    version = call.query.get("version-id") or ""
    if not version or entered.signed is not None:
        return ""
    if version == numbered.NULL and entered.container is not None and not numbered.is_known(entered.container):
        # There is no other one.
        return ""
    if not entered.owner:
        raise refusal(call)
    return version
