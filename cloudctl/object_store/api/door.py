"""Who is let in where: by the rules, by the access list of a container, or by a signed URL."""

from __future__ import annotations

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Unauthorized
from cloudctl.object_store import accounts, acl, containers, cors
from cloudctl.object_store.acl import AccessList
from cloudctl.object_store.api import temp_url
from cloudctl.object_store.names import Place
from cloudctl.object_store.tables import Container
from cloudctl.rest.call import Call


@frozen
class Entered:
    """`owner`: by the rules. `signed`: by a URL that somebody signed. `container`: None where there is none."""

    owner: bool
    container: Container | None = None
    signed: temp_url.Signed | None = None


def _signers(conn: Connection, place: Place) -> tuple[list[str], list[str]]:
    """The keys that sign URLs: of the account, and of the container."""
    container = containers.find(conn, place)
    return temp_url.keys(accounts.headers(conn, place.project_id)), temp_url.keys(
        container.headers if container else {}
    )


@frozen
class Door:
    db: Database

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
        """Decide a rule, by default the Operation's own, for this place. Raises Unauthorized, Forbidden.

        `acl_header`: the list that opens it to others. `method`: the one for which a URL may be signed.
        """
        rule = rule or call.rule
        assert rule is not None
        call.caller.decided.add(rule)
        container = await self.db.read(containers.find, place) if place.container else None
        if container is not None and (origin := call.header("origin")) is not None:
            rule_of_pages = cors.find(container, origin, call.method)
            call.also |= {} if rule_of_pages is None else rule_of_pages.told(origin)
        if method and ("temp_url_sig" in call.query or "temp_url_expires" in call.query):
            signed = temp_url.check(call, place, method, await self.db.read(_signers, place))
            return Entered(False, container, signed)
        if call.may(rule, project_id=place.project_id):
            return Entered(True, container)
        if container is not None and acl_header and self.admits(call, container, acl_header, listing=listing):
            return Entered(False, container)
        raise refusal(call)

    def admits(self, call: Call, container: Container, acl_header: str = acl.READ, *, listing: bool = False) -> bool:
        """Whether the container's list lets the caller in."""
        wanted = AccessList.parse(container.headers.get(acl_header, ""))
        return wanted.admits(call.caller, container.project_id, call.header("Referer") or "", listing=listing)


def refusal(call: Call) -> Unauthorized | Forbidden:
    if call.user_id:
        # The rule is the caller's own to know.
        return Forbidden(f"Access was denied to this resource ({call.rule}).")
    return Unauthorized("")
