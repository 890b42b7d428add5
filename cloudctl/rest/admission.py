"""Admission: how many requests per second one project, and one address, may have answered.

Token buckets: each is full after a rest and holds a burst; a request takes one token, and tokens come at a rate.
Without a token the answer is 429, which costs the process next to nothing. Off unless `[admission] rates` is set.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection

from attrs import frozen

from cloudctl.config import AdmissionOptions
from cloudctl.errors import TooMany
from cloudctl.rest.clients import network_of

# Buckets that are kept. The least recently used one goes first, and is full by then unless that many are in use.
MOST = 10_000


@frozen
class Bucket:
    tokens: float
    at: float  # seconds


class Buckets:
    """One bucket for each key, made when it is first used."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = max(1.0, burst)
        self._kept: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, key: str, now: float) -> float:
        """Take a token. Returns 0, or the seconds until there is one."""
        tokens = self._tokens(key, now)
        if self._kept.pop(key, None) is None and len(self._kept) >= MOST:
            self._kept.popitem(last=False)
        self._kept[key] = Bucket(tokens - 1.0 if tokens >= 1.0 else tokens, now)
        return self._wait(tokens)

    def wait(self, key: str, now: float) -> float:
        """What `take` would return; no token is taken."""
        return self._wait(self._tokens(key, now))

    def _tokens(self, key: str, now: float) -> float:
        bucket = self._kept.get(key)
        if bucket is None:
            return self.burst
        return min(self.burst, bucket.tokens + max(0.0, now - bucket.at) * self.rate)

    def _wait(self, tokens: float) -> float:
        return 0.0 if tokens >= 1.0 else (1.0 - tokens) / self.rate


class Admission:
    """The rates of one cloud. `proxies`: addresses that speak for many clients."""

    def __init__(self, options: AdmissionOptions, proxies: Collection[str]) -> None:
        self.projects = Buckets(options.project_rate, options.project_burst)
        self.addresses = Buckets(options.address_rate, options.address_burst)
        self.proxies = frozenset(proxies)

    def of_address(self, address: str, now: float) -> None:
        """Called before anything is looked up. `address` is empty for a client without one. Raises TooMany."""
        if address and address not in self.proxies:
            demand(self.addresses.take(network_of(address), now), "this address")

    def of_project(self, project_id: str, now: float) -> None:
        """Raises TooMany."""
        if project_id:
            demand(self.projects.take(project_id, now), "this project")


def demand(wait: float, whose: str) -> None:
    """Raises TooMany if there are seconds to wait."""
    if wait > 0:
        raise TooMany(f"There were too many requests of {whose}.", headers={"Retry-After": str(math.ceil(wait))})
