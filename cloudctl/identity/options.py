"""What an operator may choose about identity."""

from __future__ import annotations

import re
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le

from cloudctl.options import named

DAY, WEEK = 86_400, 604_800  # seconds
CENTURY = 36_500  # days: no date is much further away


def expression(_instance: object, _attribute: Any, value: str) -> None:
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None


@frozen
class Argon2:
    """[identity.argon2]: the cost of one password hash. The defaults are OWASP's: 19 MiB, two passes, one lane."""

    time_cost: int = field(default=2, validator=gt(0))
    memory_cost: int = field(default=19_456, validator=ge(8))  # KiB
    parallelism: int = field(default=1, validator=gt(0))

    def __attrs_post_init__(self) -> None:
        if self.memory_cost < 8 * self.parallelism:
            raise ValueError(f"memory_cost must be 8 or more for each lane: {8 * self.parallelism}")


@frozen
class PasswordOptions:
    """[identity.passwords]: rules and lock-out. Reference: identity.md, «Password rules and lockout»."""

    # Failed logins after which a user's password is no longer accepted; 0: it always is.
    lockout_failure_attempts: int = field(default=10, validator=ge(0))
    # The same for passcodes. It cannot be switched off: they have only six digits.
    passcode_failure_attempts: int = field(default=5, validator=gt(0))
    lockout_duration: int = field(default=1800, validator=and_(gt(0), le(CENTURY * DAY)))  # seconds
    # A regular expression that the whole of a new password must match, and its explanation for users.
    regex: str = field(default="", validator=expression)
    regex_description: str = ""
    expires_days: int = field(default=0, validator=and_(ge(0), le(CENTURY)))  # 0: never
    # How many passwords, including the current one, may not be used again.
    unique_last_count: int = field(default=0, validator=ge(0))
    minimum_age_days: int = field(default=0, validator=and_(ge(0), le(CENTURY)))  # before a user may change it again
    change_upon_first_use: bool = False
    # Users who have not logged in for this many days are shown and treated as disabled; 0: never.
    disable_days_inactive: int = field(default=0, validator=and_(ge(0), le(CENTURY)))
    maximum_length: int = field(default=4096, validator=gt(0))


@frozen
class IdentityOptions:
    """[identity]: tokens, passwords and delegation."""

    token_lifetime: int = field(default=3600, validator=and_(gt(0), le(WEEK)))  # seconds
    # How long a login that lacks a method may be completed.
    receipt_lifetime: int = field(default=300, validator=and_(gt(0), le(WEEK)))  # seconds
    # How long after its expiry a service may still have a token validated, for work that it began in time.
    allow_expired_window: int = field(default=172_800, validator=and_(ge(0), le(WEEK)))  # seconds
    # Validated tokens that are cached in memory, and for how long; changes take effect at once all the same.
    cache_size: int = field(default=10_000, validator=ge(0))
    cache_seconds: float = field(default=30.0, validator=ge(0))
    # Whether a login without a scope is scoped to the user's default project.
    honour_default_project: bool = True
    fernet_max_keys: int = field(default=3, validator=ge(2))
    argon2: Argon2 = Argon2()
    # Hashes computed at once, and logins that may wait for one; further ones are answered 503.
    hash_threads: int = field(default=2, validator=gt(0))
    hash_queue: int = field(default=256, validator=gt(0))
    passwords: PasswordOptions = PasswordOptions()
    # What one user may have: application credentials, access rules of those, other credentials, and trusts made for
    # others; 0: no limit.
    application_credential_limit: int = field(default=100, validator=ge(0))
    access_rule_limit: int = field(default=1000, validator=ge(0))
    credential_limit: int = field(default=100, validator=ge(0))
    trust_limit: int = field(default=100, validator=ge(0))
    # How many times a trust may be passed on; 0: never.
    trust_redelegations: int = field(default=0, validator=and_(ge(0), le(3)))
    # Seconds that OAuth tokens live; 0: for ever.
    oauth_request_token_lifetime: int = field(default=28_800, validator=and_(ge(0), le(CENTURY * DAY)))
    oauth_access_token_lifetime: int = field(default=86_400, validator=and_(ge(0), le(CENTURY * DAY)))
    maximum_project_depth: int = field(default=5, validator=gt(0))  # below the domain
    region: str = field(default="RegionOne", validator=named)
