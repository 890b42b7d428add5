"""What the HTTP side of one cloud counts, for Prometheus.

A request only increments plain numbers. `prometheus_client` is imported at the first scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from attrs import define, field, frozen

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

Source = Callable[[], Awaitable[Sequence["Metric"]]]
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "COPY"})


@define
class Count:
    """`since`: seconds since the epoch."""

    since: float
    number: int = 0


@define
class Times:
    """How many requests took longer than the bucket before and at most as long as this one; the last: longer."""

    since: float
    buckets: list[int] = field(factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0


@frozen(eq=False)
class Found:
    """A Collector of metrics that were found before."""

    metrics: Sequence[Metric]

    def collect(self) -> Sequence[Metric]:
        return self.metrics


class Metrics:
    """The counts of one cloud, so that several fit in one process."""

    def __init__(self) -> None:
        self.running = 0
        self._requests: dict[tuple[str, str, int], Count] = {}
        self._seconds: dict[str, Times] = {}
        self._others: list[Collector] = []
        self._sources: list[Source] = []

    def answered(self, api: str, method: str, status: int, seconds: float, now: float) -> None:
        key = (api, method if method in METHODS else "other", status)
        count = self._requests.get(key)
        if count is None:
            count = self._requests[key] = Count(now)
        count.number += 1
        times = self._seconds.get(api)
        if times is None:
            times = self._seconds[api] = Times(now)
        times.buckets[bisect_left(BUCKETS, seconds)] += 1
        times.sum += seconds

    def add(self, other: Collector) -> None:
        """Show what `other` collects, too."""
        self._others.append(other)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily(
            "cloudctl_http_requests", "Requests answered.", labels=["api", "method", "status"]
        )
        for (api, method, status), count in self._requests.items():
            requests.add_metric([api, method, str(status)], count.number, created=count.since)
        yield requests
        seconds = HistogramMetricFamily("cloudctl_http_request_seconds", "Time to answer.", labels=["api"])
        limits = (*map(str, BUCKETS), "+Inf")
        for api, times in self._seconds.items():
            buckets = list(zip(limits, map(float, accumulate(times.buckets)), strict=True))
            seconds.add_metric([api], buckets, times.sum)
            seconds.add_sample(f"{seconds.name}_created", {"api": api}, times.since)
        yield seconds
        yield GaugeMetricFamily("cloudctl_http_requests_running", "Requests being answered.", value=self.running)

    def ask(self, source: Source) -> None:
        """Show what `source` finds at each scrape, too."""
        self._sources.append(source)

    async def page(self) -> tuple[bytes, str]:
        """As `render`, with what the sources find first."""
        return self.render([metric for source in self._sources for metric in await source()])

    def render(self, found: Sequence[Metric] = ()) -> tuple[bytes, str]:
        """All metrics in Prometheus' text format, and its content type."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_LATEST

        registry = CollectorRegistry()
        for collector in (self, *self._others, Found(found)):
            registry.register(collector)
        return generate_latest(registry), CONTENT_TYPE_LATEST
