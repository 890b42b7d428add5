"""Prometheus metrics of one cloud, in a registry of its own, so that several clouds fit in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cloudctl_http_requests", "Requests answered.", ("api", "method", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "cloudctl_http_request_seconds", "Time to answer.", ("api",), buckets=BUCKETS, registry=self.registry
        )
        self.running = Gauge("cloudctl_http_requests_running", "Requests being answered.", registry=self.registry)

    def render(self) -> bytes:
        return generate_latest(self.registry)
