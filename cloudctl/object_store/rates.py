"""How many times per second an account or container may be written to, and a container listed. Swift's `ratelimit`.

Nobody is made to wait: a client that comes too often is told when to retry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from cloudctl.db.columns import seconds
from cloudctl.object_store.names import Place
from cloudctl.object_store.options import ObjectStoreOptions, Rate
from cloudctl.rest.admission import Buckets, demand


class BySize:
    """Rates of containers: the one with the highest number of objects that the container reaches."""

    def __init__(self, rates: Sequence[Rate], buffer: float) -> None:
        by_size = sorted(rates, key=lambda each: each.objects)
        self._buckets = [(each.objects, Buckets(each.rate, each.rate * buffer)) for each in by_size]

    @property
    def is_on(self) -> bool:
        return bool(self._buckets)

    def of(self, objects: int) -> Buckets | None:
        """None: containers of this size are not limited."""
        return next((buckets for least, buckets in reversed(self._buckets) if objects >= least), None)


class Rates:
    """The limits of one process of the cloud."""

    def __init__(self, options: ObjectStoreOptions) -> None:
        self.options = options
        rate, buffer = options.account_rate, options.rate_buffer
        self.accounts = Buckets(rate, rate * buffer) if rate else None
        self.writes, self.listings = BySize(options.container_rates, buffer), BySize(options.listing_rates, buffer)

    @staticmethod
    def hold(buckets: Buckets | None, place: Place, now: datetime, arriving: bool) -> None:
        """`arriving`: only check whether there is a token. Raises TooMany."""
        if buckets is not None:
            ask: Callable[[str, float], float] = buckets.wait if arriving else buckets.take
            demand(ask(f"{place.project_id}/{place.container}", seconds(now)), "this container")

    def hold_account(self, place: Place, now: datetime) -> None:
        """Count a container that is made or removed. Raises TooMany."""
        if self.accounts is not None:
            demand(self.accounts.take(place.project_id, seconds(now)), "this account")

    def capabilities(self) -> dict[str, Any]:
        """As `/info` shows them; empty if nothing is limited."""
        options = self.options
        if not (options.account_rate or options.container_rates or options.listing_rates):
            return {}
        return {
            "ratelimit": {
                "account_ratelimit": options.account_rate,
                "max_sleep_time_seconds": 0.0,
                "container_ratelimits": _told(options.container_rates),
                "container_listing_ratelimits": _told(options.listing_rates),
            }
        }


def _told(rates: Sequence[Rate]) -> list[list[float]]:
    return [[each.objects, each.rate] for each in rates]
