"""`[object_store]` of the configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from cloudctl.options import not_negative

MAX_OBJECT = 5 * 2**30 + 2
UPLOAD_BUDGET = 2**37


def _positive(_instance: object, _attribute: Any, value: float) -> None:
    if value <= 0:
        raise ValueError("must be greater than 0")


HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)


def _host_names(_instance: object, _attribute: Any, value: Sequence[str]) -> None:
    for name in value:
        if HOST_NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not a host name such as s3.example.com, without scheme, port or path")


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in given)


@frozen
class Rate:
    """For containers with at least this many objects: requests per second."""

    rate: float = field(validator=_positive)
    objects: int = field(default=0, validator=not_negative)


@frozen
class ObjectStoreOptions:
    """The options of the object store."""

    # Bytes of one object; larger ones are composed of several (SLO, DLO).
    max_object_size: int = field(default=MAX_OBJECT, validator=_positive)
    # Bytes of all uploads under way at once, and so also of a single one; 0: no limit.
    upload_budget: int = field(default=UPLOAD_BUDGET, validator=not_negative)
    # Bytes of all uploads of one project; 0: no limit.
    upload_share: int = field(default=UPLOAD_BUDGET // 2, validator=not_negative)
    # Threads that write and copy data.
    threads: int = field(default=2, validator=_positive)
    # Host names that serve only S3: it starts at their root, and a bucket has a subdomain: `bucket.s3.example.com`.
    s3_hosts: tuple[str, ...] = field(default=(), converter=_names, validator=_host_names)
    # Whether users may log in at /object-store/auth/v1.0, as Swift's clients did before the identity service.
    v1_login: bool = False
    # Seconds between two searches for expired objects.
    expiry_period: float = field(default=30.0, validator=_positive)
    # Seconds between two searches for buckets whose lifecycle rules are new, or were not applied today; and for deleted
    # projects.
    ageing_period: float = field(default=3600.0, validator=_positive)
    # Seconds for which the data of a deleted project is kept; 0: for good.
    orphans_kept: float = field(default=7 * 86_400.0, validator=not_negative)
    # Containers made and removed per second in one account; 0: no limit.
    account_rate: float = field(default=0.0, validator=not_negative)
    # Writes and listings of one container.
    container_rates: tuple[Rate, ...] = ()
    listing_rates: tuple[Rate, ...] = ()
    # Seconds' worth of a rate that may come at once after a pause.
    rate_buffer: float = field(default=5.0, validator=_positive)
