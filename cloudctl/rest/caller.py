"""Caller: who asks, and what they may do: all that the domain knows of a request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import field, frozen

from cloudctl.errors import Forbidden
from cloudctl.rest.identity import Identity
from cloudctl.rest.policy import Policy


@frozen
class Caller:
    """The one on whose behalf something is done. `now`: when the request came, naive UTC."""

    identity: Identity
    policy: Policy
    now: datetime
    request_id: str
    target: Mapping[str, str] = field(factory=dict)  # what the path says of the target
    # The rules that were decided in full: the pipeline requires the Operation's own to be among them.
    decided: set[str] = field(factory=set, init=False, eq=False, repr=False)

    @property
    def project_id(self) -> str:
        return self.identity.project_id

    @property
    def user_id(self) -> str:
        return self.identity.user_id

    def as_(self, identity: Identity) -> Caller:
        """The same request, once it is known who asks."""
        return Caller(identity, self.policy, self.now, self.request_id, self.target)

    def may(self, rule: str, **target: str) -> bool:
        """Whether they pass a rule, for example `compute:servers:all_projects`."""
        return self.policy.may(rule, self.identity, {**self.target, **target})

    def require(self, rule: str, **target: str) -> None:
        """Check a rule once the target's attributes are known. Raises Forbidden."""
        self.decided.add(rule)
        if not self.may(rule, **target):
            raise forbidden(rule)


def forbidden(rule: str) -> Forbidden:
    """The refusal of one rule, in the words of the services."""
    service, _, _ = rule.partition(":")
    if service == "identity":
        return Forbidden(f"You are not authorized to perform the requested action: {rule}.")
    return Forbidden(f"Policy doesn't allow {rule} to be performed.")
