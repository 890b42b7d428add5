"""How open a bucket may be, whatever its access list and its policy say: «Block Public Access», «Object Ownership»."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

import orjson
from attrs import asdict, frozen

from cloudctl.object_store import bucket_policy
from cloudctl.object_store.bucket_policy import Effect, Policy, Principal
from cloudctl.object_store.metadata import PRIVATE
from cloudctl.object_store.tables import Container

KEPT_BLOCK = f"{PRIVATE}PublicAccessBlock"
KEPT_OWNERSHIP = f"{PRIVATE}Ownership"
ENFORCED = "BucketOwnerEnforced"  # no access lists
# The objects in a bucket belong to its project: they cannot be made to belong to their writer.
OWNERSHIPS: Final = (ENFORCED, "BucketOwnerPreferred")
# The prefix length from which S3 does not count a network as everybody.
NARROW: Final = {4: 8, 6: 32}


@frozen
class Block:
    """What is closed to the public: setting lists that open the bucket, such lists themselves, setting policies that
    open it, and what such policies allow to callers outside the project.
    """

    set_lists: bool = False
    lists: bool = False
    set_policies: bool = False
    policies: bool = False

    def keep(self) -> str:
        return orjson.dumps(asdict(self)).decode()


def of(container: Container) -> Block | None:
    """None: it was never set."""
    raw = container.headers.get(KEPT_BLOCK)
    return None if raw is None else Block(**orjson.loads(raw))


def has_no_lists(container: Container) -> bool:
    return container.headers.get(KEPT_OWNERSHIP) == ENFORCED


def is_public(policy: Policy) -> bool:
    """Whether it allows anything to everybody, wherever they come from."""
    return any(
        statement.effect is Effect.ALLOW
        and Principal() in statement.principals
        and not any(_is_narrow(condition) for condition in statement.conditions)
        for statement in policy.statements
    )


def _is_narrow(condition: bucket_policy.Condition) -> bool:
    if condition.key != bucket_policy.ADDRESS or condition.negated:
        return False
    networks = [ip_network(each) for each in condition.values]
    return all(network.prefixlen >= NARROW[network.version] for network in networks)
