"""Access lists of accounts: who may read, write or administer everything in an account.

    X-Account-Access-Control: {"read-only": ["project:user"], "read-write": ["project:*"], "admin": []}

Users are named as in the lists of containers. Reference: Swift, «Access Control Lists (ACLs)», «Account ACLs».
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import orjson
from attrs import frozen

from cloudctl.errors import Invalid
from cloudctl.object_store.acl import AccessList
from cloudctl.rest.caller import Caller

HEADER = "X-Account-Access-Control"
LEVELS: Final = ("read-only", "read-write", "admin")
READ = frozenset(
    {
        "object_store:accounts:show",
        "object_store:containers:show",
        "object_store:objects:copy",
        "object_store:objects:show",
    }
)
# Only administrators may change the headers of a container, above all its lists.
WRITE = READ | {
    "object_store:containers:create",
    "object_store:containers:delete",
    "object_store:objects:create",
    "object_store:objects:delete",
    "object_store:objects:update",
}
ADMIN = WRITE | {"object_store:accounts:update", "object_store:containers:update"}
RULES: Final = dict(zip(LEVELS, (READ, WRITE, ADMIN), strict=True))
# What mere writers may not set on a container. Of `x-amz-` only these: others sign a request or are checksums.
SAYING = ("x-container-", "x-remove-", "x-versions-", "x-history-", "x-amz-acl", "x-amz-object-ownership")


def cleaned(text: str) -> str:
    """The list in the form in which it is stored. Raises Invalid."""
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Invalid(f"{HEADER}: JSON is expected") from None
    if not isinstance(given, dict) or not given.keys() <= set(LEVELS):
        raise Invalid(f"{HEADER}: an object with some of {', '.join(LEVELS)} is expected")
    for level, names in given.items():
        if not isinstance(names, list) or not all(_is_grantee(name) for name in names):
            raise Invalid(f"{HEADER}: {level} is a list of project:user, where * stands for any")
    return orjson.dumps(given, option=orjson.OPT_SORT_KEYS).decode()


def _is_grantee(name: object) -> bool:
    return isinstance(name, str) and name.count(":") == 1 and all(name.split(":")) and "," not in name


@frozen
class AccountAccess:
    lists: Mapping[str, AccessList]

    def admits(self, caller: Caller, project_id: str, rule: str, sent: frozenset[str]) -> bool:
        """Whether it lets the caller do what a rule covers. `sent`: the names of the headers, in lower case."""
        levels = [level for level in LEVELS if self._names(level, caller, project_id)]
        if not any(rule in RULES[level] for level in levels):
            return False
        return "admin" in levels or rule in READ or "containers" not in rule or not _says(sent)

    def _names(self, level: str, caller: Caller, project_id: str) -> bool:
        found = self.lists.get(level)
        return found is not None and found.admits(caller, project_id, "", listing=True)


def _says(sent: frozenset[str]) -> bool:
    return any(name.startswith(SAYING) for name in sent)


@lru_cache(maxsize=256)
def parse(text: str) -> AccountAccess:
    """Parse a stored list."""
    return AccountAccess(
        {level: AccessList((), tuple(names), frozenset()) for level, names in orjson.loads(text).items()}
    )
