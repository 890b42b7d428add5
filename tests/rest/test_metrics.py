"""The page for Prometheus has the numbers that its own classes would have counted."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric

from cloudctl.rest.metrics import BUCKETS, Metrics

ANSWERS = st.tuples(
    st.sampled_from(["compute", "image", 'a"\\\n']),
    st.sampled_from(["GET", "POST", "other"]),
    st.sampled_from([200, 404, 499]),
    st.one_of(st.sampled_from([0.0, *BUCKETS, 11.0]), st.floats(0, 20)),
)


def without_times(text: bytes) -> list[str]:
    """When a count began is the wall clock in one and the cloud's clock in the other."""
    return [
        line.rpartition(" ")[0] if "_created" in line and not line.startswith("#") else line
        for line in text.decode().splitlines()
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(ANSWERS, max_size=20))
def test_plain_counts_make_the_same_page(answers: list[tuple[str, str, int, float]]) -> None:
    registry = CollectorRegistry()
    requests = Counter("cloudctl_http_requests", "Requests answered.", ("api", "method", "status"), registry=registry)
    seconds = Histogram(
        "cloudctl_http_request_seconds", "Time to answer.", ("api",), buckets=BUCKETS, registry=registry
    )
    running = Gauge("cloudctl_http_requests_running", "Requests being answered.", registry=registry)
    metrics = Metrics()
    metrics.running = 2
    running.set(2)
    for api, method, status, spent in answers:
        metrics.answered(api, method, status, spent, 1000.0)
        requests.labels(api, method, str(status)).inc()
        seconds.labels(api).observe(spent)
    text, content_type = metrics.render()
    assert without_times(text) == without_times(generate_latest(registry))
    assert content_type == CONTENT_TYPE_LATEST


def test_a_count_says_since_when_it_is_kept() -> None:
    metrics = Metrics()
    for now in (1000.0, 2000.0):
        metrics.answered("image", "GET", 200, 0.1, now)
    lines = metrics.render()[0].decode().splitlines()
    assert 'cloudctl_http_requests_created{api="image",method="GET",status="200"} 1000.0' in lines
    assert 'cloudctl_http_request_seconds_created{api="image"} 1000.0' in lines


def test_what_others_collect_is_on_the_page() -> None:
    class Other:
        def collect(self) -> Iterator[Metric]:
            yield GaugeMetricFamily("other", "Something else.", value=7)

    metrics = Metrics()
    metrics.add(Other())
    assert b"\nother 7.0\n" in metrics.render()[0]
    # A second page does not register anything twice.
    assert b"\nother 7.0\n" in metrics.render()[0]
