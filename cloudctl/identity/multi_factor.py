"""How many proofs a login needs: a user's `multi_factor_auth_rules`.

Each rule is a list of methods; all methods of at least one rule must be proved. A client that has proved only some gets
a receipt, and sends it with the rest. Reference: identity.md, section 1 («MFA shortfall») and section 3 («Options»).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cloudctl.errors import Unauthorized
from cloudctl.identity import payload
from cloudctl.identity.payload import UNSCOPED, Token
from cloudctl.identity.subject import Subject
from cloudctl.rest.faults import UNAUTHENTICATED

# The methods that a rule can require. Any other, which nobody can prove, is ignored in a rule, as in Keystone.
METHODS = frozenset({"password", "token", "application_credential", "totp", "oauth1"})
# The methods that a receipt stands for. The others bind what is issued to their own scope or lifetime, which a receipt
# would lose, so they are proved again.
REMEMBERED = ("password", "totp")


class NotEnough(Unauthorized):
    """Only some of the required methods were proved. `required`: the rules that these are a part of."""

    def __init__(self, receipt: Subject, required: Sequence[Sequence[str]]) -> None:
        super().__init__(UNAUTHENTICATED)
        self.receipt = receipt
        self.required = required


def rules(options: Mapping[str, Any]) -> list[list[str]]:
    """The rules in force; if there are none, one method is enough."""
    if not options.get("multi_factor_auth_enabled"):
        return []
    said = options.get("multi_factor_auth_rules") or ()
    return [[method for method in rule if method in METHODS] for rule in said]


def is_enough(options: Mapping[str, Any], methods: Iterable[str]) -> bool:
    proved, wanted = set(methods), rules(options)
    return not wanted or any(set(rule) <= proved for rule in wanted)


def begun(options: Mapping[str, Any], methods: Iterable[str]) -> list[list[str]]:
    """The rules that have a proved method."""
    proved = set(methods)
    return [rule for rule in rules(options) if proved & set(rule)]


def receipt(user_id: str, methods: Iterable[str], epoch: int, seconds: int, lifetime: int) -> Token | None:
    """What a receipt holds; None if none of the methods may be remembered. `lifetime` in seconds."""
    kept = tuple(method for method in methods if method in REMEMBERED)
    if not kept:
        return None
    return Token(user_id, kept, UNSCOPED, seconds, seconds + lifetime, epoch, (payload.new_audit_id(),))
