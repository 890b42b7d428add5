"""Access lists of containers: `.r:*,.rlistings,project:user,role`. Reference: object-store.md, A2."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from attrs import frozen

from cloudctl.errors import Invalid
from cloudctl.rest.caller import Caller

READ, WRITE = "X-Container-Read", "X-Container-Write"
REFERRERS = frozenset({".r", ".ref", ".referer", ".referrer"})
LISTINGS = ".rlistings"
DEFAULT_DOMAIN = "default"
ID = re.compile(r"[0-9a-fA-F-]{32,36}")


def cleaned(header: str, value: str) -> str:
    """The list in the form in which it is stored. Raises Invalid."""
    kept = []
    for element in filter(None, (each.strip() for each in value.split(","))):
        kind, colon, rest = (part.strip() for part in element.partition(":"))
        if not colon or not kind.startswith("."):
            kept.append(f"{kind}{colon}{rest}")
            continue
        if kind not in REFERRERS:
            raise Invalid(f"{header}: Unknown designator {kind!r} in ACL: {element!r}")
        if header == WRITE:
            raise Invalid(f"{header}: Referrers not allowed in write ACL: {element!r}")
        sign = "-" if rest.startswith("-") else ""
        host = rest.removeprefix("-").strip()
        if host != "*" and host.startswith("*"):
            host = host[1:].strip()
        if not host or host == ".":
            raise Invalid(f"{header}: No host/domain value after referrer designation in ACL: {element!r}")
        kept.append(f".r:{sign}{host}")
    return ",".join(kept)


@frozen
class AccessList:
    referrers: tuple[str, ...]
    grantees: tuple[str, ...]  # project:user
    roles: frozenset[str]  # and .rlistings

    @classmethod
    def parse(cls, text: str) -> AccessList:
        elements = [each for each in text.split(",") if each]
        return cls(
            tuple(each[3:] for each in elements if each.startswith(".r:")),
            tuple(each for each in elements if ":" in each and not each.startswith(".r:")),
            frozenset(each for each in elements if ":" not in each),
        )

    def without_public(self) -> AccessList:
        """What it grants to some, but not to everybody."""
        return AccessList((), tuple(each for each in self.grantees if each != "*:*"), self.roles)

    def admits(self, caller: Caller, project_id: str, referrer: str, *, listing: bool) -> bool:
        """Whether this list of a container of that project lets the caller in. `listing`: to more than one object."""
        if self._refers(referrer) and (not listing or LISTINGS in self.roles):
            return True
        identity = caller.identity
        if not identity.user_id:
            return False
        if identity.project_id:
            projects, users = {"*", identity.project_id}, {"*", identity.user_id}
            if identity.user_domain_id == identity.project_domain_id == DEFAULT_DOMAIN:
                # In other domains anybody may have the name; and what looks like an id never counts as a name.
                projects |= {name for name in (identity.project_name,) if not ID.fullmatch(name)}
                users |= {name for name in (identity.user_name,) if not ID.fullmatch(name)}
            if any(f"{project}:{user}" in self.grantees for project in projects for user in users):
                return True
        return identity.project_id == project_id and not self.roles.isdisjoint(identity.roles)

    def _refers(self, referrer: str) -> bool:
        """The last element that matches the referrer decides."""
        try:
            host = urlsplit(referrer).hostname or "unknown"
        except ValueError:
            host = "unknown"
        allowed = False
        for element in self.referrers:
            wanted = element.removeprefix("-")
            if wanted in ("*", host) or (wanted.startswith(".") and host.endswith(wanted)):
                allowed = not element.startswith("-")
        return allowed
